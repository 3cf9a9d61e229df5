"""Filter and project: one evaluated stage, no state."""

from __future__ import annotations

from collections.abc import Sequence

from runtime.core.changelog import ChangelogBatch
from runtime.eval.evaluator import BatchContext, Stage
from runtime.operators.operator import EpochTime, Operator, OperatorContext
from runtime.plan.nodes import CalcExec

__all__ = ["CalcOperator"]


class CalcOperator(Operator):
    """Rows for which the condition is true, projected; row kinds pass unchanged.

    An update of which only one half passes the filter leaves a lone `-U` or `+U`, as in Flink; the planner asks for
    both halves wherever the filter looks at more than the key.
    """

    def __init__(self, node: CalcExec, context: OperatorContext) -> None:
        self._schema = node.schema
        self._stage = Stage(node.condition, node.projections, context.functions)
        self._time_zone = context.time_zone

    @property
    def takes_codes(self) -> bool:
        return True

    def takes_parts(self, position: int) -> bool:
        return True

    def step(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> ChangelogBatch | None:
        (batch,) = inputs
        if batch is None or not len(batch):
            return None
        kept, columns = self._stage.run(batch.rows, BatchContext.at(time, len(batch), self._time_zone))
        if kept is not None and not len(kept):
            return None
        kinds = batch.kinds if kept is None or batch.kinds is None else batch.kinds[kept]
        return ChangelogBatch.of(columns, self._schema, kinds)
