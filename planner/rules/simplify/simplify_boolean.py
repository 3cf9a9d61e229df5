"""Shorten AND, OR, NOT and the tests for NULL.

    a AND TRUE → a      a AND FALSE → FALSE      a AND a → a      NOT NOT a → a      NOT (a AND b) → NOT a OR NOT b
    NOT a < b → a >= b  (not for FLOAT and DOUBLE: NaN is neither)      NOT a IS NULL → a IS NOT NULL
    a IS NULL → FALSE, a IS NOT NULL → TRUE   where a cannot be NULL

All of them keep SQL's three values. Streaming: no state, keeps the changelog mode.
"""

from __future__ import annotations

from planner.logical.expressions import map_expressions
from planner.rule import RuleContext, expression_rule
from planner.rules.simplify.places import PLACES
from runtime.expr.analysis import is_deterministic, is_false, is_null_literal, is_true
from runtime.expr.nodes import TRUE, Call, Expr, transform
from runtime.expr.rewrite import FALSE, conjunction, disjunction, negation

__all__ = ["RULE"]

_OPPOSITE = {
    "=": "<>",
    "<>": "=",
    "<": ">=",
    ">=": "<",
    ">": "<=",
    "<=": ">",
    "IS NULL": "IS NOT NULL",
    "IS NOT NULL": "IS NULL",
    "IS DISTINCT FROM": "IS NOT DISTINCT FROM",
    "IS NOT DISTINCT FROM": "IS DISTINCT FROM",
    "IS TRUE": "IS NOT TRUE",
    "IS NOT TRUE": "IS TRUE",
    "IS FALSE": "IS NOT FALSE",
    "IS NOT FALSE": "IS FALSE",
    "IS UNKNOWN": "IS NOT UNKNOWN",
    "IS NOT UNKNOWN": "IS UNKNOWN",
}
_ORDERING = frozenset({"<", ">=", ">", "<="})


def simplify_boolean(expr: Expr, context: RuleContext) -> Expr:
    return transform(expr, lambda e: _simplified(e, context))


def _simplified(expr: Expr, context: RuleContext) -> Expr:
    match expr:
        case Call(function="AND", args=args):
            return FALSE if any(is_false(a) for a in args) else _shorter(expr, conjunction(args))
        case Call(function="OR", args=args):
            return TRUE if any(is_true(a) for a in args) else _shorter(expr, disjunction(args))
        case Call(function="NOT", args=(arg,)):
            return _not(expr, arg)
        case Call(function="IS NULL" | "IS UNKNOWN", args=(arg,)) if not arg.type.nullable and is_deterministic(
            arg, context.functions
        ):
            return FALSE
        case Call(function="IS NOT NULL" | "IS NOT UNKNOWN", args=(arg,)) if not arg.type.nullable and is_deterministic(
            arg, context.functions
        ):
            return TRUE
        case Call(function="IS TRUE", args=(arg,)) if not arg.type.nullable:
            return arg
        case _:
            return expr


def _shorter(old: Call, new: Expr) -> Expr:
    return old if isinstance(new, Call) and new.function == old.function and new.args == old.args else new


def _not(expr: Call, arg: Expr) -> Expr:
    if is_true(arg):
        return FALSE
    if is_false(arg):
        return TRUE
    if is_null_literal(arg):
        return arg
    match arg:
        case Call(function="NOT", args=(inner,)):
            return inner
        case Call(function="AND", args=args):
            return disjunction(_negated(a) for a in args)
        case Call(function="OR", args=args):
            return conjunction(_negated(a) for a in args)
        case Call():
            changed = _negated(arg)
            return expr if isinstance(changed, Call) and changed.function == "NOT" else changed
        case _:
            return expr


def _negated(expr: Expr) -> Expr:
    if isinstance(expr, Call) and expr.function in _OPPOSITE:
        if not (expr.function in _ORDERING and any(a.type.is_approximate for a in expr.args)):
            return expr.with_(function=_OPPOSITE[expr.function])
    return negation(expr)


RULE = expression_rule("simplify_boolean", PLACES, simplify_boolean, map_expressions)
