"""Stable sorting of integers by 16-bit digits, several times faster than comparing them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from runtime.core.cancellation import look
from runtime.kernels.native import kernel

__all__ = ["radix_argsort"]

_DIGIT = 16
_DIGIT_MASK = (1 << _DIGIT) - 1

_radix_sort = kernel("radix_sort", "wI")


def radix_argsort(columns: Sequence[np.ndarray]) -> np.ndarray:
    """The stable permutation (int64) that sorts rows by the columns, the first one most significant.

    Args:
        columns: one or more arrays of uint64, or of int64 without negative values, all of n rows.
    """
    count = len(columns[0])
    if _radix_sort is not None:
        sorted_rows = np.arange(count, dtype=np.int64)
        for column in reversed(columns):
            look()
            _radix_sort(column.view(np.uint64), sorted_rows)
        return sorted_rows
    order: np.ndarray | None = None
    for column in reversed(columns):
        look()
        if count == 0:
            break
        words = column.view(np.uint64)
        # Only digits that differ between rows take part. numpy sorts 16-bit integers by counting, in linear time.
        varying = int(np.bitwise_or.reduce(words ^ words[0]))
        for shift in range(0, 64, _DIGIT):
            if not (varying >> shift) & _DIGIT_MASK:
                continue
            digit = (words >> np.uint64(shift)).astype(np.uint16)
            if order is None:
                order = np.argsort(digit, kind="stable")
            else:
                order = order[np.argsort(digit[order], kind="stable")]
    return np.arange(count, dtype=np.int64) if order is None else order
