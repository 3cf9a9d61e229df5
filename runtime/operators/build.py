"""From a node of the physical plan to the operator that runs it: a table, one line per node class."""

from __future__ import annotations

import functools
import pkgutil
from collections.abc import Callable
from typing import Any

from runtime.core.errors import InternalError
from runtime.operators.operator import Operator, OperatorContext
from runtime.plan import nodes as plan

__all__ = ["build_operator"]

_OPERATORS: dict[type[plan.PhysicalNode], str] = {
    plan.ValuesExec: "runtime.operators.stateless:ValuesOperator",
    plan.CalcExec: "runtime.operators.calc:CalcOperator",
    plan.TimeFilterExec: "runtime.operators.time_filter:TimeFilterOperator",
    plan.RejectingCalcExec: "runtime.operators.rejecting_calc:RejectingCalcOperator",
    plan.WatermarkExec: "runtime.operators.watermark:WatermarkOperator",
    plan.UnionExec: "runtime.operators.stateless:UnionOperator",
    plan.DropUpdateBeforeExec: "runtime.operators.stateless:DropUpdateBeforeOperator",
    plan.ChangelogNormalizeExec: "runtime.operators.changelog_normalize:ChangelogNormalizeOperator",
    plan.FromChangelogExec: "runtime.operators.changelog_functions:FromChangelogOperator",
    plan.ProcessTablesExec: "runtime.operators.process_tables:process_operator",
    plan.ToChangelogExec: "runtime.operators.changelog_functions:ToChangelogOperator",
    plan.RememberExec: "runtime.operators.remember:RememberOperator",
    plan.FinalRowsExec: "runtime.operators.final_rows:FinalRowsOperator",
    plan.DuckDBExec: "runtime.operators.duckdb_query:DuckDBOperator",
    plan.UnnestExec: "runtime.operators.unnest:UnnestOperator",
    plan.GroupAggregateExec: "runtime.operators.group_aggregate:GroupAggregateOperator",
    plan.WindowAggregateExec: "runtime.operators.window_aggregate:WindowAggregateOperator",
    plan.HashJoinExec: "runtime.operators.hash_join:HashJoinOperator",
    plan.DeltaJoinExec: "runtime.operators.delta_join:DeltaJoinOperator",
    plan.AsofJoinExec: "runtime.operators.asof_join:AsofJoinOperator",
    plan.MultiJoinExec: "runtime.operators.multi_join:MultiJoinOperator",
    plan.IntervalJoinExec: "runtime.operators.interval_join:IntervalJoinOperator",
    plan.SnapshotJoinExec: "runtime.operators.snapshot_join:SnapshotJoinOperator",
    plan.TemporalJoinExec: "runtime.operators.temporal_join:TemporalJoinOperator",
    plan.WindowJoinExec: "runtime.operators.window_join:WindowJoinOperator",
    plan.CurrentJoinExec: "runtime.operators.current_join:CurrentJoinOperator",
    plan.LookupJoinExec: "runtime.operators.lookup_join:lookup_join_operator",
    plan.VectorSearchExec: "runtime.operators.vector_search:VectorSearchOperator",
    plan.SetOperationExec: "runtime.operators.set_operation:SetOperationOperator",
    plan.RecursiveExec: "runtime.operators.recursion:RecursiveOperator",
    plan.TopNExec: "runtime.operators.top_n:top_n_operator",
    plan.WindowTopNExec: "runtime.operators.window_top_n:WindowTopNOperator",
    plan.DeduplicateExec: "runtime.operators.deduplicate_changes:deduplicate_operator",
    plan.ExpandExec: "runtime.operators.expand:ExpandOperator",
    plan.OverAggregateExec: "runtime.operators.over_aggregate:OverAggregateOperator",
    plan.WindowTableExec: "runtime.operators.window_table:WindowTableOperator",
    plan.MatchExec: "runtime.operators.match_recognize:MatchOperator",
    plan.SortExec: "runtime.operators.sort:SortOperator",
    plan.LimitExec: "runtime.operators.limit:LimitOperator",
    plan.SinkMaterializeExec: "runtime.operators.sink_materialize:sink_materialize_operator",
    plan.SinkExec: "runtime.operators.sink:SinkOperator",
}


def build_operator(node: plan.PhysicalNode, context: OperatorContext) -> Operator:
    """The operator of a node; InternalError for a node class that has none."""
    name = _OPERATORS.get(type(node))
    if name is None:
        raise InternalError(
            f"no operator runs {type(node).__name__}", hint="this is a bug of the engine; please report the query"
        )
    return _named(name)(node, context)


@functools.cache
def _named(name: str) -> Callable[[Any, OperatorContext], Operator]:
    """What makes an operator; its module is loaded when the first plan has such a node."""
    return pkgutil.resolve_name(name)
