"""Rows that come and go, stored once with the number of times they are there: what multisets and ordered rows are
made of.

What tells rows apart is the identity:

    APPEND   nothing: every row that comes is a new one; nothing is ever taken back; no index over rows
    FULL     the whole row: `-U` and `-D` take back one equal row
    KEYED    a unique key: a row replaces the one with its key, a delete needs no more than the key
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from runtime.core.changelog import ChangelogBatch, ChangelogMode
from runtime.core.errors import InternalError
from runtime.core.schema import Schema
from runtime.kernels.cancel import consolidate
from runtime.kernels.columns import ColumnStore
from runtime.kernels.grouping import distinct_rows
from runtime.kernels.grow import grown
from runtime.kernels.indexed import add_at
from runtime.kernels.key_encoding import KeyEncoder
from runtime.kernels.slots import SlotAllocator
from runtime.state.held_rows import RowsInPlace
from runtime.state.idle_slots import IdleSlots
from runtime.state.keyed import KeyIndex
from runtime.state.table import StateTable

__all__ = ["Identity", "RowStore", "equal_rows"]


class Identity(enum.Enum):
    """What makes two rows the same row."""

    APPEND = "append"
    FULL = "full"
    KEYED = "keyed"

    @staticmethod
    def of(mode: ChangelogMode, unique: tuple[int, ...] | None) -> Identity:
        """The identity for an input of this changelog mode that has this unique key, if any.

        Raises:
            InternalError: an upsert stream without a unique key.
        """
        if mode.is_append_only:
            return Identity.APPEND
        if unique is not None:
            return Identity.KEYED
        if mode.is_upsert or mode.key_only_deletes:
            raise InternalError("rows of an upsert stream are to be kept, but no unique key of it is known")
        return Identity.FULL


class RowStore:
    """Rows with their counts, each under a key (a slot of a `KeyIndex`). Base of `RowMultiset` and `OrderedRows`.

    An epoch is `apply` (counts and lists are those after the epoch; what changed can be told by `delta`), any number
    of reads, then `settle`. Rows that are gone can still be read until then.

    Public arrays, by row slot: `count` (how often the row is there now), `delta` (how much of it this epoch added),
    `key` (its key slot, -1 for a row in no bag). By key slot, when `totals` are kept: `total` and `total_delta`, sums
    of the same over the bag.

    Args:
        schema: the rows.
        identity: what tells rows apart; `unique` holds the positions of the unique key for KEYED.
        totals: keep sums by key slot.
        images: for KEYED: deletes carry whole rows (a retract stream), so that they take back no other row of the key.
        plain: for APPEND: rows only come and are read; no counts are kept, none is ever taken away.
    """

    def __init__(
        self,
        schema: Schema,
        identity: Identity,
        unique: Sequence[int] = (),
        *,
        totals: bool = False,
        images: bool = False,
        plain: bool = False,
    ) -> None:
        types = [f.type.arrow for f in schema]
        self.identity = identity
        self.count = np.empty(0, np.int64)
        self.delta = np.empty(0, np.int64)
        self.key = np.empty(0, np.int64)
        self.total = np.empty(0, np.int64)
        self.total_delta = np.empty(0, np.int64)
        self._totals = totals
        self._images = images
        self._plain = plain and identity is Identity.APPEND
        self._store = ColumnStore(types)
        self._slots = SlotAllocator()
        self._unique = tuple(unique)
        self._index: KeyIndex | None = None
        if identity is Identity.FULL:
            self._index = KeyIndex(types, exact=True)
        elif identity is Identity.KEYED:
            self._index = KeyIndex.of(schema, self._unique)
        self.replaced: tuple[np.ndarray, np.ndarray] | None = None
        self.table: StateTable | None = None
        """Where changes are noted so that they can be saved: see `row_table`."""
        self._row_of = np.empty(0, np.int64)
        self._written = IdleSlots(0)

    @property
    def rows(self) -> int:
        """The number of stored rows, equal ones counted once."""
        return len(self._index) if self._index is not None else len(self._slots)

    @property
    def capacity(self) -> int:
        """The exclusive bound of row slots."""
        return len(self.count)

    @property
    def nbytes(self) -> int:
        arrays = (self.count, self.delta, self.key, self.total, self.total_delta, self._row_of)
        index = 0 if self._index is None else self._index.nbytes
        return self._store.nbytes + self._slots.nbytes + index + sum(a.nbytes for a in arrays)

    def apply(self, batch: ChangelogBatch, keys: np.ndarray) -> np.ndarray:
        """Takes in the changes of an epoch; `keys` are their key slots. Returns the row slots whose count changed.

        Deletes of rows that are not there are ignored.

        Raises:
            InternalError: a change other than `+I` for an APPEND multiset.
        """
        if self.identity is Identity.FULL:
            changed = self._apply_full(batch, keys)
        elif self.identity is Identity.KEYED:
            changed = self._apply_keyed(batch, keys)
        elif batch.kinds is not None:
            raise InternalError("an update came from an input that promised inserts only")
        else:
            changed = self._add(self._slots.allocate(len(batch)), batch.columns, keys)
        if self.table is not None:
            self.table.wrote(changed)
        return changed

    def restore(self, columns: Sequence[pa.Array], keys: np.ndarray, counts: np.ndarray | None) -> np.ndarray:
        """Puts back rows that are not there, in order of arrival, with their key slots and counts (None: once each);
        returns their slots. No change of an epoch: `delta` stays 0."""
        count = len(columns[0]) if columns else len(keys)
        if self.identity is Identity.FULL:
            assert self._index is not None
            slots, _ = self._index.insert(columns, count)
        else:
            slots = self._slots.allocate(count)
        if self._plain:
            self._store.put(slots, columns)
            self._link(slots, columns, keys)
            return slots
        self._grow(int(slots.max(initial=-1)) + 1)
        if self.identity is Identity.KEYED:
            assert self._index is not None
            owners, _ = self._index.insert([columns[p] for p in self._unique], count)
            self._row_of = grown(self._row_of, self._index.capacity, -1)
            self._row_of[owners] = slots
        self._put(slots, columns, keys)
        self._change(slots, np.ones(count, np.int64) if counts is None else counts)
        self.delta[slots] = 0
        if self._totals:
            self.total_delta[keys[keys >= 0]] = 0
        return slots

    def live_slots(self) -> np.ndarray:
        """The slots of all rows, ascending. Costs as much as there are rows."""
        if self.identity is Identity.FULL and self._index is not None:
            return self._index.live_slots()
        return self._slots.live_slots()

    @property
    def plain(self) -> bool:
        """Whether no counts are kept."""
        return self._plain

    def keys_left(self, batch: ChangelogBatch) -> np.ndarray:
        """The key slots, with repeats, of rows that a batch may replace or delete without naming them: an after-image
        tells where its row goes, not from where. Empty where changes carry old images."""
        if self.identity is not Identity.KEYED or self._images or self._index is None:
            return np.empty(0, np.int64)
        return self.key[self.rows_of(batch)]

    def rows_of(self, batch: ChangelogBatch) -> np.ndarray:
        """The row slots that hold the unique keys of a batch now, with repeats; for KEYED."""
        assert self._index is not None
        owners = self._index.find([batch.column(p) for p in self._unique], len(batch))
        rows = self._row_of[owners[owners >= 0]]
        return rows[rows >= 0]

    @property
    def unique_index(self) -> KeyIndex:
        """The index of the unique keys; for KEYED."""
        assert self._index is not None
        return self._index

    def rows_at(self, unique: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The rows of unique keys, given by their slots in `unique_index`: `(index, row slots)`; for KEYED."""
        return np.arange(len(unique), dtype=np.int64), self._row_of[unique]

    def take_away(self, slots: np.ndarray) -> np.ndarray:
        """Removes live rows whatever their count, as a change of the epoch; returns the slots."""
        self._change(slots, -self.count[slots])
        if self.identity is Identity.KEYED and self._index is not None:
            owners = self._index.find([self._store.take_column(p, slots) for p in self._unique], len(slots))
            self._row_of[owners] = -1
            self._index.remove(owners)
        return slots

    def settle(self, changed: np.ndarray) -> np.ndarray:
        """Ends the epoch of these changed rows: frees the rows that are gone. Returns the keys that lost a row (with
        repeats)."""
        if self._plain:
            return np.empty(0, np.int64)
        self.delta[changed] = 0
        self.replaced = None
        if self._totals:
            keys = self.key[changed]
            self.total_delta[keys[keys >= 0]] = 0
        gone = changed[self.count[changed] == 0]
        if not len(gone):
            return gone
        if self.table is not None:
            self.table.freed(gone)
        self._release(gone)
        self._store.free(gone)
        if self.identity is Identity.FULL and self._index is not None:
            self._index.remove(gone)
        else:
            self._slots.free(gone)
        keys = self.key[gone]
        return keys[keys >= 0]

    def take(self, slots: np.ndarray, *, wide: bool = False) -> list[pa.Array]:
        """The rows at the slots, a column each; -1 gives NULLs. `wide` as in `ColumnStore`."""
        return self._store.take(slots, wide=wide)

    def reading_order(self, slots: np.ndarray) -> np.ndarray:
        """The slots in the order in which `take` is fastest."""
        return self._store.reading_order(slots)

    def in_place(self, rest: Callable[[np.ndarray], Sequence[pa.Array]]) -> RowsInPlace | None:
        """Where rows can be read while the job goes on, `rest` beside them; None for FULL, whose index gives the slots of
        rows that are gone to others at once."""
        return None if self.identity is Identity.FULL else RowsInPlace(self._store, self._slots, rest)

    def take_column(self, position: int, slots: np.ndarray) -> pa.Array:
        return self._store.take_column(position, slots)

    def totals(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """How many rows (repeats counted) each key has now, and how many this epoch added; 0 for key -1."""
        if not len(self.total):
            zeros = np.zeros(len(keys), np.int64)
            return zeros, zeros
        known = (keys >= 0) & (keys < len(self.total))
        safe = np.where(known, keys, 0)
        return np.where(known, self.total[safe], 0), np.where(known, self.total_delta[safe], 0)

    def write_times(self, slots: np.ndarray, now: int) -> None:
        """Notes that rows were written at a time that never goes back, for `expired`."""
        live = slots[self.count[slots] > 0]
        self._written.touch(live, now)
        if self.table is not None:
            self.table.wrote(live)

    def times_written(self, slots: np.ndarray) -> pa.Array:
        """When live rows were last written, int64; NULL where that is not known."""
        return self._written.times(slots)

    def restore_times(self, slots: np.ndarray, times: pa.Array) -> None:
        """Notes when restored rows were last written. Where that is NULL (state that was saved while nothing expired)
        they do not expire until they are written."""
        self._written.restore(slots, times)

    def expired(self, before: int) -> np.ndarray:
        """The live rows last written before a time, each once; they are not noted any more. Cost follows what was
        written then."""
        slots = self._written.expired(before)
        return slots[self.count[slots] > 0]

    def _link(self, slots: np.ndarray, columns: Sequence[pa.Array], keys: np.ndarray) -> None:
        """New rows are there, with these columns."""

    def _vanish(self, slots: np.ndarray) -> None:
        """The count of these rows has become 0."""

    def _release(self, slots: np.ndarray) -> None:
        """These rows are about to be freed."""

    def _apply_full(self, batch: ChangelogBatch, keys: np.ndarray) -> np.ndarray:
        assert self._index is not None
        slots, is_new = self._index.insert(batch.columns)
        self._grow(self._index.capacity)
        add_at(self.delta, slots, batch.signs())
        first = distinct_rows(slots)
        touched, fresh = slots[first], is_new[first]
        old = np.where(fresh, 0, self.count[touched])
        net = np.maximum(self.delta[touched], -old)
        self.delta[touched] = 0
        vanished = fresh & (net == 0)
        if vanished.any():
            self._index.remove(touched[vanished])
        added = fresh & ~vanished
        rows = first[added]
        self._put(touched[added], batch.rows.take(pa.array(rows)).columns, keys[rows])
        changed = net != 0
        self._change(touched[changed], net[changed])
        return touched[changed]

    def _apply_keyed(self, batch: ChangelogBatch, keys: np.ndarray) -> np.ndarray:
        assert self._index is not None
        owners, is_new = self._index.insert([batch.column(p) for p in self._unique], len(batch))
        self._row_of = grown(self._row_of, self._index.capacity, -1)
        self._row_of[owners[is_new]] = -1
        last = distinct_rows(owners, last=True)
        owner = owners[last]
        old = self._row_of[owner]
        signs = batch.signs()
        stays = signs[last] > 0
        if self._images and not stays.all():
            cancelled = self._look_past_deletes(batch, owners, owner, last, stays)
            old = np.where(cancelled & (old >= 0), -2, old)
        both = np.flatnonzero(stays & (old >= 0))
        if len(both):
            given = batch.rows.take(pa.array(last[both])).columns
            same = both[equal_rows(self._store.take(old[both]), given)]
            stays[same] = False
            old = old.copy()
            old[same] = -2
        removed = old[old >= 0]
        updated = stays & (old >= 0)
        dropped = owner[~stays & (old > -2)]
        added = np.flatnonzero(stays)
        rows = last[added]
        slots = self._slots.allocate(len(added))
        self._row_of[owner[added]] = slots
        if updated.any():
            self.replaced = old[updated], self._row_of[owner[updated]]
        self._row_of[dropped] = -1
        self._index.remove(dropped)
        self._grow(self._slots.high)
        self._put(slots, batch.rows.take(pa.array(rows)).columns, keys[rows])
        changed = np.concatenate((removed, slots))
        self._change(changed, np.repeat(np.array([-1, 1], np.int64), [len(removed), len(slots)]))
        return changed

    def _look_past_deletes(
        self, batch: ChangelogBatch, owners: np.ndarray, owner: np.ndarray, last: np.ndarray, stays: np.ndarray
    ) -> np.ndarray:
        """Corrects the last change of keys whose last change is a delete of some other row than the one that has come.
        Returns which of `owner` have changes that cancel, bool: what was there before them is there after them.

        A stream in order by one key need not be in order by another: if rows 1 and 2 swap a value that is unique, too,
        then by that value the new row comes before the old one goes. Full images tell them apart.
        """
        signs = batch.signs()
        doubtful = owner[~stays]
        doubtful = doubtful[np.isin(doubtful, owners[signs > 0])]
        if not len(doubtful):
            return np.zeros(len(owner), np.bool_)
        rows = np.flatnonzero(np.isin(owners, doubtful))
        words = KeyEncoder(self._store.types, exact=True).encode(batch.rows.take(pa.array(rows)).columns)
        keep, net = consolidate(words, signs[rows])
        kept = rows[keep[net > 0]]
        by_owner = np.argsort(owner)
        place = by_owner[np.searchsorted(owner, owners[kept], sorter=by_owner)]
        last[place] = kept
        stays[place] = True
        return np.isin(owner, np.setdiff1d(doubtful, owners[rows[keep[net != 0]]]))

    def _add(self, slots: np.ndarray, columns: Sequence[pa.Array], keys: np.ndarray) -> np.ndarray:
        if self._plain:
            self._store.put(slots, columns)
            self._link(slots, columns, keys)
            return slots
        self._grow(self._slots.high)
        self._put(slots, columns, keys)
        self._change(slots, np.ones(len(slots), np.int64))
        return slots

    def _put(self, slots: np.ndarray, columns: Sequence[pa.Array], keys: np.ndarray) -> None:
        """Stores new rows, so far not there at all, under their keys."""
        if not len(slots):
            return
        self._store.put(slots, columns)
        self.count[slots] = 0
        self.delta[slots] = 0
        self.key[slots] = keys
        self._link(slots, columns, keys)

    def _change(self, slots: np.ndarray, net: np.ndarray) -> None:
        count = self.count[slots] + net
        self.count[slots] = count
        self.delta[slots] += net
        gone = slots[count == 0]
        if len(gone):
            self._vanish(gone)
        if not self._totals or len(slots) == 0:
            return
        keys = self.key[slots]
        high = int(keys.max()) + 1
        self.total = grown(self.total, high)
        self.total_delta = grown(self.total_delta, high)
        if (keys < 0).any():
            keys, net = keys[keys >= 0], net[keys >= 0]
        add_at(self.total, keys, net)
        add_at(self.total_delta, keys, net)

    def _grow(self, size: int) -> None:
        self.count = grown(self.count, size)
        self.delta = grown(self.delta, size)
        self.key = grown(self.key, size, -1)


def equal_rows(left: Sequence[pa.Array], right: Sequence[pa.Array]) -> np.ndarray:
    """Row by row, whether all columns are the same (NULL is NULL, NaN is NaN, -0.0 is not 0.0), bool (n,). Any column
    types."""
    same = np.ones(len(left[0]), np.bool_)
    for ours, theirs in zip(left, right, strict=True):
        words = KeyEncoder([ours.type], exact=True).encode([pa.concat_arrays([ours, theirs])])
        same &= (words[: len(ours)] == words[len(ours) :]).all(axis=1)
    return same
