"""Comparisons with ANY (SOME) and ALL of the rows of a query.

`x = ANY (S)` is IN and `x <> ALL (S)` NOT IN. The others ask for an extreme of S and for the number of its NULLs, with m
the value of S that is hardest (ALL) or easiest (ANY) to meet:

    x > ALL (S)      S has no value   ->  TRUE, or NULL when it has NULLs
                     NOT (x > m)      ->  FALSE
                     S has NULLs      ->  NULL
                     else                 x > m

and ANY the other way round. `x = ALL (S)` asks for both extremes, and `x <> ANY (S)` is its negation.
"""

from __future__ import annotations

from sqlglot import exp

from planner.logical.nodes import Aggregate, Filter, LogicalNode
from runtime.core.errors import BindError, Span
from runtime.core.types import BIGINT, BOOLEAN
from runtime.expr.nodes import (
    AggregateCall,
    Call,
    Case,
    ColumnRef,
    Expr,
    Literal,
    SubqueryExpr,
    SubqueryKind,
    fresh_column,
)
from runtime.expr.typing import resolve_call
from sqlengine.bind.operators import comparison, conjunction, negation
from sqlengine.bind.session import ExpressionRules
from sqlengine.bind.subquery import bound_subquery, in_query
from sqlengine.parse.spans import span_of

__all__ = ["quantified"]

_SIGNS: dict[type[exp.Expr], str] = {exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
_MISSING = Literal(None, BOOLEAN)


def quantified(binder: ExpressionRules, tree: exp.Binary) -> Expr:
    """`x <op> ANY (query)` or `x <op> ALL (query)`.

    Raises:
        BindError: E1220 when the query has several columns.
        TypeMismatchError: E1304 when x does not compare with its values, E1301 when they have no order.
    """
    side, span = tree.expression, span_of(tree)
    every = isinstance(side, exp.All)
    if isinstance(tree, exp.EQ):
        return _all_equal(binder, tree, span) if every else in_query(binder, tree.this, side.this, span)
    if isinstance(tree, exp.NEQ):
        found = in_query(binder, tree.this, side.this, span) if every else _all_equal(binder, tree, span)
        return negation(found, span)
    sign = _SIGNS[type(tree)]
    hardest = "MAX" if (sign in (">", ">=")) is every else "MIN"
    value = _extreme(binder, side.this, hardest)
    holds = comparison(sign, binder.bind(tree.this), value, span)
    decides = negation(holds, span) if every else holds
    return _decided(binder, side.this, value, every, decides, holds)


def _all_equal(binder: ExpressionRules, tree: exp.Binary, span: Span | None) -> Expr:
    """`x = ALL (query)`: x is the least and the greatest value."""
    query, operand = tree.expression.this, binder.bind(tree.this)
    least, most = _extreme(binder, query, "MIN"), _extreme(binder, query, "MAX")
    holds = conjunction([comparison("=", operand, least, span), comparison("=", operand, most, span)])
    return _decided(binder, query, most, True, negation(holds, span), holds)


def _decided(binder: ExpressionRules, query: exp.Expr, extreme: Expr, every: bool, decides: Expr, holds: Expr) -> Expr:
    """The answer: of a query without values, where the extreme `decides`, where NULLs leave it open, else `holds`."""
    nulls = _nulls(binder, query)
    empty: Expr = Literal(every, BOOLEAN)
    if nulls is not None:
        empty = Case(((nulls, _MISSING),), empty, BOOLEAN)
    no_value = Call("IS NULL", (extreme,), BOOLEAN.not_null())
    branches = [(no_value, empty), (decides, Literal(not every, BOOLEAN))]
    if nulls is not None:
        branches.append((nulls, _MISSING))
    return Case(tuple(branches), holds, BOOLEAN)


def _column(binder: ExpressionRules, query: exp.Expr) -> tuple[LogicalNode, ColumnRef]:
    """The query's plan, with ids of its own each time, and its one column."""
    bound = bound_subquery(binder, query)
    if len(bound.names) != 1:
        raise BindError(
            f"the query of ANY or ALL has {len(bound.names)} columns for one value",
            code="E1220",
            span=span_of(query),
            hint="select one column",
        )
    return bound.plan, bound.plan.columns[0].ref()


def _extreme(binder: ExpressionRules, query: exp.Expr, name: str) -> Expr:
    """MIN or MAX of the query, NULL where it has no value."""
    plan, column = _column(binder, query)
    function = binder.env.context.functions.aggregate(name)
    _, result = resolve_call(function, [column.type], [None], span=span_of(query))
    return _one_value(plan, AggregateCall(name, (column,), result.with_nullable(True)), span_of(query))


def _nulls(binder: ExpressionRules, query: exp.Expr) -> Expr | None:
    """Whether the query has NULLs; None when its column cannot be NULL."""
    plan, column = _column(binder, query)
    if not column.type.nullable:
        return None
    missing = Call("IS NULL", (column,), BOOLEAN.not_null())
    number = _one_value(Filter(plan, missing), AggregateCall("COUNT", (), BIGINT.not_null()), span_of(query))
    return Call(">", (number, Literal(0, BIGINT.not_null())), BOOLEAN)


def _one_value(plan: LogicalNode, call: AggregateCall, span: Span | None) -> Expr:
    column = fresh_column("EXPR$0", call.type)
    whole = Aggregate(plan, (), ((column, call),), scalar=True)
    return SubqueryExpr(SubqueryKind.SCALAR, whole, (), call.type.with_nullable(True), span=span)
