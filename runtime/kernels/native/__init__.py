"""Kernels in C, for the loops that numpy can only do in many passes or under the interpreter's lock.

Every one of them has a twin in numpy, in the module that calls it, and both give the same for the same input: the
package works without a C compiler, only slower. `SQLENGINE_NATIVE=off` in the environment leaves them out.

A kernel takes addresses and numbers, and nothing of Python: a shared library called through ctypes, so that the
interpreter's lock is released while it runs and several tasks of an operator run at the same time.
"""

from __future__ import annotations

import ctypes
import importlib.machinery
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["address", "contiguous", "kernel"]

_P = ctypes.c_void_p
_N = ctypes.c_int64


def _load() -> ctypes.CDLL | None:
    if os.environ.get("SQLENGINE_NATIVE", "").lower() in ("off", "0", "false"):
        return None
    for suffix in importlib.machinery.EXTENSION_SUFFIXES:
        path = Path(__file__).with_name(f"_kernels{suffix}")
        if path.is_file():
            try:
                return ctypes.CDLL(str(path))
            except OSError:
                # Built for another machine: numpy does as well.
                return None
    return None


_library = _load()


def kernel(name: str, parameters: str, *, gives: bool = False) -> Callable[..., Any] | None:
    """The kernel `sqlengine_<name>`; None where there are none.

    Args:
        parameters: a letter for each: `p` an address (`address`), `n` a 64-bit number.
        gives: whether it returns a number.
    """
    if _library is None:
        return None
    try:
        found = _library[f"sqlengine_{name}"]
    except AttributeError:
        # A library that was built from older sources.
        return None
    found.argtypes = [_P if letter == "p" else _N for letter in parameters]
    found.restype = _N if gives else None
    return found


def address(array: np.ndarray) -> int:
    """Where the first value of an array lies. The caller holds the array while the kernel runs."""
    return array.__array_interface__["data"][0]


def contiguous(array: np.ndarray) -> np.ndarray:
    """The array with its values one after the other, as kernels want them."""
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)
