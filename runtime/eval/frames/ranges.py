"""Extremes and ends over ranges of positions: [low, high) per request, whole columns at a time."""

from __future__ import annotations

import numpy as np

__all__ = ["first_valid", "last_valid", "range_min", "running_min"]


def range_min(values: np.ndarray, low: np.ndarray, high: np.ndarray, none: int) -> np.ndarray:
    """The least of `values[low:high]` for each request, `none` for an empty range.

    A sparse table, one level at a time: level k holds the least of each 2**k neighbours, and two overlapping blocks
    of the greatest level that fits cover a range. O(n log longest range).
    """
    result = np.full(len(low), none, values.dtype)
    lengths = high - low
    if len(low) == 0 or not lengths.any():
        return result
    levels = np.frexp(np.maximum(lengths, 1).astype(np.float64))[1] - 1
    level = values
    for k in range(int(levels[lengths > 0].max()) + 1):
        rows = np.flatnonzero((levels == k) & (lengths > 0))
        result[rows] = np.minimum(level[low[rows]], level[high[rows] - (1 << k)])
        level = np.minimum(level[: -(1 << k)], level[1 << k :])
    return result


def running_min(segment: np.ndarray, values: np.ndarray, span: int) -> np.ndarray:
    """The least value so far within each segment (ascending numbers); values are in [0, span)."""
    # Every segment is set below the one before it, so the running minimum starts anew.
    apart = segment * span
    return np.minimum.accumulate(values - apart) + apart


def first_valid(valid: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The first valid position in each range, -1 if none."""
    count = len(valid)
    ahead = np.full(count + 1, count, np.int64)
    ahead[:count] = np.where(valid, np.arange(count), count)
    ahead = np.minimum.accumulate(ahead[::-1])[::-1]
    found = ahead[low]
    return np.where(found < high, found, -1)


def last_valid(valid: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The last valid position in each range, -1 if none."""
    behind = np.full(len(valid) + 1, -1, np.int64)
    behind[1:] = np.maximum.accumulate(np.where(valid, np.arange(len(valid)), -1))
    found = behind[high]
    return np.where(found >= low, found, -1)
