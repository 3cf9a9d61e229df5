"""Event time enters the dataflow: the watermark of a source, from an expression over its rows."""

from __future__ import annotations

from collections.abc import Sequence

from runtime.core.changelog import ChangelogBatch
from runtime.core.clock import MAX_WATERMARK, MIN_WATERMARK
from runtime.core.errors import ExpressionError
from runtime.eval.evaluator import BatchContext, Evaluator
from runtime.operators.operator import EpochTime, Operator, OperatorContext
from runtime.operators.window_assign import milliseconds
from runtime.operators.window_columns import reject_null_times
from runtime.plan.nodes import WatermarkExec

__all__ = ["WatermarkOperator"]


class WatermarkOperator(Operator):
    """Passes rows unchanged and keeps the greatest value of the watermark expression.

    Rows whose rowtime is NULL: `FAIL` stops the job, `DROP` rejects them, `SKIP_WATERMARK` passes them without moving
    the watermark (option table.exec.source.rowtime-null-handling).
    """

    def __init__(self, node: WatermarkExec, context: OperatorContext) -> None:
        self._node = node
        self._context = context
        self._evaluator = Evaluator((node.expr,), context.functions)
        self._watermark = MIN_WATERMARK

    def step(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> ChangelogBatch | None:
        (batch,) = inputs
        if batch is None or not len(batch):
            return None
        batch = self._without_null_times(batch)
        if not len(batch):
            return None
        context = BatchContext.at(time, len(batch), self._context.time_zone)
        (marks,) = self._evaluator.evaluate(batch.rows, context)
        marks = marks.drop_null()
        if len(marks):
            self._watermark = max(self._watermark, int(milliseconds(marks).max()))
        return batch

    def output_watermark(self, time: EpochTime) -> int:
        return MAX_WATERMARK if time.watermark == MAX_WATERMARK else self._watermark

    def _without_null_times(self, batch: ChangelogBatch) -> ChangelogBatch:
        times = batch.column(self._node.rowtime)
        if not times.null_count or self._node.null_handling == "SKIP_WATERMARK":
            return batch
        name = self._node.schema[self._node.rowtime].name
        if self._node.null_handling == "FAIL":
            raise ExpressionError(
                f'the event-time column "{name}" is NULL in {times.null_count} of {len(batch)} rows',
                code="E2010",
                hint="SET 'table.exec.source.rowtime-null-handling' = 'DROP' to reject such rows, or 'SKIP_WATERMARK' to keep them",
            )
        return reject_null_times(batch, self._node.rowtime, self._context)
