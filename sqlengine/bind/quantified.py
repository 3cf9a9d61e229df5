"""Comparisons with ANY (SOME) and ALL of the rows of a query, or of the elements of an array.

`x = ANY (S)` is IN and `x <> ALL (S)` NOT IN. The others ask for an extreme of S and for the number of its NULLs, with m
the value of S that is hardest (ALL) or easiest (ANY) to meet:

    x > ALL (S)      S has no value   ->  TRUE, or NULL when it has NULLs
                     NOT (x > m)      ->  FALSE
                     S has NULLs      ->  NULL
                     else                 x > m

and ANY the other way round. `x = ALL (S)` asks for both extremes, and `x <> ANY (S)` is its negation.

For an array the same holds (PostgreSQL's "Row and Array Comparisons"); of an array that is NULL nothing is known.
"""

from __future__ import annotations

from sqlglot import exp

from planner.logical.nodes import Aggregate, Filter, LogicalNode
from runtime.core.errors import BindError, Span, TypeMismatchError, with_article
from runtime.core.types import BIGINT, BOOLEAN, INT, STRING, TypeRoot, array
from runtime.expr.nodes import (
    AggregateCall,
    Call,
    Case,
    ColumnRef,
    Expr,
    Literal,
    Parameter,
    SubqueryExpr,
    SubqueryKind,
    fresh_column,
)
from runtime.expr.typing import comparison_type, resolve_call
from sqlengine.bind.coerce import cast_to
from sqlengine.bind.construct import written_array
from sqlengine.bind.operators import comparison, conjunction, negation, scalar_call
from sqlengine.bind.session import ExpressionRules
from sqlengine.bind.subquery import bound_subquery, in_query
from sqlengine.parse.spans import span_of

__all__ = ["quantified"]

_SIGNS: dict[type[exp.Expr], str] = {exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
_MISSING = Literal(None, BOOLEAN)


def quantified(binder: ExpressionRules, tree: exp.Binary) -> Expr:
    """`x <op> ANY (query or array)` or `x <op> ALL (query or array)`.

    Raises:
        BindError: E1220 when the query has several columns.
        TypeMismatchError: E1302 when there is no array, E1304 when x does not compare with its values, E1301 when they
            have no order.
    """
    side, span = tree.expression, span_of(tree)
    every = isinstance(side, exp.All)
    if not isinstance(side.this, exp.Subquery):
        return _of_array(binder, tree, every)
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
    return _decided(_nulls(binder, side.this), value, every, decides, holds)


def _all_equal(binder: ExpressionRules, tree: exp.Binary, span: Span | None) -> Expr:
    """`x = ALL (query)`: x is the least and the greatest value."""
    query, operand = tree.expression.this, binder.bind(tree.this)
    least, most = _extreme(binder, query, "MIN"), _extreme(binder, query, "MAX")
    holds = conjunction([comparison("=", operand, least, span), comparison("=", operand, most, span)])
    return _decided(_nulls(binder, query), most, True, negation(holds, span), holds)


def _of_array(binder: ExpressionRules, tree: exp.Binary, every: bool) -> Expr:
    """`x <op> ANY (array)` or `x <op> ALL (array)`."""
    span, written = span_of(tree), tree.expression.this
    operand = binder.bind(tree.this)
    if isinstance(written, exp.Literal) and written.is_string:
        values = written_array(written, array(operand.type.materialized().with_nullable(True)))
    else:
        values = binder.bind(written)
        if isinstance(values, Parameter) and values.type.root is TypeRoot.NULL:
            element = operand.type.materialized().with_nullable(True)
            values = values.with_(type=array(STRING if element.is_uuid else element))
            values = cast_to(values, array(element)) if element.is_uuid else values
    if values.type.root is not TypeRoot.ARRAY:
        raise TypeMismatchError(
            f"ANY and ALL compare with a query or an array, and this is {with_article(values.type.with_nullable(True))}",
            code="E1302",
            span=span_of(written),
            hint="ARRAY[x] is an array of one value",
        )
    element = values.type.children[0]
    common = comparison_type(operand.type, element)
    if common is not None and not element.same_ignoring_nullability(common):
        values = cast_to(values, array(common.with_nullable(element.nullable)).with_nullable(values.type.nullable))
        element = values.type.children[0]

    def call(name: str, *more: Expr) -> Expr:
        return scalar_call(binder, name, [values, *more], span)

    def contains(value: Expr) -> Expr:
        return call("ARRAY_CONTAINS", value)

    nulls = contains(Literal(None, element.with_nullable(True))) if element.nullable else None
    operator = type(tree)
    if operator is (exp.NEQ if every else exp.EQ):
        one = comparison("=", operand, Literal(None, element.with_nullable(True)), span)  # E1304
        assert isinstance(one, Call)
        open_ = [Call("IS NULL", (operand,), BOOLEAN.not_null()), *([] if nulls is None else [nulls])]
        found = Case(
            (
                (comparison("=", call("CARDINALITY"), Literal(0, INT.not_null()), span), Literal(False, BOOLEAN)),
                (open_[0], _MISSING),
                (contains(cast_to(operand, element.with_nullable(True))), Literal(True, BOOLEAN)),
                *((e, _MISSING) for e in open_[1:]),
            ),
            Literal(False, BOOLEAN),
            BOOLEAN,
        )
        answer: Expr = negation(found, span) if every else found
    elif operator in (exp.EQ, exp.NEQ):
        least, most = call("ARRAY_MIN"), call("ARRAY_MAX")
        holds = conjunction([comparison("=", operand, least, span), comparison("=", operand, most, span)])
        same = _decided(nulls, most, True, negation(holds, span), holds)
        answer = same if every else negation(same, span)
    else:
        sign = _SIGNS[operator]
        value = call("ARRAY_MAX" if (sign in (">", ">=")) is every else "ARRAY_MIN")
        holds = comparison(sign, operand, value, span)
        answer = _decided(nulls, value, every, negation(holds, span) if every else holds, holds)
    return Case(((Call("IS NULL", (values,), BOOLEAN.not_null()), _MISSING),), answer, BOOLEAN)


def _decided(nulls: Expr | None, extreme: Expr, every: bool, decides: Expr, holds: Expr) -> Expr:
    """The answer: where there are no values, where the extreme `decides`, where NULLs leave it open, else `holds`."""
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
