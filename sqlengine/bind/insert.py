"""The source of INSERT: a query brought to the columns of the table, in their order and types.

Columns go together by position, or by the column list of the statement. A column that is left out is NULL; PARTITION (k
= v) gives columns a constant. A value is cast where Flink casts without being asked; else the whole mismatch is told,
query and table side by side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from planner.logical.nodes import LogicalNode, Project, Sink
from runtime.core.errors import BindError, Span, TypeMismatchError, did_you_mean
from runtime.core.types import DataType
from runtime.expr.nodes import Column, Expr, Literal, fresh_column
from runtime.expr.typing import explicit_cast, implicit_cast
from runtime.spi.table import SinkTable
from sqlengine.bind.binder import bind_expression, source_query
from sqlengine.bind.coerce import cast_to
from sqlengine.bind.construct import cast_explicitly
from sqlengine.bind.session import BoundQuery
from sqlengine.catalog.objects import BindContext, CatalogTable, ComputedColumn, MetadataColumn, PhysicalColumn
from sqlengine.parse.spans import span_of
from sqlengine.parse.statement_nodes import Insert

__all__ = ["bind_insert", "bind_insert_source", "insert_columns"]


def insert_columns(table: CatalogTable) -> tuple[tuple[str, DataType], ...]:
    """Names and types of the columns that INSERT writes: the physical ones, then the metadata columns that are not
    VIRTUAL.
    """
    physical = [(c.name, c.type) for c in table.columns if isinstance(c, PhysicalColumn)]
    metadata = [(c.name, c.type) for c in table.columns if isinstance(c, MetadataColumn) and not c.virtual]
    return (*physical, *metadata)


def bind_insert(statement: Insert, table: CatalogTable, sink: SinkTable, context: BindContext) -> Sink:
    """INSERT INTO as a plan: the query's columns brought to those of the sink, in its order and types.

    Raises:
        BindError: E1224 when numbers of columns differ, E1201 for a column that the table has not, E1225 for one that
            cannot be written.
        TypeMismatchError: E1313 when a value cannot become its column's type; E1314 when a NOT NULL column is left out.
    """
    target = tuple((f.name, f.type) for f in sink.schema)
    entries = statement.partition.values if statement.partition is not None else ()
    named = [(c.text, c.span) for c in statement.columns] + [(n.text, n.span) for n, _ in entries]
    _check_names(named, table, [n for n, _ in target])
    static = {
        name.text: bind_expression(value.expression, (), context, place=f'the partition "{name.text}"')
        for name, value in entries
        if value is not None
    }
    query = source_query(statement.query.query, context)
    columns = [c.text for c in statement.columns]
    plan = bind_insert_source(query, target, table.path.name, columns, static, span_of(statement.query.query))
    return Sink(plan, sink, str(table.path), statement.overwrite, statement.on_conflict)


def _check_names(named: Sequence[tuple[str, Span]], table: CatalogTable, known: Sequence[str]) -> None:
    computed = {c.name for c in table.columns if isinstance(c, ComputedColumn)}
    virtual = {c.name for c in table.columns if isinstance(c, MetadataColumn) and c.virtual}
    for name, span in named:
        if name in computed | virtual:
            kind = "computed" if name in computed else "a virtual metadata column"
            raise BindError(
                f'the column "{name}" of {table.path.name} is {kind} and cannot be written', code="E1225", span=span
            )
        if name not in known:
            raise BindError(
                f'{table.path.name} has no column "{name}"', code="E1201", span=span, hint=did_you_mean(name, known)
            )


def bind_insert_source(
    query: BoundQuery,
    target: Sequence[tuple[str, DataType]],
    table: str,
    columns: Sequence[str] = (),
    static: Mapping[str, Expr] | None = None,
    span: Span | None = None,
) -> LogicalNode:
    """The query's plan with its columns in the target's order and types. `columns`: target columns in the order of
    the query's columns, all but the static ones when empty.
    """
    static = static or {}
    filled = list(columns) or [n for n, _ in target if n not in static]
    doubled = next((n for i, n in enumerate(filled) if n in filled[:i] or n in static), None)
    if doubled is not None:
        raise BindError(f'the column "{doubled}" of {table} is given twice', code="E1224", span=span)
    if len(filled) != len(query.names):
        raise BindError(
            f"the query has {len(query.names)} columns for {len(filled)} columns of {table}{_schemas(query, target)}",
            code="E1224",
            span=span,
            hint="name the columns to fill: INSERT INTO t (a, b) SELECT ..",
        )
    given = dict(zip(filled, query.plan.columns, strict=True))
    items: list[tuple[Column, Expr]] = []
    taken: set[int] = set()
    for name, wanted in target:
        value = _value(name, wanted, given, static, query, target, table, span)
        column = given.get(name)
        if column is not None and value == column.ref() and column.id not in taken:
            taken.add(column.id)
            items.append((Column(column.id, name, column.type), value))
        else:
            items.append((fresh_column(name, value.type.materialized()), value))
    if [c.id for c, _ in items] == [c.id for c in query.plan.columns] and [c.name for c, _ in items] == [
        c.name for c in query.plan.columns
    ]:
        return query.plan
    return Project(query.plan, tuple(items))


def _value(
    name: str,
    wanted: DataType,
    given: Mapping[str, Column],
    static: Mapping[str, Expr],
    query: BoundQuery,
    target: Sequence[tuple[str, DataType]],
    table: str,
    span: Span | None,
) -> Expr:
    if name in static:
        value = static[name]
        if explicit_cast(value.type, wanted):
            return cast_explicitly(value, wanted, False, span)
        raise _mismatch(name, value.type, wanted, query, target, table, span)
    column = given.get(name)
    if column is None:
        if not wanted.nullable:
            raise TypeMismatchError(
                f'the column "{name}" of {table} is NOT NULL and is not given a value',
                code="E1314",
                span=span,
                hint="add it to the column list",
            )
        return Literal(None, wanted)
    if not implicit_cast(column.type.materialized(), wanted):
        raise _mismatch(name, column.type, wanted, query, target, table, span)
    if column.type.same_ignoring_nullability(wanted):
        return column.ref()
    return cast_to(column.ref(), wanted)


def _mismatch(
    name: str,
    found: DataType,
    wanted: DataType,
    query: BoundQuery,
    target: Sequence[tuple[str, DataType]],
    table: str,
    span: Span | None,
) -> TypeMismatchError:
    return TypeMismatchError(
        f'the column "{name}" of {table} is {wanted.with_nullable(True)}, and the query gives '
        f"{found.materialized().with_nullable(True)}{_schemas(query, target)}",
        code="E1313",
        span=span,
        hint=f"CAST(.. AS {wanted.with_nullable(True)})",
    )


def _schemas(query: BoundQuery, target: Sequence[tuple[str, DataType]]) -> str:
    mine = ", ".join(f"{n}: {c.type.materialized()}" for n, c in zip(query.names, query.plan.columns, strict=True))
    theirs = ", ".join(f"{n}: {t}" for n, t in target)
    return f"\n  query: [{mine}]\n  table: [{theirs}]"
