"""From a node of the physical plan to the operator that runs it: a table, one line per node class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from runtime.core.errors import InternalError
from runtime.operators.calc import CalcOperator
from runtime.operators.changelog_normalize import ChangelogNormalizeOperator
from runtime.operators.deduplicate_changes import deduplicate_operator
from runtime.operators.expand import ExpandOperator
from runtime.operators.final_rows import FinalRowsOperator
from runtime.operators.group_aggregate import GroupAggregateOperator
from runtime.operators.hash_join import HashJoinOperator
from runtime.operators.interval_join import IntervalJoinOperator
from runtime.operators.limit import LimitOperator
from runtime.operators.lookup_join import LookupJoinOperator
from runtime.operators.operator import Operator, OperatorContext
from runtime.operators.over_aggregate import OverAggregateOperator
from runtime.operators.set_operation import SetOperationOperator
from runtime.operators.sink import SinkOperator
from runtime.operators.sink_materialize import sink_materialize_operator
from runtime.operators.sort import SortOperator
from runtime.operators.stateless import DropUpdateBeforeOperator, UnionOperator, ValuesOperator
from runtime.operators.temporal_join import TemporalJoinOperator
from runtime.operators.top_n import top_n_operator
from runtime.operators.unnest import UnnestOperator
from runtime.operators.watermark import WatermarkOperator
from runtime.operators.window_aggregate import WindowAggregateOperator
from runtime.operators.window_join import WindowJoinOperator
from runtime.operators.window_table import WindowTableOperator
from runtime.operators.window_top_n import WindowTopNOperator
from runtime.plan import nodes as plan

__all__ = ["build_operator"]

_OPERATORS: dict[type[plan.PhysicalNode], Callable[[Any, OperatorContext], Operator]] = {
    plan.ValuesExec: ValuesOperator,
    plan.CalcExec: CalcOperator,
    plan.WatermarkExec: WatermarkOperator,
    plan.UnionExec: UnionOperator,
    plan.DropUpdateBeforeExec: DropUpdateBeforeOperator,
    plan.ChangelogNormalizeExec: ChangelogNormalizeOperator,
    plan.FinalRowsExec: FinalRowsOperator,
    plan.UnnestExec: UnnestOperator,
    plan.GroupAggregateExec: GroupAggregateOperator,
    plan.WindowAggregateExec: WindowAggregateOperator,
    plan.HashJoinExec: HashJoinOperator,
    plan.IntervalJoinExec: IntervalJoinOperator,
    plan.TemporalJoinExec: TemporalJoinOperator,
    plan.WindowJoinExec: WindowJoinOperator,
    plan.LookupJoinExec: LookupJoinOperator,
    plan.SetOperationExec: SetOperationOperator,
    plan.TopNExec: top_n_operator,
    plan.WindowTopNExec: WindowTopNOperator,
    plan.DeduplicateExec: deduplicate_operator,
    plan.ExpandExec: ExpandOperator,
    plan.OverAggregateExec: OverAggregateOperator,
    plan.WindowTableExec: WindowTableOperator,
    plan.SortExec: SortOperator,
    plan.LimitExec: LimitOperator,
    plan.SinkMaterializeExec: sink_materialize_operator,
    plan.SinkExec: SinkOperator,
}


def build_operator(node: plan.PhysicalNode, context: OperatorContext) -> Operator:
    """The operator of a node; InternalError for a node class that has none."""
    make = _OPERATORS.get(type(node))
    if make is None:
        raise InternalError(
            f"no operator runs {type(node).__name__}", hint="this is a bug of the engine; please report the query"
        )
    return make(node, context)
