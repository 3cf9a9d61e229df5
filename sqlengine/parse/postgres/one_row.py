"""Aggregates without GROUP BY have one row, also over no rows.

In Flink a stream without rows has none. `SELECT COUNT(*), SUM(x) FROM t` is read as

    SELECT COALESCE(a.c0, 0), a.c1 FROM (VALUES (0)) AS o (z) LEFT JOIN (SELECT COUNT(*) AS c0, SUM(x) AS c1 FROM t) AS a ON TRUE

In subqueries of expressions, and of LATERAL, which may look at rows outside, the engine gives a row by itself.
"""

from __future__ import annotations

from sqlglot import exp

from sqlengine.parse.nodes import FunctionCall, JoinTree, JsonFunction

__all__ = ["always_a_row"]

_COUNTS = frozenset(("COUNT", "APPROX_COUNT_DISTINCT", "REGR_COUNT", "COUNT_IF", "COUNTIF"))
_AGGREGATES = _COUNTS | frozenset(
    ("PG_SUM", "PG_AVG", "PG_STDDEV", "PG_STDDEV_POP", "PG_STDDEV_SAMP", "PG_VARIANCE", "PG_VAR_POP", "PG_VAR_SAMP",
     "MIN", "MAX", "LISTAGG", "STRING_AGG", "ARRAY_AGG", "BOOL_AND", "BOOL_OR", "EVERY", "MEDIAN", "MODE", "PERCENTILE",
     "PERCENTILE_CONT", "PERCENTILE_DISC", "CORR", "COVAR_POP", "COVAR_SAMP", "REGR_AVGX", "REGR_AVGY", "REGR_INTERCEPT",
     "REGR_R2", "REGR_SLOPE", "REGR_SXX", "REGR_SXY", "REGR_SYY", "ANY_VALUE", "FIRST_VALUE", "LAST_VALUE", "JSON_OBJECTAGG")
)  # fmt: skip
_AROUND = (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)
_OTHER_CLAUSES = ("group", "having", "qualify", "windows", "distinct")
_ALL, _ONE = "$aggregates", "$one"


def always_a_row(query: exp.Expr) -> exp.Expr:
    """The query, with all SELECTs within it that it is made of."""
    with_ = query.args.get("with_")
    for table in with_.expressions if with_ is not None else ():
        table.set("this", always_a_row(table.this))
    match query:
        case exp.Select():
            for relation in [query.args.get("from_"), *query.args.get("joins", [])]:
                if relation is not None:
                    _within_relation(relation)
            return _with_a_row(query)
        case exp.SetOperation():
            query.set("this", always_a_row(query.this))
            query.set("expression", always_a_row(query.expression))
        case exp.Subquery():
            query.set("this", always_a_row(query.this))
        case _:
            pass
    return query


def _within_relation(holder: exp.Expr) -> None:
    relation = holder.this
    if isinstance(relation, exp.Subquery):
        relation.set("this", always_a_row(relation.this))
    elif isinstance(relation, JoinTree):
        _within_relation(relation)
        for join in relation.args["joins"]:
            _within_relation(join)


def _with_a_row(query: exp.Select) -> exp.Select:
    if query.args.get("from_") is None or any(query.args.get(clause) is not None for clause in _OTHER_CLAUSES):
        return query
    items = [item.copy() for item in query.expressions]
    found: list[exp.Expr] = []
    for item in items:
        _take_out(item, found)
    rest = [part for item in items for part in _outside_subqueries(item)]
    if not found or any(
        part.args.get("table") is None or part.table != _ALL for part in rest if isinstance(part, exp.Column)
    ):
        return query
    if any(not isinstance(part, exp.Column) for part in rest):
        return query
    inner = query.copy()
    for key in ("with_", "order", "limit", "offset"):
        inner.set(key, None)
    inner.set("expressions", [exp.Alias(this=call, alias=_name(f"c{i}")) for i, call in enumerate(found)])
    inner.meta.update(query.meta)
    one = exp.Values(
        expressions=[exp.Tuple(expressions=[exp.Literal(this="0", is_string=False)])],
        alias=exp.TableAlias(this=_name(_ONE), columns=[_name("z")]),
    )
    all_ = exp.Subquery(this=inner, alias=exp.TableAlias(this=_name(_ALL), columns=[]))
    join = exp.Join(this=all_, side="LEFT", on=exp.Boolean(this=True))
    made = exp.Select(expressions=items, from_=exp.From(this=one), joins=[join])
    for key in ("with_", "limit", "offset", "hint"):
        if query.args.get(key) is not None:
            made.set(key, query.args[key])
    made.meta.update(query.meta)
    return made


def _outside_subqueries(item: exp.Expr) -> list[exp.Expr]:
    parts = item.walk(prune=lambda part: isinstance(part, exp.Query | exp.Subquery))
    return [part for part in parts if isinstance(part, exp.Column | exp.Star | exp.Window)]


def _take_out(tree: exp.Expr, found: list[exp.Expr]) -> None:
    """Puts columns of the aggregates' query in the place of the aggregates within a tree."""
    for child in list(tree.iter_expressions()):
        name = _aggregate(child)
        if name is None:
            if not isinstance(child, exp.Query | exp.Subquery | exp.Window):
                _take_out(child, found)
            continue
        column: exp.Expr = exp.Column(this=_name(f"c{len(found)}"), table=_name(_ALL))
        column.meta.update(child.meta)
        if name in _COUNTS:
            zero = exp.Literal(this="0", is_string=False)
            column = FunctionCall(this="COALESCE", expressions=[column, zero])
            column.meta.update(child.meta)
        found.append(child.copy())
        child.replace(column)


def _aggregate(tree: exp.Expr) -> str | None:
    """The name of the aggregate that a tree is."""
    while isinstance(tree, _AROUND):
        tree = tree.this
    if isinstance(tree, FunctionCall | JsonFunction) and not tree.qualifier and tree.name.upper() in _AGGREGATES:
        return str(tree.name).upper()
    return None


def _name(text: str) -> exp.Identifier:
    return exp.Identifier(this=text, quoted=True)
