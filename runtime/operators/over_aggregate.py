"""The operator of OverAggregateExec: in time order, with rows that follow, or in any order over changes."""

from __future__ import annotations

from collections.abc import Sequence

from runtime.core.changelog import ChangelogBatch
from runtime.operators.operator import EpochTime, Operator, OperatorContext, StateSize
from runtime.operators.over_ahead import OverAheadOperator
from runtime.operators.over_time import OverTimeOperator
from runtime.operators.over_update import OverUpdateOperator
from runtime.plan.nodes import OverAggregateExec
from runtime.state.table import StateTable

__all__ = ["OverAggregateOperator"]


class OverAggregateOperator(Operator):
    """Whichever fits the order of the node; see there."""

    def __init__(self, node: OverAggregateExec, context: OperatorContext) -> None:
        self._inner: Operator
        if node.waits_for_rows:
            self._inner = OverAheadOperator(node, context)
        elif node.in_time_order:
            self._inner = OverTimeOperator(node, context)
        else:
            self._inner = OverUpdateOperator(node, context)

    def step(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> ChangelogBatch | None:
        return self._inner.step(inputs, time)

    def output_watermark(self, time: EpochTime) -> int:
        return self._inner.output_watermark(time)

    @property
    def state_size(self) -> StateSize:
        return self._inner.state_size

    @property
    def tables(self) -> Sequence[StateTable]:
        return self._inner.tables

    def restored(self) -> None:
        self._inner.restored()
