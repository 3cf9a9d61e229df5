"""One row per key: the first or the last by event time or by arrival, of an append-only input."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runtime.core.changelog import INSERT, UPDATE_AFTER, UPDATE_BEFORE, ChangelogBatch
from runtime.kernels.columns import ColumnStore, SlotAllocator
from runtime.kernels.grouping import greatest_rows
from runtime.kernels.grow import grown
from runtime.kernels.indexed import put_at, take_at
from runtime.kernels.sorted_runs import SortedRuns
from runtime.operators.operator import EpochTime, Operator, OperatorContext, StateSize
from runtime.operators.window_assign import milliseconds
from runtime.operators.window_columns import reject_null_times
from runtime.plan.nodes import DeduplicateExec
from runtime.plan.state import column_names
from runtime.state.held_rows import RowsInPlace
from runtime.state.idle_slots import IdleSlots
from runtime.state.keyed import KeyIndex
from runtime.state.keyed_state import KeyedState
from runtime.state.table import TOUCHED, StateTable, every_row
from runtime.state.timed import time_words

__all__ = ["KeepFirstByTimeOperator", "KeepFirstOperator", "KeepLastOperator"]

_EVER = np.iinfo(np.int64).min
"""Before all times."""


class KeepFirstOperator(Operator):
    """The first row of each key to arrive passes, no other does. State: the keys; each is forgotten when it is older
    than the node's `ttl`."""

    def __init__(self, node: DeduplicateExec, context: OperatorContext) -> None:
        del context
        self._node = node
        self._keys = KeyIndex.of(node.schema, node.keys)
        self._idle = IdleSlots(node.ttl) if node.ttl else None
        kept = node.kept("keys")
        self._table = StateTable(
            kept.name,
            [
                *zip(kept.key_names, (node.schema[k].type.arrow for k in node.keys), strict=True),
                *_touched_column(self._idle),
            ],
            live=self._keys.live_slots,
            read=lambda slots: [*self._keys.columns(slots), *_touched(self._idle, slots)],
            load=self._load,
            key=kept.key_names,
            of=every_row,
            ttl=node.ttl,
        )

    @property
    def tables(self) -> Sequence[StateTable]:
        return (self._table,)

    @property
    def keyed(self) -> KeyedState:
        types = [self._node.schema[k].type.arrow for k in self._node.keys]
        return KeyedState.of(self._keys, types, self._drop, expires=self._idle is not None)

    def _drop(self, slots: np.ndarray) -> None:
        self._keys.remove(slots)
        if self._idle is not None:
            self._idle.forget(slots)

    def _load(self, columns: list[pa.Array]) -> np.ndarray:
        width = len(self._node.keys)
        slots, _ = self._keys.insert(columns[:width], len(columns[0]) if columns else 1)
        if self._idle is not None:
            self._idle.restore(slots, columns[width])
        return slots

    @property
    def state_size(self) -> StateSize:
        return StateSize(self._keys.rows, self._keys.nbytes)

    @property
    def takes_codes(self) -> bool:
        return True

    def takes_parts(self, position: int) -> bool:
        return True

    def step(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> ChangelogBatch | None:
        if self._idle is not None:
            expired = self._idle.expired(time.processing_time)
            self._keys.remove(expired)
            self._table.freed(expired)
        (batch,) = inputs
        if batch is None or not len(batch):
            return None
        slots, is_new = self._keys.insert([batch.column(k) for k in self._node.keys], len(batch))
        self._table.wrote(slots[is_new])
        if self._idle is not None:
            self._idle.touch(slots[is_new], time.processing_time)
        first = batch.filter(is_new)
        return first if len(first) else None


class KeepFirstByTimeOperator(Operator):
    """The row of each key with the least event time, sent when the watermark has passed that time, so that it is final
    (and append-only).

    Of equal times the first to arrive. Late rows (time at or before the previous watermark) are rejected: they could
    only be the first of a key whose first row is final already. State: the keys, and the waiting row of each key; a key
    is forgotten when its row was sent longer than the node's `ttl` ago.
    """

    def __init__(self, node: DeduplicateExec, context: OperatorContext) -> None:
        assert node.time is not None
        self._node = node
        self._context = context
        self._time = node.time
        self._keys = KeyIndex.of(node.schema, node.keys)
        self._idle = IdleSlots(node.ttl) if node.ttl else None
        self._waiting = ColumnStore([f.type.arrow for f in node.schema])
        self._timers = SortedRuns(1)
        self._waits = np.zeros(0, dtype=bool)
        self._sent = np.zeros(0, dtype=bool)
        self._times = np.zeros(0, dtype=np.int64)
        names = column_names(node.schema)
        kept = node.kept("rows")
        self._table = StateTable(
            kept.name,
            [
                *((name, f.type.arrow) for name, f in zip(names, node.schema, strict=True)),
                ("$sent", pa.bool_()),
                ("$arrival", pa.int64()),
                *_touched_column(self._idle),
            ],
            live=self._keys.live_slots,
            read=self._read,
            load=self._load,
            key=kept.key_names,
        )

    @property
    def tables(self) -> Sequence[StateTable]:
        return (self._table,)

    def _read(self, slots: np.ndarray) -> list[pa.Array]:
        """The waiting row of each key; of a key whose row was sent the key columns alone."""
        waits = self._waits[slots]
        columns = self._waiting.take(np.where(waits, slots, -1))
        for position, column in zip(self._node.keys, self._keys.columns(slots), strict=True):
            columns[position] = column
        arrivals = np.zeros(len(slots), np.int64)
        arrivals[waits] = self._timers.seqs_of(slots[waits])
        sent, arrival = pa.array(self._sent[slots]), pa.array(arrivals, mask=~waits)
        return [*columns, sent, arrival, *_touched(self._idle, slots)]

    def _load(self, columns: list[pa.Array]) -> np.ndarray:
        width = len(self._node.schema)
        slots, _ = self._keys.insert([columns[k] for k in self._node.keys], len(columns[0]))
        self._grow()
        sent = columns[width].to_numpy(zero_copy_only=False)
        self._sent[slots] = sent
        self._waits[slots] = ~sent
        # In order of arrival, which decides in what order rows of one time come out.
        order = np.flatnonzero(~sent)[np.argsort(columns[width + 1].drop_null().to_numpy(), kind="stable")]
        waiting = slots[order]
        rows = [c.take(pa.array(order)) for c in columns[:width]]
        self._waiting.put(waiting, rows)
        self._times[waiting] = milliseconds(rows[self._time])
        self._timers.insert(np.zeros(len(waiting), np.int64), time_words(self._times[waiting]), None, waiting)
        if self._idle is not None:
            self._idle.restore(slots, columns[width + 2])
        return slots

    @property
    def state_size(self) -> StateSize:
        return StateSize(
            self._keys.rows, self._keys.nbytes + self._waiting.nbytes + self._timers.nbytes + self._times.nbytes
        )

    def step(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> ChangelogBatch | None:
        if self._idle is not None:
            expired = self._idle.expired(time.processing_time)
            self._keys.remove(expired)
            self._table.freed(expired)
        (batch,) = inputs
        if batch is not None and len(batch):
            self._take_in(batch, time)
        if time.watermark <= time.previous_watermark:
            return None
        ready = self._timers.pop_below(0, time_words(np.array([time.watermark]))[0], inclusive=True)
        if not len(ready):
            return None
        rows = self._waiting.take(ready)
        self._waiting.free(ready)
        self._waits[ready] = False
        self._sent[ready] = True
        self._table.wrote(ready)
        if self._idle is not None:
            self._idle.touch(ready, time.processing_time)
        return ChangelogBatch.of(rows, self._node.schema)

    def _take_in(self, batch: ChangelogBatch, time: EpochTime) -> None:
        batch = reject_null_times(batch, self._time, self._context)
        at = milliseconds(batch.column(self._time))
        late = at <= time.previous_watermark
        if late.any():
            lost = batch.rows.filter(pa.array(late))
            self._context.reject("late", lost, time.previous_watermark, lost.column(self._time))
        batch, at = batch.filter(~late), at[~late]
        if not len(batch):
            return
        slots, is_new = self._keys.insert([batch.column(k) for k in self._node.keys], len(batch))
        self._grow()
        self._waits[slots[is_new]] = False
        self._sent[slots[is_new]] = False
        order = np.lexsort((np.arange(len(at)), at, slots))
        leads = np.ones(len(order), dtype=bool)
        leads[1:] = slots[order][1:] != slots[order][:-1]
        best = order[leads]
        slot, when = slots[best], at[best]
        wins = ~self._sent[slot] & (~self._waits[slot] | (when < self._times[slot]))
        # In order of arrival, in which rows of one time come out.
        best = np.sort(best[wins])
        slot, when = slots[best], at[best]
        self._timers.remove(slot[self._waits[slot]])
        self._timers.insert(np.zeros(len(slot), dtype=np.int64), time_words(when), None, slot)
        self._waiting.put(slot, batch.take(best).columns)
        self._waits[slot] = True
        self._times[slot] = when
        self._table.wrote(slot)

    def _grow(self) -> None:
        size = self._keys.capacity
        self._waits = grown(self._waits, size, False)
        self._sent = grown(self._sent, size, False)
        self._times = grown(self._times, size, 0)


class KeepLastOperator(Operator):
    """The newest row of each key: by event time (of equal times the last to arrive; older rows change nothing), or by
    arrival.

    `+I` for a new key, then `-U`/`+U` (or `+U` alone) per epoch in which the row changes; in a batch plan the row of each
    key once, at the end of the input. State: one row per key, at a
    slot of its own, so that a row stays as it is until another one takes its place (`HeldRows`).
    """

    def __init__(self, node: DeduplicateExec, context: OperatorContext) -> None:
        self._node = node
        self._context = context
        self._at_end = node.emits_at_end
        self._keys = KeyIndex.of(node.schema, node.keys)
        self._idle = IdleSlots(node.ttl) if node.ttl else None
        self._rows = ColumnStore([f.type.arrow for f in node.schema])
        self._slots = SlotAllocator()
        self._row_of = np.zeros(0, dtype=np.int64)
        self._times = np.zeros(0, dtype=np.int64)
        names = column_names(node.schema)
        kept = node.kept("rows")
        self._table = StateTable(
            kept.name,
            [
                *((name, f.type.arrow) for name, f in zip(names, node.schema, strict=True)),
                *_touched_column(self._idle),
            ],
            live=self._keys.live_slots,
            read=lambda slots: [*self._rows.take(self._row_of[slots], wide=True), *_touched(self._idle, slots)],
            load=self._load,
            key=kept.key_names,
            of=every_row,
            ttl=node.ttl,
            in_place=RowsInPlace(
                self._rows, self._slots, lambda slots: _touched(self._idle, slots), lambda slots: self._row_of[slots]
            ),
        )

    @property
    def tables(self) -> Sequence[StateTable]:
        return (self._table,)

    @property
    def keyed(self) -> KeyedState:
        types = [self._node.schema[k].type.arrow for k in self._node.keys]
        return KeyedState.of(self._keys, types, self._drop, expires=self._idle is not None)

    def _drop(self, slots: np.ndarray) -> None:
        self._free(self._row_of[slots])
        self._keys.remove(slots)
        if self._idle is not None:
            self._idle.forget(slots)

    def _load(self, columns: list[pa.Array]) -> np.ndarray:
        rows = columns[: len(self._node.schema)]
        slots, _ = self._keys.insert([rows[k] for k in self._node.keys], len(rows[0]))
        self._times = grown(self._times, self._keys.capacity, 0)
        self._put(slots, rows)
        if self._node.time is not None:
            self._times[slots] = milliseconds(rows[self._node.time])
        if self._idle is not None:
            self._idle.restore(slots, columns[-1])
        return slots

    @property
    def state_size(self) -> StateSize:
        beside = self._times.nbytes + self._row_of.nbytes + self._slots.nbytes
        return StateSize(self._keys.rows, self._keys.nbytes + self._rows.nbytes + beside)

    @property
    def takes_codes(self) -> bool:
        return True

    def takes_parts(self, position: int) -> bool:
        return True

    def step(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> ChangelogBatch | None:
        if self._idle is not None:
            expired = self._idle.expired(time.processing_time)
            self._free(self._row_of[expired])
            self._keys.remove(expired)
            self._table.freed(expired)
        (batch,) = inputs
        output = None if batch is None or not len(batch) else self._take_in(batch, time)
        if not self._at_end:
            return output
        slots = self._keys.live_slots() if time.ends else []
        return ChangelogBatch.of(self._rows.take(self._row_of[slots]), self._node.schema) if len(slots) else None

    def _take_in(self, batch: ChangelogBatch, time: EpochTime) -> ChangelogBatch | None:
        batch, at = self._timed(batch)
        if not len(batch):
            return None
        slots, is_new = self._keys.insert([batch.column(k) for k in self._node.keys], len(batch))
        self._times = grown(self._times, self._keys.capacity, 0)
        # Of a new key every row is new, not only the one that found it so.
        put_at(self._times, slots[is_new], _EVER)
        best = greatest_rows(slots, at)
        slot, when = slots[best], at[best]
        known = take_at(self._times, slot)
        wins = when >= known
        best, slot, new, when = best[wins], slot[wins], known[wins] == _EVER, when[wins]
        rows = batch.take(best)
        after = ChangelogBatch(rows.rows, np.where(new, INSERT, UPDATE_AFTER).astype(np.int8))
        output = after
        if self._node.mode.update_before and not new.all():
            kinds = np.full(int((~new).sum()), UPDATE_BEFORE, dtype=np.int8)
            old = ChangelogBatch.of(self._rows.take(take_at(self._row_of, slot[~new])), self._node.schema, kinds)
            # Each old image stands before its new one.
            ends = np.cumsum(2 - new)
            order = np.empty(int(ends[-1]), np.int64)
            order[ends - 1] = np.arange(len(old), len(order))
            order[ends[~new] - 2] = np.arange(len(old))
            output = ChangelogBatch.concat(
                [old, ChangelogBatch.of(after.columns, self._node.schema, after.kinds_or_inserts())]
            ).take(order)
        self._free(take_at(self._row_of, slot[~new]))
        self._put(slot, rows.columns)
        put_at(self._times, slot, when)
        self._table.wrote(slot)
        if self._idle is not None:
            self._idle.touch(slot, time.processing_time)
        return output if len(output) and not self._at_end else None

    def _put(self, slots: np.ndarray, rows: Sequence[pa.Array]) -> None:
        self._row_of = grown(self._row_of, self._keys.capacity, 0)
        places = self._slots.allocate(len(slots))
        put_at(self._row_of, slots, places)
        self._rows.put(places, rows)

    def _free(self, places: np.ndarray) -> None:
        self._rows.free(places)
        self._slots.free(places)

    def _timed(self, batch: ChangelogBatch) -> tuple[ChangelogBatch, np.ndarray]:
        if self._node.time is None:
            return batch, np.zeros(len(batch), dtype=np.int64)
        batch = reject_null_times(batch, self._node.time, self._context)
        return batch, milliseconds(batch.column(self._node.time))


def _touched_column(idle: IdleSlots | None) -> list[tuple[str, pa.DataType]]:
    return [] if idle is None else [(TOUCHED, pa.int64())]


def _touched(idle: IdleSlots | None, slots: np.ndarray) -> list[pa.Array]:
    return [] if idle is None else [idle.times(slots)]
