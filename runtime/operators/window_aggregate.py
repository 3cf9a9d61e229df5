"""The operator of WindowAggregateExec: by slices, by sessions, or with results that change."""

from __future__ import annotations

from collections.abc import Sequence

from runtime.core.changelog import ChangelogBatch
from runtime.operators.emitting_window_aggregate import EmittingWindowAggregateOperator
from runtime.operators.operator import EpochTime, Operator, OperatorContext, StateSize
from runtime.operators.session_aggregate import SessionWindowAggregateOperator
from runtime.operators.sliced_window_aggregate import SlicedWindowAggregateOperator
from runtime.plan.nodes import WindowAggregateExec
from runtime.plan.windows import SessionWindow
from runtime.state.table import StateTable

__all__ = ["WindowAggregateOperator"]


class WindowAggregateOperator(Operator):
    """Whichever fits the window of the node; see there."""

    def __init__(self, node: WindowAggregateExec, context: OperatorContext) -> None:
        self._inner: Operator
        if node.emit is not None:
            self._inner = EmittingWindowAggregateOperator(node, context)
        elif isinstance(node.window, SessionWindow):
            self._inner = SessionWindowAggregateOperator(node, context)
        else:
            self._inner = SlicedWindowAggregateOperator(node, context)

    def step(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> ChangelogBatch | None:
        return self._inner.step(inputs, time)

    def next_timer(self) -> int | None:
        return self._inner.next_timer()

    @property
    def tables(self) -> Sequence[StateTable]:
        return self._inner.tables

    @property
    def state_size(self) -> StateSize:
        return self._inner.state_size
