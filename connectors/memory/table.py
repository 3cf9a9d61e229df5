"""A table in memory: contents that can be read at once, and the changes to them as a stream.

It is what a table without a connector is, and what keeps the answer of a materialized view. Readers that follow it get
the contents first and then every published step of changes, each step as one epoch. Who reads it once takes a version
(`connectors/memory/rows.py`), which no change touches. The changes of an open epoch are its session's alone until it ends
(`connectors/memory/open_changes.py`).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from connectors.memory.column_files import ColumnFiles, filed, in_memory
from connectors.memory.difference import difference
from connectors.memory.history import every_change, in_pieces, inverse
from connectors.memory.reader import MemoryReader, VersionedRows
from connectors.memory.rows import RowStore, TableParts, TableVersion
from connectors.memory.snapshot import TableSnapshot
from connectors.memory.staged import ChangeWatcher, ShownChanges, StagedChanges
from runtime.core.cancellation import look, whole
from runtime.core.changelog import (
    APPEND,
    DELETE,
    INSERT,
    RETRACT,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    ChangelogBatch,
    ChangelogMode,
)
from runtime.core.errors import PlanningError
from runtime.core.schema import Schema
from runtime.core.wakeup import nobody
from runtime.kernels.grouping import distinct_rows
from runtime.kernels.grow import grown
from runtime.spi.reader import ReadContext
from runtime.spi.source import Split
from runtime.spi.statistics import TableStatistics
from runtime.state.keyed import KeyIndex

if TYPE_CHECKING:
    from connectors.memory.constraints import TableRules

__all__ = ["MemoryTable"]

_PIECE_ROWS = 1 << 18


class MemoryTable(StagedChanges, ShownChanges, VersionedRows):
    """Rows by primary key (a later row of a key replaces the earlier one), or a bag of rows when there is none.

    Args:
        name: full name, for messages.
        append_only: takes no updates and deletes, so that its changes are an append stream (event-time operators need
        that).
        history: followers are sent every change of a key, also when one statement changes it several times: each is a
        version that was valid for a time.
        files: where rows are kept, and large changes until they are shown; None: in memory. The index of the key is in
        memory.

    The answer of a materialized view has a `watermark`: who keeps it says with `tell_time` how far it is in event time,
    and its followers hear of it behind the changes that it is about. MIN_WATERMARK where nobody says.
    """

    def __init__(
        self,
        name: str,
        schema: Schema,
        primary_key: Sequence[str] = (),
        *,
        append_only: bool = False,
        history: bool = False,
        files: ColumnFiles | None = None,
    ) -> None:
        StagedChanges.__init__(self, files)
        ShownChanges.__init__(self)
        VersionedRows.__init__(self)
        self.name = name
        self.schema = schema
        self.primary_key = tuple(primary_key)
        self.append_only = append_only
        self._history = history
        self.key_positions = [schema.index_of(k) for k in primary_key] or list(range(len(schema)))
        self._clear()
        self.remembers = False  # Whether its history is kept, of which each epoch is a part.
        self.catch_up: Callable[[], object] | None = None
        """Called before anybody reads it, where changes are let gather."""
        self.changed = 0
        """How often the contents have changed."""
        self.rules: TableRules | None = None
        """What holds for every row; None: nothing."""
        self.stated_rows: int | None = None
        """What `statistics` says in the place of the number of rows."""
        self._unpublished: list[ChangelogBatch] = []
        self._passed_on: list[ChangelogBatch] = []
        self.settled: TableVersion | None = None
        self.watchers: weakref.WeakSet[ChangeWatcher] = weakref.WeakSet()
        """Who wants to hear what is published, before any follower: the log of a database that lasts."""
        self.on_publish: Callable[[MemoryTable], object] | None = None
        """Called when changes are published, by whoever calls `show` when the epoch is complete. None: they are shown at
        once."""

    @property
    def mode(self) -> ChangelogMode:
        """The row kinds of its changes."""
        return APPEND if self.append_only else RETRACT

    @property
    def followed(self) -> bool:
        """Whether somebody follows it, or keeps its history, who is to hear of each change by itself, as soon as it is there."""
        return self.remembers or not all(reader.gathers for reader in self._readers)

    @property
    def has_followers(self) -> bool:
        """Whether somebody reads its changes."""
        return bool(self._readers)

    def __len__(self) -> int:
        self._caught_up()
        return self.held

    @property
    def held(self) -> int:
        """The number of rows, without what gathers."""
        return self._rows.num_rows if self.settled is None else self.settled.num_rows

    @property
    def nbytes(self) -> int:
        return self._rows.nbytes + self._index_bytes

    @property
    def _index_bytes(self) -> int:
        kept = 0 if self.rules is None else self.rules.nbytes
        return self._index.nbytes + self._positions.nbytes + kept

    @property
    def parts(self) -> TableParts:
        """What of it is in memory. From any thread."""
        pending = (*self._unpublished, *self._passed_on, *self._unshown, *self.prepared)
        return TableParts(self._rows, self._index_bytes, in_memory(pending, self.files))

    def apply(self, *batches: ChangelogBatch) -> None:
        """Change the contents by batches in their order; followers hear of it with the next `publish`.

        Many rows are applied piece by piece, and taken back when that is stopped or fails in between.

        Raises PlanningError E1710 for updates and deletes of an append-only table, and BrokenConstraint.
        """
        self.check_takes(batches)
        net = None if self.rules is None else self.rules.check_net(self, batches)
        self.changed += 1
        if self.append_only:
            with whole():
                for batch in batches:
                    self._append(batch)
        elif self.primary_key or all(batch.is_append_only for batch in batches):
            self._apply_pieces(in_pieces(batches, _PIECE_ROWS))
        else:
            # A bag may take a row back before it comes: what is between is not looked at.
            self._apply_pieces([ChangelogBatch.concat(batches)])
        if self.rules is not None:
            self.rules.take(self, net)

    def apply_again(self, *batches: ChangelogBatch) -> None:
        """Apply changes that a process before has applied: what held for them then is not asked again."""
        rules, self.rules = self.rules, None
        try:
            self.apply(*batches)
        finally:
            self.rules = rules
            if rules is not None:
                rules.forget()

    def check_takes(self, batches: Sequence[ChangelogBatch]) -> None:
        """Raise PlanningError E1710 for updates and deletes of an append-only table, and BrokenConstraint E2024."""
        if self.append_only and not all(batch.is_append_only for batch in batches):
            raise PlanningError(
                f"{self.name} is append-only: its rows cannot be updated or deleted",
                code="E1710",
                hint="give it a PRIMARY KEY, or create it WITH ('changelog-mode' = 'retract')",
            )
        if self.rules is not None:
            self.rules.check_rows(self, batches)

    def exactly(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rows with the very types and names of the table's columns."""
        schema = self._rows.schema
        if rows.schema.equals(schema):
            return rows
        columns = [c if c.type == f.type else c.cast(f.type) for c, f in zip(rows.columns, schema, strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def _apply_pieces(self, pieces: Iterable[ChangelogBatch]) -> None:
        known, was_empty = len(self._unpublished), self._rows.num_rows == 0
        try:
            for piece in pieces:
                look()
                with whole():
                    self._apply_piece(piece)
        except BaseException:
            with whole():
                changes, self._unpublished = self._unpublished[known:], self._unpublished[:known]
                if was_empty and self.arranged is None:
                    self._clear()
                else:
                    self._undo(changes)
                    del self._unpublished[known:]
            raise

    def _undo(self, changes: Sequence[ChangelogBatch]) -> None:
        """Take back the last changes."""
        if self._indexed:
            for change in reversed(changes):
                self._apply_piece(inverse(change))
            return
        appended = sum(map(len, changes))
        self._rows.count(self._rows.size - appended + np.arange(appended), np.zeros(appended, np.int64))

    def _append(self, batch: ChangelogBatch) -> None:
        _, rows = self._rows.append(self.exactly(batch.rows))
        self._unpublished.append(ChangelogBatch(rows))

    def _apply_piece(self, batch: ChangelogBatch) -> None:
        if self.primary_key:
            self._unpublished.append(self._apply_upserts(batch))
        elif not self._indexed and batch.is_append_only:
            self._append(batch)
        else:
            self._apply_bag(batch)
            self._unpublished.append(filed(batch, self.files))
        if self._rows.is_sparse:
            self._compact()

    def _stored(self, slots: np.ndarray) -> Sequence[pa.Array]:
        return self._rows.take(self._positions[slots]).columns

    def _apply_upserts(self, batch: ChangelogBatch) -> ChangelogBatch:
        """Only the last change of each key stays; gives the change of the contents as full images."""
        slots, is_new = self._index.insert([batch.column(i) for i in self.key_positions], len(batch))
        self._positions = grown(self._positions, self._index.capacity)
        if is_new.all() and (batch.kinds is None or (batch.signs() > 0).all()):
            # Keys that were not there, each once: nothing is replaced.
            first, rows = self._rows.append(self.exactly(batch.rows))
            self._positions[slots] = first + np.arange(len(batch))
            return ChangelogBatch(rows)
        last = distinct_rows(slots, last=True)
        changes = None
        if self._history and len(last) < len(batch):
            changes = every_change(batch, slots, ~np.isin(slots, slots[is_new]), self._stored)
        is_new = np.isin(slots[last], slots[is_new])
        batch, slots = batch.take(last), slots[last]
        present = batch.signs() > 0
        replaced = self._positions[slots[~is_new]]
        before = self._rows.take(replaced)
        after = batch.filter(present)
        put = slots[present]
        if len(put):
            first, _ = self._rows.append(self.exactly(after.rows))
            self._positions[put] = first + np.arange(len(put))
        self._rows.count(replaced, np.zeros(len(replaced), np.int64))
        self._index.remove(slots[~present])
        if changes is not None:
            return filed(changes, self.files)
        kinds_before = np.where(present[~is_new], UPDATE_BEFORE, DELETE).astype(np.int8)
        kinds_after = np.where(is_new[present], INSERT, UPDATE_AFTER).astype(np.int8)
        both = ChangelogBatch.concat([ChangelogBatch(before, kinds_before), ChangelogBatch(after.rows, kinds_after)])
        place = np.concatenate([np.flatnonzero(~is_new) * 2, np.flatnonzero(present) * 2 + 1])
        return filed(both.take(np.argsort(place, kind="stable")), self.files)

    def _apply_bag(self, batch: ChangelogBatch) -> None:
        if not self._indexed:
            self._index_rows()
        slots, is_new = self._index.insert([batch.column(i) for i in self.key_positions], len(batch))
        self._positions = grown(self._positions, self._index.capacity)
        fresh = np.flatnonzero(is_new)
        if len(fresh):
            first, _ = self._rows.append(
                self.exactly(batch.rows if len(fresh) == len(batch) else batch.take(fresh).rows)
            )
            self._positions[slots[fresh]] = first + np.arange(len(fresh))
            if len(fresh) == len(batch) and batch.is_append_only:
                return
        touched, at = np.unique(slots, return_inverse=True)
        positions = self._positions[touched]
        # A fresh row counts once as it is.
        known = self._rows.counts(positions) - np.isin(touched, slots[fresh])
        np.add.at(known, at, batch.signs().astype(np.int64))
        self._rows.count(positions, np.maximum(known, 0))
        self._index.remove(touched[known <= 0])

    def _index_rows(self) -> None:
        """A bag looks its rows up from the first time on that one of them goes: equal rows become one that counts so
        often."""
        self._indexed = True
        positions = self._rows.live_positions()
        rows = self._rows.take(positions)
        slots, is_new = self._index.insert(rows.columns, len(positions))
        self._positions = grown(self._positions, self._index.capacity)
        first = np.flatnonzero(is_new)
        self._positions[slots[first]] = positions[first]
        if len(first) < len(positions):
            counts = np.zeros(len(positions), np.int64)
            often = np.zeros(self._index.capacity, np.int64)
            np.add.at(often, slots, self._rows.counts(positions))
            counts[first] = often[slots[first]]
            self._rows.count(positions, counts)

    def _compact(self) -> None:
        left = self._compacted()
        if left is None:
            return
        old, new = left
        moved = np.zeros(int(old.max(initial=0)) + 1, np.int64)
        moved[old] = new
        slots = self._index.live_slots()
        self._positions[slots] = moved[self._positions[slots]]

    def _clear(self) -> None:
        types = [self.schema[i].type.arrow for i in self.key_positions]
        self._index = KeyIndex(types, exact=not self.primary_key)
        self._rows = RowStore(pa.schema([pa.field(f.name, f.type.arrow) for f in self.schema]), self.files)
        self._positions = np.zeros(0, dtype=np.int64)
        self._indexed = bool(self.primary_key) and not self.append_only
        """Whether rows can be looked up."""

    def become(self, other: MemoryTable) -> None:
        """Have the rows of another bag, which is used no more; followers hear of what differs with the next `publish`."""
        with whole():
            differs = difference(self.contents(), other.contents())
            if self.arranged is not None:
                self._apply_pieces([differs])
                return
            self._unpublished.append(differs)
            self.changed += 1
            self._rows, self._index, self._positions = other._rows, other._index, other._positions
            self._indexed = other._indexed

    def take_back(self) -> None:
        """Undo what was applied and not published."""
        with whole():
            changes, self._unpublished = self._unpublished, []
            self._undo(changes)
            self._unpublished = []
            if self.rules is not None:
                self.rules.forget()

    def publish(self) -> bool:
        """The changes since the last time become one epoch for every follower; tells whether there were any."""
        with whole():
            changes = self._take_unpublished()
            if changes and self._readers:
                self.deliver(ChangelogBatch.concat(changes))
        return bool(changes)

    def pass_on(self) -> None:
        """Give followers the changes since the last time ahead of `publish`, which then tells all others."""
        with whole():
            changes, self._unpublished = [b for b in self._unpublished if len(b)], []
            self._passed_on += changes
            if changes and self._readers:
                self.deliver(ChangelogBatch.concat(changes))

    def unpublished(self, cut: Callable[[ChangelogBatch], list[ChangelogBatch]]) -> list[ChangelogBatch]:
        """Take the changes since the last time, cut into steps that the caller delivers."""
        changes = self._take_unpublished()
        return cut(ChangelogBatch.concat(changes)) if changes else []

    def _take_unpublished(self) -> list[ChangelogBatch]:
        changes, self._unpublished = [b for b in self._unpublished if len(b)], []
        told, self._passed_on = [*self._passed_on, *changes], []
        for watcher in tuple(self.watchers) if told else ():
            watcher.hear(told)
        if told:
            self._unshown += told
            if self.on_publish is None:
                self.show()
            else:
                self.on_publish(self)
        return changes

    def contents(self) -> pa.Table:
        """All live rows, in order of arrival, a row of count n n times."""
        return self.version().rows()

    def version(self) -> TableVersion:
        """The rows as they are now, for as long as somebody wants to read them."""
        self._caught_up()
        return self.held_version()

    def held_version(self) -> TableVersion:
        """The same, without what whoever keeps it lets gather."""
        return self.settled or self._rows.version()

    def settle(self, *, over: bool = False) -> None:
        """A thread begins to change it beside others: until that is `over` its versions are as they were before."""
        self.settled = None if over else self._rows.version()

    def version_with(self, changes: ChangelogBatch) -> TableVersion:
        """The rows as they would be after some changes. Costs as much as the changes."""
        self._caught_up()
        changed = self.exactly(changes.rows)
        if not self._indexed and not changes.is_append_only:
            self._index_rows()
        rows = self._rows.fork()
        if not self._indexed:
            rows.append(changed)
            return rows.version()
        keys = [changed.column(i) for i in self.key_positions]
        alike = KeyIndex([key.type for key in keys], exact=not self.primary_key)
        slots, _ = alike.insert(keys, len(changed))
        # The newest row of each key, or a row of each kind of a bag.
        chosen = distinct_rows(slots, last=bool(self.primary_key))
        signs = changes.signs().astype(np.int64)
        known = self._index.find([key.take(pa.array(chosen)) for key in keys], len(chosen))
        held = np.flatnonzero(known >= 0)
        positions = self._positions[known[held]]
        if self.primary_key:
            rows.count(positions, np.zeros(len(positions), np.int64))
            rows.append(changed.take(pa.array(chosen[signs[chosen] > 0])))
            return rows.version()
        net = np.zeros(alike.capacity, np.int64)
        np.add.at(net, slots, signs)
        net = net[slots[chosen]]
        rows.count(positions, np.maximum(rows.counts(positions) + net[held], 0))
        fresh = np.flatnonzero((known < 0) & (net > 0))
        first, _ = rows.append(changed.take(pa.array(chosen[fresh])))
        often = np.flatnonzero(net[fresh] > 1)
        rows.count(first + often, net[fresh][often])
        return rows.version()

    def rows_by_key(self, keys: Sequence[pa.Array]) -> tuple[np.ndarray, pa.RecordBatch]:
        """Which primary keys are there, bool (n,), and their rows in the same order. Called with the lock held."""
        self._caught_up()
        slots = self._index.find(keys, len(keys[0]))
        held = slots >= 0
        return held, self._rows.take(self._positions[slots[held]])

    def slots_of(self, rows: pa.RecordBatch) -> np.ndarray:
        """Where rows are, for `rows_at`, as long as they are there (of a key, whatever else changes), int64 (n,); -1 where
        they are not. Called with the lock held."""
        if not self._indexed:
            self._index_rows()
        return self._index.find([rows.column(p) for p in self.key_positions], rows.num_rows)

    def rows_at(self, slots: np.ndarray) -> pa.RecordBatch:
        """Rows that are there. Called with the lock held."""
        return self._rows.take(self._positions[slots])

    def counts_of(self, rows: pa.RecordBatch) -> np.ndarray:
        """How often a bag has each of some rows, int64 (n,). Called with the lock held."""
        slots = self.slots_of(rows)
        found = np.zeros(rows.num_rows, np.int64)
        found[slots >= 0] = self._rows.counts(self._positions[slots[slots >= 0]])
        return found

    def _caught_up(self) -> None:
        if self.catch_up is not None and self.settled is None:
            self.catch_up()

    def follow(self, wake: Callable[[], None] = nobody) -> MemoryReader:
        """A reader of the contents now and every published change after; it calls `wake` when there is one. Not while
        others publish: what comes in between would be missed."""
        if self.settled is None:
            self._complete_version()
        reader = MemoryReader(self, wake)
        self._readers.append(reader)
        return reader

    def forget(self, reader: MemoryReader) -> None:
        """Give it no more changes; harmless at any moment, also while others publish."""
        if reader in self._readers:
            self._readers.remove(reader)

    @property
    def changelog_mode(self) -> ChangelogMode:
        return self.mode

    def statistics(self) -> TableStatistics:
        rows = len(self) if self.stated_rows is None else self.stated_rows
        return TableStatistics(rows=float(rows), counted=True)

    def open(self, split: Split, context: ReadContext) -> MemoryReader:
        return self.follow(context.wake)

    def describe(self) -> dict[str, Any]:
        return {"connector": "memory", "name": self.name}

    def accepts(self, requested: ChangelogMode) -> ChangelogMode:
        return APPEND if self.append_only else requested

    def snapshot(self, version: TableVersion | None = None) -> TableSnapshot:
        """The contents now, or a version of them, as a bounded table."""
        return TableSnapshot(self.name, self.schema, version or self.version(), stated_rows=self.stated_rows)
