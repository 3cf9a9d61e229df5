"""A join with one constant row is a projection.

    Join INNER c X (Values (1, 'a') as p, q)   →   Filter c (Project X, p = 1, q = 'a' X)

LEFT too when there is no condition; the constant row may stand on either side of INNER. Streaming: keeps no state,
keeps the changelog mode. Not applied when the constants are not deterministic.
"""

from __future__ import annotations

from planner.logical.build import filtered, passing, projected
from planner.logical.nodes import Join, LogicalNode, Project, Values
from planner.rule import Rule, RuleContext
from runtime.expr.analysis import is_constant
from runtime.expr.nodes import TRUE
from runtime.plan.nodes import JoinKind

__all__ = ["RULE"]


def remove_trivial_join(node: Join, context: RuleContext) -> LogicalNode | None:
    if node.kind is JoinKind.INNER or (node.kind is JoinKind.LEFT and node.condition == TRUE):
        if _one_row(node.right, context):
            return _computed(node, node.left, node.right)
    if node.kind is JoinKind.INNER and _one_row(node.left, context):
        return _computed(node, node.right, node.left)
    return None


def _one_row(plan: LogicalNode, context: RuleContext) -> bool:
    if not isinstance(plan, Values) or len(plan.rows) != 1:
        return False
    return all(is_constant(e, context.functions) for e in plan.rows[0])


def _computed(join: Join, source: LogicalNode, constant: LogicalNode) -> LogicalNode:
    assert isinstance(constant, Values)
    columns = {c.id: c for c in join.columns}
    items = tuple((columns[c.id], e) for c, e in zip(constant.produced, constant.rows[0], strict=True))
    plan = Project(source, (*passing(source.columns), *items)) if items else source
    return projected(filtered(plan, (join.condition,)), join.columns)


RULE = Rule("remove_trivial_join", Join, remove_trivial_join)
