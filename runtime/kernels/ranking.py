"""Which rows may be among the best of their partition."""

from __future__ import annotations

import numpy as np

from runtime.kernels.native import kernel

__all__ = ["contenders", "places_in_runs"]

_contenders = kernel("contenders", "iwninwI")


def contenders(partitions: np.ndarray, words: np.ndarray, best: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """The rows that come before the last of the best of their partition, or whose partition has fewer than it may:
    ascending, int64.

    Args:
        partitions: int64 (n,).
        words: the order of the rows, uint64 (n, width), the first word most significant.
        best: for each partition its best slots in order, -1 after the last, int64 (partitions, depth).
        kept: the words by slot, uint64 (slots, width).
    """
    # Neither is copied for a batch: they follow the size of the state.
    if _contenders is not None and best.flags.c_contiguous and kept.flags.c_contiguous:
        rows = np.empty(len(words), np.int64)
        return rows[: _contenders(partitions, words, words.shape[1], best, best.shape[1], kept, rows)]
    worst = best[partitions, -1]
    full = np.flatnonzero(worst >= 0)
    beaten = np.zeros(len(partitions), dtype=np.bool_)
    if len(full):
        beaten[full] = ~_less(words[full], kept[worst[full]])
    return np.flatnonzero(~beaten)


def places_in_runs(sorted_keys: np.ndarray) -> np.ndarray:
    """0, 1, 2, ... within each run of equal keys, int64."""
    positions = np.arange(len(sorted_keys))
    starts = np.ones(len(sorted_keys), dtype=np.bool_)
    starts[1:] = sorted_keys[1:] != sorted_keys[:-1]
    return positions - np.maximum.accumulate(np.where(starts, positions, 0))


def _less(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Row by row, whether the words on the left come before those on the right."""
    less = np.zeros(len(left), dtype=np.bool_)
    equal = np.ones(len(left), dtype=np.bool_)
    for column in range(left.shape[1]):
        less |= equal & (left[:, column] < right[:, column])
        equal &= left[:, column] == right[:, column]
    return less
