"""A subquery in an ON clause moves to where it may stand.

    Join INNER (c AND sub) X Y            →  Filter sub (Join INNER c X Y)
    Join LEFT  (c AND sub over Y) X Y     →  Join LEFT c X (Filter sub Y)        (RIGHT the other way round)
    Join SEMI/ANTI (c AND sub over Y) X Y →  Join SEMI/ANTI c X (Filter sub Y)

Streaming: no state of its own, keeps the changelog mode. Other places (a subquery over the kept side of an outer
join, over both sides of one, in FULL) have no such form: UnsupportedError.
"""

from __future__ import annotations

from planner.logical.build import filtered
from planner.logical.expressions import outer_ids
from planner.logical.nodes import Join, LogicalNode
from planner.rule import Rule, RuleContext
from runtime.core.errors import Span, UnsupportedError
from runtime.expr.analysis import columns_of, conjuncts, contains_subquery
from runtime.expr.nodes import Expr, SubqueryExpr, walk
from runtime.expr.rewrite import conjunction
from runtime.plan.nodes import JoinKind

__all__ = ["RULE"]


def pull_subquery_from_join(node: Join, context: RuleContext) -> LogicalNode | None:
    parts = conjuncts(node.condition)
    inner = [p for p in parts if contains_subquery(p)]
    if not inner:
        return None
    plain = conjunction(p for p in parts if not contains_subquery(p))
    if node.kind is JoinKind.INNER:
        return filtered(node.with_(condition=plain), inner)
    left, right = ({c.id for c in side.columns} for side in node.inputs)
    for part in inner:
        used = _used(part)
        if node.kind is not JoinKind.FULL and not (used & (right if node.kind is JoinKind.RIGHT else left)):
            continue
        raise UnsupportedError(
            "a subquery in the ON clause of an outer join may only refer to the side that is filled with NULLs",
            span=_span(part),
            hint="join first and filter by the subquery in WHERE, or compute it in a subquery in FROM",
        )
    if node.kind is JoinKind.RIGHT:
        return node.with_(left=filtered(node.left, inner), condition=plain)
    return node.with_(right=filtered(node.right, inner), condition=plain)


def _used(part: Expr) -> frozenset[int]:
    """Columns of the join that a condition reads, by itself or from inside its subqueries."""
    used = columns_of(part)
    for expr in walk(part):
        if isinstance(expr, SubqueryExpr) and isinstance(expr.plan, LogicalNode):
            used |= outer_ids(expr.plan)
    return used


def _span(part: Expr) -> Span | None:
    return next((e.span for e in walk(part) if isinstance(e, SubqueryExpr)), None)


RULE = Rule("pull_subquery_from_join", Join, pull_subquery_from_join, essential=True)
