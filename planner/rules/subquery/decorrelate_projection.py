"""Columns that LATERAL computes from the left row are computed above the join.

    DependentJoin INNER X (Project f(outer(x), y) Y)   →   Project X, f(x, y) (DependentJoin INNER X Y)

Streaming: no state; where Y is a single row (`LATERAL (SELECT x * 2)`), none at all after `remove_trivial_join`. Not
for LEFT, unless Y is one constant row: a left row without partner needs NULL, not the value of f. Not when only
conditions are correlated: `decorrelate_by_predicate` does those.
"""

from __future__ import annotations

from planner.logical.build import filtered, passing, projected, resolve_outer
from planner.logical.nodes import DependentJoin, LogicalNode, Project, Values
from planner.rule import Rule, RuleContext
from runtime.expr.analysis import outer_columns_of
from runtime.expr.nodes import TRUE
from runtime.plan.nodes import JoinKind

__all__ = ["RULE"]


def decorrelate_projection(node: DependentJoin, context: RuleContext) -> LogicalNode | None:
    project = node.right
    if not isinstance(project, Project):
        return None
    columns = {c.id: c for c in node.left.columns}
    if not outer_columns_of(e for _, e in project.items) & columns.keys():
        return None
    one_row = isinstance(project.input, Values) and len(project.input.rows) == 1
    if node.kind is not JoinKind.INNER and not (node.kind is JoinKind.LEFT and one_row and node.condition == TRUE):
        return None
    join = DependentJoin(node.left, project.input, JoinKind.INNER, TRUE)
    items = tuple((c, resolve_outer(e, columns)) for c, e in project.items)
    plan = Project(join, (*passing(node.left.columns), *items))
    return projected(filtered(plan, (resolve_outer(node.condition, columns),)), node.columns)


RULE = Rule(
    "decorrelate_projection",
    DependentJoin,
    decorrelate_projection,
    after=("convert_dependent_to_join", "decorrelate_scalar_aggregate"),
    essential=True,
)
