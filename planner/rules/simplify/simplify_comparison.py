"""Write comparisons in one way: the constant on the right.

    10 < price      → price > 10
    x = x           → TRUE          (x not NULL, deterministic, exact)
    a IN (5)        → a = 5
    a IN (1, 1, 2)  → a IN (1, 2)

Streaming: no state, keeps the changelog mode. `x = x` stays where x may be NULL (it is unknown then) or NaN.
"""

from __future__ import annotations

from planner.logical.expressions import map_expressions
from planner.rule import RuleContext, expression_rule
from planner.rules.simplify.places import PLACES
from runtime.expr.analysis import is_constant, is_deterministic
from runtime.expr.nodes import TRUE, Call, Constants, Expr, InList, transform

__all__ = ["MIRRORED", "RULE"]

MIRRORED = {
    "=": "=",
    "<>": "<>",
    "<": ">",
    ">": "<",
    "<=": ">=",
    ">=": "<=",
    "IS DISTINCT FROM": "IS DISTINCT FROM",
    "IS NOT DISTINCT FROM": "IS NOT DISTINCT FROM",
}
"""The comparison that says the same of its arguments in the other order."""

_REFLEXIVE = frozenset({"=", "<=", ">=", "IS NOT DISTINCT FROM"})


def simplify_comparison(expr: Expr, context: RuleContext) -> Expr:
    return transform(expr, lambda e: _simplified(e, context))


def _simplified(expr: Expr, context: RuleContext) -> Expr:
    match expr:
        case Call(function=function, args=(left, right)) if function in MIRRORED:
            if is_constant(left) and not is_constant(right):
                return expr.with_(function=MIRRORED[function], args=(right, left))
            same = left == right and function in _REFLEXIVE and not left.type.nullable and not left.type.is_approximate
            return TRUE if same and is_deterministic(left, context.functions) else expr
        case InList(value=value, items=items):
            distinct = tuple(dict.fromkeys(items))
            if len(distinct) == 1 and not isinstance(distinct[0], Constants):
                return Call("=", (value, distinct[0]), expr.type)
            return expr if distinct == items else expr.with_(items=distinct)
        case _:
            return expr


RULE = expression_rule("simplify_comparison", PLACES, simplify_comparison, map_expressions)
