"""Window table functions on their own: rows with the columns of the windows they fall in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

import numpy as np
import pyarrow as pa

from runtime.core.changelog import ChangelogBatch
from runtime.core.clock import MIN_WATERMARK
from runtime.eval.aggregates.value_bag import ValueBag
from runtime.operators.operator import PIECE_MAX_ROWS, EpochTime, OperatorContext, PiecewiseOperator, StateSize
from runtime.operators.session_state import SessionState
from runtime.operators.window_assign import wall_milliseconds, windows_of
from runtime.operators.window_columns import (
    by_clock,
    clock_time,
    clock_watermark,
    passed,
    property_columns,
    reject_null_times,
)
from runtime.plan.nodes import WindowProperty, WindowTableExec
from runtime.plan.state import column_names
from runtime.plan.windows import CumulateWindow, HopWindow, SessionWindow, WindowSpec
from runtime.state.table import StateTable, shared_value

__all__ = ["WindowTableOperator"]

_PROPERTIES = (WindowProperty.START, WindowProperty.END, WindowProperty.TIME)


class WindowTableOperator(PiecewiseOperator):
    """Input columns, window_start, window_end, window_time.

    TUMBLE, HOP, CUMULATE: no state; each change once per window, row kinds as they come, late rows too (it is for the
    operators behind to refuse them). SESSION: rows wait until the watermark closes their session, then come out as
    `+I` by session end, in order of arrival; rows of closed sessions are rejected as late. Rows without a time are
    rejected.
    """

    def __init__(self, node: WindowTableExec, context: OperatorContext) -> None:
        self._node = node
        self._context = context
        self._proctime = node.input.schema[node.time].type.is_proctime
        self._by_clock = by_clock(self._proctime, node.input)
        self._sessions: SessionState | None = None
        # So many rows are looked at together: each may be in as many windows as there are.
        self._most = max(1, context.options.get(PIECE_MAX_ROWS) // _windows_of_a_row(node.window))
        self._tables: list[StateTable] = []
        if isinstance(node.window, SessionWindow):
            source = node.input.schema
            self._sessions = SessionState([source[i].type for i in node.partition], node.window.gap, node.zone)
            self._rows = ValueBag([t.arrow for t in source.types], retract=not node.input.mode.is_append_only)
            self._next_seq = 0
            names = column_names(source)
            sessions = self._sessions.keep_in(node.kept("sessions"))
            self._tables = [
                sessions,
                self._rows.keep_in(node.kept("rows").name, names, sessions),
                shared_value("arrivals", pa.int64(), lambda: self._next_seq, self._go_on_from),
            ]

    @property
    def tables(self) -> Sequence[StateTable]:
        return self._tables

    def _go_on_from(self, arrivals: list[object]) -> None:
        self._next_seq = max(cast("list[int]", arrivals))

    def takes_parts(self, position: int) -> bool:
        return self._sessions is None

    def pieces(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> Iterator[ChangelogBatch]:
        (batch,) = inputs
        times = np.empty(0, np.int64)
        if batch is not None and len(batch):
            if self._by_clock:
                times = np.full(len(batch), clock_time(time, self._node.zone), np.int64)
            else:
                batch = reject_null_times(batch, self._node.time, self._context)
                times = wall_milliseconds(batch.column(self._node.time), self._node.zone)
        if self._sessions is not None:
            output = self._step_sessions(self._sessions, batch, times, time)
            if output is not None:
                yield output
            return
        if batch is None:
            return
        for at in range(0, len(batch), self._most):
            part = batch if self._most >= len(batch) else batch.slice(at, min(self._most, len(batch) - at))
            rows, starts, ends = windows_of(self._node.window, times[at : at + self._most])
            if len(rows):
                taken = part if len(rows) == len(part) and (np.diff(rows) == 1).all() else part.take(rows)
                yield self._output(taken.columns, starts, ends, taken.kinds)

    @property
    def state_size(self) -> StateSize:
        if self._sessions is None:
            return StateSize(0, 0)
        return StateSize(len(self._rows), self._rows.nbytes + self._sessions.nbytes)

    def _output(
        self, columns: Sequence[pa.Array], starts: np.ndarray, ends: np.ndarray, kinds: np.ndarray | None
    ) -> ChangelogBatch:
        schema = self._node.schema
        return ChangelogBatch.of(
            [*columns, *property_columns(_PROPERTIES, schema, starts, ends, self._node.zone)], schema, kinds
        )

    def _step_sessions(
        self, state: SessionState, batch: ChangelogBatch | None, times: np.ndarray, time: EpochTime
    ) -> ChangelogBatch | None:
        if batch is not None and len(batch):
            self._keep(state, batch, times, MIN_WATERMARK if self._by_clock else passed(time, self._proctime))
        due = state.pop(clock_watermark(time) if self._proctime else time.watermark)
        if not len(due):
            return None
        index, rows = self._rows.read(due)
        output = None
        if len(rows):
            starts, ends = state.bounds(due[index])
            columns = [self._rows.column(i, rows) for i in range(len(self._node.input.schema))]
            output = self._output(columns, starts, ends, None)
        self._rows.release(due)
        state.drop(due)
        return output

    def _keep(self, state: SessionState, batch: ChangelogBatch, times: np.ndarray, watermark: int) -> None:
        assigned = state.assign([batch.column(i) for i in self._node.partition], times, watermark)
        if len(assigned.joined):
            self._rows.merge(assigned.into, self._rows, assigned.joined)
            self._rows.release(assigned.joined)
            state.drop(assigned.joined)
        sessions = assigned.sessions
        late = sessions < 0
        if late.any():
            mask = pa.array(late)
            self._context.reject("late", batch.rows.filter(mask), watermark, batch.column(self._node.time).filter(mask))
            batch, sessions = batch.filter(~late), sessions[~late]
        signs = None if batch.kinds is None else batch.signs()
        seqs = np.arange(self._next_seq, self._next_seq + len(batch), dtype=np.int64)
        self._next_seq += len(batch)
        self._rows.add(sessions, signs, batch.columns, seqs)


def _windows_of_a_row(window: WindowSpec) -> int:
    """The most windows that one row may be in."""
    match window:
        case HopWindow(slide=slide, size=size):
            return -(-size // slide)
        case CumulateWindow(step=step, size=size):
            return -(-size // step)
        case _:
            return 1
