"""What PostgreSQL and DuckDB write shorter in a SELECT, as the clauses that it stands for.

    SELECT DISTINCT ON (k) .. ORDER BY k, t   QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY t) = 1
    GROUP BY ALL                              GROUP BY all that is selected without an aggregate
    * EXCLUDE (a, b), * EXCEPT (a, b)         the other columns

Sources: PostgreSQL's SELECT, "DISTINCT Clause"; DuckDB's "GROUP BY ALL" and "Star Expression".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from sqlglot import exp

from runtime.core.errors import BindError, did_you_mean
from runtime.expr.function import AggregateFunction, FunctionRegistry
from sqlengine.parse.nodes import FunctionCall
from sqlengine.parse.spans import span_of

__all__ = ["left_out", "spelled_out"]


class _Named(Protocol):
    @property
    def name(self) -> str | None: ...


N = TypeVar("N", bound=_Named)


def left_out(items: Sequence[N], star: exp.Star) -> list[N]:
    """The columns of a star without those that it names. Raises BindError E1201 for a name that is none of them."""
    written = star.args.get("except_") or ()
    names = [item.name for item in items]
    for name in written:
        if name.name not in names:
            raise BindError(
                f'there is no column "{name.name}" to leave out',
                code="E1201",
                span=span_of(name),
                hint=did_you_mean(name.name, [n for n in names if n is not None]),
            )
    without = {name.name for name in written}
    kept = [item for item in items if item.name not in without]
    if not kept:
        raise BindError("no column is left", code="E1206", span=span_of(star), hint="leave fewer columns out")
    return kept


def spelled_out(tree: exp.Select, functions: FunctionRegistry) -> exp.Select:
    """The same SELECT without DISTINCT ON and GROUP BY ALL.

    Raises:
        BindError: E1219, DISTINCT ON without an ORDER BY that begins with its expressions; E1217, GROUP BY ALL of a star.
    """
    group, distinct = tree.args.get("group"), tree.args.get("distinct")
    if group is not None and group.args.get("all"):
        tree = _with(tree, group=_grouped(tree, group, functions))
    if distinct is not None and distinct.args.get("on") is not None:
        tree = _with(tree, distinct=None, qualify=_first_of_each(tree, distinct.args["on"]))
    return tree


def _with(tree: exp.Select, **clauses: exp.Expr | None) -> exp.Select:
    made = tree.copy()
    for name, clause in clauses.items():
        made.set(name, clause)
    return made


def _grouped(tree: exp.Select, group: exp.Group, functions: FunctionRegistry) -> exp.Group:
    keys: list[exp.Expr] = []
    for item in tree.expressions:
        value = item.this if isinstance(item, exp.Alias) else item
        if value.is_star:
            raise BindError(
                "GROUP BY ALL takes no star: which columns are grouped should not change with the table",
                code="E1217",
                span=span_of(item),
                hint="name the columns",
            )
        if not _is_computed(value, functions):
            keys.append(value.copy())
    made = exp.Group(expressions=keys)
    made.meta.update(group.meta)
    return made


def _is_computed(tree: exp.Expr, functions: FunctionRegistry) -> bool:
    """Whether an expression has an aggregate or a window function, outside of subqueries."""
    if isinstance(tree, exp.Query):
        return False
    if isinstance(tree, exp.Window):
        return True
    if isinstance(tree, FunctionCall) and isinstance(functions.find(tree.name), AggregateFunction):
        return True
    return any(_is_computed(child, functions) for child in tree.iter_expressions())


def _first_of_each(tree: exp.Select, on: exp.Tuple) -> exp.Qualify:
    keys = [_meant(key, tree) for key in on.expressions]
    order = tree.args.get("order")
    items: list[exp.Expr] = list(order.expressions) if order is not None else []
    first = [_meant(item.this, tree) for item in items[: len(keys)]]
    if not items or any(value not in keys for value in first) or (len(items) < len(keys)):
        raise BindError(
            "DISTINCT ON keeps the first row of each group, and which that is ORDER BY says",
            code="E1219",
            span=span_of(on),
            hint="begin ORDER BY with the same expressions, for example SELECT DISTINCT ON (k) .. ORDER BY k, t DESC",
        )
    within = []
    for item in items[len(keys) :] or items:
        item = item.copy()
        item.set("this", _meant(item.this, tree).copy())
        within.append(item)
    call = FunctionCall(this="ROW_NUMBER", expressions=[])
    number = exp.Window(this=call, partition_by=[key.copy() for key in keys], order=exp.Order(expressions=within))
    condition: exp.Expr = exp.EQ(this=number, expression=exp.Literal(this="1", is_string=False))
    for node in condition.walk():
        node.meta.setdefault("start", on.meta.get("start"))
        node.meta.setdefault("end", on.meta.get("end"))
    qualify = tree.args.get("qualify")
    if qualify is not None:
        condition = exp.And(this=qualify.this.copy(), expression=condition)
        condition.meta.update(qualify.this.meta)
    return exp.Qualify(this=condition)


def _meant(key: exp.Expr, tree: exp.Select) -> exp.Expr:
    """What a position or an alias of the select list stands for."""
    if isinstance(key, exp.Literal) and not key.is_string and str(key.this).isdigit():
        position = int(str(key.this))
        if 1 <= position <= len(tree.expressions):
            item = tree.expressions[position - 1]
            return item.this if isinstance(item, exp.Alias) else item
    if isinstance(key, exp.Column) and len(key.parts) == 1:
        for item in tree.expressions:
            if isinstance(item, exp.Alias) and item.args["alias"].name == key.this.name:
                return item.this
    return key
