"""The operators that only pass rows on: constant rows, union, and the dropping of old images."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runtime.core.changelog import DELETE, UPDATE_BEFORE, ChangelogBatch
from runtime.eval.evaluator import BatchContext, Evaluator
from runtime.kernels.grouping import group_ids
from runtime.kernels.key_encoding import KeyEncoder
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
    """All changes but `-U`. By `keys`, a `-U` after which no row of its key comes in the epoch is a `-D`: the row has left its key."""

    def __init__(self, node: DropUpdateBeforeExec, context: OperatorContext) -> None:
        del context
        self._keys = node.keys

    def step(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> ChangelogBatch | None:
        (batch,) = inputs
        if batch is None or batch.kinds is None:
            return batch
        old = batch.kinds == UPDATE_BEFORE
        if self._keys is not None and old.any():
            left = old & ~self._replaced(batch, self._keys)
            kinds = batch.kinds.copy()
            kinds[left] = DELETE
            batch, old = ChangelogBatch(batch.rows, kinds), old & ~left
        kept = batch.filter(~old)
        return kept if len(kept) else None

    def _replaced(self, batch: ChangelogBatch, keys: tuple[int, ...]) -> np.ndarray:
        """The rows after which a row with the same key is added."""
        columns = [batch.column(k) for k in keys]
        # An encoder for this batch alone: it remembers the texts it has seen.
        first, group = group_ids(KeyEncoder([c.type for c in columns]).encode(columns, len(batch)))
        added = np.flatnonzero(batch.signs() > 0)
        last = np.full(len(first), -1, np.int64)
        np.maximum.at(last, group[added], added)
        return last[group] > np.arange(len(batch))
