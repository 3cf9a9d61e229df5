"""One row per key of an updating input: when the row that shows is taken back, the next one shows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from runtime.core.changelog import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, ChangelogBatch
from runtime.operators.deduplicate import KeepFirstByTimeOperator, KeepFirstOperator, KeepLastOperator
from runtime.operators.operator import EpochTime, Operator, OperatorContext, StateSize
from runtime.plan.nodes import DeduplicateExec, SortSpec
from runtime.state.keyed import KeyIndex
from runtime.state.ordered import OrderedRows
from runtime.state.rows import Identity

__all__ = ["DeduplicateChangesOperator", "deduplicate_operator"]


def deduplicate_operator(node: DeduplicateExec, context: OperatorContext) -> Operator:
    """The operator that fits the input: rows that never change need far less state."""
    if not node.input.mode.is_append_only:
        return DeduplicateChangesOperator(node, context)
    if node.keep_last:
        return KeepLastOperator(node, context)
    return KeepFirstOperator(node, context) if node.time is None else KeepFirstByTimeOperator(node, context)


class DeduplicateChangesOperator(Operator):
    """State: all rows of each key in order of time, or of arrival. Per key the row that shows before and after the epoch, and the difference."""

    def __init__(self, node: DeduplicateExec, context: OperatorContext) -> None:
        del context
        self._node = node
        order = () if node.time is None else (SortSpec(node.time),)
        self._keys = KeyIndex.of(node.schema, node.keys)
        self._rows = OrderedRows(node.schema, order, Identity.of(node.input.mode, None), totals=True)

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
        output = self._difference(before, after)
        self._rows.settle(changed)
        totals, _ = self._rows.totals(touched)
        if (totals == 0).any():
            self._keys.remove(touched[totals == 0])
        return output

    def _shown(self, keys: np.ndarray) -> np.ndarray:
        shown = np.full(len(keys), -1, dtype=np.int64)
        index, slots = self._rows.last(keys, 1) if self._node.keep_last else self._rows.first(keys, 1)
        shown[index] = slots
        return shown

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
