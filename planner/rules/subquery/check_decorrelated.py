"""Refuse a plan that still holds a subquery: no rule knew a join for it.

Streaming: changes nothing.
"""

from __future__ import annotations

from planner.logical.expressions import all_expressions, walk_plan
from planner.logical.nodes import DependentJoin, LogicalNode
from planner.rule import Rule, RuleContext
from runtime.core.errors import UnsupportedError
from runtime.expr.nodes import OuterRef, SubqueryExpr

__all__ = ["RULE"]


def check_decorrelated(plan: LogicalNode, context: RuleContext) -> LogicalNode | None:
    for expr in all_expressions(plan):
        if isinstance(expr, SubqueryExpr):
            raise UnsupportedError(
                "a subquery cannot stand here",
                span=expr.span,
                hint="write it in FROM, WHERE, HAVING or the SELECT list",
            )
        if isinstance(expr, OuterRef):
            raise _refusal(f'the reference to "{expr.name}" of the outer query cannot be computed as a join')
    if any(isinstance(n, DependentJoin) for n in walk_plan(plan)):
        raise _refusal("this correlated subquery cannot be computed as a join")
    return None


def _refusal(message: str) -> UnsupportedError:
    return UnsupportedError(
        message, hint="move the reference to the outer table into a WHERE condition of the subquery"
    )


RULE = Rule(
    "check_decorrelated",
    LogicalNode,
    check_decorrelated,
    after=("decorrelate_by_domain",),
    essential=True,
    whole_plan=True,
)
