"""Sorting of rows by words: stable sort, runs of equal rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runtime.kernels.order_words import order_words
from runtime.kernels.radix import radix_argsort

__all__ = ["run_starts", "sort_indices", "sort_words"]


def sort_indices(
    columns: Sequence[pa.Array | pa.ChunkedArray], descending: Sequence[bool], nulls_last: Sequence[bool]
) -> np.ndarray:
    """The stable permutation (int64) that puts the rows in ORDER BY order; `nulls_last` is meant after `descending`.

    Strings compare by their bytes (UTF-8 order), NaN is the greatest number, -0.0 equals 0.0.
    """
    return sort_words(order_words(columns, descending, nulls_last))


def sort_words(words: np.ndarray) -> np.ndarray:
    """The stable permutation (int64) that sorts the rows of (n, k) uint64 words."""
    count, width = words.shape
    if width == 0:
        return np.arange(count, dtype=np.int64)
    return radix_argsort([words[:, i] for i in range(width)])


def run_starts(words: np.ndarray) -> np.ndarray:
    """Where a new run of equal neighbours begins: ascending row numbers, int64, the first of them 0 (none for no rows)."""
    if len(words) == 0:
        return np.empty(0, dtype=np.int64)
    changes = np.zeros(len(words), dtype=np.bool_)
    changes[0] = True
    for column in range(words.shape[1]):
        changes[1:] |= words[1:, column] != words[:-1, column]
    return np.flatnonzero(changes)
