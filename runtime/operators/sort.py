"""ORDER BY event time: rows wait for the watermark and come out in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import pyarrow as pa

from runtime.core.changelog import ChangelogBatch
from runtime.core.clock import MIN_WATERMARK
from runtime.kernels.sort import sort_indices
from runtime.operators.operator import EpochTime, Operator, OperatorContext, StateSize
from runtime.operators.window_assign import milliseconds
from runtime.plan.nodes import SortExec
from runtime.state.table import StateTable, shared_value
from runtime.state.timed import TimedRows, bound, microseconds
from runtime.state.timed_table import timed_table

__all__ = ["SortOperator"]


class SortOperator(Operator):
    """Rows whose time the watermark has passed come out sorted; late rows (at or before the last time that was sent)
    are rejected.

    State: the rows that wait, by time.
    """

    def __init__(self, node: SortExec, context: OperatorContext) -> None:
        self._node = node
        self._context = context
        self._time = node.order[0].index
        self._waiting = TimedRows(node.schema, keyed=False)
        self._sent_until = MIN_WATERMARK
        self._tables = (
            timed_table(self._waiting, node.kept("waiting"), _no_key),
            shared_value("sent", pa.int64(), lambda: self._sent_until, self._go_on_from),
        )

    @property
    def tables(self) -> Sequence[StateTable]:
        return self._tables

    def _go_on_from(self, sent: list[object]) -> None:
        self._sent_until = max(cast("list[int]", sent))

    @property
    def state_size(self) -> StateSize:
        return StateSize(self._waiting.rows, self._waiting.nbytes)

    def step(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> ChangelogBatch | None:
        (batch,) = inputs
        come = None
        if batch is not None and len(batch):
            come = self._take_in(batch.rows, time)
        ready = self._waiting.due(bound(time.watermark, 1), with_slots=come)
        if not len(ready):
            return None
        output = ChangelogBatch.of(self._waiting.take(ready), self._node.schema)
        self._sent_until = max(self._sent_until, int(self._waiting.time[ready[-1]]) // 1000)
        self._waiting.free(ready)
        return output.take(self._order(output.columns))

    def _take_in(self, rows: pa.RecordBatch, time: EpochTime) -> np.ndarray:
        """Keeps rows; the slots of those that are due at once."""
        column = rows.column(self._time)
        if column.null_count:
            self._context.reject("NULL event time", rows.filter(column.is_null()))
            rows = rows.filter(column.is_valid())
            column = rows.column(self._time)
        late = milliseconds(column) <= self._sent_until
        if late.any():
            mask = pa.array(late)
            self._context.reject("late", rows.filter(mask), time.previous_watermark, column.filter(mask))
            rows = rows.filter(pa.array(~late))
        times = microseconds(rows.column(self._time))
        return self._waiting.add_waiting(rows.columns, times, bound(time.watermark, 1))[1]

    def _order(self, columns: Sequence[pa.Array]) -> np.ndarray:
        order = self._node.order
        chosen = [columns[s.index] for s in order]
        return sort_indices(chosen, [s.descending for s in order], [s.nulls_last for s in order])


def _no_key(columns: list[pa.Array]) -> np.ndarray:
    return np.full(len(columns[0]), -1, np.int64)
