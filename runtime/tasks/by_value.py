"""Pickles for processes of this machine, functions of the user's program included.

Another process imports what a module defines, but not what the program itself does (`__main__`), nor functions that have
no name. Those travel by value, with cloudpickle.
"""

from __future__ import annotations

import importlib
import importlib.util
import io
import pickle
from types import FunctionType, ModuleType
from typing import Any

from runtime.core.errors import ProcessError

__all__ = ["dumps"]

_LIBRARIES = ("cloudpickle", "pyspark.cloudpickle")


class _OnlyByValue(Exception):
    """Another process would not find it."""


class _Pickler(pickle.Pickler):
    def reducer_override(self, thing: Any) -> Any:
        if isinstance(thing, type | FunctionType) and thing.__module__ == "__main__":
            raise _OnlyByValue
        return NotImplemented


def dumps(thing: Any) -> bytes:
    """As bytes that another process can load.

    Raises:
        ProcessError: E3903 a function can be sent only by value, and there is no library for that.
    """
    stream = io.BytesIO()
    try:
        _Pickler(stream, protocol=5).dump(thing)
        return stream.getvalue()
    except (_OnlyByValue, pickle.PicklingError, AttributeError, TypeError) as error:
        library = _library()
        if library is None:
            raise ProcessError(
                f"a function of the program cannot be sent to processes: {error or 'the program itself defines it'}",
                code="E3903",
                hint="pip install 'sqlengine[processes]', or put the function into a module",
            ) from error
        return library.dumps(thing)


def _library() -> ModuleType | None:
    for name in _LIBRARIES:
        if importlib.util.find_spec(name.partition(".")[0]) is not None:
            return importlib.import_module(name)
    return None
