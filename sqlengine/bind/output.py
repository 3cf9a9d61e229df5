"""The last steps of any query: names of columns, ORDER BY, LIMIT and OFFSET."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from planner.logical.nodes import Limit, LogicalNode, Project, Sort
from runtime.core.errors import BindError, Span, TypeMismatchError
from runtime.expr.nodes import Call, Column, ColumnRef, Expr, Literal, SortKey, fresh_column
from sqlengine.bind.expression import ExpressionBinder
from sqlengine.bind.scope import Scope, Source
from sqlengine.bind.session import BoundQuery, Clause, QueryEnv, parameters_of
from sqlengine.bind.sort_keys import check_order, sort_key
from sqlengine.parse.nodes import ParameterMark
from sqlengine.parse.spans import span_of

__all__ = [
    "bounds",
    "check_sortable",
    "finish",
    "item_spans",
    "limited",
    "output_items",
    "output_names",
    "ordinal",
    "select_columns",
]


def output_names(names: Sequence[str | None]) -> tuple[str, ...]:
    """Names of output columns: `EXPR$i` for those without one, a number behind a name that is taken, as in Flink."""
    taken: set[str] = set()
    result: list[str] = []
    for index, name in enumerate(names):
        base = name if name is not None else f"EXPR${index}"
        unique, attempt = base, 0
        while unique in taken:
            unique, attempt = f"{base}{attempt}", attempt + 1
        taken.add(unique)
        result.append(unique)
    return tuple(result)


def item_spans(tree: exp.Expr, count: int) -> list[Span | None]:
    """Where each output column of a query is written: its item of the select list, else the whole query."""
    while isinstance(tree, exp.Subquery | exp.SetOperation):
        tree = tree.this
    written = tree.expressions if isinstance(tree, exp.Select) else []
    if len(written) != count or any(e.is_star for e in written):
        return [span_of(tree)] * count
    return [span_of(e) for e in written]


def output_items(names: Sequence[str], values: Sequence[Expr]) -> list[tuple[Column, Expr]]:
    """Items of a projection: a column that is passed through keeps its id the first time, everything else gets a
    fresh one.
    """
    items: list[tuple[Column, Expr]] = []
    seen: set[int] = set()
    for name, value in zip(names, values, strict=True):
        if isinstance(value, ColumnRef) and value.id not in seen:
            seen.add(value.id)
            items.append((Column(value.id, name, value.type), value))
        else:
            keeps = isinstance(value, ColumnRef) or (isinstance(value, Call) and value.function == "PROCTIME")
            items.append((fresh_column(name, value.type if keeps else value.type.materialized()), value))
    return items


def select_columns(plan: LogicalNode, items: Sequence[tuple[Column, Expr]]) -> LogicalNode:
    """The projection, left out when it changes nothing."""
    same = len(items) == len(plan.columns) and all(
        c.id == p.id and c.name == p.name and isinstance(e, ColumnRef) and e.id == p.id
        for (c, e), p in zip(items, plan.columns, strict=True)
    )
    return plan if same else Project(plan, tuple(items))


def bounds(tree: exp.Expr, env: QueryEnv) -> tuple[int, int | None]:
    """OFFSET and LIMIT of a query; E1219 when they are neither literal numbers nor parameters."""
    offset, limit = tree.args.get("offset"), tree.args.get("limit")
    first = _count(offset, "OFFSET", env) if offset is not None else None
    return first or 0, (_count(limit, "LIMIT", env) if limit is not None else None)


def _count(tree: exp.Expr, word: str, env: QueryEnv) -> int | None:
    value = tree.expression
    if isinstance(value, ParameterMark):
        return parameters_of(env.context, value).count(value.parameter, word, span_of(value))
    if isinstance(value, exp.Literal) and not value.is_string and str(value.this).isdigit():
        return int(str(value.this))
    raise BindError(
        f"{word} takes a literal number that is not negative",
        code="E1219",
        span=span_of(value) or span_of(tree),
        hint="for example LIMIT 10",
    )


def ordinal(item: exp.Ordered, count: int) -> int | None:
    """The position that a number in ORDER BY means, from 0; E1219 when there is no such column."""
    tree = item.this
    if not isinstance(tree, exp.Literal) or tree.is_string or not str(tree.this).isdigit():
        return None
    position = int(str(tree.this))
    if not 1 <= position <= count:
        raise BindError(
            f"ORDER BY {position} is no position of a column: there are {count}",
            code="E1219",
            span=span_of(tree),
            hint="positions count from 1; a name works too",
        )
    return position - 1


def limited(
    plan: LogicalNode,
    keys: Sequence[SortKey],
    offset: int,
    limit: int | None,
    keep_order: bool,
    order: exp.Expr | None = None,
) -> LogicalNode:
    """The plan in order, and cut. An order that nobody can see (no LIMIT, in a subquery) is left out. `order`: the
    clause that `keys` were read from."""
    if keys and (keep_order or limit is not None or offset):
        return Sort(plan, tuple(keys), offset, limit, span=span_of(order))
    if limit is not None or offset:
        return Limit(plan, offset, limit)
    return plan


def finish(query: BoundQuery, tree: exp.Expr, env: QueryEnv) -> BoundQuery:
    """ORDER BY and LIMIT over a query that is no SELECT: order by its columns, by name or position, or by what is
    computed from them.
    """
    order = tree.args.get("order")
    offset, limit = bounds(tree, env)
    if order is None:
        return BoundQuery(limited(query.plan, (), offset, limit, env.keep_order), query.names)
    binder = ExpressionBinder(env, Scope([Source(None, query.columns)], parent=env.outer), Clause("ORDER BY"))
    plan, keys = query.plan, []
    added: list[tuple[Column, Expr]] = []
    for item in order.expressions:
        position = ordinal(item, len(query.names))
        value: Expr = query.plan.columns[position].ref() if position is not None else binder.bind(item.this)
        check_sortable(value, item)
        if not isinstance(value, ColumnRef):
            column = fresh_column(f"s{len(added)}", value.type.materialized())
            added.append((column, value))
            value = column.ref()
        keys.append(sort_key(value, item))
    if not added:
        return BoundQuery(limited(plan, keys, offset, limit, env.keep_order, order), query.names)
    kept = [(c, c.ref()) for c in plan.columns]
    ordered = limited(Project(plan, (*kept, *added)), keys, offset, limit, env.keep_order, order)
    return BoundQuery(Project(ordered, tuple(kept)), query.names)


def check_sortable(value: Expr, item: exp.Ordered) -> None:
    """Refuses what has no order (E1302), and constants, which say nothing."""
    check_order(value, item)
    if isinstance(value, Literal) and value.value is None:
        raise TypeMismatchError("ORDER BY NULL says nothing", code="E1306", span=span_of(item), hint="leave it out")
