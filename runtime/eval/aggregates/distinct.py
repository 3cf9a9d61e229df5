"""DISTINCT: which values a group holds, and which of them appear or vanish with a batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runtime.eval.aggregates.accumulator import first_rows
from runtime.kernels.block_lists import BlockLists
from runtime.kernels.columns import ColumnStore
from runtime.kernels.grow import grown
from runtime.kernels.hash_index import HashIndex
from runtime.kernels.key_encoding import KeyEncoder

__all__ = ["DistinctValues"]


class DistinctValues:
    """The different argument values of each group, with one count per call: calls with the same arguments share the
    index, each counts the rows that its own FILTER lets through.

    Args:
        types: the Arrow types of the arguments.
        calls: how many calls share them.
        mergeable: keep the values themselves, so that `merge` can read them.
    """

    def __init__(self, types: Sequence[pa.DataType], calls: int, mergeable: bool) -> None:
        self._keys = KeyEncoder(types)
        self._index = HashIndex(1 + self._keys.width)
        self._counts = [np.zeros(0, np.int64) for _ in range(calls)]
        self._lists = BlockLists()
        self._groups = np.zeros(0, np.int64)
        self._seqs = np.zeros(0, np.int64)
        self._store = ColumnStore(types) if mergeable else None

    @property
    def nbytes(self) -> int:
        parts = (*self._counts, self._keys, self._index, self._lists, self._groups, self._seqs, self._store)
        return sum(part.nbytes for part in parts if part is not None)

    def change(self, slots: np.ndarray, columns: Sequence[pa.Array], seqs: np.ndarray, weights: Sequence[np.ndarray],
               ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Counts rows; `weights` holds per call +n or -n for each row (0: not for this call).

        Returns per call `(rows, signs)`: +1 where a value appears in the row's group, -1 where it vanishes; one row
        stands for its value.
        """
        words = np.concatenate((slots.view(np.uint64).reshape(-1, 1), self._keys.encode(columns)), axis=1)
        entries, is_new = self._index.insert(words)
        high = self._index.capacity
        self._counts = [grown(c, high) for c in self._counts]
        self._groups, self._seqs = grown(self._groups, high), grown(self._seqs, high)
        new_rows = np.flatnonzero(is_new)
        fresh = entries[new_rows]
        if len(fresh):
            self._groups[fresh], self._seqs[fresh] = slots[new_rows], seqs[new_rows]
            self._lists.append(slots[new_rows], fresh)
            if self._store is not None:
                self._store.put(fresh, [c.take(pa.array(new_rows)) for c in columns])
        first = first_rows(entries)
        touched = entries[first]
        changes = [_turn(counts, entries, first, touched, weight) for counts, weight in zip(self._counts, weights, strict=True)]
        gone = touched[np.all([counts[touched] <= 0 for counts in self._counts], axis=0)]
        self._forget(gone)
        return changes

    def entries(self, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The values of the groups: `(index into slots, entry)`."""
        return self._lists.probe(slots)

    def values(self, entries: np.ndarray) -> tuple[list[pa.Array], np.ndarray, list[np.ndarray]]:
        """The argument columns, arrival numbers and counts per call of entries (only when mergeable)."""
        assert self._store is not None
        return self._store.take(entries), self._seqs[entries], [c[entries] for c in self._counts]

    def release(self, slots: np.ndarray) -> None:
        self._forget(self._lists.probe(slots)[1])

    def _forget(self, entries: np.ndarray) -> None:
        if len(entries) == 0:
            return
        self._lists.remove(self._groups[entries], entries)
        self._index.remove(entries)
        for counts in self._counts:
            counts[entries] = 0
        if self._store is not None:
            self._store.free(entries)


def _turn(counts: np.ndarray, entries: np.ndarray, first: np.ndarray, touched: np.ndarray, weight: np.ndarray,
          ) -> tuple[np.ndarray, np.ndarray]:
    """Adds the weights; the rows whose value came to the call or left it."""
    before = counts[touched] > 0
    np.add.at(counts, entries, weight)
    after = counts[touched] > 0
    turned = before != after
    rows = first[turned]
    if (weight[rows] == 0).any():
        # The first row of the value is not one of this call's: take the first that is, for its place in the order of
        # arrival.
        mine = np.flatnonzero(weight)
        own = mine[first_rows(entries[mine])]
        place = np.empty(int(entries.max()) + 1, np.int64)
        place[entries[own]] = own
        rows = place[touched[turned]]
    signs = np.where(after[turned], 1, -1).astype(np.int8)
    order = np.argsort(rows)
    return rows[order], signs[order]
