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
from runtime.expr.analysis import contains, is_constant
from runtime.expr.display import show
from runtime.expr.nodes import Expr, Lambda, LambdaVariable, Literal, map_children, walk

__all__ = ["RULE"]


def fold_constants(expr: Expr, context: RuleContext) -> Expr:
    if isinstance(expr, Literal | Lambda):
        return expr
    if _foldable(expr, context):
        try:
            folded = fold_constant(expr, context.functions, context.time_zone)
        except SqlEngineError:
            return expr
        given = any(isinstance(part, Literal) and part.origin for part in walk(expr))
        return folded.with_(origin=show(expr)) if given else folded
    return map_children(expr, lambda e: fold_constants(e, context))


def _foldable(expr: Expr, context: RuleContext) -> bool:
    if expr.type.is_nested or expr.type.time_attribute is not None or contains(expr, (Lambda, LambdaVariable)):
        return False
    return is_constant(expr, context.functions)


RULE = expression_rule("fold_constants", PLACES, fold_constants, map_expressions)
