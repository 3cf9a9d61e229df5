"""Filter before computing columns.

    Filter q > 10 (Project price * 2 AS q X)   →   Project price * 2 AS q (Filter price * 2 > 10 X)

Streaming: no state, keeps the changelog mode. Not for conditions over columns whose value depends on chance or the
clock.
"""

from __future__ import annotations

from planner.logical.build import filtered, only_columns
from planner.logical.nodes import Filter, LogicalNode, Project
from planner.rule import Rule, RuleContext
from planner.rules.pushdown.parting import movable, part_by
from runtime.expr.analysis import columns_of
from runtime.expr.rewrite import substitute

__all__ = ["RULE"]


def push_filter_into_project(node: Filter, context: RuleContext) -> LogicalNode | None:
    if not isinstance(node.input, Project):
        return None
    project = node.input
    values = only_columns(project.items)
    moved, kept = part_by(
        node.predicate,
        lambda c: (
            bool(columns_of(c))
            and all(movable(e, context, may_fail=True) for e in (c, *(values[i] for i in columns_of(c))))
        ),
    )
    if not moved:
        return None
    return filtered(project.with_(input=filtered(project.input, (substitute(c, values) for c in moved))), kept)


RULE = Rule("push_filter_into_project", Filter, push_filter_into_project)
