"""Merge two stacked projections into one.

    Project p * 2 AS q (Project price + 1 AS p X)   →   Project (price + 1) * 2 AS q X

Streaming: no state, keeps the changelog mode. Not applied when an expression that costs something would be computed
twice, or when one that is not deterministic would give two values where there was one.
"""

from __future__ import annotations

from collections import Counter

from planner.logical.build import only_columns
from planner.logical.nodes import LogicalNode, Project
from planner.rule import Rule, RuleContext
from runtime.expr.analysis import contains_subquery
from runtime.expr.nodes import ColumnRef, Literal, walk
from runtime.expr.rewrite import substitute

__all__ = ["RULE"]


def merge_projects(node: Project, context: RuleContext) -> LogicalNode | None:
    if not isinstance(node.input, Project) or any(contains_subquery(e) for _, e in node.items):
        return None
    inner = only_columns(node.input.items)
    uses = Counter(e.id for _, expr in node.items for e in walk(expr) if isinstance(e, ColumnRef))
    for id_, count in uses.items():
        if count > 1 and not isinstance(inner[id_], ColumnRef | Literal):
            return None
    return Project(node.input.input, tuple((c, substitute(e, inner)) for c, e in node.items))


RULE = Rule("merge_projects", Project, merge_projects)
