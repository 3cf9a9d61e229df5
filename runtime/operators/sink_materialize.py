"""Repairs a stream whose upsert key is not the sink's key: per sink key the row that arrived last is the one that shows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from runtime.core.changelog import DELETE, INSERT, UPDATE_AFTER, ChangelogBatch
from runtime.operators.operator import EpochTime, Operator, OperatorContext, StateSize
from runtime.plan.nodes import SinkMaterializeExec
from runtime.state.keyed import KeyIndex
from runtime.state.ordered import OrderedRows
from runtime.state.rows import Identity

__all__ = ["SinkMaterializeOperator"]


class SinkMaterializeOperator(Operator):
    """State: per sink key its live rows in order of arrival. The last one before and after the epoch:

        none, row: +I      row, other row: +U      row, none: -D      the same row: nothing

    When the row that shows is taken back, the one before it shows again (Flink: SinkUpsertMaterializer).
    """

    def __init__(self, node: SinkMaterializeExec, context: OperatorContext) -> None:
        del context
        self._node = node
        self._keys = KeyIndex.of(node.schema, node.keys)
        self._rows = OrderedRows(node.schema, (), Identity.FULL, totals=True)

    @property
    def state_size(self) -> StateSize:
        return StateSize(self._rows.rows, self._rows.nbytes + self._keys.nbytes)

    def step(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> ChangelogBatch | None:
        (batch,) = inputs
        if batch is None or not len(batch):
            return None
        keys, _ = self._keys.insert([batch.column(k) for k in self._node.keys], len(batch))
        touched = np.unique(keys)
        before = self._shown(touched)
        changed = self._rows.apply(batch, keys)
        after = self._shown(touched)
        kinds = np.where(after < 0, DELETE, np.where(before < 0, INSERT, UPDATE_AFTER)).astype(np.int8)
        slots = np.where(after < 0, before, after)
        differs = before != after
        output = None
        if differs.any():
            output = ChangelogBatch.of(self._rows.take(slots[differs]), self._node.schema, kinds[differs])
        self._rows.settle(changed)
        totals, _ = self._rows.totals(touched)
        if (totals == 0).any():
            self._keys.remove(touched[totals == 0])
        return output

    def _shown(self, keys: np.ndarray) -> np.ndarray:
        shown = np.full(len(keys), -1, dtype=np.int64)
        index, slots = self._rows.last(keys, 1)
        shown[index] = slots
        return shown
