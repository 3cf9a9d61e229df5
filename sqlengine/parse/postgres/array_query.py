"""`ARRAY(SELECT x FROM t ORDER BY y)`: the rows of a query as one array, which is empty where there are none.

ARRAY(SELECT x FROM t ORDER BY y)
    →  PG_ARRAY_QUERY((SELECT ARRAY_AGG(x ORDER BY y) FROM t))
ARRAY(SELECT DISTINCT x FROM t ORDER BY x LIMIT 3), and other queries
    →  PG_ARRAY_QUERY((SELECT ARRAY_AGG(q."0" ORDER BY q."0") FROM (SELECT DISTINCT x AS "0" .. LIMIT 3) AS q))
"""

from __future__ import annotations

from sqlglot import exp

from runtime.core.errors import BindError
from sqlengine.parse.nodes import FunctionCall
from sqlengine.parse.spans import span_of

__all__ = ["array_of_query"]

_WHOLE = ("distinct", "group", "having", "qualify", "limit", "offset", "with_")
"""Clauses with which a query is more than its rows one by one."""


def array_of_query(written: exp.Subquery) -> FunctionCall:
    """The array of a query of one column. Raises BindError E1220 for a SELECT of several."""
    query = written.this
    if isinstance(query, exp.Select) and len(query.expressions) != 1:
        raise BindError(
            f"ARRAY takes a query of one column, and this has {len(query.expressions)}",
            code="E1220",
            span=span_of(query) or span_of(written),
            hint="ARRAY(SELECT x FROM t)",
        )
    plain = isinstance(query, exp.Select) and not any(query.args.get(clause) for clause in _WHOLE)
    whole = _of_rows(query) if plain and not _computes_over_rows(query.expressions[0]) else _of_query(query)
    made = FunctionCall(this="PG_ARRAY_QUERY", expressions=[exp.Subquery(this=whole)])
    for tree in (made, made.expressions[0], whole):
        tree.meta.update(written.meta)
    return made


def _computes_over_rows(item: exp.Expr) -> bool:
    """Whether the item may be an aggregate or a window function: any call may be one."""
    return item.find(FunctionCall, exp.Window, exp.Filter, exp.WithinGroup) is not None or item.is_star


def _of_rows(query: exp.Select) -> exp.Select:
    """The aggregate in the place of the item."""
    query = query.copy()
    order = query.args.get("order")
    query.set("order", None)
    item = query.expressions[0]
    value = item.this if isinstance(item, exp.Alias) else item
    if order is not None:
        for key in order.expressions:
            if _is_item(key.this, item):
                key.set("this", value.copy())
    query.set("expressions", [_aggregate(value, order)])
    return query


def _of_query(query: exp.Expr) -> exp.Select:
    """The aggregate over the rows of the query; what it is ordered by are columns of it."""
    query = query.copy()
    order = query.args.get("order")
    keys: list[exp.Expr] = []
    columns = ["0"]
    if order is not None:
        for key in order.expressions:
            item = query.expressions[0] if isinstance(query, exp.Select) else None
            if item is None or _is_item(key.this, item) or query.args.get("distinct"):
                name = "0"
            else:
                name = str(len(columns))
                columns.append(name)
                query.append("expressions", exp.Alias(this=key.this.copy(), alias=_quoted(name)))
            column = exp.Column(this=_quoted(name), table=_quoted("q"))
            keys.append(exp.Ordered(**{**key.args, "this": column}))
    alias = exp.TableAlias(this=_quoted("q"), columns=[_quoted(name) for name in columns])
    value = exp.Column(this=_quoted("0"), table=_quoted("q"))
    rows = exp.Subquery(this=query, alias=alias)
    return exp.Select(
        expressions=[_aggregate(value, exp.Order(expressions=keys) if keys else None)], from_=exp.From(this=rows)
    )


def _aggregate(value: exp.Expr, order: exp.Expr | None) -> FunctionCall:
    made = FunctionCall(this="ARRAY_AGG", expressions=[value.copy()], order=order)
    made.meta.update(value.meta)
    return made


def _is_item(key: exp.Expr, item: exp.Expr) -> bool:
    """Whether what a query is ordered by is its column: its place, its alias, or the same expression."""
    if isinstance(key, exp.Literal) and not key.is_string:
        return str(key.this) == "1"
    if isinstance(item, exp.Alias):
        return key == item.this or (isinstance(key, exp.Column) and len(key.parts) == 1 and key.name == item.alias)
    return key == item


def _quoted(name: str) -> exp.Identifier:
    return exp.Identifier(this=name, quoted=True)
