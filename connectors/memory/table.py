"""A table in memory: contents that can be read at once, and the changes to them as a stream.

It is what a table without a connector is, and what keeps the answer of a materialized view. Readers that follow it get
the contents first and then every published step of changes, each step as one epoch. Within `BEGIN EPOCH` changes are
applied at once, so that the session's statements see them, and published together; followers, and whoever begins to
follow, see the contents before them. `rollback` brings those back.
"""

from __future__ import annotations

import os
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from connectors.memory.history import every_change, in_pieces, inverse
from connectors.memory.snapshot import TableSnapshot, cannot_be_read_again
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
from runtime.core.clock import MIN_WATERMARK
from runtime.core.errors import PlanningError
from runtime.core.schema import Schema
from runtime.kernels.columns import ColumnStore
from runtime.kernels.grouping import distinct_rows
from runtime.kernels.grow import grown
from runtime.spi.reader import ReadContext
from runtime.spi.source import Split
from runtime.spi.statistics import TableStatistics
from runtime.state.keyed import KeyIndex

_STEP_COSTS = 16
"""A step of changes counts as no fewer rows in a backlog."""

__all__ = ["MemoryReader", "MemoryTable"]

_PIECE_ROWS = 1 << 18
_MERGED_ROWS = 1 << 16
"""Batches of appended rows that are at least as large are left as they came."""


class MemoryTable:
    """Rows by primary key (a later row of a key replaces the earlier one), or a bag of rows when there is none.

    Args:
        name: full name, for messages.
        append_only: takes no updates and deletes, so that its changes are an append stream (event-time operators need
        that).
        history: followers are sent every change of a key, also when one statement changes it several times: each is a
        version that was valid for a time.

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
    ) -> None:
        self.name = name
        self.schema = schema
        self.primary_key = tuple(primary_key)
        self.append_only = append_only
        self._history = history
        self._key_positions = [schema.index_of(k) for k in primary_key] or list(range(len(schema)))
        self._clear()
        self._readers: list[MemoryReader] = []
        self.watermark = MIN_WATERMARK
        self.idle = False
        self.catch_up: Callable[[], object] | None = None
        """Called before anybody reads it: whoever keeps it lets changes gather while nobody does."""
        self.changed = 0
        """How often the contents have changed."""
        self._unpublished: list[ChangelogBatch] = []
        self._committed: pa.Table | None = None
        self._in_epoch = False
        self._outside: list[ChangelogBatch] = []
        """Changes of others than the session, which wait for the end of its epoch."""
        self.token = os.urandom(8).hex()
        """Tells this table, with its rows, from one of the same name in another process."""
        self._prepared: dict[str, Sequence[ChangelogBatch]] = {}
        self._prepared_so_far = 0

    @property
    def mode(self) -> ChangelogMode:
        """The row kinds of its changes."""
        return APPEND if self.append_only else RETRACT

    @property
    def followed(self) -> bool:
        """Whether somebody follows it who is to hear of each change by itself, as soon as it is there."""
        return not all(reader.gathers for reader in self._readers)

    def __len__(self) -> int:
        self._caught_up()
        return self.held

    @property
    def held(self) -> int:
        """The number of rows, without what whoever keeps it lets gather."""
        return sum(b.num_rows for b in self._appended) if self.append_only else int(self._counts.sum())

    @property
    def nbytes(self) -> int:
        return sum(b.nbytes for b in self._appended) + self._rows.nbytes + self._index.nbytes + self._counts.nbytes

    # --- changing
    # ---------------------------------------------------------------------------------------------------------

    def apply(self, *batches: ChangelogBatch) -> None:
        """Change the contents by batches in their order; followers hear of it with the next `publish`.

        Many rows are applied piece by piece, and taken back when that is stopped or fails in between.

        Raises PlanningError E1710 for updates and deletes of an append-only table.
        """
        if self._in_epoch and self._committed is None:
            self._committed = self.contents()
        self._read = None
        self.changed += 1
        if self.append_only:
            if not all(batch.is_append_only for batch in batches):
                raise PlanningError(
                    f"{self.name} is append-only: its rows cannot be updated or deleted",
                    code="E1710",
                    hint="give it a PRIMARY KEY, or create it WITH ('changelog-mode' = 'retract')",
                )
            with whole():
                for batch in batches:
                    self._append(batch.rows)
                self._unpublished += batches
        elif self.primary_key or all(batch.is_append_only for batch in batches):
            self._apply_pieces(in_pieces(batches, _PIECE_ROWS))
        else:
            # A bag may take a row back before it comes: what is between is not looked at.
            self._apply_pieces([ChangelogBatch.concat(batches)])

    def _apply_pieces(self, pieces: Iterable[ChangelogBatch]) -> None:
        known, was_empty = len(self._unpublished), len(self._index) == 0
        try:
            for piece in pieces:
                look()
                with whole():
                    self._apply_piece(piece)
        except BaseException:
            with whole():
                changes, self._unpublished = self._unpublished[known:], self._unpublished[:known]
                if was_empty:
                    self._clear()
                else:
                    for change in reversed(changes):
                        self._apply_piece(inverse(change))
                    del self._unpublished[known:]
            raise

    def _apply_piece(self, batch: ChangelogBatch) -> None:
        if self.primary_key:
            self._unpublished.append(self._apply_upserts(batch))
        else:
            self._apply_bag(batch)
            self._unpublished.append(batch)

    def write_outside(self, *batches: ChangelogBatch) -> None:
        """A step of changes that is no statement of the session: published at once, or behind its open epoch, so that
        it is no part of that."""
        if self._in_epoch:
            self._outside += batches
        else:
            self.apply(*batches)
            self.publish()

    def _append(self, rows: pa.RecordBatch) -> None:
        """Small batches become one with the one before that is no larger, so that there are few of them."""
        while self._appended and self._appended[-1].num_rows <= rows.num_rows < _MERGED_ROWS:
            rows = pa.Table.from_batches([self._appended.pop(), rows]).combine_chunks().to_batches()[0]
        self._appended.append(rows)

    def _apply_upserts(self, batch: ChangelogBatch) -> ChangelogBatch:
        """Only the last change of each key stays; gives the change of the contents as full images."""
        slots, is_new = self._index.insert([batch.column(i) for i in self._key_positions], len(batch))
        self._grow()
        last = distinct_rows(slots, last=True)
        changes = None
        if self._history and len(last) < len(batch):
            changes = every_change(batch, slots, ~np.isin(slots, slots[is_new]), self._rows.take)
        is_new = np.isin(slots[last], slots[is_new])
        batch, slots = batch.take(last), slots[last]
        present = batch.signs() > 0
        old = slots[~is_new]
        before = pa.RecordBatch.from_arrays(self._rows.take(old), schema=batch.rows.schema)
        gone = ~present
        put = slots[present]
        if len(put):
            self._rows.put(put, batch.filter(present).columns)
            self._counts[put] = 1
            fresh = slots[present & is_new]
            self._order[fresh] = self._next + np.arange(len(fresh))
            self._next += len(fresh)
        removed = slots[gone]
        if len(removed):
            self._counts[removed] = 0
            self._rows.free(slots[gone & ~is_new])
            self._index.remove(removed)
        if changes is not None:
            return changes
        kinds_before = np.where(present[~is_new], UPDATE_BEFORE, DELETE).astype(np.int8)
        after = batch.filter(present)
        kinds_after = np.where(is_new[present], INSERT, UPDATE_AFTER).astype(np.int8)
        both = ChangelogBatch.concat([ChangelogBatch(before, kinds_before), ChangelogBatch(after.rows, kinds_after)])
        place = np.concatenate([np.flatnonzero(~is_new) * 2, np.flatnonzero(present) * 2 + 1])
        return both.take(np.argsort(place, kind="stable"))

    def _apply_bag(self, batch: ChangelogBatch) -> None:
        slots, is_new = self._index.insert([batch.column(i) for i in self._key_positions], len(batch))
        self._grow()
        fresh = np.flatnonzero(is_new)
        if len(fresh):
            self._rows.put(slots[fresh], batch.take(fresh).columns)
            self._counts[slots[fresh]] = 0
            self._order[slots[fresh]] = self._next + np.arange(len(fresh))
            self._next += len(fresh)
        np.add.at(self._counts, slots, batch.signs().astype(np.int64))
        touched = np.unique(slots)
        dead = touched[self._counts[touched] <= 0]
        if len(dead):
            self._counts[dead] = 0
            self._rows.free(dead)
            self._index.remove(dead)

    def _grow(self) -> None:
        size = self._index.capacity
        self._counts = grown(self._counts, size)
        self._order = grown(self._order, size)

    def begin_epoch(self) -> None:
        """Hold back what follows from readers and from `committed_contents` until `publish` or `rollback`."""
        self._in_epoch = True

    @property
    def has_open_changes(self) -> bool:
        """Whether the open epoch has changed it."""
        return self._committed is not None

    def rollback(self) -> None:
        """Forget the changes of the open epoch. What others have written meanwhile becomes unpublished changes."""
        before, self._committed = self._committed, None
        if before is not None:
            self._clear()
            self._unpublished = []
            rows = before.combine_chunks().to_batches()
            if rows:
                self.apply(ChangelogBatch(rows[0]))
            self._unpublished = []
        self._end_epoch()

    def _end_epoch(self) -> None:
        self._in_epoch, self._committed = False, None
        waiting, self._outside = self._outside, []
        for batch in waiting:
            self.apply(batch)

    def _clear(self) -> None:
        types = [self.schema[i].type.arrow for i in self._key_positions]
        self._index = KeyIndex(types, exact=not self.primary_key)
        self._rows = ColumnStore([f.type.arrow for f in self.schema])
        self._counts = np.zeros(0, dtype=np.int64)
        self._order = np.zeros(0, dtype=np.int64)
        self._appended: list[pa.RecordBatch] = []
        self._next = 0
        self._read: weakref.ref[pa.Table] | None = None

    def publish(self) -> bool:
        """The changes since the last time become one epoch for every follower; tells whether there were any."""
        with whole():
            changes = self._take_unpublished()
            if changes and self._readers:
                self.deliver(ChangelogBatch.concat(changes))
        return bool(changes)

    def unpublished(self, cut: Callable[[ChangelogBatch], list[ChangelogBatch]]) -> list[ChangelogBatch]:
        """Take the changes since the last time, cut into steps that the caller delivers."""
        changes = self._take_unpublished()
        return cut(ChangelogBatch.concat(changes)) if changes else []

    def _take_unpublished(self) -> list[ChangelogBatch]:
        self._end_epoch()
        changes, self._unpublished = [b for b in self._unpublished if len(b)], []
        return changes

    def pending(self) -> list[ChangelogBatch]:
        """The changes since the last time that are still held back."""
        return [batch for batch in self._unpublished if len(batch)]

    def deliver(self, step: ChangelogBatch) -> None:
        """Give a step of changes to every follower."""
        for reader in tuple(self._readers):
            reader.push(step)

    # --- in two steps, for sinks
    # ------------------------------------------------------------------------------------------------

    def prepare(self, writer: str, batches: Sequence[ChangelogBatch]) -> str:
        """Keep changes until `apply_prepared`; gives the name under which they are kept."""
        self._prepared_so_far += 1
        key = f"{writer} {self._prepared_so_far}"
        self._prepared[key] = batches
        return key

    def apply_prepared(self, key: str, *, outside: bool = False) -> None:
        """Apply what was kept; nothing happens when it is not there any more. `outside`: see `write_outside`."""
        batches = self._prepared.get(key)
        if batches is not None:
            if outside and self._in_epoch:
                self.write_outside(*batches)
            else:
                self.apply(*batches)
            del self._prepared[key]

    def forget_prepared(self, writer: str) -> None:
        """Drop what a writer has prepared and nobody has applied."""
        for key in [k for k in self._prepared if k.rpartition(" ")[0] == writer]:
            del self._prepared[key]

    def tell_time(self, watermark: int, idle: bool) -> None:
        """The watermark that holds behind all changes so far, and whether nobody should wait for it to move."""
        self.idle = idle
        if watermark > self.watermark:
            self.watermark = watermark
            for reader in tuple(self._readers):
                reader.push(None)

    # --- reading
    # ----------------------------------------------------------------------------------------------------------

    def contents(self) -> pa.Table:
        """All live rows, in order of arrival, a row of count n n times. The same object as long as somebody has it and
        nothing changes."""
        self._caught_up()
        known = None if self._read is None else self._read()
        if known is None:
            known = self._gathered()
            self._read = weakref.ref(known)
        return known

    def _caught_up(self) -> None:
        if self.catch_up is not None:
            self.catch_up()

    def _gathered(self) -> pa.Table:
        if self.append_only:
            return pa.Table.from_batches(self._appended, schema=self._arrow_schema)
        slots = self._index.live_slots()
        slots = slots[np.argsort(self._order[slots], kind="stable")]
        slots = np.repeat(slots, self._counts[slots])
        return pa.Table.from_batches([pa.RecordBatch.from_arrays(self._rows.take(slots), schema=self._arrow_schema)])

    def committed_contents(self) -> pa.Table:
        """The contents after the last complete epoch."""
        return self.contents() if self._committed is None else self._committed

    @property
    def _arrow_schema(self) -> pa.Schema:
        return pa.schema([pa.field(f.name, f.type.arrow) for f in self.schema])

    def follow(self) -> MemoryReader:
        """A reader that gives the contents now and every published change after. Not while others publish: what comes
        in between would be missed."""
        reader = MemoryReader(self)
        self._readers.append(reader)
        return reader

    def forget(self, reader: MemoryReader) -> None:
        """Give it no more changes; harmless at any moment, also while others publish."""
        if reader in self._readers:
            self._readers.remove(reader)

    # --- as a source and as a sink
    # ------------------------------------------------------------------------------------------

    statement_changes = True

    @property
    def changelog_mode(self) -> ChangelogMode:
        return self.mode

    @property
    def bounded(self) -> bool:
        return False

    def statistics(self) -> TableStatistics:
        return TableStatistics(rows=float(len(self)), counted=True)

    def splits(self) -> list[Split]:
        return [Split("all")]

    def open(self, split: Split, context: ReadContext) -> MemoryReader:
        return self.follow()

    def describe(self) -> dict[str, Any]:
        return {"connector": "memory", "name": self.name}

    def accepts(self, requested: ChangelogMode) -> ChangelogMode:
        if self.append_only:
            return APPEND
        return requested

    def snapshot(self) -> TableSnapshot:
        """The contents now, changes of the open epoch included, as a bounded table: what the session's statements read."""
        return TableSnapshot(self.name, self.schema, self.contents())


class MemoryReader:
    """Follows a table: its contents at the start, then every published change. `watermark`: the table's after what
    `poll` has given."""

    def __init__(self, table: MemoryTable) -> None:
        self._table = table
        self._steps: deque[tuple[ChangelogBatch | None, int]] = deque()
        self._given = 0
        self.gathers = False
        self.backlog = 0
        """How much has gathered, in rows: a small step takes as long as some more."""
        self.watermark = MIN_WATERMARK
        start = table.committed_contents()
        self.push(ChangelogBatch(start.combine_chunks().to_batches()[0]) if start.num_rows else None)

    def push(self, step: ChangelogBatch | None) -> None:
        """A step of changes behind the others, or (None) the news that the table's watermark has moved."""
        if self._steps and (step is None or self._steps[-1][0] is None):
            last, _ = self._steps.pop()
            step = last if step is None else step
        self._steps.append((step, self._table.watermark))
        if self.gathers:
            self.backlog += _STEP_COSTS if step is None else max(_STEP_COSTS, len(step))

    def gather(self) -> None:
        """From now on all steps that wait are given as one."""
        self.gathers = True
        self.backlog = sum(len(step) for step, _ in self._steps if step is not None)

    def poll(self, max_rows: int) -> ChangelogBatch | None:
        """The next published step, whole: a statement is an epoch, whatever its size. None when there is none, also
        when only the watermark has moved."""
        if not self._steps or max_rows <= 0:
            return None
        if self.gathers:
            found = [step for step, _ in self._steps if step is not None]
            self.watermark = self._steps[-1][1]
            self._steps.clear()
            self._given += len(found)
            self.backlog = 0
            return ChangelogBatch.concat(found) if found else None
        step, self.watermark = self._steps.popleft()
        self._given += step is not None
        return step

    @property
    def waiting(self) -> bool:
        return bool(self._steps)

    @property
    def idle(self) -> bool:
        return self._table.idle

    @property
    def finished(self) -> bool:
        return False

    def position(self) -> int:
        """The number of steps given."""
        return self._given

    def seek(self, position: Any) -> None:
        """Only to the start. Raises PlanningError E1711: earlier changes are not kept."""
        if position:
            raise cannot_be_read_again(self._table.name)

    def close(self) -> None:
        self._table.forget(self)
