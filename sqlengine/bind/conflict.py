"""What ON CONFLICT DO UPDATE says: expressions over the row that is there and the one that was to be inserted.

A name alone, and one behind the table's name, is a column of the row that is there; `EXCLUDED.c` is one of the other.
"""

from __future__ import annotations

from sqlglot import exp

from runtime.core.errors import BindError, TypeMismatchError, did_you_mean
from runtime.core.schema import Schema
from runtime.core.types import BOOLEAN
from runtime.expr.nodes import Column, Expr, fresh_column
from sqlengine.bind.binder import Binder
from sqlengine.bind.defaults import assigned_defaults
from sqlengine.bind.expression import ExpressionBinder
from sqlengine.bind.scope import Scope, Source
from sqlengine.bind.session import Clause, QueryEnv
from sqlengine.catalog.objects import BindContext, CatalogTable
from sqlengine.parse.nodes import Assigned, TypeSpec
from sqlengine.parse.spans import span_of
from sqlengine.parse.statement_nodes import Insert

__all__ = ["bind_conflict_update"]

_EXCLUDED = "EXCLUDED"


def bind_conflict_update(
    statement: Insert, table: CatalogTable, schema: Schema, context: BindContext
) -> tuple[tuple[Column, ...], tuple[tuple[Column, Expr], ...]]:
    """The columns of both rows, first those of the row that is there, and what is computed of them: the condition, and
    the new value of each assigned column in the order of the statement, under its name.

    Raises:
        BindError: E1201 for a column that the table has not, E1224 for one that is assigned twice.
        TypeMismatchError: E1433 for a column of the primary key, E1313 when a value cannot become its column's type,
            E1302 when the condition is none.
    """
    own, new = (tuple(fresh_column(f.name, f.type) for f in schema) for _ in range(2))
    named = table.path.name if statement.alias is None else statement.alias.text
    sources = [Source(named, own, table.path.parts if statement.alias is None else ()), Source(_EXCLUDED, new)]
    scope = Scope(sources, shows=[(c.name, c.ref()) for c in own])
    rules = ExpressionBinder(QueryEnv(Binder(), context), scope, Clause("ON CONFLICT DO UPDATE", subqueries=False))
    condition: exp.Expr = exp.Boolean(this=True)
    if statement.where is not None:
        condition = statement.where.expression
    items = [(fresh_column("where", BOOLEAN), rules.bind(_named(condition)))]
    if items[0][1].type.materialized().root is not BOOLEAN.root:
        raise TypeMismatchError(
            f"WHERE takes a condition, and this is {items[0][1].type}",
            code="E1302",
            span=span_of(condition),
            hint="compare it with a value",
        )
    for i, (name, value) in enumerate(assigned_defaults(statement.assignments, table)):
        if name.text not in schema.names:
            hint = did_you_mean(name.text, schema.names)
            raise BindError(f'unknown column "{name.text}"', code="E1201", span=name.span, hint=hint)
        if name.text in table.primary_key:
            raise TypeMismatchError(
                f'"{name.text}" is part of the primary key and cannot be updated',
                code="E1433",
                span=name.span,
                hint="the rows that conflict have the same key",
            )
        if any(name.text == other.text for other, _ in statement.assignments[:i]):
            raise BindError(
                f'the column "{name.text}" is assigned twice',
                code="E1224",
                span=name.span,
                hint="assign each column once",
            )
        type_ = schema[schema.index_of(name.text)].type.with_nullable(True)
        tree = Assigned(this=_named(value.expression), to=TypeSpec(this=type_), column=name.text)
        items.append((fresh_column(name.text, type_), rules.bind(tree)))
    return (*own, *new), tuple(items)


def _named(tree: exp.Expr) -> exp.Expr:
    """The expression with EXCLUDED in capitals, however it is written without quotes."""
    copied = tree.copy()
    for column in copied.find_all(exp.Column):
        relation = column.args.get("table")
        if relation is not None and not relation.args.get("quoted") and relation.name.upper() == _EXCLUDED:
            relation.set("this", _EXCLUDED)
    return copied
