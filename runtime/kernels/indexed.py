"""Reads and writes of arrays at slots: what numpy does with an array as index, in one pass and without the interpreter's
lock where the kernels in C are there.

`slots` are int64 (n,), none below 0 and none beyond the array, unless it says otherwise; they may repeat.
"""

from __future__ import annotations

import numpy as np

from runtime.core.cancellation import look
from runtime.kernels.grouping import distinct_rows
from runtime.kernels.native import Kernel, kernel

__all__ = ["add_at", "count_at", "greatest_at", "least_at", "mark_at", "put_at", "take_at"]

_FEW = 64
"""For fewer rows the call of a kernel costs more than it saves."""

_put_at = kernel("put_at", "Xixn")
_fill_at = kernel("fill_at", "Xix")
_add_integers_at = kernel("add_integers_at", "Iii")
_add_signs_at = kernel("add_signs_at", "Iit")
_count_at = kernel("count_at", "Ii")
_add_floats_at = kernel("add_floats_at", "Fif")
_least_at = kernel("least_at", "Iii")
_greatest_at = kernel("greatest_at", "Iii")
_take_at = kernel("take_at", "xiXn")
_mark_at = kernel("mark_at", "BibI")


def put_at(target: np.ndarray, slots: np.ndarray, values: np.ndarray | float) -> None:
    """`target[slots] = values`, values of the target's own type or one for all; of equal slots the last one stays."""
    look()
    if _put_at is None or _fill_at is None or len(slots) < _FEW or not _suit(target, slots):
        target[slots] = values
        return
    if isinstance(values, np.ndarray):
        if values.dtype != target.dtype or values.shape != (len(slots), *target.shape[1:]):
            target[slots] = values
            return
        _put_at(target, slots, values, _width(target))
    else:
        _fill_at(target, slots, np.full(target.shape[1:], values, target.dtype))


def add_at(target: np.ndarray, slots: np.ndarray, values: np.ndarray) -> None:
    """Adds each value to the target at its slot, in order; int64 sums wrap.

    Args:
        target: int64 or float64 (m,).
        values: of the same type; or int8, the signs of changes, for int64.
    """
    look()
    add: Kernel | None = None
    if len(slots) >= _FEW and _suit(target, slots) and values.shape == slots.shape:
        if target.dtype == np.int64:
            add = _add_integers_at if values.dtype == np.int64 else _add_signs_at if values.dtype == np.int8 else None
        elif target.dtype == np.float64 and values.dtype == np.float64:
            add = _add_floats_at
    if add is None:
        np.add.at(target, slots, values)
        return
    add(target, slots, values)


def count_at(target: np.ndarray, slots: np.ndarray) -> None:
    """Adds one to the int64 target at each slot."""
    if _count_at is None or len(slots) < _FEW or not _suit(target, slots):
        np.add.at(target, slots, 1)
    else:
        _count_at(target, slots)


def least_at(target: np.ndarray, slots: np.ndarray, values: np.ndarray) -> None:
    """Lowers the target at each slot to the value, where that is less."""
    _extreme_at(_least_at, np.minimum, target, slots, values)


def greatest_at(target: np.ndarray, slots: np.ndarray, values: np.ndarray) -> None:
    """Raises the target at each slot to the value, where that is greater."""
    _extreme_at(_greatest_at, np.maximum, target, slots, values)


def mark_at(flags: np.ndarray, slots: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Sets the flag of each slot whose row is chosen; the rows that found theirs not set, the first of each slot,
    ascending, int64.

    Args:
        flags: bool (m,).
        chosen: bool (n,).
    """
    if _mark_at is None or len(slots) < _FEW or not _suit(flags, slots):
        rows = np.flatnonzero(chosen & ~flags.take(slots))
        rows = rows[distinct_rows(slots[rows])]
        flags[slots[rows]] = True
        return rows
    rows = np.empty(len(slots), np.int64)
    return rows[: _mark_at(flags, slots, chosen, rows)]


def take_at(values: np.ndarray, slots: np.ndarray) -> np.ndarray:
    """`values[slots]`, zero (False) at slots below 0 or beyond the end."""
    if _take_at is None or len(slots) < _FEW or not _suit(values, slots):
        if not len(values):
            return np.zeros((len(slots), *values.shape[1:]), values.dtype)
        taken = values.take(slots, axis=0, mode="clip")
        outside = (slots < 0) | (slots >= len(values))
        if outside.any():
            taken[outside] = 0
        return taken
    taken = np.empty((len(slots), *values.shape[1:]), values.dtype)
    _take_at(values, slots, taken, _width(values))
    return taken


def _extreme_at(
    kernel_at: Kernel | None, ufunc: np.ufunc, target: np.ndarray, slots: np.ndarray, values: np.ndarray
) -> None:
    integers = target.dtype == np.int64 and values.dtype == np.int64
    if (
        kernel_at is None
        or len(slots) < _FEW
        or not integers
        or not _suit(target, slots)
        or values.shape != slots.shape
    ):
        ufunc.at(target, slots, values)
        return
    kernel_at(target, slots, values)


def _suit(array: np.ndarray, slots: np.ndarray) -> bool:
    """Whether both lie as kernels want them; a copy of the array would follow the size of the state."""
    return array.flags.c_contiguous and slots.dtype == np.int64 and array.size > 0


def _width(array: np.ndarray) -> int:
    """The bytes of one item."""
    return array.nbytes // len(array)
