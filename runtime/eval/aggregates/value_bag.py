"""The values of each group, all of them, in order of arrival: what LISTAGG, ARRAY_AGG, COLLECT, FIRST_VALUE with
retraction need."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runtime.kernels.block_lists import BlockLists
from runtime.kernels.columns import ColumnStore, SlotAllocator
from runtime.kernels.grouping import group_ids
from runtime.kernels.grow import grown
from runtime.kernels.hash_index import HashIndex
from runtime.kernels.interned import forget_unused
from runtime.kernels.key_encoding import KeyEncoder
from runtime.kernels.sorted_runs import SortedRuns
from runtime.state.table import OWNER, StateTable

__all__ = ["ValueBag"]


class ValueBag:
    """Rows of values by group slot, each with its arrival number.

    Taking back a value removes the oldest equal one of the group, as Flink's list aggregates do; one that is not
    there is ignored. With `ends` the first and the last row of a group are found without reading the group.
    """

    def __init__(self, types: Sequence[pa.DataType], retract: bool, ends: bool = False) -> None:
        self._types = list(types)
        self._rows = SlotAllocator()
        self._store = ColumnStore(types)
        self._seqs = np.zeros(0, np.int64)
        self._groups = np.zeros(0, np.int64)
        self._lists = BlockLists()
        self._ends = SortedRuns(0) if ends else None
        self._keys = KeyEncoder(types, exact=True) if retract else None
        self._index = HashIndex(1 + self._keys.width) if self._keys is not None else None
        self._equal = BlockLists()
        self._key_of = np.zeros(0, np.int64)
        self._table: StateTable | None = None

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def nbytes(self) -> int:
        always = (self._rows, self._store, self._seqs, self._groups, self._lists, self._equal, self._key_of)
        sometimes = (self._ends, self._keys, self._index)
        return sum(part.nbytes for part in always) + sum(part.nbytes for part in sometimes if part is not None)

    def keep_in(self, name: str, names: Sequence[str], groups: StateTable) -> StateTable:
        """The table of the rows, which belong to the rows of `groups`: the value columns by these names, and
        `$arrival`. Changes are noted in it from now on."""

        def read(rows: np.ndarray) -> list[pa.Array]:
            return [pa.array(self._groups[rows]), *self._store.take(rows), pa.array(self._seqs[rows])]

        def load(columns: list[pa.Array]) -> np.ndarray:
            seqs = columns[-1].to_numpy()
            order = np.argsort(seqs, kind="stable")
            slots, *values, _ = (c.take(pa.array(order)) for c in columns)
            rows = np.empty(len(order), np.int64)
            rows[order] = self._append(slots.to_numpy(), values, seqs[order], self._words(slots.to_numpy(), values))
            return rows

        columns = [(OWNER, pa.int64()), *zip(names, self._types, strict=True), ("$arrival", pa.int64())]
        self._table = StateTable(
            name, columns, live=self._rows.live_slots, read=read, load=load, owner=groups, of=self._lists.probe
        )
        return self._table

    def add(self, slots: np.ndarray, signs: np.ndarray | None, columns: Sequence[pa.Array], seqs: np.ndarray) -> None:
        """Adds the rows with sign +1 and takes back those with -1."""
        if len(slots) == 0:
            return
        words = self._words(slots, columns)
        if signs is None or (signs > 0).all():
            self._append(slots, columns, seqs, words)
            return
        added = signs > 0
        mask = pa.array(added)
        # The oldest equal value goes, so all of the batch may come first.
        if added.any():
            self._append(
                slots[added], [c.filter(mask) for c in columns], seqs[added], None if words is None else words[added]
            )
        if words is not None:
            self._take_back(words[~added])

    def read(self, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """All rows of the groups: `(index into slots, row id)`, by request, then by arrival."""
        index, rows = self._lists.probe(slots)
        seqs = self._seqs[rows]
        if len(rows) > 1 and ((index[1:] == index[:-1]) & (seqs[1:] < seqs[:-1])).any():
            order = np.lexsort((seqs, index))
            index, rows = index[order], rows[order]
        return index, rows

    def end(self, slots: np.ndarray, last: bool) -> np.ndarray:
        """The row id of the first or last row of each group, -1 for an empty one."""
        assert self._ends is not None
        index, rows = self._ends.last(slots, 1) if last else self._ends.first(slots, 1)
        found = np.full(len(slots), -1, np.int64)
        found[index] = rows
        return found

    def column(self, number: int, rows: np.ndarray) -> pa.Array:
        """One column of rows by id; -1 gives NULL."""
        return self._store.take_column(number, rows)

    def seqs(self, rows: np.ndarray) -> np.ndarray:
        """The arrival numbers of rows by id."""
        return self._seqs[rows]

    def counts(self, slots: np.ndarray) -> np.ndarray:
        """The number of rows of each group."""
        return self._lists.counts(slots)

    def release(self, slots: np.ndarray) -> None:
        """Empties groups (each once)."""
        _, rows = self._lists.probe(slots)
        self._remove(rows)

    def merge(self, targets: np.ndarray, other: ValueBag, sources: np.ndarray) -> None:
        """Adds the rows of other's groups `sources` to `targets`."""
        index, rows = other.read(sources)
        if len(rows):
            self.add(targets[index], None, other._store.take(rows), other._seqs[rows])

    def _words(self, slots: np.ndarray, columns: Sequence[pa.Array]) -> np.ndarray | None:
        """What tells equal rows of a group, where rows may be taken back."""
        if self._keys is None:
            return None
        return np.concatenate((slots.view(np.uint64).reshape(-1, 1), self._keys.encode(columns)), axis=1)

    def _append(
        self, slots: np.ndarray, columns: Sequence[pa.Array], seqs: np.ndarray, words: np.ndarray | None
    ) -> np.ndarray:
        """Adds rows; their ids."""
        rows = self._rows.allocate(len(slots))
        high = self._rows.high
        self._seqs, self._groups = grown(self._seqs, high), grown(self._groups, high)
        self._seqs[rows], self._groups[rows] = seqs, slots
        self._store.put(rows, columns)
        self._lists.append(slots, rows)
        if self._ends is not None:
            self._ends.insert(slots, np.empty((len(slots), 0), np.uint64), seqs, rows)
        if self._index is not None and words is not None:
            keys, _ = self._index.insert(words)
            self._key_of = grown(self._key_of, high)
            self._key_of[rows] = keys
            self._equal.append(keys, rows)
        if self._table is not None:
            self._table.wrote(rows)
        return rows

    def _take_back(self, words: np.ndarray) -> None:
        assert self._index is not None
        first, group = group_ids(words)
        keys = self._index.find(words[first])
        wanted = np.bincount(group, minlength=len(first))
        index, rows = self._equal.probe(keys)
        if len(rows) == 0:
            return
        # Groups that were merged do not hold their rows in order of arrival.
        rows = rows[np.lexsort((self._seqs[rows], index))]
        rank = np.arange(len(index)) - np.searchsorted(index, index)
        self._remove(rows[rank < wanted[index]])

    def _remove(self, rows: np.ndarray) -> None:
        if len(rows) == 0:
            return
        self._lists.remove(self._groups[rows], rows)
        if self._ends is not None:
            self._ends.remove(rows)
        if self._index is not None and self._keys is not None:
            keys = self._key_of[rows]
            self._equal.remove(keys, rows)
            touched = np.unique(keys)
            self._index.remove(touched[self._equal.counts(touched) == 0])
            forget_unused(self._index, self._keys, leading=1)
        self._store.free(rows)
        self._rows.free(rows)
        if self._table is not None:
            self._table.freed(rows)
