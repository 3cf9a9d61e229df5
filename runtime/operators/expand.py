"""Grouping sets: each row once per set, with NULL in the columns that the set leaves out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runtime.core.changelog import ChangelogBatch
from runtime.eval.evaluator import BatchContext, Evaluator
from runtime.operators.operator import EpochTime, Operator, OperatorContext
from runtime.plan.nodes import ExpandExec

__all__ = ["ExpandOperator"]


class ExpandOperator(Operator):
    """All changes once per projection list, list after list; row kinds as they come. No state."""

    def __init__(self, node: ExpandExec, context: OperatorContext) -> None:
        self._node = node
        self._time_zone = context.time_zone
        cells = [cell for projection in node.projections for cell in projection]
        self._evaluator = Evaluator(cells, context.functions)

    def takes_parts(self, position: int) -> bool:
        return True

    def step(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> ChangelogBatch | None:
        (batch,) = inputs
        if batch is None or not len(batch):
            return None
        schema, times = self._node.schema, len(self._node.projections)
        values = self._evaluator.evaluate(batch.rows, BatchContext.at(time, len(batch), self._time_zone))
        columns = [pa.concat_arrays(values[i :: len(schema)]) for i in range(len(schema))]
        return ChangelogBatch.of(columns, schema, None if batch.kinds is None else np.tile(batch.kinds, times))
