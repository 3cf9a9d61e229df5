"""A part of a join's condition that reads one side only filters that side.

    Join INNER (c AND p(x) AND q(y)) X Y   →   Join INNER c (Filter p X) (Filter q Y)
    Join LEFT  (c AND q(y)) X Y            →   Join LEFT c X (Filter q Y)              RIGHT the other way round
    Join SEMI  (c AND p(x) AND q(y)) X Y   →   Join SEMI c (Filter p X) (Filter q Y)
    Join ANTI  (c AND q(y)) X Y            →   Join ANTI c X (Filter q Y)

Streaming: less state. Not applied to the kept side of an outer or anti join: its row comes out also when `p` is
false. FULL keeps both sides.
"""

from __future__ import annotations

from planner.logical.build import filtered
from planner.logical.nodes import Join, LogicalNode
from planner.rule import Rule, RuleContext
from planner.rules.pushdown.parting import part
from runtime.expr.nodes import Expr
from runtime.expr.rewrite import conjunction
from runtime.plan.nodes import JoinKind

__all__ = ["RULE"]

_LEFT = (JoinKind.INNER, JoinKind.RIGHT, JoinKind.SEMI)
_RIGHT = (JoinKind.INNER, JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI)


def push_condition_into_join(node: Join, context: RuleContext) -> LogicalNode | None:
    to_left: list[Expr] = []
    to_right: list[Expr] = []
    rest = node.condition
    if node.kind in _LEFT:
        to_left, kept = part(rest, [c.id for c in node.left.columns], context)
        rest = conjunction(kept)
    if node.kind in _RIGHT:
        to_right, kept = part(rest, [c.id for c in node.right.columns], context)
        rest = conjunction(kept)
    if not to_left and not to_right:
        return None
    return node.with_(left=filtered(node.left, to_left), right=filtered(node.right, to_right), condition=rest)


RULE = Rule("push_condition_into_join", Join, push_condition_into_join)
