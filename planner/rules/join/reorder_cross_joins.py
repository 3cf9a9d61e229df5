"""Join only what is connected, when the written order would make a cross product.

    Join s = l (Join INNER part supplier) lineitem   →   Join s = … (Join p = l part lineitem) supplier

Relations are taken in the written order, each as soon as an equality ties it to those before it. Streaming: a cross
product keeps every pair. Not applied when the written order has no cross product, or when no order is without one.
"""

from __future__ import annotations

from planner.logical.build import projected
from planner.logical.nodes import Join, LogicalNode, Project
from planner.rule import Rule, RuleContext
from planner.traits.conditions import split_equalities
from runtime.expr.analysis import columns_of, conjuncts
from runtime.expr.nodes import ColumnRef, Expr
from runtime.expr.rewrite import conjunction
from runtime.plan.nodes import JoinKind

__all__ = ["RULE"]


def reorder_cross_joins(node: Join, context: RuleContext) -> LogicalNode | None:
    if node.kind is not JoinKind.INNER or not _has_cross(node):
        return None
    relations, conditions = _flat(node)
    if len(relations) < 3:
        return None
    plan, left = relations[0], relations[1:]
    rest = conditions
    while left:
        following = next((r for r in left if _tied(plan, r, rest)), None)
        if following is None:
            return None
        left = [r for r in left if r is not following]
        columns = {c.id for c in (*plan.columns, *following.columns)}
        usable = [c for c in rest if columns_of(c) <= columns]
        rest = [c for c in rest if c not in usable]
        plan = Join(plan, following, JoinKind.INNER, conjunction(usable))
    return projected(plan, node.columns)


def _inner(plan: LogicalNode) -> Join | None:
    if isinstance(plan, Project) and all(isinstance(e, ColumnRef) and e.id == c.id for c, e in plan.items):
        plan = plan.input
    return plan if isinstance(plan, Join) and plan.kind is JoinKind.INNER and not plan.hints else None


def _has_cross(join: Join) -> bool:
    inner = [j for j in (_inner(join.left), _inner(join.right)) if j is not None]
    return not _tied(join.left, join.right, list(conjuncts(join.condition))) or any(_has_cross(j) for j in inner)


def _flat(plan: LogicalNode) -> tuple[list[LogicalNode], list[Expr]]:
    join = _inner(plan)
    if join is None:
        return [plan], []
    left, left_conditions = _flat(join.left)
    right, right_conditions = _flat(join.right)
    return left + right, [*left_conditions, *right_conditions, *conjuncts(join.condition)]


def _tied(left: LogicalNode, right: LogicalNode, conditions: list[Expr]) -> bool:
    return bool(split_equalities(conjunction(conditions), left, right)[0])


RULE = Rule("reorder_cross_joins", Join, reorder_cross_joins, after=("push_filter_into_join",))
