"""Accumulators of Python aggregates as bytes, and back, by pickle, of which only values and declared classes are taken.

Pickle can call anything that can be imported. State comes from a file that somebody may have changed, so what it may name
is limited: values of the standard library and of numpy, and the classes that the function's own module defines or that
the function declares (`state_classes`). What would not come back is refused when it is to be saved.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Iterable
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
    "numpy": frozenset(("dtype", "ndarray")),
    "numpy.core.multiarray": frozenset(("_reconstruct", "scalar")),
    "numpy._core.multiarray": frozenset(("_reconstruct", "scalar")),
    "numpy.core.numeric": frozenset(("_frombuffer",)),
    "numpy._core.numeric": frozenset(("_frombuffer",)),
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
        if name in _VALUES.get(module, ()):
            return load(module, name)
        if module == self._module:
            found = load(module, name)
            # An imported class can do anything.
            if isinstance(found, type) and found.__module__ == module:
                return found
        raise pickle.UnpicklingError(f"an accumulator of {self._name} names {module}.{name}"[:200])

    def _check(self, value: Any) -> None:
        if isinstance(value, np.ndarray | np.generic | np.dtype):
            return
        of = value if isinstance(value, type) else type(value)
        module, name = of.__module__, of.__qualname__
        if name not in _VALUES.get(module, ()) and (module, name) not in self._declared and module != self._module:
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
        """Called for all that is no plain value; how it is pickled stays as it is."""
        if not callable(value) or isinstance(value, type):
            self._check(value)
        return NotImplemented


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, find: Callable[[str, str, Callable[[str, str], Any]], Any]) -> None:
        super().__init__(file)
        self._find = find

    def find_class(self, module: str, name: str) -> Any:
        return self._find(module, name, super().find_class)
