"""DISTINCT: which values a group holds, and which of them appear or vanish with a batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runtime.kernels.block_lists import BlockLists
from runtime.kernels.grouping import distinct_rows
from runtime.kernels.grow import grown
from runtime.kernels.hash_index import HashIndex
from runtime.kernels.indexed import add_at, mark_at, put_at
from runtime.kernels.interned import forget_unused
from runtime.kernels.key_encoding import KeyEncoder
from runtime.state.table import OWNER, StateTable

__all__ = ["DistinctValues"]


class DistinctValues:
    """The different argument values of each group; calls with the same arguments share the index, each has its own
    view of which values its FILTER lets through.

    Args:
        types: the Arrow types of the arguments.
        calls: how many calls share them.
        mergeable: keep when each value arrived, so that groups can be merged.
        retract: values may be taken back, so that they are counted; else it is enough to know that they were there.
    """

    def __init__(self, types: Sequence[pa.DataType], calls: int, mergeable: bool, retract: bool = True) -> None:
        self._types = list(types)
        self._mergeable = mergeable
        self._keys = KeyEncoder(types)
        self._index = HashIndex(1 + self._keys.width)
        self._present = _Counted(calls) if retract else _Seen(calls)
        # Made when groups are first read or released: groups that only grow never need it.
        self._lists: BlockLists | None = None
        self._groups = np.zeros(0, np.int64)
        self._seqs = np.zeros(0, np.int64)
        self._table: StateTable | None = None

    @property
    def nbytes(self) -> int:
        parts = (self._present, self._keys, self._index, self._lists, self._groups, self._seqs)
        return sum(part.nbytes for part in parts if part is not None)

    def change(
        self,
        slots: np.ndarray,
        columns: Sequence[pa.Array],
        seqs: np.ndarray,
        weights: Sequence[np.ndarray],
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Takes in rows; `weights` holds per call +n or -n for each row (0: not for this call), where nothing is taken
        back True or False.

        Returns per call `(rows, signs)`: +1 where a value appears in the row's group, -1 where it vanishes; one row
        stands for its value.
        """
        entries, new_rows = self._enter(slots, columns, seqs)
        changes, gone = self._present.change(entries, entries[new_rows], weights)
        if self._table is not None:
            # Counts change with every row, what was seen only where a value appears.
            written = [entries] if self._present.counts else [entries[rows] for rows, _ in changes]
            for some in written:
                self._table.wrote(some)
        self._forget(gone)
        return changes

    def entries(self, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The values of the groups: `(index into slots, entry)`."""
        return self._by_group().probe(slots)

    def values(self, entries: np.ndarray) -> tuple[list[pa.Array], np.ndarray, list[np.ndarray]]:
        """The argument columns, arrival numbers and weights per call of entries (only when mergeable)."""
        return self._values(entries), self._seqs[entries], self._present.at(entries)

    def release(self, slots: np.ndarray) -> None:
        self._forget(self._by_group().probe(slots)[1])

    def keep_in(self, name: str, calls: Sequence[str], groups: StateTable) -> StateTable:
        """The table of the values, which belong to the rows of `groups`: the argument columns, then for each call how
        often the value is there for it (or whether), then `$arrival` when mergeable. Changes are noted in it from now
        on."""
        width = len(self._types)
        names = ["value"] if width == 1 else [f"value {number + 1}" for number in range(width)]

        def read(entries: np.ndarray) -> list[pa.Array]:
            present = [pa.array(p) for p in self._present.at(entries)]
            arrivals = [pa.array(self._seqs[entries])] if self._mergeable else []
            return [pa.array(self._groups[entries]), *self._values(entries), *present, *arrivals]

        def load(columns: list[pa.Array]) -> np.ndarray:
            slots = columns[0].to_numpy()
            seqs = columns[-1].to_numpy() if self._mergeable else slots
            entries, _ = self._enter(slots, columns[1 : 1 + width], seqs)
            self._present.put(entries, columns[1 + width : 1 + width + len(calls)])
            return entries

        columns = [
            (OWNER, pa.int64()),
            *zip(names, self._types, strict=True),
            *((call, pa.int64() if self._present.counts else pa.bool_()) for call in calls),
            *([("$arrival", pa.int64())] if self._mergeable else []),
        ]
        self._table = StateTable(
            name, columns, live=self._index.live_slots, read=read, load=load, owner=groups, of=self.entries
        )
        return self._table

    def _enter(self, slots: np.ndarray, columns: Sequence[pa.Array], seqs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The entry of each row, made where it is new; and the rows of those that are."""
        words = np.concatenate((slots.view(np.uint64).reshape(-1, 1), self._keys.encode(columns)), axis=1)
        entries, is_new = self._index.insert(words)
        high = self._index.capacity
        self._present.grow(high)
        self._groups = grown(self._groups, high)
        new_rows = np.flatnonzero(is_new)
        fresh = entries[new_rows]
        if len(fresh):
            put_at(self._groups, fresh, slots[new_rows])
            if self._lists is not None:
                self._lists.append(slots[new_rows], fresh)
            if self._mergeable:
                self._seqs = grown(self._seqs, high)
                self._seqs[fresh] = seqs[new_rows]
        return entries, new_rows

    def _values(self, entries: np.ndarray) -> list[pa.Array]:
        return self._keys.decode(np.ascontiguousarray(self._index.keys(entries)[:, 1:]))

    def _by_group(self) -> BlockLists:
        if self._lists is None:
            self._lists = BlockLists()
            live = self._index.live_slots()
            self._lists.append(self._groups[live], live)
        return self._lists

    def _forget(self, entries: np.ndarray) -> None:
        if len(entries) == 0:
            return
        if self._lists is not None:
            self._lists.remove(self._groups[entries], entries)
        self._index.remove(entries)
        forget_unused(self._index, self._keys, leading=1)
        self._present.clear(entries)
        if self._table is not None:
            self._table.freed(entries)


class _Counted:
    """How often each entry is there for each call."""

    counts = True

    def __init__(self, calls: int) -> None:
        self._counts = [np.zeros(0, np.int64) for _ in range(calls)]

    @property
    def nbytes(self) -> int:
        return sum(c.nbytes for c in self._counts)

    def grow(self, high: int) -> None:
        self._counts = [grown(c, high) for c in self._counts]

    def change(
        self,
        entries: np.ndarray,
        fresh: np.ndarray,
        weights: Sequence[np.ndarray],
    ) -> tuple[list[tuple[np.ndarray, np.ndarray]], np.ndarray]:
        """Per call the rows whose value came or went; and the entries that are there for no call any more."""
        first = distinct_rows(entries)
        touched = entries[first]
        changes = [
            _turn(counts, entries, first, touched, weight) for counts, weight in zip(self._counts, weights, strict=True)
        ]
        return changes, touched[np.all([counts[touched] <= 0 for counts in self._counts], axis=0)]

    def at(self, entries: np.ndarray) -> list[np.ndarray]:
        return [c[entries] for c in self._counts]

    def put(self, entries: np.ndarray, counts: Sequence[pa.Array]) -> None:
        """Sets the counts of each call."""
        for mine, given in zip(self._counts, counts, strict=True):
            mine[entries] = given.fill_null(0).to_numpy()

    def clear(self, entries: np.ndarray) -> None:
        for counts in self._counts:
            counts[entries] = 0


class _Seen:
    """Whether each entry has been there for each call: where nothing is taken back, most rows end at one look."""

    counts = False

    def __init__(self, calls: int) -> None:
        self._seen = [np.zeros(0, np.bool_) for _ in range(calls)]

    @property
    def nbytes(self) -> int:
        return sum(s.nbytes for s in self._seen)

    def grow(self, high: int) -> None:
        self._seen = [grown(s, high, False) for s in self._seen]

    def change(
        self,
        entries: np.ndarray,
        fresh: np.ndarray,
        weights: Sequence[np.ndarray],
    ) -> tuple[list[tuple[np.ndarray, np.ndarray]], np.ndarray]:
        changes: list[tuple[np.ndarray, np.ndarray]] = []
        for seen, chosen in zip(self._seen, weights, strict=True):
            rows = mark_at(seen, entries, chosen)
            changes.append((rows, np.ones(len(rows), np.int8)))
        return changes, fresh[~np.any([seen[fresh] for seen in self._seen], axis=0)]

    def at(self, entries: np.ndarray) -> list[np.ndarray]:
        return [s[entries] for s in self._seen]

    def put(self, entries: np.ndarray, seen: Sequence[pa.Array]) -> None:
        """Sets for each call what it has seen."""
        for mine, given in zip(self._seen, seen, strict=True):
            mine[entries] = given.fill_null(False).to_numpy(zero_copy_only=False)

    def clear(self, entries: np.ndarray) -> None:
        for seen in self._seen:
            seen[entries] = False


def _turn(
    counts: np.ndarray,
    entries: np.ndarray,
    first: np.ndarray,
    touched: np.ndarray,
    weight: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Adds the weights; the rows whose value came to the call or left it."""
    before = counts[touched] > 0
    add_at(counts, entries, weight)
    after = counts[touched] > 0
    turned = before != after
    rows = first[turned]
    if (weight[rows] == 0).any():
        # The first row of the value is not one of this call's: take the first that is, for its place in the order of
        # arrival.
        mine = np.flatnonzero(weight)
        own = mine[distinct_rows(entries[mine])]
        place = np.empty(int(entries.max()) + 1, np.int64)
        place[entries[own]] = own
        rows = place[touched[turned]]
    signs = np.where(after[turned], 1, -1).astype(np.int8)
    order = np.argsort(rows)
    return rows[order], signs[order]
