"""Saying in the user's words which part of a query does something."""

from __future__ import annotations

from collections.abc import Iterable

from planner.logical import nodes as n
from planner.logical.expressions import node_expressions
from planner.logical.nodes import JoinKind, LogicalNode
from planner.traits.changes import is_append_only
from planner.traits.context import TraitContext
from runtime.core.errors import Span
from runtime.expr.function import shown_name
from runtime.expr.nodes import ColumnRef, walk

__all__ = ["describe", "place_of", "updating_origin"]


def updating_origin(plan: LogicalNode, context: TraitContext) -> LogicalNode:
    """The lowest node to which the updates of a plan can be traced: its inputs are insert-only, it is not."""
    for source in (plan.plan,) if isinstance(plan, n.Shared) else plan.inputs:
        if not is_append_only(source, context):
            return updating_origin(source, context)
    return plan


def describe(plan: LogicalNode) -> str:
    """A node as a phrase with an article, for messages: `the aggregation by item`."""
    match plan:
        case n.Shared(name=name):
            return f"the query {name}"
        case n.Scan(name=name):
            return f"the table {_short(name)}"
        case n.Aggregate(group=group, calls=calls):
            what = "aggregation" if calls else "DISTINCT or GROUP BY"
            return f"the {what} by {_names(group)}" if group else f"the {what} over all rows"
        case n.Join(kind=kind):
            return f"the {_JOINS[kind]} join"
        case n.TopN(end=end):
            return f"the top {end} rows" if end is not None else "the ranking"
        case n.Sort(limit=limit) | n.Limit(limit=limit) if limit is not None:
            return f"the first {limit} rows"
        case n.Deduplicate(keys=keys, keep_last=last):
            return f"the {'last' if last else 'first'} row by {_names(keys)}"
        case n.ProcessTables(function=function):
            return f"the function {shown_name(function)}"
        case n.Over():
            return "the OVER window that is not ordered by time"
        case _:
            return _NAMES.get(type(plan), "the query")


def place_of(plan: LogicalNode) -> Span | None:
    """Where in the text a node was written: its expressions that know their place, else the tables below it. None when
    rules have left nothing of that."""
    own = getattr(plan, "span", None)
    if own is not None:
        return own
    spans = [s for e in node_expressions(plan) for part in walk(e) if (s := getattr(part, "span", None)) is not None]
    if not spans:
        spans = [s for source in plan.inputs if (s := place_of(source)) is not None]
    return Span(min(s.start for s in spans), max(s.end for s in spans)) if spans else None


_JOINS = {
    JoinKind.INNER: "inner",
    JoinKind.LEFT: "left outer",
    JoinKind.RIGHT: "right outer",
    JoinKind.FULL: "full outer",
    JoinKind.SEMI: "semi (IN or EXISTS)",
    JoinKind.ANTI: "anti (NOT IN or NOT EXISTS)",
}
_NAMES: dict[type, str] = {
    n.Match: "MATCH_RECOGNIZE",
    n.Sort: "the sort",
    n.Limit: "the limit",
    n.Intersect: "INTERSECT",
    n.Except: "EXCEPT",
    n.Union: "UNION ALL",
    n.Remember: "the values that are given once",
    n.Recursive: "WITH RECURSIVE",
    n.LastRound: "WITH RECURSIVE",
    n.TemporalJoin: "the temporal join",
    n.CurrentJoin: "the join as of processing time",
    n.LookupJoin: "the lookup join",
    n.VectorSearch: "VECTOR_SEARCH",
    n.WindowJoin: "the window join",
    n.IntervalJoin: "the interval join",
    n.AsofJoin: "the ASOF join",
    n.MultiJoin: "the join of several tables on one key",
    n.WindowTopN: "the top rows of each window",
    n.WindowAggregate: "the window aggregation",
    n.WindowTable: "the window function",
    n.FromChangelog: "FROM_CHANGELOG",
    n.ToChangelog: "TO_CHANGELOG",
}


def _names(refs: Iterable[ColumnRef]) -> str:
    return ", ".join(r.name for r in refs) or "all columns"


def _short(name: str) -> str:
    return name.rsplit(".", 1)[-1]
