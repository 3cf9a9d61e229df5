"""Merge two stacked filters into one.

    Filter p (Filter q X)   →   Filter (q AND p) X

Streaming: no state, keeps the changelog mode. Not applied when `p` may fail on rows that `q` removes (`WHERE x <> 0`
below `10 / x > 1`): AND evaluates both on all rows.
"""

from __future__ import annotations

from planner.logical.nodes import Filter, LogicalNode
from planner.rule import Rule, RuleContext
from runtime.expr.analysis import can_fail
from runtime.expr.rewrite import conjunction

__all__ = ["RULE"]


def merge_filters(node: Filter, context: RuleContext) -> LogicalNode | None:
    match node:
        case Filter(input=Filter(input=source, predicate=inner), predicate=outer) if not can_fail(
            outer, context.functions
        ):
            return Filter(source, conjunction((inner, outer)))
        case _:
            return None


RULE = Rule("merge_filters", Filter, merge_filters)
