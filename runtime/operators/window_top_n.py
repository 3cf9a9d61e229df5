"""Top-n of each window: final rows, once, when the window closes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runtime.core.changelog import ChangelogBatch
from runtime.kernels.sorted_runs import SortedRuns
from runtime.operators.operator import EpochTime, Operator, OperatorContext, StateSize
from runtime.operators.ranking import Ranked, ranked_rows
from runtime.operators.window_assign import firing_times, milliseconds
from runtime.operators.window_columns import clock_watermark, ends_as_times
from runtime.plan.nodes import WindowTopNExec
from runtime.plan.state import column_names
from runtime.state.keyed import KeyIndex
from runtime.state.ordered import OrderedRows
from runtime.state.row_table import row_table
from runtime.state.rows import Identity
from runtime.state.table import StateTable
from runtime.state.timed import time_words

__all__ = ["WindowTopNOperator"]


class WindowTopNOperator(Operator):
    """State: per window and partition the rows that are among its best so far (others can never come back, the input
    being append-only).

    A window closes when the watermark reaches its end - 1 ms (of processing-time windows, when the clock does); rows of
    a closed window are late and rejected. Windows come out by end, then in order of arrival of their partitions.
    """

    def __init__(self, node: WindowTopNExec, context: OperatorContext) -> None:
        self._node = node
        self._context = context
        schema = node.input.schema
        self._key_columns = (*node.window, *(p for p in node.partition if p not in node.window))
        self._keys = KeyIndex.of(schema, self._key_columns)
        self._rows = OrderedRows(schema, node.order, Identity.APPEND)
        self._timers = SortedRuns(1)
        names = column_names(schema)
        partitions = node.kept("partitions")
        self._partitions = StateTable(
            partitions.name,
            [*((names[c], schema[c].type.arrow) for c in self._key_columns), ("$arrival", pa.int64())],
            live=self._keys.live_slots,
            read=lambda slots: [*self._keys.columns(slots), pa.array(self._timers.seqs_of(slots))],
            load=self._load,
            key=partitions.key_names,
        )
        rows = row_table(
            self._rows,
            node.kept("rows"),
            lambda columns: self._keys.find([columns[c] for c in self._key_columns]),
        )
        self._tables = [self._partitions, rows]

    @property
    def tables(self) -> Sequence[StateTable]:
        return self._tables

    def _load(self, columns: list[pa.Array]) -> np.ndarray:
        *keys, arrivals = columns
        slots, _ = self._keys.insert(keys)
        fires = firing_times(milliseconds(keys[1]), self._node.zone)
        self._timers.insert(np.zeros(len(slots), np.int64), time_words(fires), arrivals.to_numpy(), slots)
        return slots

    @property
    def state_size(self) -> StateSize:
        return StateSize(self._rows.rows, self._rows.nbytes + self._keys.nbytes + self._timers.nbytes)

    def step(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> ChangelogBatch | None:
        (batch,) = inputs
        proctime = self._node.proctime
        now, before = (clock_watermark(time), None) if proctime else (time.watermark, time.previous_watermark)
        if batch is not None and len(batch):
            self._take_in(batch, before)
        closed = self._timers.pop_below(0, time_words(np.array([now]))[0], inclusive=True)
        if not len(closed):
            return None
        ranked = self._ranked(closed, self._node.start)
        columns = self._rows.take(ranked.slot)
        if self._node.rank_column:
            columns.append(pa.array(ranked.rank, pa.int64()))
        _, slots = self._rows.all(closed)
        self._rows.settle(self._rows.take_away(slots))
        self._keys.remove(closed)
        self._partitions.freed(closed)
        return ChangelogBatch.of(columns, self._node.schema) if len(ranked.slot) else None

    def _take_in(self, batch: ChangelogBatch, previous: int | None) -> None:
        fires = firing_times(milliseconds(batch.column(self._node.window[1])), self._node.zone)
        if previous is not None:
            late = fires <= previous
            if late.any():
                lost = batch.rows.filter(pa.array(late))
                ends = ends_as_times(lost.column(self._node.window[1]), self._node.zone)
                self._context.reject("late", lost, previous, ends)
                batch, fires = batch.filter(~late), fires[~late]
        if not len(batch):
            return
        keys, is_new = self._keys.insert([batch.column(c) for c in self._key_columns], len(batch))
        fresh = keys[is_new]
        self._timers.insert(np.zeros(len(fresh), dtype=np.int64), time_words(fires[is_new]), None, fresh)
        self._partitions.wrote(fresh)
        changed = self._rows.apply(batch, keys)
        touched = np.unique(keys)
        kept = self._ranked(touched, 1)
        _, slots = self._rows.all(touched)
        beyond = np.setdiff1d(slots, kept.slot)
        if len(beyond):
            changed = np.union1d(changed, self._rows.take_away(beyond))
        self._rows.settle(changed)

    def _ranked(self, partitions: np.ndarray, start: int) -> Ranked:
        if not self._node.latest:
            return ranked_rows(self._rows, partitions, self._node.function, start, self._node.end)
        index, slots = self._rows.all(partitions)
        last = np.ones(len(index), dtype=bool)
        last[:-1] = index[1:] != index[:-1]
        return Ranked(index[last], slots[last], np.ones(int(last.sum()), dtype=np.int64))
