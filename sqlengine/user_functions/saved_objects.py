"""Accumulators of Python aggregates as bytes, and back, by pickle, of which only values and declared classes are taken.

Pickle can call anything that can be imported. State comes from a file that somebody may have changed, so what it may name
is limited: values of the standard library, and the classes that the function's own module defines or that the function
declares (`state_classes`). Arrays of numpy are saved as their bytes, because what numpy's own pickles name can make an
array over any memory. What would not come back is refused when it is to be saved.
"""

from __future__ import annotations

import io
import math
import pickle
from collections.abc import Callable, Iterable, Sequence
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np

from runtime.core.errors import UnsupportedError

__all__ = ["SavedObjects"]

_VALUES: dict[str, frozenset[str]] = {
    "builtins": frozenset(
        ("bool", "bytearray", "bytes", "complex", "dict", "float", "frozenset", "int", "list", "range", "set", "slice")
        + ("str", "tuple")
    ),
    "collections": frozenset(("Counter", "OrderedDict", "defaultdict", "deque")),
    "datetime": frozenset(("date", "datetime", "time", "timedelta", "timezone")),
    "decimal": frozenset(("Decimal",)),
    "fractions": frozenset(("Fraction",)),
    "uuid": frozenset(("UUID",)),
    "array": frozenset(("array", "_array_reconstructor")),
}


class SavedObjects:
    """The accumulators of one function.

    Args:
        name: the function's, for errors.
        function: what makes them; its module's classes, and its `state_classes`, may be in them.
    """

    def __init__(self, name: str, function: Any) -> None:
        self._name = name
        self._module = type(function).__module__
        declared: Iterable[type] = getattr(function, "state_classes", ())
        self._declared = {(c.__module__, c.__qualname__): c for c in declared}

    def dumps(self, value: Any) -> bytes:
        """Raises UnsupportedError E1639 when `loads` would not take it."""
        out = io.BytesIO()
        _Pickler(out, self._check).dump(value)
        return out.getvalue()

    def loads(self, data: bytes) -> Any:
        """Raises pickle.UnpicklingError for what is no accumulator that was saved."""
        return _Unpickler(io.BytesIO(data), self.find).load()

    def find(self, module: str, name: str, load: Callable[[str, str], Any]) -> Any:
        """What a pickle names."""
        if (module, name) in self._declared:
            return self._declared[module, name]
        if module == __name__ and name in _ARRAYS:
            return _ARRAYS[name]
        if name in _VALUES.get(module, ()):
            return load(module, name)
        if module == self._module:
            found = load(module, name)
            # An imported class can do anything.
            if isinstance(found, type) and found.__module__ == module:
                return found
        raise pickle.UnpicklingError(f"an accumulator of {self._name} names {module}.{name}"[:200])

    def _check(self, value: Any) -> None:
        named = isinstance(value, type | FunctionType | BuiltinFunctionType)
        of = value if named else type(value)
        module, name = of.__module__, of.__qualname__
        known = (module, name) in self._declared or name in _VALUES.get(module, ())
        own = module == self._module and isinstance(of, type)
        if not (known or own or (module == __name__ and name in _ARRAYS)):
            raise UnsupportedError(
                f"an accumulator of {self._name} holds a {module}.{name}, which cannot be saved",
                code="E1639",
                hint=f"declare it: state_classes = ({name},) in the function's class",
            )


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, check: Callable[[Any], None]) -> None:
        super().__init__(file, protocol=pickle.DEFAULT_PROTOCOL)
        self._check = check

    def reducer_override(self, value: Any) -> Any:
        """Called for all that is no plain value; how it is pickled stays as it is, but for arrays."""
        if type(value) is np.ndarray:
            return _reduced_array(value)
        if isinstance(value, np.generic):
            return saved_scalar, _reduced_array(np.asarray(value))[1]
        if isinstance(value, np.dtype):
            return saved_dtype, (_described(value),)
        self._check(value)
        return NotImplemented


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, find: Callable[[str, str, Callable[[str, str], Any]], Any]) -> None:
        super().__init__(file)
        self._find = find

    def find_class(self, module: str, name: str) -> Any:
        return self._find(module, name, super().find_class)


# --- arrays


def _reduced_array(value: np.ndarray) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The function that makes an array again, and what it gets."""
    if value.dtype == np.dtype(object):
        return saved_objects, (value.shape, value.ravel().tolist())
    return saved_array, (_described(value.dtype), value.shape, value.tobytes())


def _described(dtype: np.dtype) -> Any:
    """What numpy makes the type of again. Raises UnsupportedError E1639 for one that holds Python objects among others."""
    if dtype.hasobject and dtype != np.dtype(object):
        raise UnsupportedError(
            f"an accumulator holds an array of {dtype}, which cannot be saved",
            code="E1639",
            hint="keep the objects in an array of their own, or in a list",
        )
    return dtype.str if dtype.fields is None else dtype.descr


def saved_dtype(described: Any) -> np.dtype:
    """A type of plain values, or `object`. Raises ValueError for any other."""
    dtype = np.dtype(described)
    if dtype.hasobject and dtype != np.dtype(object):
        raise ValueError(f"an array of {dtype} was not saved")
    return dtype


def saved_array(described: Any, shape: Sequence[int], data: bytes) -> np.ndarray:
    """Raises ValueError when the bytes are not those of an array of this shape."""
    dtype = saved_dtype(described)
    if dtype.hasobject or not isinstance(data, bytes):
        raise ValueError("an array of objects was not saved as bytes")
    if math.prod(shape) == 0:
        return np.empty(tuple(shape), dtype)
    return np.frombuffer(data, dtype).reshape(tuple(shape)).copy()


def saved_scalar(described: Any, shape: Sequence[int], data: bytes) -> Any:
    """Raises ValueError when the bytes are not those of a single value."""
    return saved_array(described, shape, data)[()]


def saved_objects(shape: Sequence[int], values: list[Any]) -> np.ndarray:
    """Raises ValueError when they are more or fewer than the shape has room for."""
    found = np.empty(len(values), object)
    for position, value in enumerate(values):
        found[position] = value
    return found.reshape(tuple(shape))


_ARRAYS: dict[str, Callable[..., Any]] = {
    made.__name__: made for made in (saved_array, saved_scalar, saved_objects, saved_dtype)
}
