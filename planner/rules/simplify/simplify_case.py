"""Shorten CASE (and with it COALESCE, IF and NULLIF, which the binder writes as CASE).

    CASE WHEN TRUE THEN a … → a         CASE WHEN FALSE THEN a ELSE b END → b       CASE WHEN c THEN a ELSE a END → a
    CASE WHEN c THEN TRUE ELSE FALSE END → c IS TRUE

Streaming: no state, keeps the changelog mode. A branch after the first that is always taken is dropped, also if it
would fail.
"""

from __future__ import annotations

from planner.logical.expressions import map_expressions
from planner.rule import RuleContext, expression_rule
from planner.rules.simplify.places import PLACES
from runtime.core.types import BOOLEAN
from runtime.expr.analysis import can_fail, is_deterministic, is_false, is_null_literal, is_true
from runtime.expr.nodes import Call, Case, Expr, transform

__all__ = ["RULE"]


def simplify_case(expr: Expr, context: RuleContext) -> Expr:
    return transform(expr, lambda e: _simplified(e, context) if isinstance(e, Case) else e)


def _simplified(case: Case, context: RuleContext) -> Expr:
    branches: list[tuple[Expr, Expr]] = []
    otherwise = case.otherwise
    for condition, value in case.branches:
        if is_true(condition):
            otherwise = value
            break
        if not is_false(condition) and not is_null_literal(condition):
            branches.append((condition, value))
    while branches and branches[-1][1] == otherwise and _droppable(branches[-1][0], context):
        branches.pop()
    if not branches:
        return otherwise if _same_type(otherwise, case) else case
    if len(branches) == 1 and is_true(branches[0][1]) and is_false(otherwise):
        return Call("IS TRUE", (branches[0][0],), BOOLEAN.not_null())
    pairs = tuple(branches)
    return (
        case
        if pairs == case.branches and otherwise == case.otherwise
        else case.with_(branches=pairs, otherwise=otherwise)
    )


def _droppable(condition: Expr, context: RuleContext) -> bool:
    return is_deterministic(condition, context.functions) and not can_fail(condition, context.functions)


def _same_type(value: Expr, case: Case) -> bool:
    return value.type.materialized().same_ignoring_nullability(case.type.materialized())


RULE = expression_rule("simplify_case", PLACES, simplify_case, map_expressions, after=("simplify_boolean",))
