"""Aggregation over session windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import pyarrow as pa

from runtime.core.changelog import ChangelogBatch
from runtime.core.clock import MIN_WATERMARK
from runtime.core.errors import InternalError
from runtime.eval.aggregates.aggregate_set import AggregateSet
from runtime.eval.aggregates.sums import RowCounts
from runtime.operators.operator import EpochTime, Operator, OperatorContext, StateSize
from runtime.operators.session_state import SessionState
from runtime.operators.window_assign import wall_milliseconds
from runtime.operators.window_columns import (
    by_clock,
    clock_time,
    clock_watermark,
    passed,
    property_columns,
    reject_null_times,
)
from runtime.plan.nodes import WindowAggregateExec
from runtime.plan.windows import SessionWindow
from runtime.state.table import StateTable, shared_value

__all__ = ["SessionWindowAggregateOperator"]


class SessionWindowAggregateOperator(Operator):
    """Key columns, one column per call, the window properties; a row per session when the watermark closes it.
    Append-only.

    Rows may be taken back while their session is open: a session without live rows gives nothing. It is neither cut
    nor split when a row between others goes (as in Flink, which keeps no rows). Late is a row whose session, as it
    would be with the row, was closed before this epoch.
    """

    def __init__(self, node: WindowAggregateExec, context: OperatorContext) -> None:
        if not isinstance(node.window, SessionWindow):
            raise InternalError("not a session window")
        source = node.input.schema
        self._node = node
        self._context = context
        self._sessions = SessionState([source[i].type for i in node.keys], node.window.gap, node.zone)
        self._aggregates = AggregateSet(node.calls, source.types, mergeable=True, functions=context.functions)
        retracts = not node.input.mode.is_append_only or any(c.retract for c in node.calls)
        self._live = RowCounts() if retracts else None
        self._next_seq = 0
        counted = [] if self._live is None else [("$rows", pa.int64())]
        sessions = self._sessions.keep_in(
            node.kept("sessions"), [*self._aggregates.columns(), *counted], self._saved, self._restore
        )
        self._tables = [
            sessions,
            *self._aggregates.tables(sessions),
            shared_value("arrivals", pa.int64(), lambda: self._next_seq, self._go_on_from),
        ]

    @property
    def tables(self) -> Sequence[StateTable]:
        return self._tables

    def _saved(self, sessions: np.ndarray) -> list[pa.Array]:
        live = [] if self._live is None else [pa.array(self._live.at(sessions))]
        return [*self._aggregates.save(sessions), *live]

    def _restore(self, sessions: np.ndarray, columns: list[pa.Array]) -> None:
        if self._live is not None:
            self._live.restore(sessions, columns.pop())
        self._aggregates.restore(sessions, columns)

    def _go_on_from(self, arrivals: list[object]) -> None:
        self._next_seq = max(cast("list[int]", arrivals))

    def step(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> ChangelogBatch | None:
        (batch,) = inputs
        if batch is not None and len(batch):
            self._add(batch, time)
        return self._fire(clock_watermark(time) if self._node.proctime else time.watermark)

    @property
    def state_size(self) -> StateSize:
        return StateSize(len(self._sessions), self._sessions.nbytes + self._aggregates.nbytes)

    def _add(self, batch: ChangelogBatch, time: EpochTime) -> None:
        node = self._node
        now = by_clock(node.proctime, node.input)
        watermark = MIN_WATERMARK if now else passed(time, node.proctime)
        if now:
            times = np.full(len(batch), clock_time(time, node.zone), np.int64)
        else:
            batch = reject_null_times(batch, node.time, self._context)
            if not len(batch):
                return
            times = wall_milliseconds(batch.column(node.time), node.zone)
        assigned = self._sessions.assign([batch.column(i) for i in node.keys], times, watermark)
        if len(assigned.joined):
            self._aggregates.merge(assigned.into, self._aggregates, assigned.joined)
            if self._live is not None:
                self._live.merge(assigned.into, self._live, assigned.joined)
            self._drop(assigned.joined)
        sessions = assigned.sessions
        late = sessions < 0
        if late.any():
            mask = pa.array(late)
            self._context.reject("late", batch.rows.filter(mask), watermark, batch.column(node.time).filter(mask))
            batch, sessions = batch.filter(~late), sessions[~late]
            if not len(batch):
                return
        signs = None if batch.kinds is None else batch.signs()
        seqs = np.arange(self._next_seq, self._next_seq + len(batch), dtype=np.int64)
        self._next_seq += len(batch)
        self._aggregates.update(sessions, signs, batch.columns, seqs)
        if self._live is not None:
            self._live.add(sessions, signs)

    def _fire(self, watermark: int) -> ChangelogBatch | None:
        due = self._sessions.pop(watermark)
        if not len(due):
            return None
        shown = due if self._live is None else due[self._live.at(due) > 0]
        output = None
        if len(shown):
            starts, ends = self._sessions.bounds(shown)
            properties = property_columns(self._node.properties, self._node.schema, starts, ends, self._node.zone)
            columns = [*self._sessions.key_columns(shown), *self._aggregates.results(shown), *properties]
            output = ChangelogBatch.of(columns, self._node.schema)
        self._drop(due)
        return output

    def _drop(self, sessions: np.ndarray) -> None:
        self._aggregates.release(sessions)
        if self._live is not None:
            self._live.release(sessions)
        self._sessions.drop(sessions)
