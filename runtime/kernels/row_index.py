"""Rows found by key: what a table that is looked up keeps beside its rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runtime.kernels.hash_index import HashIndex
from runtime.kernels.key_encoding import KeyEncoder

__all__ = ["RowIndex"]


class RowIndex:
    """Rows by key: rows sorted by the slot of their key, and where each slot's rows begin."""

    def __init__(self, columns: list[pa.Array]) -> None:
        self._types = [c.type for c in columns]
        self._encoder = KeyEncoder(self._types)
        words = self._encoder.encode(columns)
        self._index = HashIndex(self._encoder.width, max(16, len(words)))
        slots, _ = self._index.insert(words)
        whole = ~_has_null(columns)
        rows = np.flatnonzero(whole)
        self._by_slot = rows[np.argsort(slots[rows], kind="stable")]
        self._counts = np.bincount(slots[rows], minlength=self._index.capacity)
        self._starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(self._counts)])

    def find(self, keys: list[pa.Array]) -> tuple[np.ndarray, np.ndarray]:
        """Pairs of key position, ascending, and row."""
        typed = [k if k.type == t else k.cast(t) for k, t in zip(keys, self._types, strict=True)]
        slots = self._index.find(self._encoder.probe(typed))
        hits = np.flatnonzero((slots >= 0) & ~_has_null(typed))
        counts = self._counts[slots[hits]]
        positions = np.repeat(hits, counts)
        ends = np.cumsum(counts)
        within = np.arange(len(positions)) - np.repeat(ends - counts, counts)
        return positions, self._by_slot[np.repeat(self._starts[slots[hits]], counts) + within]


def _has_null(columns: list[pa.Array]) -> np.ndarray:
    return np.logical_or.reduce([c.is_null().to_numpy(zero_copy_only=False) for c in columns])
