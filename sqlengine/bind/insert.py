"""The source of INSERT: a query brought to the columns of the table, in their order and types.

Columns go together by position, or by the column list of the statement. A column that is left out is NULL, or what
DEFAULT says of it; PARTITION (k = v) gives columns a constant. A value is cast where Flink casts without being asked;
else the whole mismatch is told, query and table side by side.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from planner.logical.nodes import LogicalNode, Sink
from runtime.core.errors import BindError, Span, TypeMismatchError, UnsupportedError, did_you_mean
from runtime.core.rooms import Room
from runtime.core.types import DataType, TypeRoot
from runtime.eval.constant import fold_constant
from runtime.expr.function import FunctionRegistry
from runtime.expr.nodes import Column, Expr, Literal, fresh_column
from runtime.expr.typing import explicit_cast, implicit_cast
from runtime.spi.abilities import SupportsOverwrite, SupportsReplacement
from runtime.spi.sink import SinkTable
from sqlengine.bind.binder import bind_expression, source_query
from sqlengine.bind.coerce import cast_to, with_types
from sqlengine.bind.construct import assigned_text, cast_explicitly
from sqlengine.bind.output import item_spans, select_columns
from sqlengine.bind.session import BoundQuery
from sqlengine.catalog.objects import (
    BindContext,
    CatalogTable,
    ComputedColumn,
    MetadataColumn,
    PhysicalColumn,
    is_numbered,
)
from sqlengine.parse.constant_rows import ConstantRows
from sqlengine.parse.nodes import DefaultArg, TypeSpec
from sqlengine.parse.spans import span_of
from sqlengine.parse.statement_nodes import Insert

if TYPE_CHECKING:
    import sqlengine.bind.defaults as _default_values
    import sqlengine.bind.fitting as _fits
else:
    _default_values = Room("sqlengine.bind.defaults")
    _fits = Room("sqlengine.bind.fitting")

__all__ = ["bind_insert", "bind_insert_source", "insert_columns", "partition_values"]


def insert_columns(table: CatalogTable) -> tuple[tuple[str, DataType], ...]:
    """Names and types of the columns that INSERT writes: the physical ones, then the metadata columns that are not
    VIRTUAL.
    """
    physical = [(c.name, c.type) for c in table.columns if isinstance(c, PhysicalColumn)]
    metadata = [(c.name, c.type) for c in table.columns if isinstance(c, MetadataColumn) and not c.virtual]
    return (*physical, *metadata)


def bind_insert(
    statement: Insert, table: CatalogTable, sink: SinkTable, context: BindContext, source: BoundQuery | None = None
) -> Sink:
    """INSERT INTO as a plan: the query's columns brought to those of the sink, in its order and types. `source`: the
    query, where it is bound already.

    Raises:
        BindError: E1224 when numbers of columns differ, E1201 for a column that the table has not, E1225 for one that
            cannot be written.
        UnsupportedError: E1619 for INSERT OVERWRITE of a table that cannot be.
        TypeMismatchError: E1313 when a value cannot become its column's type; E1314 when a NOT NULL column is left out.
    """
    if _says_more(statement, table):
        statement = _default_values.with_defaults(statement, table)
    target = tuple((f.name, f.type) for f in sink.schema)
    entries = statement.partition.values if statement.partition is not None else ()
    named = [(c.text, c.span) for c in statement.columns] + [(n.text, n.span) for n, _ in entries]
    _check_names(named, table, [n for n, _ in target])
    for i, (name, span) in enumerate(named):
        if name in (n for n, _ in named[:i]):
            raise _twice(name, table.path.name, span)
    static = _static(statement, context)
    if statement.overwrite:
        if statement.replaces and isinstance(sink, SupportsReplacement):
            sink = sink.with_replacement()
        else:
            sink = _overwriting(sink, statement, static, dict(target), context)
    columns = [c.text for c in statement.columns]
    _check_values(statement, len(columns or target) - len(static), table.path.name)
    written = statement.query.query
    assigns = statement.assigns and isinstance(written, exp.Values)
    if assigns:
        types = dict(target)
        written = _with_arrays(written, [types[n] for n in columns or types if n not in static])
    query = source if source is not None else source_query(written, context)
    others = [name for name, _ in target if name not in static]
    if statement.assigns and not columns and len(query.names) < len(others):
        # As in PostgreSQL the last columns may be left out.
        columns = others[: len(query.names)]
    spans = item_spans(statement.query.query, len(query.names))
    functions = context.functions if assigns else None
    given = {*(columns or (n for n, _ in target)), *static}
    plan = bind_insert_source(
        query,
        target,
        table.path.name,
        columns,
        static,
        spans,
        functions,
        _defaults(table, given, context),
        context.functions if statement.assigns else None,
    )
    span = statement.table.span
    return Sink(plan, sink, str(table.path), statement.overwrite, statement.on_conflict, span=span)


def _says_more(statement: Insert, table: CatalogTable) -> bool:
    """Whether DEFAULT stands among the values, or rows are numbered."""
    query = statement.query.query
    says = isinstance(query, exp.Values) and any(
        isinstance(cell, DefaultArg)
        for row in query.expressions
        if isinstance(row, exp.Tuple)
        for cell in row.expressions
    )
    return says or is_numbered(table)


def _defaults(table: CatalogTable, given: Collection[str], context: BindContext) -> dict[str, Expr | None]:
    """What the columns get of which the statement says nothing and which are not NULL then; None is a number."""
    found: dict[str, Expr | None] = {}
    for column in table.columns:
        if isinstance(column, PhysicalColumn) and column.name not in given:
            if column.default is not None:
                found[column.name] = _default_values.bind_default(column, context, table.path.name)
            elif column.identity is not None:
                found[column.name] = None
    return found


def _check_values(statement: Insert, wanted: int, table: str) -> None:
    """Raise BindError for `VALUES 1, 'a'`: rows of one value each, where a row has several."""
    query = statement.query.query
    if not isinstance(query, exp.Values) or wanted == 1 or len(query.expressions) == 1:
        return
    if any(isinstance(row, ConstantRows) for row in query.expressions):
        return
    if all(span_of(row) == span_of(row.expressions[0]) for row in query.expressions):
        raise BindError(
            f"each of these values is a row of its own, and a row of {table} has {_columns(wanted)}",
            code="E1224",
            span=span_of(query),
            hint="put the values of a row in parentheses: VALUES (1, 'a'), (2, 'b')",
        )


def _with_arrays(values: exp.Expr, types: Sequence[DataType]) -> exp.Expr:
    """VALUES in which each text in the place of an array is that array: which elements it has is part of the statement."""
    places = [i for i, type_ in enumerate(types) if type_.root is TypeRoot.ARRAY]
    if not places:
        return values
    values = values.copy()
    for row in values.expressions:
        for place in places:
            text = row.expressions[place] if isinstance(row, exp.Tuple) and place < len(row.expressions) else None
            if isinstance(text, exp.Literal) and text.is_string:
                cast = exp.Cast(this=text.copy(), to=TypeSpec(this=types[place].with_nullable(True)))
                cast.meta.update(text.meta)
                text.replace(cast)
    return values


def _overwriting(
    sink: SinkTable, statement: Insert, static: Mapping[str, Expr], types: Mapping[str, DataType], context: BindContext
) -> SinkTable:
    """The sink whose rows replace those that are there."""
    if not isinstance(sink, SupportsOverwrite):
        raise UnsupportedError(
            f'"{statement.table.parts[-1]}" cannot be overwritten, only tables of files can',
            code="E1619",
            span=statement.table.span,
            hint="for a table in memory: BEGIN EPOCH; TRUNCATE TABLE t; INSERT INTO t ..; END EPOCH",
        )
    return sink.with_overwrite(_folded(static, types, context))


def partition_values(statement: Insert, sink: SinkTable, context: BindContext) -> dict[str, Any]:
    """The values of the partition columns that an INSERT names, as Python values of their types."""
    types = {f.name: f.type for f in sink.schema}
    return _folded(_static(statement, context), types, context)


def _static(statement: Insert, context: BindContext) -> dict[str, Expr]:
    entries = statement.partition.values if statement.partition is not None else ()
    return {
        name.text: bind_expression(value.expression, (), context, place=f'the partition "{name.text}"')
        for name, value in entries
        if value is not None
    }


def _folded(static: Mapping[str, Expr], types: Mapping[str, DataType], context: BindContext) -> dict[str, Any]:
    return {
        name: fold_constant(
            cast_explicitly(value, types[name], False, None), context.functions, context.time_zone, context.now
        ).value
        for name, value in static.items()
    }


def _check_names(named: Sequence[tuple[str, Span]], table: CatalogTable, known: Sequence[str]) -> None:
    computed = {c.name for c in table.columns if isinstance(c, ComputedColumn)}
    virtual = {c.name for c in table.columns if isinstance(c, MetadataColumn) and c.virtual}
    for name, span in named:
        if name in computed | virtual:
            kind = "computed" if name in computed else "a virtual metadata column"
            raise BindError(
                f'the column "{name}" of {table.path.name} is {kind} and cannot be written',
                code="E1225",
                span=span,
                hint="leave it out of the column list",
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
    spans: Sequence[Span | None] = (),
    assigning: FunctionRegistry | None = None,
    defaults: Mapping[str, Expr | None] | None = None,
    narrowing: FunctionRegistry | None = None,
) -> LogicalNode:
    """The query's plan with its columns in the target's order and types. `columns`: target columns in the order of
    the query's columns, all but the static ones when empty. `spans`: where each column of the query is written.
    `assigning`: texts become what their columns are, as in PostgreSQL, by these functions. `defaults`: what columns are
    that the query does not fill, where that is not NULL; None for one that is numbered later.
    `narrowing`: numbers and texts become narrower ones where they fit, as in PostgreSQL, by these functions.
    """
    static = static or {}
    places = list(spans) or [None] * len(query.names)
    known = [p for p in places if p is not None]
    whole = Span(min(p.start for p in known), max(p.end for p in known)) if known else None
    insertion = _Insertion(query, target, table, static, assigning, defaults or {}, narrowing)
    filled = list(columns) or [n for n, _ in target if n not in static]
    doubled = next((n for i, n in enumerate(filled) if n in filled[:i] or n in static), None)
    if doubled is not None:
        raise _twice(doubled, table, whole)
    if len(filled) != len(query.names):
        raise BindError(
            f"the query has {_columns(len(query.names))} for {_columns(len(filled))} of {table}{insertion.schemas()}",
            code="E1224",
            span=whole,
            hint="name the columns to fill: INSERT INTO t (a, b) SELECT ..",
        )
    wanted_types = dict(target)
    query = BoundQuery(with_types(query.plan, [wanted_types[name] for name in filled]), query.names)
    given = dict(zip(filled, zip(query.plan.columns, places, strict=True), strict=True))
    items: list[tuple[Column, Expr]] = []
    taken: set[int] = set()
    for name, wanted in target:
        column, span = given.get(name, (None, whole))
        value = insertion.value(name, wanted, column, span)
        if column is not None and value == column.ref() and column.id not in taken:
            taken.add(column.id)
            items.append((Column(column.id, name, column.type), value))
        else:
            items.append((fresh_column(name, value.type.materialized()), value))
    return select_columns(query.plan, items)


def _twice(column: str, table: str, span: Span | None) -> BindError:
    return BindError(
        f'the column "{column}" of {table} is given twice', code="E1224", span=span, hint="name each column once"
    )


def _columns(count: int) -> str:
    return f"{count} column{'' if count == 1 else 's'}"


@dataclass(frozen=True, slots=True)
class _Insertion:
    """A query on its way into a table, for the values of single columns and for messages."""

    query: BoundQuery
    target: Sequence[tuple[str, DataType]]
    table: str
    static: Mapping[str, Expr]
    assigning: FunctionRegistry | None = None
    defaults: Mapping[str, Expr | None] = field(default_factory=dict)
    narrowing: FunctionRegistry | None = None

    def value(self, name: str, wanted: DataType, column: Column | None, span: Span | None) -> Expr:
        """What a column of the table gets: a constant of PARTITION, a column of the query, or NULL."""
        static = self.static.get(name)
        if static is not None:
            if explicit_cast(static.type, wanted):
                return cast_explicitly(static, wanted, False, span)
            raise self._mismatch(name, static.type, wanted, span)
        if column is None:
            if name in self.defaults:
                return self.defaults[name] or Literal(None, wanted.with_nullable(True))
            if wanted.nullable:
                return Literal(None, wanted)
            raise TypeMismatchError(
                f'the column "{name}" of {self.table} is NOT NULL and is not given a value',
                code="E1314",
                span=span,
                hint="add it to the column list",
            )
        text = column.type.is_character and (not wanted.is_character or (wanted.is_uuid and not column.type.is_uuid))
        if self.assigning is not None and text:
            return self._assigned(self.assigning, name, column.ref(), wanted, span)
        if self.narrowing is not None:
            narrow = _fits.fitting(self.narrowing, column.ref(), wanted, span)
            if narrow is not None:
                return narrow
        if not implicit_cast(column.type.materialized(), wanted):
            raise self._mismatch(name, column.type, wanted, span)
        return cast_to(column.ref(), wanted)

    def _assigned(
        self, functions: FunctionRegistry, name: str, text: Expr, wanted: DataType, span: Span | None
    ) -> Expr:
        """A text as the value that it writes."""
        found = assigned_text(functions, text, wanted, span)
        if found is None:
            raise self._mismatch(name, text.type, wanted, span)
        return found

    def _mismatch(self, name: str, found: DataType, wanted: DataType, span: Span | None) -> TypeMismatchError:
        plain = wanted.with_nullable(True)
        hint = f"CAST(.. AS {plain})"
        if found.is_character and plain.root in (TypeRoot.DATE, TypeRoot.TIMESTAMP, TypeRoot.TIME):
            hint = f"write {plain.root.name} '..', or {hint}"
        elif name in self.query.names:
            hint += "; columns go by position, not by name"
        return TypeMismatchError(
            f'the column "{name}" of {self.table} is {plain}, and the query gives '
            f"{found.materialized().with_nullable(True)}{self.schemas()}",
            code="E1313",
            span=span,
            hint=hint,
        )

    def schemas(self) -> str:
        """Query and table side by side, for messages."""
        columns = zip(self.query.names, self.query.plan.columns, strict=True)
        mine = ", ".join(f"{n}: {c.type.materialized()}" for n, c in columns)
        theirs = ", ".join(f"{n}: {t}" for n, t in self.target)
        return f"\n  query: [{mine}]\n  table: [{theirs}]"
