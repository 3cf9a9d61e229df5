"""Which parts of an expression are calls of aggregates: for those who give each of them a window."""

from __future__ import annotations

from sqlglot import exp

from runtime.core.errors import Span
from runtime.expr.function import AggregateFunction, FunctionRegistry
from sqlengine.bind.functions import meant
from sqlengine.parse import parse_expression
from sqlengine.parse.nodes import FunctionCall
from sqlengine.parse.spans import span_of

__all__ = ["aggregate_calls"]

_CLAUSES = (exp.Filter, exp.IgnoreNulls, exp.RespectNulls, exp.WithinGroup)


def aggregate_calls(text: str, functions: FunctionRegistry) -> list[Span]:
    """The places of the aggregates in an expression, each with its FILTER, in order. Calls that have an OVER already,
    and what is in subqueries, are none.

    Raises SqlSyntaxError for a text that is no expression.
    """
    found: list[Span] = []
    waiting: list[exp.Expr] = [parse_expression(text)]
    while waiting:
        tree = waiting.pop()
        if isinstance(tree, (exp.Window, exp.Query)):
            continue
        call = tree
        while isinstance(call, _CLAUSES):
            call = call.this
        if isinstance(call, FunctionCall) and _is_aggregate(call, functions):
            span = span_of(tree)
            assert span is not None
            found.append(span)
            continue
        waiting.extend(tree.iter_expressions())
    return sorted(found, key=lambda span: span.start)


def _is_aggregate(call: FunctionCall, functions: FunctionRegistry) -> bool:
    meaning = meant(call, functions)
    if not isinstance(meaning, FunctionCall):
        return False
    name = meaning.name.upper()
    return name == "PERCENTILE_CONT" or isinstance(functions.find(name), AggregateFunction)
