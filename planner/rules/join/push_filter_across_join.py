"""What is known of one side of an equality holds for the other.

    Join INNER a = b (Filter a > 5 X) Y               →   Join INNER a = b (Filter a > 5 X) (Filter b > 5 Y)
    Join INNER (p(x) AND q(y)) OR (r(x) AND s(y)) X Y →   the same over (Filter p OR r X) (Filter q OR s Y)

From left to right also for LEFT and ANTI, from right to left for RIGHT; not for FULL. The stage runs it once: what it
adds moves on and could be inferred again for ever.

Streaming: less state on the other side. Only conditions over one column that cannot fail; not for FLOAT and DOUBLE
(0.0 = -0.0).
"""

from __future__ import annotations

from planner.logical.build import filtered
from planner.logical.nodes import Join, LogicalNode
from planner.rule import Rule, RuleContext
from planner.rules.join.known_conditions import known_conditions
from planner.rules.pushdown.parting import movable
from planner.traits.conditions import split_equalities
from runtime.expr.analysis import columns_of, conjuncts, disjuncts
from runtime.expr.nodes import Call, ColumnRef, Expr
from runtime.expr.rewrite import conjunction, disjunction, substitute
from runtime.plan.nodes import JoinKind

__all__ = ["RULE"]

_TO_RIGHT = (JoinKind.INNER, JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI)
_TO_LEFT = (JoinKind.INNER, JoinKind.RIGHT, JoinKind.SEMI)


def push_filter_across_join(node: Join, context: RuleContext) -> LogicalNode | None:
    pairs, _ = split_equalities(node.condition, node.left, node.right)
    columns = [
        (p.left, p.right)
        for p in pairs
        if isinstance(p.left, ColumnRef) and isinstance(p.right, ColumnRef) and _alike(p.left, p.right)
    ]
    new_left: list[Expr] = []
    new_right: list[Expr] = []
    if node.kind in _TO_RIGHT:
        new_right = _inferred(node.left, node.right, columns, context) + _implied(node.condition, node.right, context)
    if node.kind in _TO_LEFT:
        new_left = _inferred(node.right, node.left, [(b, a) for a, b in columns], context) + _implied(
            node.condition, node.left, context
        )
    if not new_left and not new_right:
        return None
    return node.with_(left=filtered(node.left, new_left), right=filtered(node.right, new_right))


def _alike(a: ColumnRef, b: ColumnRef) -> bool:
    return a.type.materialized().same_ignoring_nullability(b.type.materialized()) and not a.type.is_approximate


def _inferred(
    source: LogicalNode, target: LogicalNode, pairs: list[tuple[ColumnRef, ColumnRef]], context: RuleContext
) -> list[Expr]:
    known = set(known_conditions(target))
    found: dict[Expr, None] = {}
    for condition in known_conditions(source):
        for a, b in pairs:
            if columns_of(condition) == frozenset({a.id}) and movable(condition, context):
                moved = substitute(condition, {a.id: b})
                if moved not in known:
                    found[moved] = None
    return list(found)


def _implied(condition: Expr, side: LogicalNode, context: RuleContext) -> list[Expr]:
    """What an OR over both sides says about one: the OR of what each branch asks of it."""
    own = {c.id for c in side.columns}
    known = set(known_conditions(side))
    found: list[Expr] = []
    for part in conjuncts(condition):
        if not (isinstance(part, Call) and part.function == "OR") or columns_of(part) <= own:
            continue
        branches = [
            [c for c in conjuncts(b) if columns_of(c) and columns_of(c) <= own and movable(c, context)]
            for b in disjuncts(part)
        ]
        if all(branches):
            weaker = disjunction(conjunction(b) for b in branches)
            if weaker not in known:
                found.append(weaker)
    return found


RULE = Rule(
    "push_filter_across_join",
    Join,
    push_filter_across_join,
    after=("push_filter_into_join", "push_condition_into_join"),
)
