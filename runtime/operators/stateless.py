"""The operators that only pass rows on: constant rows, union, and the dropping of old images."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runtime.core.changelog import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, ChangelogBatch
from runtime.eval.evaluator import BatchContext, Evaluator
from runtime.kernels.cancel import consolidate
from runtime.kernels.grouping import group_ids
from runtime.kernels.key_encoding import KeyEncoder
from runtime.operators.operator import EpochTime, Operator, OperatorContext
from runtime.plan.nodes import DropUpdateBeforeExec, UnionExec, ValuesExec
from runtime.state.table import StateTable, shared_value

__all__ = ["DropUpdateBeforeOperator", "UnionOperator", "ValuesOperator"]


class ValuesOperator(Operator):
    """The constant rows, all in the first epoch."""

    def __init__(self, node: ValuesExec, context: OperatorContext) -> None:
        self._node = node
        self._context = context
        self._done = False
        self._table = shared_value("done", pa.bool_(), lambda: self._done, self._go_on)

    @property
    def tables(self) -> Sequence[StateTable]:
        return (self._table,)

    def _go_on(self, done: list[object]) -> None:
        self._done = any(done)

    def step(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> ChangelogBatch | None:
        if self._done or not self._node.rows:
            return None
        self._done = True
        columns = len(self._node.schema)
        # Row by row: numbers of sequences are given in the order in which cells are written. Large VALUES are no expressions.
        cells = [cell for row in self._node.rows for cell in row]
        one = pa.RecordBatch.from_arrays([pa.array([True])], names=["one"])
        values = Evaluator(cells, self._context.functions).evaluate(
            one, BatchContext.at(time, 1, self._context.time_zone)
        )
        arrays = [pa.concat_arrays(values[i::columns]) for i in range(columns)]
        return ChangelogBatch.of(arrays, self._node.schema)


class UnionOperator(Operator):
    """All changes of all inputs, under the names of the output."""

    def __init__(self, node: UnionExec, context: OperatorContext) -> None:
        self._schema = node.schema

    def takes_parts(self, position: int) -> bool:
        return True

    def step(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> ChangelogBatch | None:
        batches = [ChangelogBatch.of(b.columns, self._schema, b.kinds) for b in inputs if b is not None and len(b)]
        return ChangelogBatch.concat(batches) if batches else None


class DropUpdateBeforeOperator(Operator):
    """All changes but `-U`. By `keys`: per key of which at most one row lives, what became of it in the epoch.

    Rows that came and went within the epoch are left out first, because the order of changes that the operator below
    gives is that of its own key, not of these. Then a key has at most one old and one new row: new only `+I`, both
    `+U`, old only `-D`.
    """

    def __init__(self, node: DropUpdateBeforeExec, context: OperatorContext) -> None:
        del context
        self._keys = node.keys

    def takes_parts(self, position: int) -> bool:
        return self._keys is None

    def step(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> ChangelogBatch | None:
        (batch,) = inputs
        if batch is None or batch.kinds is None:
            return batch
        kept = batch.filter(batch.kinds != UPDATE_BEFORE) if self._keys is None else _by_key(batch, self._keys)
        return kept if len(kept) else None


def _by_key(batch: ChangelogBatch, keys: tuple[int, ...]) -> ChangelogBatch:
    # Encoders for this batch alone: they remember the texts they have seen.
    rows = KeyEncoder([c.type for c in batch.columns], exact=True).encode(batch.columns, len(batch))
    kept, net = consolidate(rows, batch.signs())
    batch = batch.take(kept)
    columns = [batch.column(k) for k in keys]
    first, group = group_ids(KeyEncoder([c.type for c in columns]).encode(columns, len(batch)))
    new = net > 0
    has_new, has_old = np.zeros(len(first), np.bool_), np.zeros(len(first), np.bool_)
    has_new[group[new]] = True
    has_old[group[~new]] = True
    kinds = np.where(new, np.where(has_old[group], UPDATE_AFTER, INSERT), DELETE).astype(np.int8)
    return ChangelogBatch(batch.rows, kinds).filter(new | ~has_new[group])
