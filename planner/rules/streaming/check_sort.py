"""Refuse to write rows in an order that a stream cannot have.

    Sink (Sort price X)   →   PlanningError

In batch mode any order is possible. Else a sort without LIMIT is possible over insert-only rows by ascending event time
first: rows come out in time order as the watermark passes them. Of a query that is shown, any order is accepted, because
whoever shows the final rows sorts them. Streaming: changes nothing.
"""

from __future__ import annotations

from planner.logical.nodes import LogicalNode, Project, Sink, Sort
from planner.rule import Rule, RuleContext
from planner.rules.streaming.time_attributes import time_attributes
from planner.traits.changes import is_append_only
from runtime.core.errors import PlanningError
from runtime.expr.nodes import ColumnRef

__all__ = ["RULE"]


def check_sort(node: Sink, context: RuleContext) -> LogicalNode | None:
    source = node.input
    while isinstance(source, Project):
        source = source.input
    if not isinstance(source, Sort) or context.batch:
        return None
    first = source.keys[0]
    by_time = (
        isinstance(first.expr, ColumnRef)
        and first.expr.id in time_attributes(source.input, context)
        and not first.descending
    )
    if not by_time:
        raise PlanningError(
            "sorting by a column that is not a time attribute is not possible in a stream",
            span=source.span,
            hint="add LIMIT, or sort by an ascending event-time column first",
        )
    if not is_append_only(source.input, context.traits):
        raise PlanningError(
            "an updating table cannot be sorted by time", span=source.span, hint="add LIMIT, or remove ORDER BY"
        )
    return None


RULE = Rule("check_sort", Sink, check_sort, after=("convert_sort_to_top_n",), essential=True)
