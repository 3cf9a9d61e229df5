"""The state of window aggregation: a pane per slice and key, slices in the order in which they end."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runtime.core.types import DataType
from runtime.eval.aggregates.aggregate_set import AggregateSet
from runtime.eval.aggregates.sums import RowCounts
from runtime.kernels.block_lists import BlockLists
from runtime.kernels.columns import ColumnStore
from runtime.kernels.grow import grown
from runtime.kernels.hash_index import HashIndex
from runtime.kernels.interned import forget_unused
from runtime.kernels.key_encoding import KeyEncoder
from runtime.plan.nodes import AggregateSpec

__all__ = ["PaneState", "Slices"]


class Slices:
    """The open slices: (end, start) in wall-clock milliseconds by slot, and sorted by end."""

    def __init__(self) -> None:
        self._index = HashIndex(2)
        self._end = np.zeros(0, np.int64)
        self._start = np.zeros(0, np.int64)
        self._sorted_ends = np.zeros(0, np.int64)
        self._sorted_slots = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return len(self._sorted_slots)

    @property
    def nbytes(self) -> int:
        return self._index.nbytes + self._end.nbytes + self._start.nbytes + 2 * self._sorted_ends.nbytes

    @property
    def ends(self) -> np.ndarray:
        """The ends of all open slices, ascending."""
        return self._sorted_ends

    @property
    def slots(self) -> np.ndarray:
        """The slots of all open slices, by end."""
        return self._sorted_slots

    def open(self, ends: np.ndarray, starts: np.ndarray) -> np.ndarray:
        """The slots of slices, made where they are new."""
        words = np.stack((ends, starts), axis=1).view(np.uint64)
        slots, is_new = self._index.insert(words)
        if is_new.any():
            fresh, new_ends = slots[is_new], ends[is_new]
            self._end, self._start = grown(self._end, self._index.capacity), grown(self._start, self._index.capacity)
            self._end[fresh], self._start[fresh] = new_ends, starts[is_new]
            order = np.lexsort((starts[is_new], new_ends))
            fresh, new_ends = fresh[order], new_ends[order]
            place = np.searchsorted(self._sorted_ends, new_ends, side="right")
            self._sorted_ends = np.insert(self._sorted_ends, place, new_ends)
            self._sorted_slots = np.insert(self._sorted_slots, place, fresh)
        return slots

    def close(self, slots: np.ndarray) -> None:
        """Forgets open slices."""
        if len(slots):
            self._index.remove(slots)
            kept = ~np.isin(self._sorted_slots, slots)
            self._sorted_ends, self._sorted_slots = self._sorted_ends[kept], self._sorted_slots[kept]

    def end(self, slots: np.ndarray) -> np.ndarray:
        return self._end[slots]

    def start(self, slots: np.ndarray) -> np.ndarray:
        return self._start[slots]


class PaneState:
    """Accumulators by (slice, key): panes of a slice are listed in order of arrival.

    Args:
        keys: the types of the key columns.
        calls: the aggregate calls.
        types: the types of the input's columns.
        mergeable: panes are merged with each other (several slices make a window).
        counted: rows may be taken back, so panes count their live rows.
    """

    def __init__(
        self,
        keys: Sequence[DataType],
        calls: Sequence[AggregateSpec],
        types: Sequence[DataType],
        mergeable: bool,
        counted: bool,
    ) -> None:
        arrow = [t.arrow for t in keys]
        self._encoder = KeyEncoder(arrow, [t.nullable for t in keys])
        self._index = HashIndex(1 + self._encoder.width)
        self._keys = ColumnStore(arrow)
        self._lists = BlockLists()
        self.aggregates = AggregateSet(calls, types, mergeable)
        self._live = RowCounts() if counted else None
        self._next_seq = 0

    def __len__(self) -> int:
        return len(self._index)

    @property
    def nbytes(self) -> int:
        parts = (self._encoder, self._index, self._keys, self._lists, self.aggregates)
        return sum(p.nbytes for p in parts) + (0 if self._live is None else self._live.values.nbytes)

    def add(
        self, slices: np.ndarray, keys: Sequence[pa.Array], signs: np.ndarray | None, columns: Sequence[pa.Array]
    ) -> None:
        """Takes in rows: `slices` are slice slots, `keys` the key columns, `columns` all columns of the input."""
        words = np.empty((len(slices), self._index.width), np.uint64)
        words[:, 0] = slices
        words[:, 1:] = self._encoder.encode(keys, len(slices))
        panes, is_new = self._index.insert(words)
        fresh = np.flatnonzero(is_new)
        if len(fresh):
            take = pa.array(fresh)
            self._keys.put(panes[fresh], [k.take(take) for k in keys])
            self._lists.append(slices[fresh], panes[fresh])
        seqs = np.arange(self._next_seq, self._next_seq + len(slices), dtype=np.int64)
        self._next_seq += len(slices)
        self.aggregates.update(panes, signs, columns, seqs)
        if self._live is not None:
            self._live.add(panes, signs)

    def panes(self, slices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The panes of slices: `(index into slices, pane)`."""
        return self._lists.probe(slices)

    def key_words(self, panes: np.ndarray) -> np.ndarray:
        """Words that are equal exactly for panes of equal keys."""
        return self._index.keys(panes)[:, 1:]

    def key_columns(self, panes: np.ndarray) -> list[pa.Array]:
        return self._keys.take(panes)

    def live(self, panes: np.ndarray) -> np.ndarray:
        """The number of live rows; at least one where rows are never taken back."""
        return np.ones(len(panes), np.int64) if self._live is None else self._live.at(panes)

    def drop(self, slices: np.ndarray) -> None:
        """Forgets all panes of slices."""
        _, panes = self._lists.probe(slices)
        self._lists.drop_keys(slices)
        self._release(panes)

    def fold_into(self, slices: np.ndarray, bases: np.ndarray) -> None:
        """Merges all panes of each slice into the pane of the same key of its base slice (another one), which then
        stands for both."""
        index, sources = self._lists.probe(slices)
        if len(sources):
            words = self._index.keys(sources).copy()
            words[:, 0] = bases[index]
            targets, is_new = self._index.insert(words)
            fresh = np.flatnonzero(is_new)
            self._keys.put(targets[fresh], self._keys.take(sources[fresh]))
            self._lists.append(bases[index[fresh]], targets[fresh])
            self.aggregates.merge(targets, self.aggregates, sources)
            if self._live is not None:
                self._live.merge(targets, self._live, sources)
            self._lists.drop_keys(slices)
            self._release(sources)

    def _release(self, panes: np.ndarray) -> None:
        if len(panes) == 0:
            return
        self.aggregates.release(panes)
        self._keys.free(panes)
        self._index.remove(panes)
        if self._live is not None:
            self._live.release(panes)
        forget_unused(self._index, self._encoder, leading=1)
