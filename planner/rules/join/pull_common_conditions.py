"""Take out of an OR what all its branches ask.

    (a = b AND c) OR (a = b AND d)   →   a = b AND (c OR d)
    (a = b AND c) OR a = b           →   a = b

Streaming: an equality inside an OR cannot be a join key; taken out, the join need not compare every pair of rows
(TPC-H 19).
"""

from __future__ import annotations

from planner.logical.expressions import map_expressions
from planner.logical.nodes import Filter, Join
from planner.rule import RuleContext, expression_rule
from runtime.expr.analysis import conjuncts
from runtime.expr.nodes import Call, Expr, transform
from runtime.expr.rewrite import conjunction, disjunction

__all__ = ["RULE"]


def pull_common_conditions(expr: Expr, context: RuleContext) -> Expr:
    return transform(expr, _pulled)


def _pulled(expr: Expr) -> Expr:
    if not isinstance(expr, Call) or expr.function != "OR":
        return expr
    branches = [conjuncts(a) for a in expr.args]
    common = [c for c in branches[0] if all(c in b for b in branches[1:])]
    if not common:
        return expr
    rests = [[c for c in b if c not in common] for b in branches]
    if not all(rests):
        return conjunction(common)
    return conjunction((*common, disjunction(conjunction(r) for r in rests)))


RULE = expression_rule("pull_common_conditions", (Filter, Join), pull_common_conditions, map_expressions)
