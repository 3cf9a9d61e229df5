"""Reads and writes of arrays at slots: what numpy does with an array as index, in one pass and without the interpreter's
lock where the kernels in C are there.

`slots` are int64 (n,), none below 0 and none beyond the array, unless it says otherwise; they may repeat.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from runtime.kernels.grouping import distinct_rows
from runtime.kernels.native import address, contiguous, kernel

__all__ = ["add_at", "count_at", "greatest_at", "least_at", "mark_at", "put_at", "take_at"]

_FEW = 64
"""For fewer rows the call of a kernel costs more than it saves."""

_put_at = kernel("put_at", "pnpnpn", gives=True)
_fill_at = kernel("fill_at", "pnpnpn", gives=True)
_add_integers_at = kernel("add_integers_at", "pnpnp", gives=True)
_add_signs_at = kernel("add_signs_at", "pnpnp", gives=True)
_count_at = kernel("count_at", "pnpn", gives=True)
_add_floats_at = kernel("add_floats_at", "pnpnp", gives=True)
_least_at = kernel("least_at", "pnpnp", gives=True)
_greatest_at = kernel("greatest_at", "pnpnp", gives=True)
_take_at = kernel("take_at", "pnpnpn")
_mark_at = kernel("mark_at", "pnpnpp", gives=True)


def put_at(target: np.ndarray, slots: np.ndarray, values: np.ndarray | float) -> None:
    """`target[slots] = values`, values of the target's own type or one for all; of equal slots the last one stays."""
    if _put_at is None or _fill_at is None or len(slots) < _FEW or not _suit(target, slots):
        target[slots] = values
        return
    width = target.itemsize * (target[0].size if target.ndim > 1 else 1)
    if isinstance(values, np.ndarray):
        if values.dtype != target.dtype or values.shape != (len(slots), *target.shape[1:]):
            target[slots] = values
            return
        values = contiguous(values)
        _done(_put_at(*_span(target, slots), address(values), width), target, slots)
    else:
        item = np.full(target.shape[1:], values, target.dtype)
        _done(_fill_at(*_span(target, slots), address(item), width), target, slots)


def add_at(target: np.ndarray, slots: np.ndarray, values: np.ndarray) -> None:
    """Adds each value to the target at its slot, in order; int64 sums wrap.

    Args:
        target: int64 or float64 (m,).
        values: of the same type; or int8, the signs of changes, for int64.
    """
    add: Callable[..., Any] | None = None
    if len(slots) >= _FEW and _suit(target, slots) and values.shape == slots.shape:
        if target.dtype == np.int64:
            add = _add_integers_at if values.dtype == np.int64 else _add_signs_at if values.dtype == np.int8 else None
        elif target.dtype == np.float64 and values.dtype == np.float64:
            add = _add_floats_at
    if add is None:
        np.add.at(target, slots, values)
        return
    values = contiguous(values)
    _done(add(*_span(target, slots), address(values)), target, slots)


def count_at(target: np.ndarray, slots: np.ndarray) -> None:
    """Adds one to the int64 target at each slot."""
    if _count_at is None or len(slots) < _FEW or not _suit(target, slots):
        np.add.at(target, slots, 1)
    else:
        _done(_count_at(*_span(target, slots)), target, slots)


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
    chosen, rows = contiguous(chosen), np.empty(len(slots), np.int64)
    found = _mark_at(*_span(flags, slots), address(chosen), address(rows))
    if found < 0:
        raise IndexError(f"a slot beyond {len(flags)} flags")
    return rows[:found]


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
    width = values.itemsize * (taken[0].size if values.ndim > 1 else 1)
    _take_at(address(values), len(values), address(slots), len(slots), address(taken), width)
    return taken


def _extreme_at(
    kernel_at: Callable[..., Any] | None, ufunc: np.ufunc, target: np.ndarray, slots: np.ndarray, values: np.ndarray
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
    values = contiguous(values)
    _done(kernel_at(*_span(target, slots), address(values)), target, slots)


def _suit(array: np.ndarray, slots: np.ndarray) -> bool:
    """Whether both lie as kernels want them."""
    return array.flags.c_contiguous and slots.flags.c_contiguous and slots.dtype == np.int64


def _span(target: np.ndarray, slots: np.ndarray) -> tuple[int, int, int, int]:
    return address(target), len(target), address(slots), len(slots)


def _done(row: int, target: np.ndarray, slots: np.ndarray) -> None:
    if row >= 0:
        raise IndexError(f"slot {slots[row]} of an array of {len(target)}")
