"""Kernels in C, for the loops that numpy can only do in many passes or under the interpreter's lock.

Every one of them has a twin in numpy, in the module that calls it, and both give the same for the same input: the
package works without a C compiler, only slower. `SQLENGINE_NATIVE=off` in the environment leaves them out.

A kernel takes addresses, sizes and numbers, and nothing of Python: a shared library called through ctypes, so that the
interpreter's lock is released while it runs and several tasks of an operator run at the same time. Types and layout of
arrays are checked here, once for all kernels; indexes and sizes in C, by every kernel (`kernel.h`).
"""

from __future__ import annotations

import ctypes
import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from runtime.core.errors import InternalError
from runtime.kernels.native.abi import ABI

__all__ = ["Kernel", "beside_kernels", "kernel"]

_C_CONTIGUOUS, _ALIGNED, _WRITEABLE = 0x1, 0x100, 0x400
"""Bits of `ndarray.flags.num`."""
_TO_READ = _C_CONTIGUOUS | _ALIGNED
_TO_WRITE = _TO_READ | _WRITEABLE
_TYPES = {letter: np.dtype(name) for letter, name in zip("wiftb", ("u8", "i8", "f8", "i1", "?"), strict=True)}
_NO_MEMORY = -1
_MISFIT = -(1 << 63)


def _load(path: Path) -> ctypes.CDLL | None:
    """The library in a file, if it was built from the sources that this Python calls.

    Warns:
        RuntimeWarning: it was not. Its kernels may take other arguments, so that calling one would write anywhere.
    """
    again = "everything runs on numpy, more slowly; build them with `python setup.py build_ext --inplace`"
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        warnings.warn(f"the kernels in C cannot be loaded ({error}): {again}", RuntimeWarning, stacklevel=2)
        return None
    try:
        given = library.sqlengine_abi
    except AttributeError:
        built = None
    else:
        given.restype = ctypes.c_int64
        built = given()
    if built == ABI:
        return library
    warnings.warn(
        f"the kernels in C were built from other sources ({path.name}): {again}", RuntimeWarning, stacklevel=2
    )
    return None


def _find() -> ctypes.CDLL | None:
    if os.environ.get("SQLENGINE_NATIVE", "").lower() in ("off", "0", "false"):
        return None
    chosen = os.environ.get("SQLENGINE_KERNELS")
    if chosen:
        library = _load(Path(chosen))
        if library is None:
            raise ImportError(f"SQLENGINE_KERNELS names no library of these kernels: {chosen}")
        return library
    path = Path(__file__).with_name("_kernels.dll" if os.name == "nt" else "_kernels.so")
    return _load(path) if path.is_file() else None


_library = _find()


class Kernel:
    """A function of the library, called with arrays and numbers.

    An array that is only read and does not lie as C wants it is copied; one that is written must lie so.
    """

    __slots__ = ("_function", "_parameters", "name")

    def __init__(self, name: str, function: Any, parameters: str) -> None:
        self.name = name
        self._function = function
        # Of each array its type (None: any) and the flags that it must have; 0 flags are a number.
        self._parameters = [
            (_TYPES.get(letter.lower()), 0 if letter == "n" else _TO_WRITE if letter.isupper() else _TO_READ)
            for letter in parameters
        ]
        kinds = [[ctypes.c_void_p, ctypes.c_int64] if wanted else [ctypes.c_int64] for _, wanted in self._parameters]
        function.argtypes = [kind for pair in kinds for kind in pair]
        function.restype = ctypes.c_int64

    def __call__(self, *given: np.ndarray | int) -> int:
        """What the kernel gives, from 0 up.

        Raises:
            InternalError: an array is of another type or cannot be written, sizes do not fit together, or an index is
                outside of its array. Nothing beyond the arrays was read or written.
            MemoryError: there was none.
        """
        arguments: list[int] = []
        # Copies must live until the kernel is done.
        copies: list[np.ndarray] = []
        for (dtype, wanted), value in zip(self._parameters, given, strict=True):
            if not wanted:
                arguments.append(value)  # type: ignore[arg-type]
                continue
            array: np.ndarray = value  # type: ignore[assignment]
            if dtype is not None and array.dtype is not dtype and array.dtype != dtype:
                raise InternalError(f"kernel {self.name} got an array of {array.dtype} for one of {dtype}")
            flags, size = array.flags.num, array.size
            if flags & wanted != wanted:
                if wanted == _TO_WRITE:
                    raise InternalError(f"kernel {self.name} got an array that it cannot write")
                array = np.array(array, order="C")
                copies.append(array)
            # A quarter of the time of the array interface, but only for what can be written and has bytes.
            if size and flags & _WRITEABLE and array is value:
                buffer: Any = array
                arguments.append(ctypes.addressof(ctypes.c_char.from_buffer(buffer)))
            else:
                arguments.append(array.__array_interface__["data"][0])
            arguments.append(array.nbytes if dtype is None else size)
        result = self._function(*arguments)
        if result >= 0:
            return result
        if result == _NO_MEMORY:
            raise MemoryError
        if result == _MISFIT:
            raise InternalError(f"kernel {self.name} got arrays whose sizes do not fit together")
        raise InternalError(f"kernel {self.name} got an index outside of its array, in row {-2 - result}")


def kernel(name: str, parameters: str) -> Kernel | None:
    """The kernel `sqlengine_<name>`; None where there are none.

    Args:
        parameters: a letter for each. `n` is a 64-bit number; an array is `w` of uint64, `i` int64, `f` float64, `t`
            int8, `b` bool, `x` of any type, its size then in bytes; a capital letter says that it is written.
    """
    return None if _library is None else Kernel(name, _library[f"sqlengine_{name}"], parameters)


def beside_kernels(name: str, arguments: Sequence[Any]) -> Callable[..., int] | None:
    """A function of the library that is no kernel: it gets addresses that another library gave, which nobody can check. Only
    what talks to that library may call it. None where there is no library.

    Args:
        arguments: their types in ctypes.
    """
    if _library is None:
        return None
    function = _library[name]
    function.argtypes = list(arguments)
    function.restype = ctypes.c_int64
    return function
