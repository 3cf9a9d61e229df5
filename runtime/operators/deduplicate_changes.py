"""One row per key of an updating input: when the row that shows is taken back, the next one shows."""

from __future__ import annotations

import numpy as np

from runtime.core.changelog import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, ChangelogBatch
from runtime.operators.deduplicate import KeepFirstByTimeOperator, KeepFirstOperator, KeepLastOperator
from runtime.operators.operator import Operator, OperatorContext
from runtime.operators.shown_rows import ShownRowsOperator
from runtime.plan.nodes import DeduplicateExec, SortSpec
from runtime.state.rows import Identity

__all__ = ["DeduplicateChangesOperator", "deduplicate_operator"]


def deduplicate_operator(node: DeduplicateExec, context: OperatorContext) -> Operator:
    """The operator that fits the input: rows that never change need far less state."""
    if not node.input.mode.is_append_only:
        return DeduplicateChangesOperator(node, context)
    if node.keep_last:
        return KeepLastOperator(node, context)
    return KeepFirstOperator(node, context) if node.time is None else KeepFirstByTimeOperator(node, context)


class DeduplicateChangesOperator(ShownRowsOperator[np.ndarray]):
    """State: all rows of each key in order of time, or of arrival. Per key the row that shows before and after the
    epoch, and the difference."""

    def __init__(self, node: DeduplicateExec, context: OperatorContext) -> None:
        del context
        order = () if node.time is None else (SortSpec(node.time),)
        super().__init__(node, order, Identity.of(node.input.mode, None))
        self._node = node

    def _shown(self, partitions: np.ndarray) -> np.ndarray:
        return self._one_each(partitions, last=self._node.keep_last)

    def _difference(self, before: np.ndarray, after: np.ndarray) -> ChangelogBatch | None:
        gone = np.flatnonzero((before != after) & (before >= 0))
        come = np.flatnonzero((before != after) & (after >= 0))
        gone_kinds = np.where(after[gone] >= 0, UPDATE_BEFORE, DELETE)
        come_kinds = np.where(before[come] >= 0, UPDATE_AFTER, INSERT)
        if not self._node.mode.update_before:
            gone, gone_kinds = gone[gone_kinds == DELETE], gone_kinds[gone_kinds == DELETE]
        slots = np.concatenate((before[gone], after[come]))
        if not len(slots):
            return None
        kinds = np.concatenate((gone_kinds, come_kinds)).astype(np.int8)
        order = np.argsort(np.concatenate((gone * 2, come * 2 + 1)), kind="stable")
        return ChangelogBatch.of(self._rows.take(slots[order]), self._node.schema, kinds[order])
