"""Queries inside expressions: scalar subqueries, EXISTS and IN.

They stay expressions (`SubqueryExpr`) with a plan of their own; columns of the enclosing queries in it are `OuterRef`s.
The planner makes joins of them. A subquery's ORDER BY means nothing without LIMIT and is left out.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from planner.logical.nodes import Aggregate, Filter, Limit, LogicalNode, Project, Sort
from runtime.core.errors import BindError, Span, TypeMismatchError
from runtime.core.types import BOOLEAN
from runtime.expr.nodes import Expr, SubqueryExpr, SubqueryKind
from runtime.expr.typing import comparison_type
from sqlengine.bind.coerce import cast_plan, cast_to
from sqlengine.bind.session import BoundQuery, ExpressionRules
from sqlengine.parse.nodes import FunctionCall
from sqlengine.parse.spans import span_of

__all__ = ["SUBQUERIES", "bound_subquery", "in_query", "one_row"]


def bound_subquery(binder: ExpressionRules, tree: exp.Expr) -> BoundQuery:
    """A query inside an expression, its columns with fresh ids; E1221 where none can stand."""
    if not binder.clause.subqueries:
        raise BindError(
            f"a subquery cannot stand in {binder.clause.name}",
            code="E1221",
            span=span_of(tree),
            hint="compute it in a query in FROM",
        )
    return binder.env.inside(binder.scope).query(tree)


def one_row(plan: LogicalNode) -> LogicalNode:
    """The plan with its global aggregate, if it is one, giving its one row even over no input."""
    match plan:
        case Aggregate(group=()):
            return plan.with_(scalar=True)
        case Project() | Filter() | Sort() | Limit():
            return plan.with_inputs(one_row(plan.input))
        case _:
            return plan


def _scalar(binder: ExpressionRules, tree: exp.Subquery) -> Expr:
    query, span = bound_subquery(binder, tree), span_of(tree)
    if len(query.names) != 1:
        raise BindError(
            f"a subquery that stands for a value has one column, and this has {len(query.names)}",
            code="E1220",
            span=span,
            hint="select one column; a row of several can be compared in parentheses with IN",
        )
    result = query.plan.columns[0].type.materialized().with_nullable(True)
    return SubqueryExpr(SubqueryKind.SCALAR, one_row(query.plan), (), result, span=span)


def _exists(binder: ExpressionRules, tree: exp.Exists) -> Expr:
    query = bound_subquery(binder, tree.this)
    return SubqueryExpr(SubqueryKind.EXISTS, query.plan, (), BOOLEAN.not_null(), span=span_of(tree))


def in_query(binder: ExpressionRules, written: exp.Expr, tree: exp.Expr, span: Span | None) -> Expr:
    """`written IN (query)`: as many columns as values, each pair compared in one type."""
    if isinstance(written, exp.Tuple) or (isinstance(written, FunctionCall) and written.name.upper() == "ROW"):
        operands = [binder.bind(e) for e in written.expressions]
    else:
        operands = [binder.bind(written)]
    query = bound_subquery(binder, tree)
    if len(query.names) != len(operands):
        raise BindError(
            f"the query of IN has {len(query.names)} columns for {len(operands)} value{'' if len(operands) == 1 else 's'}",
            code="E1220",
            span=span_of(tree),
            hint="write as many values as columns: (a, b) IN (SELECT x, y ..)",
        )
    targets = []
    for operand, column in zip(operands, query.plan.columns, strict=True):
        common = comparison_type(operand.type, column.type)
        if common is None:
            shown = [str(t.materialized().with_nullable(True)) for t in (operand.type, column.type)]
            raise TypeMismatchError(
                f"{shown[0]} and {shown[1]} cannot be compared", code="E1304", span=span, hint="CAST one of them"
            )
        if common.is_character or common.is_binary:
            common = column.type
        targets.append(common)
    plan = cast_plan(query.plan, targets, query.names, span)
    values = tuple(
        o if o.type.is_character or o.type.is_binary else cast_to(o, t) for o, t in zip(operands, targets, strict=True)
    )
    nullable = any(v.type.nullable for v in values) or any(c.type.nullable for c in plan.columns)
    return SubqueryExpr(SubqueryKind.IN, plan, values, BOOLEAN.with_nullable(nullable), span=span)


SUBQUERIES: dict[type[exp.Expr], Callable[..., Expr]] = {exp.Subquery: _scalar, exp.Exists: _exists}
