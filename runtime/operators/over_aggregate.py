"""The operator of OverAggregateExec: in time order, or in any order over changes."""

from __future__ import annotations

from collections.abc import Sequence

from runtime.core.changelog import ChangelogBatch
from runtime.operators.operator import EpochTime, Operator, OperatorContext, StateSize
from runtime.operators.over_time import OverTimeOperator
from runtime.operators.over_update import OverUpdateOperator
from runtime.plan.nodes import OverAggregateExec
from runtime.state.table import StateTable

__all__ = ["OverAggregateOperator"]


class OverAggregateOperator(Operator):
    """Whichever fits the order of the node; see there."""

    def __init__(self, node: OverAggregateExec, context: OperatorContext) -> None:
        timed = node.rowtime or node.proctime
        self._inner = OverTimeOperator(node, context) if timed else OverUpdateOperator(node, context)

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
