"""The operators that only pass rows on: constant rows, union, and the dropping of old images."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from runtime.core.changelog import UPDATE_BEFORE, ChangelogBatch
from runtime.eval.evaluator import BatchContext, Evaluator
from runtime.operators.operator import EpochTime, Operator, OperatorContext
from runtime.plan.nodes import DropUpdateBeforeExec, UnionExec, ValuesExec

__all__ = ["DropUpdateBeforeOperator", "UnionOperator", "ValuesOperator"]


class ValuesOperator(Operator):
    """The constant rows, all in the first epoch."""

    def __init__(self, node: ValuesExec, context: OperatorContext) -> None:
        self._node = node
        self._context = context
        self._done = False

    def step(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> ChangelogBatch | None:
        if self._done or not self._node.rows:
            return None
        self._done = True
        columns = len(self._node.schema)
        cells = [row[i] for i in range(columns) for row in self._node.rows]
        one = pa.RecordBatch.from_arrays([pa.array([True])], names=["one"])
        values = Evaluator(cells, self._context.functions).evaluate(one, BatchContext.at(time, 1, self._context.time_zone))
        height = len(self._node.rows)
        arrays = [pa.concat_arrays(values[i * height:(i + 1) * height]) for i in range(columns)]
        return ChangelogBatch.of(arrays, self._node.schema)


class UnionOperator(Operator):
    """All changes of all inputs, under the names of the output."""

    def __init__(self, node: UnionExec, context: OperatorContext) -> None:
        self._schema = node.schema

    def step(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> ChangelogBatch | None:
        batches = [ChangelogBatch.of(b.columns, self._schema, b.kinds) for b in inputs if b is not None and len(b)]
        return ChangelogBatch.concat(batches) if batches else None


class DropUpdateBeforeOperator(Operator):
    """All changes but `-U`."""

    def __init__(self, node: DropUpdateBeforeExec, context: OperatorContext) -> None:
        del node, context

    def step(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> ChangelogBatch | None:
        (batch,) = inputs
        if batch is None or batch.kinds is None:
            return batch
        kept = batch.filter(batch.kinds != UPDATE_BEFORE)
        return kept if len(kept) else None
