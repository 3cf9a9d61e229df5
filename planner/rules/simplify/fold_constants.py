"""Compute constant expressions once, while planning.

    Filter price > 10 * 10   →   Filter price > 100

Streaming: no state, keeps the changelog mode. Not for functions that read the clock or chance, nor for what fails
(`CAST('x' AS INT)`, `1 / 0`): that fails when a row needs it, as Flink's does, and not when no row does. Arrays, maps
and rows stay as they are written.
"""

from __future__ import annotations

from planner.logical.expressions import map_expressions
from planner.rule import RuleContext, expression_rule
from planner.rules.simplify.places import PLACES
from runtime.core.errors import SqlEngineError
from runtime.eval.constant import fold_constant
from runtime.expr.analysis import is_constant_itself
from runtime.expr.display import show
from runtime.expr.nodes import Expr, Lambda, Literal, children, map_children, walk

__all__ = ["RULE"]


def fold_constants(expr: Expr, context: RuleContext) -> Expr:
    return _folded(expr, context, {})


def _folded(expr: Expr, context: RuleContext, known: dict[int, bool]) -> Expr:
    """`known` tells, by the identity of each part that was looked at, whether it is constant: each is looked at once."""
    if isinstance(expr, Literal | Lambda):
        return expr
    if not expr.type.is_nested and expr.type.time_attribute is None and _constant(expr, context, known):
        try:
            folded = fold_constant(expr, context.functions, context.time_zone, None)
        except SqlEngineError:
            return expr
        given = any(isinstance(part, Literal) and part.origin for part in walk(expr))
        return folded.with_(origin=show(expr)) if given else folded
    return map_children(expr, lambda e: _folded(e, context, known))


def _constant(expr: Expr, context: RuleContext, known: dict[int, bool]) -> bool:
    found = known.get(id(expr))
    if found is None:
        found = known[id(expr)] = is_constant_itself(expr, context.functions) and all(
            _constant(part, context, known) for part in children(expr)
        )
    return found


RULE = expression_rule("fold_constants", PLACES, fold_constants, map_expressions)
