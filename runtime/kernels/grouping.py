"""Grouping the rows of one batch by their key words."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runtime.core.cancellation import look
from runtime.kernels.native import kernel

__all__ = ["distinct_rows", "greatest_rows", "group_ids"]

_group_rows = kernel("group_rows", "wnII")
_distinct_rows = kernel("distinct_rows", "inII")
_greatest_rows = kernel("greatest_rows", "iiI")


def group_ids(words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`(first, group)`: the row of each group's first occurrence (ascending), and the group of each row, both int64.

    Groups are numbered 0, 1, 2, ... in order of first occurrence. Width 0 makes one group of all rows.
    """
    look()
    count, width = words.shape
    if count == 0 or width == 0:
        return np.zeros(min(count, 1), dtype=np.int64), np.zeros(count, dtype=np.int64)
    if _group_rows is not None:
        group, first = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
        return first[: _group_rows(words, width, group, first)], group
    # Arrow's dictionary encoding numbers values in order of first occurrence, several times faster than numpy could.
    data = pa.py_buffer(np.ascontiguousarray(words))
    type_ = pa.uint64() if width == 1 else pa.binary(8 * width)
    encoded = pa.Array.from_buffers(type_, count, [None, data]).dictionary_encode()
    group = encoded.indices.to_numpy().astype(np.int64)
    first = np.empty(len(encoded.dictionary), dtype=np.int64)
    # Of several assignments to one place the last one stays: backwards, so that it is the first occurrence.
    first[group[::-1]] = np.arange(count - 1, -1, -1)
    return first, group


def distinct_rows(slots: np.ndarray, *, last: bool = False) -> np.ndarray:
    """The row at which each distinct slot (int64) stands first, or last, ascending, int64. O(n), without sorting."""
    count = len(slots)
    if count <= 1:
        return np.arange(count, dtype=np.int64)
    if _distinct_rows is not None:
        group, rows = np.empty(count, np.int64), np.empty(count, np.int64)
        return rows[: _distinct_rows(slots, int(last), group, rows)]
    low = int(slots.min())
    high = int(slots.max()) + 1 - low
    if high > 64 * count + 1024:
        # Few rows over many groups: a table of all slots would cost more than sorting.
        if last:
            return np.sort(count - 1 - np.unique(slots[::-1], return_index=True)[1])
        return np.sort(np.unique(slots, return_index=True)[1])
    if low:
        slots = slots - low
    mark = np.empty(high, np.int64)
    rows = np.arange(count, dtype=np.int64)
    # numpy keeps the last of several assignments to one place.
    order = slice(None) if last else slice(None, None, -1)
    mark[slots[order]] = rows[order]
    return np.flatnonzero(mark[slots] == rows)


def greatest_rows(slots: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The row of each distinct slot with the greatest value, of equal ones the last; in order of rows, int64.

    Args:
        slots, values: int64 (n,).
    """
    if _greatest_rows is None:
        order = np.lexsort((np.arange(len(values)), values, slots))
        ends = np.ones(len(order), dtype=np.bool_)
        ends[:-1] = slots[order][1:] != slots[order][:-1]
        return np.sort(order[ends])
    first, group = group_ids(slots.view(np.uint64).reshape(-1, 1))
    best = np.empty(len(first), np.int64)
    _greatest_rows(group, values, best)
    return np.sort(best)
