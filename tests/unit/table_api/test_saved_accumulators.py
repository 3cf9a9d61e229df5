"""Accumulators of Python aggregates in checkpoints: what comes back as it was, what is not saved, and what of a pickle that
somebody else has made is refused before it does anything."""

from __future__ import annotations

import array
import collections
import datetime as dt
import decimal
import enum
import fractions
import os
import pickle
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runtime.core.errors import UnsupportedError
from sqlengine.user_functions import saved_objects as own
from sqlengine.user_functions.saved_objects import SavedObjects


class Kind(enum.Enum):
    GOOD = 1


class Sketch:
    """Of this module, as the function is."""

    def __init__(self) -> None:
        self.counts = {Kind.GOOD: [1, 2]}

    def __call__(self) -> None: ...

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sketch) and other.counts == self.counts


class Function:
    """Stands for an aggregate function."""

    state_classes = (collections.ChainMap,)


SAVING = SavedObjects("f", Function())

PLAIN: list[Any] = [
    None, True, 7, -(2**80), 1.5, 1j, "ä", b"x", bytearray(b"xy"), (1, (2,)), [1, [2]], {1, 2}, frozenset([1]), {"a": {1: 2}},
    range(3), slice(1, 5), collections.Counter("aab"), collections.OrderedDict(a=1), collections.defaultdict(int, {1: 2}),
    collections.deque([1, 2], 3), dt.date(1969, 7, 20), dt.time(1, 2, 3), dt.datetime(2024, 1, 2, tzinfo=dt.UTC),
    dt.timedelta(days=1), decimal.Decimal("1.50"), fractions.Fraction(1, 3), uuid.UUID(int=5), array.array("d", [1.0, 2.0]),
    Sketch(), Kind.GOOD, collections.ChainMap({"a": 1}),
]  # fmt: skip


@pytest.mark.parametrize("value", PLAIN, ids=lambda value: type(value).__name__)
def test_values_come_back(value: Any) -> None:
    found = SAVING.loads(SAVING.dumps(value))
    assert type(found) is type(value) and found == value


ARRAYS: list[Any] = [
    np.arange(5), np.arange(10)[::2], np.zeros((2, 3), np.float32), np.asfortranarray(np.arange(6).reshape(2, 3)),
    np.array(7), np.empty((0, 9)), np.array(["a", "bcd"]), np.array([b"x"]), np.array([True]), np.array([1 + 2j]),
    np.array(["2024-01-02"], "M8[s]"), np.zeros(3, [("a", "<i4"), ("b", "<f8", (2,))]), np.arange(3, dtype=">i4"),
    np.array([1, "x", None, [2]], object), np.array([], object),
    np.int32(7), np.float64(2.5), np.bool_(True), np.datetime64("2024-01-02"), np.str_("x"),
]  # fmt: skip


@pytest.mark.parametrize("value", ARRAYS, ids=repr)
def test_arrays_come_back(value: Any) -> None:
    found, inner = SAVING.loads(SAVING.dumps([value, {"in": value}]))
    assert type(found) is type(value) and found.dtype == value.dtype and found.shape == value.shape
    assert repr(found.tolist()) == repr(value.tolist()) == repr(inner["in"].tolist())
    if isinstance(found, np.ndarray):
        assert found.flags.writeable


def test_types_of_arrays_come_back() -> None:
    for dtype in map(np.dtype, ("i4", ">f8", "U3", "M8[ms]", object, [("a", "i4")])):
        assert SAVING.loads(SAVING.dumps(dtype)) == dtype


def module_function() -> None: ...


@pytest.mark.parametrize(
    "value",
    [
        len,
        os.system,
        module_function,
        lambda: 1,
        [].append,
        Sketch().__call__,
        object(),
        Path("x"),
        os,
    ]
    + [np.zeros(1, [("a", object)]), np.ma.array([1]), iter([1])],
    ids=lambda value: type(value).__name__,
)
def test_what_would_not_come_back_is_not_saved(value: Any) -> None:
    with pytest.raises((UnsupportedError, TypeError)) as caught:
        SAVING.dumps([value])
    if isinstance(caught.value, UnsupportedError):
        assert caught.value.code == "E1639" and caught.value.hint


class Calls:
    """Whose pickle calls something."""

    def __init__(self, made: Any, *args: Any) -> None:
        self._call = made, args

    def __reduce__(self) -> Any:
        return self._call


def global_name(module: str, name: str) -> bytes:
    """A pickle that is nothing but a name."""
    return b"\x80\x04" + b"".join(b"\x8c" + bytes([len(t)]) + t.encode() for t in (module, name)) + b"\x93."


@pytest.mark.parametrize(
    "name",
    ["os system", "posix system", "subprocess Popen", "builtins eval", "builtins exec", "builtins getattr", "builtins open"]
    + ["builtins __import__", "builtins object", "builtins type", "importlib import_module", "pickle loads", "shutil rmtree"]
    + ["builtins str.format", "builtins dict.__class__", "collections namedtuple", "functools partial", "operator attrgetter"]
    + ["numpy ndarray", "numpy dtype", "numpy load", "numpy.core.multiarray _reconstruct", "numpy._core.multiarray scalar"]
    + ["numpy._core.numeric _frombuffer", "datetime sys", "decimal localcontext", "uuid os.system", "array array.__class__"]
    + ["sqlengine.user_functions.saved_objects np.load", "sqlengine.user_functions.saved_objects pickle.loads"]
    + ["sqlengine.user_functions.saved_objects SavedObjects", f"{__name__} os.system", f"{__name__} Path", f"{__name__} os"]
    + [f"{__name__} module_function", f"{__name__} Sketch.__init__", f"{__name__} global_name.__globals__"],
)  # fmt: skip
def test_names_that_no_accumulator_has(name: str) -> None:
    with pytest.raises((pickle.UnpicklingError, AttributeError)):
        SAVING.loads(global_name(*name.split(" ")))


def test_nothing_is_called(tmp_path: Path) -> None:
    for made, *args in (
        (os.mkdir, str(tmp_path / "made")),
        (eval, f"__import__('os').mkdir({str(tmp_path / 'made')!r})"),
        (Path.touch, tmp_path / "made"),
    ):
        for data in (pickle.dumps(Calls(made, *args)), pickle.dumps([{"x": Calls(made, *args)}], protocol=0)):
            with pytest.raises((pickle.UnpicklingError, AttributeError)):
                SAVING.loads(data)
    assert not list(tmp_path.iterdir())


def test_no_array_lies_over_foreign_memory() -> None:
    """By numpy's own names an array of objects can be made of any bytes, which are addresses then."""
    with pytest.raises(pickle.UnpicklingError):
        SAVING.loads(pickle.dumps(Calls(np.ndarray, (1,), np.dtype(object), bytes(8))))
    for call in (
        Calls(own.saved_array, "O", (1,), bytes(8)),
        Calls(own.saved_array, [("a", "O")], (1,), bytes(8)),
        Calls(own.saved_array, "<i8", (2,), bytes(8)),
        Calls(own.saved_array, "<i8", (1 << 40,), bytes(8)),
        Calls(own.saved_array, "<i8", (1,), 1 << 40),
        Calls(
            own.saved_array, {"names": ["a"], "formats": ["<i8"], "offsets": [1 << 20], "itemsize": 8}, (1,), bytes(8)
        ),
        Calls(own.saved_scalar, "O", (), bytes(8)),
        Calls(own.saved_dtype, [("a", "O")]),
        Calls(own.saved_objects, (1 << 40,), []),
    ):
        with pytest.raises((ValueError, TypeError)):
            SAVING.loads(pickle.dumps(call))
