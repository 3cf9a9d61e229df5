"""Event time enters the dataflow: the watermark of a source, from an expression over its rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.core.changelog import ChangelogBatch
from runtime.core.clock import MAX_WATERMARK, MIN_WATERMARK
from runtime.core.errors import ExpressionError
from runtime.eval.evaluator import BatchContext, Evaluator
from runtime.operators.operator import EpochTime, Operator, OperatorContext
from runtime.plan.nodes import WatermarkExec

__all__ = ["WatermarkOperator", "milliseconds"]


def milliseconds(times: pa.Array) -> pa.Array:
    """Timestamps of any unit as int64 milliseconds since the epoch, rounded down; NULL stays NULL."""
    per_milli = {"s": None, "ms": 1, "us": 1_000, "ns": 1_000_000}[times.type.unit]
    values = times.cast(pa.int64())
    if per_milli is None:
        return pc.multiply(values, 1000)
    if per_milli == 1:
        return values
    numbers = np.floor_divide(values.fill_null(0).to_numpy(zero_copy_only=False), per_milli)
    return pa.array(numbers, mask=values.is_null().to_numpy(zero_copy_only=False)) if values.null_count else pa.array(numbers)


class WatermarkOperator(Operator):
    """Passes rows unchanged and keeps the greatest value of the watermark expression.

    Rows whose rowtime is NULL: `FAIL` stops the job, `DROP` rejects them, `SKIP_WATERMARK` passes them without moving the
    watermark (option table.exec.source.rowtime-null-handling).
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
        greatest = pc.max(milliseconds(marks)).as_py()
        if greatest is not None and greatest > self._watermark:
            self._watermark = greatest
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
                f"the event-time column \"{name}\" is NULL in {times.null_count} of {len(batch)} rows", code="E2010",
                hint="SET 'table.exec.source.rowtime-null-handling' = 'DROP' to reject such rows, or 'SKIP_WATERMARK' to keep them",
            )
        null = times.is_null().to_numpy(zero_copy_only=False)
        self._context.reject("NULL event time", batch.rows.filter(pa.array(null)))
        return batch.filter(~null)
