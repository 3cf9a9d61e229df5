"""Expressions over `$1`, `$2`, .. that stand for calls."""

from __future__ import annotations

from functools import cache

from sqlglot import exp

from sqlengine.parse.nodes import FunctionCall, ParameterMark
from sqlengine.parse.spans import placed_at, span_of
from sqlengine.parse.statements import parse_expression

__all__ = ["filled"]


@cache
def _template(text: str) -> exp.Expr:
    return parse_expression(text)


def filled(text: str, call: FunctionCall, arguments: list[exp.Expr] | None = None) -> exp.Expr:
    """The expression with arguments in the places of its marks; errors about it point at the call."""
    given = call.expressions if arguments is None else arguments
    tree = placed_at(_template(text), span_of(call))
    for mark in list(tree.find_all(ParameterMark)):
        value = given[int(mark.parameter) - 1].copy()
        if mark is tree:
            return value
        mark.replace(value)
    return tree
