"""The operator of OverAggregateExec: in time order, or in any order over changes."""

from __future__ import annotations

from collections.abc import Sequence

from runtime.core.changelog import ChangelogBatch
from runtime.operators.operator import EpochTime, Operator, OperatorContext, StateSize
from runtime.operators.over_time import OverTimeOperator
from runtime.operators.over_update import OverUpdateOperator
from runtime.operators.until_watermark import UntilWatermarkOperator
from runtime.plan.at_end import emits_at_end
from runtime.plan.nodes import OverAggregateExec
from runtime.state.table import StateTable

__all__ = ["OverAggregateOperator"]


class OverAggregateOperator(Operator):
    """Whichever fits the order of the node; see there. In a batch plan all rows wait for the end of the input, where time
    moves."""

    def __init__(self, node: OverAggregateExec, context: OperatorContext) -> None:
        self._inner: Operator
        if node.rowtime or node.proctime:
            self._inner = OverTimeOperator(node, context)
        elif emits_at_end(node):
            self._inner = UntilWatermarkOperator(OverUpdateOperator(node, context), node.input.schema, node.partition)
        else:
            self._inner = OverUpdateOperator(node, context)

    def step(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> ChangelogBatch | None:
        return self._inner.step(inputs, time)

    @property
    def state_size(self) -> StateSize:
        return self._inner.state_size

    @property
    def tables(self) -> Sequence[StateTable]:
        return self._inner.tables

    def restored(self) -> None:
        self._inner.restored()
