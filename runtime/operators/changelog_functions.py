"""Changes as rows, and rows as changes: TO_CHANGELOG and FROM_CHANGELOG. Neither keeps anything."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.core.changelog import INSERT, ChangelogBatch
from runtime.core.errors import ExpressionError
from runtime.operators.operator import EpochTime, Operator, OperatorContext
from runtime.plan.nodes import FromChangelogExec, ToChangelogExec

__all__ = ["FromChangelogOperator", "ToChangelogOperator"]


class FromChangelogOperator(Operator):
    """Rows become changes in the order in which they come."""

    def __init__(self, node: FromChangelogExec, context: OperatorContext) -> None:
        self._node = node
        self._context = context
        self._codes = pa.array([code for code, _ in node.codes], pa.string())
        self._kinds = np.array([kind for _, kind in node.codes], np.int8)

    def takes_parts(self, position: int) -> bool:
        return True

    def step(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> ChangelogBatch | None:
        (batch,) = inputs
        if batch is None or not len(batch):
            return None
        op = batch.column(self._node.op)
        if op.null_count:
            raise ExpressionError(
                f'FROM_CHANGELOG got a row whose "{self._name}" is NULL: every row must say what change it is',
                code="E2112",
                hint=f"leave such rows out: FROM_CHANGELOG(input => (SELECT * FROM .. WHERE {self._name} IS NOT NULL), ..)",
            )
        found = pc.index_in(op, self._codes)
        if found.null_count:
            batch, found = self._without(batch, found, op)
        columns = [c for i, c in enumerate(batch.columns) if i != self._node.op]
        kinds = self._kinds[found.to_numpy(zero_copy_only=False)]
        return ChangelogBatch.of(columns, self._node.schema, kinds) if len(batch) else None

    def _without(self, batch: ChangelogBatch, found: pa.Array, op: pa.Array) -> tuple[ChangelogBatch, pa.Array]:
        """What is left of the batch when rows of unknown codes are rejected."""
        unknown = found.is_null()
        if not self._node.skip:
            code = op.filter(unknown)[0].as_py()
            raise ExpressionError(
                f"FROM_CHANGELOG got a row whose \"{self._name}\" is '{code}', which is none of "
                + ", ".join(f"'{known}'" for known, _ in self._node.codes),
                code="E2112",
                hint="name it in op_mapping, or reject such rows: error_handling => 'SKIP'",
            )
        self._context.reject("no change has this operation code", batch.rows.filter(unknown))
        known = found.is_valid()
        return batch.filter(known.to_numpy(zero_copy_only=False)), found.filter(known)

    @property
    def _name(self) -> str:
        return self._node.input.schema[self._node.op].name


class ToChangelogOperator(Operator):
    """Changes become rows in the order in which they come."""

    def __init__(self, node: ToChangelogExec, context: OperatorContext) -> None:
        del context
        self._schema = node.schema
        self._codes = pa.array([code for _, code in node.codes], pa.string())
        self._code_of_kind = np.full(4, -1, np.int64)
        self._code_of_kind[[kind for kind, _ in node.codes]] = np.arange(len(node.codes))

    def takes_parts(self, position: int) -> bool:
        return True

    def step(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> ChangelogBatch | None:
        (batch,) = inputs
        if batch is None or not len(batch):
            return None
        if batch.kinds is None:
            codes = np.full(len(batch), self._code_of_kind[INSERT])
        else:
            codes = self._code_of_kind[batch.kinds]
        there = codes >= 0
        batch, codes = batch.filter(there), codes[there]
        if not len(batch):
            return None
        return ChangelogBatch.of([self._codes.take(pa.array(codes)), *batch.columns], self._schema)
