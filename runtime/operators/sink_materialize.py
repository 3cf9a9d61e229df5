"""Repairs a stream whose upsert key is not the sink's key: per sink key the row that arrived last is the one that
shows."""

from __future__ import annotations

import numpy as np

from runtime.core.changelog import DELETE, INSERT, UPDATE_AFTER, ChangelogBatch
from runtime.operators.operator import OperatorContext
from runtime.operators.shown_rows import ShownRowsOperator
from runtime.plan.nodes import SinkMaterializeExec
from runtime.state.rows import Identity

__all__ = ["SinkMaterializeOperator"]


class SinkMaterializeOperator(ShownRowsOperator[np.ndarray]):
    """State: per sink key its live rows in order of arrival. The last one before and after the epoch:

        none, row: +I      row, other row: +U      row, none: -D      the same row: nothing

    When the row that shows is taken back, the one before it shows again (Flink: SinkUpsertMaterializer).
    """

    def __init__(self, node: SinkMaterializeExec, context: OperatorContext) -> None:
        del context
        super().__init__(node.schema, node.keys, (), Identity.FULL, ttl=node.ttl)
        self._schema = node.schema

    def _shown(self, partitions: np.ndarray) -> np.ndarray:
        return self._one_each(partitions, last=True)

    def _difference(self, before: np.ndarray, after: np.ndarray) -> ChangelogBatch | None:
        differs = before != after
        if not differs.any():
            return None
        kinds = np.where(after < 0, DELETE, np.where(before < 0, INSERT, UPDATE_AFTER)).astype(np.int8)
        slots = np.where(after < 0, before, after)
        return ChangelogBatch.of(self._rows.take(slots[differs]), self._schema, kinds[differs])
