"""Default values: what a row of INSERT, or UPDATE, has in a column of which it says nothing, or DEFAULT.

INSERT INTO t (a, b) VALUES (1, DEFAULT)    →    INSERT INTO t (a) VALUES (1)
UPDATE t SET b = DEFAULT                    →    UPDATE t SET b = what the column was declared with
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlglot import exp

from runtime.core.errors import BindError, Span, TypeMismatchError, UnsupportedError
from runtime.core.types import DataType, TypeRoot
from runtime.expr.nodes import Expr
from runtime.expr.typing import implicit_cast
from sqlengine.bind.binder import bind_expression
from sqlengine.bind.coerce import cast_to
from sqlengine.bind.construct import assigned_text
from sqlengine.catalog.objects import BindContext, CatalogTable, MetadataColumn, PhysicalColumn
from sqlengine.parse.constant_rows import values_rows
from sqlengine.parse.ddl_nodes import ExpressionText, Name, QueryText
from sqlengine.parse.nodes import Assigned, DefaultArg, FunctionCall, TypeSpec
from sqlengine.parse.spans import span_of
from sqlengine.parse.statement_nodes import Insert

__all__ = ["assigned_defaults", "bind_default", "left_to_number", "says_default", "with_defaults"]


def says_default(statement: Insert) -> bool:
    """Whether the word DEFAULT stands among the values of an INSERT."""
    query = statement.query.query
    return isinstance(query, exp.Values) and any(
        isinstance(row, exp.Tuple) and any(isinstance(cell, DefaultArg) for cell in row.expressions)
        for row in query.expressions
    )


def left_to_number(statement: Insert, table: CatalogTable) -> list[PhysicalColumn]:
    """The identity columns of which a row of the statement says nothing, or DEFAULT."""
    numbered = [c for c in table.columns if isinstance(c, PhysicalColumn) and c.identity is not None]
    if not numbered or statement.defaults:
        return numbered
    names = _filled(statement, table)
    query = statement.query.query
    rows = [r for r in query.expressions if isinstance(r, exp.Tuple)] if isinstance(query, exp.Values) else []
    words = {n for row in rows for n, cell in zip(names, row.expressions, strict=False) if isinstance(cell, DefaultArg)}
    return [c for c in numbered if c.name not in names or c.name in words]


def with_defaults(statement: Insert, table: CatalogTable) -> Insert:
    """The statement without the word DEFAULT: a column that has it in all rows is left out.

    Raises:
        BindError: E1225, a value for a column that is always numbered.
    """
    always = {c.name for c in table.columns if isinstance(c, PhysicalColumn) and c.identity and c.identity.always}
    if not says_default(statement):
        _check_numbered(statement, table, always, _filled(statement, table))
        return statement
    query = statement.query.query
    names = _filled(statement, table)
    spans = {c.text: c.span for c in statement.columns}
    rows = [row.expressions for row in values_rows(query)]  # type: ignore[arg-type]
    if statement.defaults:
        rows = [[rows[0][0]] * len(names)]
    width = min([len(names), *map(len, rows)])
    words = [{isinstance(row[i], DefaultArg) for row in rows} for i in range(width)]
    kept = [i for i, found in enumerate(words) if found != {True}] or [0]
    _check_numbered(statement, table, always, [names[i] for i in kept if words[i] != {True}])
    made: list[exp.Expr] = []
    for row in rows:
        cells = [_cell(row[i], table, names[i], len(words[i]) > 1 and statement.assigns) for i in kept]
        tuple_ = exp.Tuple(expressions=[*cells, *(cell.copy() for cell in row[width:])])
        tuple_.meta.update(query.meta)
        made.append(tuple_)
    values = exp.Values(expressions=made)
    values.meta.update(query.meta)
    named = [names[i] for i in kept] + list(names[width:])
    columns = tuple(Name(name, spans.get(name, statement.query.span)) for name in named)
    return statement.with_(
        query=QueryText(values, statement.query.text, statement.query.span), columns=columns, defaults=False
    )


def _filled(statement: Insert, table: CatalogTable) -> Sequence[str]:
    """The columns that the values of an INSERT are for."""
    if statement.columns:
        return [c.text for c in statement.columns]
    static = (
        {name.text for name, value in statement.partition.values if value is not None} if statement.partition else ()
    )
    physical = [c.name for c in table.columns if isinstance(c, PhysicalColumn)]
    metadata = [c.name for c in table.columns if isinstance(c, MetadataColumn) and not c.virtual]
    return [name for name in (*physical, *metadata) if name not in static]


def _check_numbered(statement: Insert, table: CatalogTable, always: Collection[str], names: Sequence[str]) -> None:
    given = next((name for name in names if name in always), None)
    if given is None or statement.overriding:
        return
    span = next((c.span for c in statement.columns if c.text == given), statement.query.span)
    raise BindError(
        f'the column "{given}" of {table.path.name} is always numbered and takes no values',
        code="E1225",
        span=span,
        hint="leave it out of the column list, or say OVERRIDING SYSTEM VALUE behind that",
    )


def _cell(cell: exp.Expr, table: CatalogTable, name: str, assigns: bool) -> exp.Expr:
    """A value of a row. `assigns`: rows have a text here, which becomes what the column is, or DEFAULT."""
    column = table.column(name)
    if not isinstance(column, PhysicalColumn):
        return exp.Null() if isinstance(cell, DefaultArg) else cell.copy()
    if isinstance(cell, DefaultArg):
        given = exp.Null() if column.default is None else column.default.expression.copy()
        if column.default is None:
            return given
    elif not assigns:
        if column.identity is not None and isinstance(cell, exp.Null):
            raise TypeMismatchError(
                f'the column "{name}" of {table.path.name} is NOT NULL',
                code="E1314",
                span=span_of(cell),
                hint="write DEFAULT for the next number",
            )
        return cell.copy()
    else:
        given = cell.copy()
        if not (isinstance(given, exp.Literal) and given.is_string):
            given = FunctionCall(this="PG_ASSIGNED", expressions=[given])
    return _assigned(given, column.type, name)


def _assigned(given: exp.Expr, type_: DataType, name: str) -> exp.Expr:
    if isinstance(given, exp.Literal) and given.is_string:
        given = FunctionCall(this="PG_UNTYPED", expressions=[given])
    return Assigned(this=given, to=TypeSpec(this=type_.with_nullable(True)), column=name)


def assigned_defaults(
    assignments: Sequence[tuple[Name, ExpressionText]], table: CatalogTable
) -> tuple[tuple[Name, ExpressionText], ...]:
    """What SET assigns, with what the column was declared with in the place of DEFAULT.

    Raises UnsupportedError E1600 for an identity column."""
    return tuple((name, _default_of(table, name, value)) for name, value in assignments)


def _default_of(table: CatalogTable, name: Name, value: ExpressionText) -> ExpressionText:
    if not isinstance(value.expression, DefaultArg):
        return value
    column = table.column(name.text)
    if isinstance(column, PhysicalColumn) and column.identity is not None:
        raise UnsupportedError(
            f'"{name}" is numbered when its row comes, and not again', span=value.span, hint="assign a number"
        )
    given: exp.Expr = exp.Null()
    if isinstance(column, PhysicalColumn) and column.default is not None:
        given = column.default.expression.copy()
        if isinstance(given, exp.Literal) and given.is_string:
            given = FunctionCall(this="PG_UNTYPED", expressions=[given])
    given.meta.update(value.expression.meta)
    return ExpressionText(given, value.text, value.span)


def bind_default(column: PhysicalColumn, context: BindContext, table: str, span: Span | None = None) -> Expr:
    """What a column was declared with, as a value of its type.

    Raises TypeMismatchError E1313 when it cannot become one, and what the expression raises."""
    assert column.default is not None
    read = column.default.expression.find(exp.Column)
    if read is not None:
        raise BindError(
            f'the default value of "{column.name}" cannot read the column "{read.name}"',
            code="E1201",
            span=span,
            hint=f"a computed column can: {column.name} AS {column.default.text}",
        )
    value = bind_expression(column.default.expression, (), context, place=f'the default value of "{column.name}"')
    wanted = column.type.with_nullable(True)
    if value.type.is_character and not wanted.is_character:
        found = assigned_text(context.functions, value, wanted, span)
        if found is not None:
            return found
    if value.type.root is not TypeRoot.NULL and not implicit_cast(value.type.materialized(), wanted):
        raise TypeMismatchError(
            f'the column "{column.name}" of {table} is {wanted}, and its default value '
            f"{value.type.materialized().with_nullable(True)}",
            code="E1313",
            span=span,
            hint=f"DEFAULT CAST(.. AS {wanted})",
        )
    return cast_to(value, wanted)
