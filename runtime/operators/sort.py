"""ORDER BY event time: rows wait for the watermark and come out in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from runtime.core.changelog import ChangelogBatch
from runtime.core.clock import MIN_WATERMARK
from runtime.kernels.sort import sort_indices
from runtime.operators.operator import EpochTime, Operator, OperatorContext, StateSize
from runtime.operators.window_assign import milliseconds
from runtime.plan.nodes import SortExec

__all__ = ["SortOperator"]


class SortOperator(Operator):
    """Rows whose time the watermark has passed come out sorted; late rows (at or before the last time that was sent)
    are rejected.

    Buffered rows are kept in sorted runs of batches, each run cut at the watermark, so a row is moved a constant number
    of times.
    """

    def __init__(self, node: SortExec, context: OperatorContext) -> None:
        self._node = node
        self._context = context
        self._time = node.order[0].index
        self._waiting: list[pa.RecordBatch] = []
        self._sent_until = MIN_WATERMARK

    @property
    def state_size(self) -> StateSize:
        return StateSize(sum(b.num_rows for b in self._waiting), sum(b.nbytes for b in self._waiting))

    def step(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> ChangelogBatch | None:
        (batch,) = inputs
        if batch is not None and len(batch):
            self._take_in(batch.rows, time)
        ready: list[pa.RecordBatch] = []
        rest: list[pa.RecordBatch] = []
        for run in self._waiting:
            times = milliseconds(run.column(self._time))
            end = int(np.searchsorted(times, time.watermark, side="right"))
            if end:
                ready.append(run.slice(0, end))
                self._sent_until = max(self._sent_until, int(times[end - 1]))
            if end < run.num_rows:
                rest.append(run.slice(end))
        self._waiting = _merged(rest, self._sorted)
        if not ready:
            return None
        return ChangelogBatch(self._sorted(pa.concat_batches(ready)))

    def _take_in(self, rows: pa.RecordBatch, time: EpochTime) -> None:
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
        if rows.num_rows:
            self._waiting.append(self._sorted(rows))

    def _sorted(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        order = self._node.order
        columns = [rows.column(s.index) for s in order]
        return rows.take(pa.array(sort_indices(columns, [s.descending for s in order], [s.nulls_last for s in order])))


def _merged(runs: list[pa.RecordBatch], sort: Callable[[pa.RecordBatch], pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Runs of geometrically growing size: a run is merged into the one before when it is not much smaller."""
    kept: list[pa.RecordBatch] = []
    for run in runs:
        kept.append(run)
        while len(kept) > 1 and kept[-2].num_rows <= 2 * kept[-1].num_rows:
            last = kept.pop()
            kept[-1] = sort(pa.concat_batches([kept[-1], last]))
    return kept
