"""Grouping the rows of one batch by their key words."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

__all__ = ["group_ids"]


def group_ids(words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`(first, group)`: the row of each group's first occurrence (ascending), and the group of each row, both int64.

    Groups are numbered 0, 1, 2, ... in order of first occurrence. Width 0 makes one group of all rows.
    """
    count, width = words.shape
    if count == 0 or width == 0:
        return np.zeros(min(count, 1), dtype=np.int64), np.zeros(count, dtype=np.int64)
    # Arrow's dictionary encoding numbers values in order of first occurrence, several times faster than numpy could.
    data = pa.py_buffer(np.ascontiguousarray(words))
    type_ = pa.uint64() if width == 1 else pa.binary(8 * width)
    encoded = pa.Array.from_buffers(type_, count, [None, data]).dictionary_encode()
    group = encoded.indices.to_numpy().astype(np.int64)
    first = np.empty(len(encoded.dictionary), dtype=np.int64)
    # Of several assignments to one place the last one stays: backwards, so that it is the first occurrence.
    first[group[::-1]] = np.arange(count - 1, -1, -1)
    return first, group
