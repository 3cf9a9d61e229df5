"""What is left of a changelog when it has ended."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runtime.core.changelog import ChangelogBatch
from runtime.operators.operator import EpochTime, Operator, OperatorContext, StateSize
from runtime.plan.nodes import FinalRowsExec
from runtime.state.multiset import RowMultiset
from runtime.state.row_table import row_table
from runtime.state.rows import Identity
from runtime.state.table import StateTable

__all__ = ["FinalRowsOperator"]


class FinalRowsOperator(Operator):
    """`FinalRowsExec`. State: the rows that are there now, by key, or each row with the number of times it is there."""

    def __init__(self, node: FinalRowsExec, context: OperatorContext) -> None:
        del context
        self._node = node
        mode = node.input.mode
        images = mode.is_retract and not mode.key_only_deletes
        self._rows = RowMultiset(node.schema, Identity.of(mode, node.keys), node.keys or (), images=images)
        self._table = row_table(self._rows, node.kept("rows"), _no_key)

    @property
    def tables(self) -> Sequence[StateTable]:
        return (self._table,)

    @property
    def state_size(self) -> StateSize:
        return StateSize(self._rows.rows, self._rows.nbytes)

    def step(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> ChangelogBatch | None:
        (batch,) = inputs
        if batch is not None and len(batch):
            self._rows.settle(self._rows.apply(batch, np.full(len(batch), -1, np.int64)))
        if not time.ends:
            return None
        slots = self._rows.live_slots()
        slots = np.repeat(slots, self._rows.count[slots])
        return ChangelogBatch.of(self._rows.take(slots), self._node.schema) if len(slots) else None


def _no_key(columns: list[pa.Array]) -> np.ndarray:
    return np.full(len(columns[0]), -1, np.int64)
