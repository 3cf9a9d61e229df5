"""Grouping the rows of one batch by their key words."""

from __future__ import annotations

import numpy as np

from runtime.kernels.hash_index import HashIndex

__all__ = ["group_ids"]


def group_ids(words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`(first, group)`: the row of each group's first occurrence (ascending), and the group of each row, both int64.

    Groups are numbered 0, 1, 2, ... in order of first occurrence. Width 0 makes one group of all rows.
    """
    count, width = words.shape
    if width == 1 and count:
        column = words[:, 0]
        low, high = column.min(), column.max()
        span = int(high) - int(low) + 1
        if span <= 4 * count:
            return _group_dense((column - low).astype(np.int64), span)
    group, is_new = HashIndex(width, min(max(count, 16), 16384)).insert(words)
    return np.flatnonzero(is_new), group


def _group_dense(values: np.ndarray, span: int) -> tuple[np.ndarray, np.ndarray]:
    """The same for integers in [0, span)."""
    count = len(values)
    first_of_value = np.full(span, -1, dtype=np.int64)
    # Of several assignments to one place the last one stays: backwards, so that it is the first occurrence.
    first_of_value[values[::-1]] = np.arange(count - 1, -1, -1)
    first = np.sort(first_of_value[first_of_value >= 0])
    first_of_value[values[first]] = np.arange(len(first))
    return first, first_of_value[values]
