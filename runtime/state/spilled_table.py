"""One table of which some rows are in the operator's structures and the others in a store, by key.

A row has no lasting place in the structures: it leaves them, and comes back at another slot. So rows that have left,
or have been saved, have a number of their own, dense, which goes with them: it is the `SLOT` under which they are saved,
and what rows that belong to them refer to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from runtime.kernels.grow import grown
from runtime.kernels.slots import SlotAllocator
from runtime.state.deadlines import NO_DEADLINE, earliest
from runtime.state.key_bytes import KeyBytes
from runtime.state.keyed import KeyIndex
from runtime.state.rocksdb import RocksStore
from runtime.state.row_codec import RowCodec
from runtime.state.table import SLOT, TOUCHED, WRITTEN, StateTable, TableChanges

__all__ = ["SpilledTable"]


class SpilledTable:
    """Takes over the noting and saving of a state table.

    Args:
        table: must know the rows `of` a key.
        owner: the same for the table's owner.
        store: where rows go.
        keys: how keys are written.
        is_hot: whether the rows of each key (columns) are in the structures now: then what the store has of it is old.
    """

    def __init__(
        self,
        table: StateTable,
        owner: SpilledTable | None,
        store: RocksStore,
        keys: KeyBytes,
        is_hot: Callable[[list[pa.Array]], np.ndarray],
    ) -> None:
        self._table = table
        self._owner = owner
        self._store = store
        self._keys = keys
        self._is_hot = is_hot
        self._codec = RowCodec([pa.int64(), *table.schema.types])
        self._numbers = SlotAllocator()
        self._number_of = np.empty(0, np.int64)
        self._came = (np.empty(0, np.int64), np.empty(0, np.int64))
        last_use = [i for i, name in enumerate(table.schema.names) if name in (TOUCHED, WRITTEN)]
        self._last_use = last_use[0] if last_use and table.ttl else None
        self._muted = False
        # Since the last save: which slots were written, what was written and has left since, which numbers are gone.
        self._dirty: np.ndarray | None = None
        self._left: list[pa.RecordBatch] = []
        self._gone: list[np.ndarray] = []
        self.rows = 0
        """How many rows are in the store, old ones not counted."""
        self.bytes = 0
        table.outside = self

    @property
    def name(self) -> str:
        return self._table.name

    @property
    def owner(self) -> SpilledTable | None:
        return self._owner

    @property
    def nbytes(self) -> int:
        """Of what is kept in memory beside the rows."""
        return self._number_of.nbytes + self._numbers.nbytes + sum(batch.nbytes for batch in self._left)

    def mute(self, muted: bool) -> None:
        """While muted, what the operator notes is no change: rows go to the store, or come from it."""
        self._muted = muted

    def wrote(self, slots: np.ndarray) -> None:
        if self._dirty is not None and not self._muted and len(slots):
            self._dirty = grown(self._dirty, int(slots.max()) + 1, False)
            self._dirty[slots] = True

    def freed(self, slots: np.ndarray) -> None:
        if self._muted or not len(slots):
            return
        if self._dirty is not None:
            self._dirty[slots[slots < len(self._dirty)]] = False
        slots = slots[slots < len(self._number_of)]
        numbers = self._number_of[slots]
        self._number_of[slots] = -1
        self._retire(numbers[numbers >= 0])

    def rows_of(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The row slots of keys, by key: `(index, slots)`."""
        assert self._table.of is not None
        if self._owner is None:
            index, slots = self._table.of(keys)
        else:
            owners, owner_slots = self._owner.rows_of(keys)
            index, slots = self._table.of(owner_slots)
            index = owners[index]
        if len(index) > 1 and (index[1:] < index[:-1]).any():
            order = np.argsort(index, kind="stable")
            index, slots = index[order], slots[order]
        return index, slots

    def send_away(self, slots: np.ndarray, counts: np.ndarray, keys: pa.Array) -> np.ndarray:
        """Writes rows to the store, `counts` of them for each key, none for some; returns when the first row of each key
        expires (`NO_DEADLINE` for never).

        The caller then drops them from the structures, with all tables muted. Rows that belong to others go before
        their owners.
        """
        numbers = self._number(slots)
        columns = self._columns(slots)
        present = counts > 0
        values = self._codec.encode([pa.array(numbers), *columns], counts[present])
        self._store.put(self.name, keys if present.all() else keys.filter(pa.array(present)), values)
        self.rows += len(slots)
        self.bytes += values.nbytes
        if self._dirty is not None and len(slots):
            self._dirty = grown(self._dirty, int(slots.max()) + 1, False)
            dirty = self._dirty[slots]
            if dirty.any():
                self._left.append(self._table.saved_rows(numbers, columns).filter(pa.array(dirty)))
                self._dirty[slots] = False
        self._number_of[slots] = -1
        return self._deadlines(columns, counts)

    def fetch(self, keys: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """Reads the rows of keys from the store into the structures; returns which keys had any, and what `send_away`
        had returned for them. Owners are fetched before what belongs to them."""
        deadlines = np.full(len(keys), NO_DEADLINE)
        values = self._store.get(self.name, keys)
        found = values.is_valid().to_numpy(zero_copy_only=False)
        if not found.any():
            self._came = np.empty(0, np.int64), np.empty(0, np.int64)
            return found, deadlines
        if not found.all():
            values = values.drop_null()
        (ids, *columns), counts = self._codec.decode(values)
        numbers = ids.to_numpy()
        deadlines[found] = self._deadlines(columns, counts)
        self.rows -= len(numbers)
        self.bytes -= values.nbytes
        if self._owner is not None:
            columns[0] = pa.array(self._owner.where_came(columns[0].to_numpy()))
        slots = self._table.load(columns)
        kept = slots >= 0
        if not kept.all():
            self._retire(numbers[~kept])
            numbers, slots = numbers[kept], slots[kept]
        if len(slots):
            self._number_of = grown(self._number_of, int(slots.max()) + 1, -1)
            self._number_of[slots] = numbers
        order = np.argsort(numbers)
        self._came = numbers[order], slots[order]
        return found, deadlines

    def look(self, hot: np.ndarray, cold: pa.Array) -> tuple[np.ndarray, list[pa.Array]]:
        """The rows of keys, which stay where they are: of those in the structures, by their slots, and of others, by how
        they are written. Gives for each row which key it is of (first come the hot ones), and the columns but that of the
        owner."""
        index, slots = self.rows_of(hot)
        parts = [list(self._table.read(slots))]
        of_keys = [index]
        values = self._store.get(self.name, cold)
        found = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
        if len(found):
            (_, *columns), counts = self._codec.decode(values.take(pa.array(found)))
            parts.append(columns)
            of_keys.append(len(hot) + np.repeat(found, counts))
        first = 0 if self._owner is None else 1
        types = self._table.schema.types[first:]
        columns = [
            pa.concat_arrays([c if c.type == t else c.cast(t) for c in several])
            for t, *several in zip(types, *(part[first:] for part in parts), strict=True)
        ]
        return np.concatenate(of_keys), columns

    def without_key(self, nullable: Sequence[bool], keys: Sequence[pa.Array]) -> tuple[np.ndarray, list[pa.Array]]:
        """The rows that have no key, because of a NULL, and never leave the structures: those that have in its columns what
        each of `keys` has, with the position of that, and their columns. Costs as much as the structures hold."""
        table = self._table
        columns = list(table.read(table.live()))
        own = [columns[table.schema.get_field_index(name)] for name in table.key]
        parts = zip(own, nullable, strict=True)
        nulls = [np.asarray(key.is_null()) for key, may in parts if not may]
        rows = np.flatnonzero(np.logical_or.reduce(nulls)) if nulls else np.empty(0, np.int64)
        asked = KeyIndex([key.type for key in own])
        numbers, _ = asked.insert([k.cast(c.type) for k, c in zip(keys, own, strict=True)], len(keys[0]))
        position = np.empty(asked.capacity, np.int64)
        position[numbers] = np.arange(len(numbers))
        found = asked.find([key.take(pa.array(rows)) for key in own], len(rows))
        rows = rows[found >= 0]
        return position[found[found >= 0]], [column.take(pa.array(rows)) for column in columns]

    def where_came(self, numbers: np.ndarray) -> np.ndarray:
        """The slots of rows that the last `fetch` brought."""
        known, slots = self._came
        return slots[np.searchsorted(known, numbers)]

    def forget(self, keys: pa.Array) -> None:
        """What the store has of these keys is old."""
        self._store.delete(self.name, keys)

    def contents(self) -> pa.RecordBatch:
        """All rows, wherever they are."""
        hot = self._table.live()
        parts = [self._table.saved_rows(self._number(hot), self._columns(hot))]
        for keys, values in self._store.scan(self.name):
            cold = ~self._is_hot(self._keys.decode(keys))
            if cold.any():
                (ids, *columns), _ = self._codec.decode(values.filter(pa.array(cold)))
                parts.append(self._table.saved_rows(ids, columns))
        return _joined(parts)

    def changes(self, complete: bool) -> TableChanges:
        """See `StateTable.changes`."""
        if self._dirty is None or complete:
            rows, removed, complete = self.contents(), np.empty(0, np.int64), True
        else:
            slots = np.flatnonzero(self._dirty)
            hot = self._table.saved_rows(self._number(slots), self._columns(slots))
            removed = np.concatenate([np.empty(0, np.int64), *self._gone])
            rows = _last_of_each(_joined([*self._left, hot]), removed)
        for numbers in self._gone:
            self._numbers.free(numbers)
        self._gone.clear()
        self._left.clear()
        self._dirty = np.zeros(0 if self._dirty is None else len(self._dirty), np.bool_)
        return TableChanges(self.name, rows, removed, complete)

    def _number(self, slots: np.ndarray) -> np.ndarray:
        """The numbers of rows in the structures, which may repeat; those without get one."""
        if len(slots):
            self._number_of = grown(self._number_of, int(slots.max()) + 1, -1)
        numbers = self._number_of[slots]
        new = slots[numbers < 0]
        if len(new):
            # Of several assignments to one place the last stays: so each slot is taken once.
            place = np.arange(len(new))
            self._number_of[new] = place
            new = new[self._number_of[new] == place]
            self._number_of[new] = self._numbers.allocate(len(new))
            numbers = self._number_of[slots]
        return numbers

    def _columns(self, slots: np.ndarray) -> list[pa.Array]:
        """The columns of rows in the structures, owners by their number."""
        columns = list(self._table.read(slots))
        if self._owner is not None:
            columns[0] = pa.array(self._owner._number(columns[0].to_numpy()))
        return columns

    def _deadlines(self, columns: list[pa.Array], counts: np.ndarray) -> np.ndarray:
        """When the first row of each key expires, of rows by key."""
        if self._last_use is None:
            return np.full(len(counts), NO_DEADLINE)
        times = columns[self._last_use]
        known = times.is_valid().to_numpy(zero_copy_only=False)
        return earliest(np.where(known, times.fill_null(0).to_numpy() + self._table.ttl, NO_DEADLINE), counts)

    def _retire(self, numbers: np.ndarray) -> None:
        if not len(numbers):
            return
        if self._dirty is None:
            self._numbers.free(numbers)
        else:
            # No other row may have the number before the next save has told that this one is gone.
            self._gone.append(numbers)


def _joined(parts: list[pa.RecordBatch]) -> pa.RecordBatch:
    filled = [part for part in parts if part.num_rows]
    if len(filled) <= 1:
        return filled[0] if filled else parts[0]
    return pa.Table.from_batches(filled).combine_chunks().to_batches()[0]


def _last_of_each(rows: pa.RecordBatch, removed: np.ndarray) -> pa.RecordBatch:
    """The last row of each number, without those that are gone."""
    numbers = rows.column(SLOT).to_numpy()
    if not len(numbers):
        return rows
    last = np.full(max(int(numbers.max()), int(removed.max(initial=-1))) + 1, -1, np.int64)
    last[numbers] = np.arange(len(numbers))
    last[removed] = -1
    keep = last[numbers] == np.arange(len(numbers))
    return rows if keep.all() else rows.filter(pa.array(keep))
