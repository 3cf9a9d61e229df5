"""CREATE TABLE (also LIKE and AS SELECT), DROP TABLE."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from runtime.core.errors import (
    BindError,
    CatalogError,
    OptionError,
    Span,
    SqlEngineError,
    TypeMismatchError,
    UnsupportedError,
    did_you_mean,
    pointing_at,
    with_article,
)
from runtime.core.options import Options
from runtime.core.rooms import Room
from runtime.core.schema import Schema
from runtime.core.types import DataType
from runtime.spi.abilities import SupportsReplacement
from runtime.spi.sink import SinkTable
from sqlengine.catalog.catalog import CatalogObject
from sqlengine.catalog.objects import (
    CatalogTable,
    CatalogView,
    ComputedColumn,
    DefaultValue,
    MaterializedView,
    MetadataColumn,
    PhysicalColumn,
    TableColumn,
    TableDistribution,
    Watermark,
    is_numbered,
)
from sqlengine.database.open_views import check_unchanged
from sqlengine.database.session import Session
from sqlengine.options.database import FOLLOW
from sqlengine.parse import ddl_nodes as ddl
from sqlengine.parse import statement_nodes as st
from sqlengine.results.result import Result
from sqlengine.statements.connector_options import check_connector
from sqlengine.statements.planning import check_declaration, plan_query, query_schema
from sqlengine.statements.queries import LAST_SHOWS, Inserts, run_writing
from sqlengine.table_options.memory_tables import check_memory_table

if TYPE_CHECKING:
    import sqlengine.database.filling as _filling
    import sqlengine.database.inferred_tables as _inferred_tables
    import sqlengine.statements.column_values as _column_values
    import sqlengine.statements.constraints as _constraints
    import sqlengine.statements.foreign_tables as _foreign_tables
    import sqlengine.statements.sequences as _sequences
    import sqlengine.statements.table_like as _table_like
    import sqlengine.statements.view_options as _view_options
else:
    _column_values = Room("sqlengine.statements.column_values")
    _constraints = Room("sqlengine.statements.constraints")
    _table_like = Room("sqlengine.statements.table_like")
    _filling = Room("sqlengine.database.filling")
    _foreign_tables = Room("sqlengine.statements.foreign_tables")
    _inferred_tables = Room("sqlengine.database.inferred_tables")
    _sequences = Room("sqlengine.statements.sequences")
    _view_options = Room("sqlengine.statements.view_options")

__all__ = [
    "catalog_columns",
    "catalog_distribution",
    "catalog_watermark",
    "checked_table",
    "declared_table",
    "create_table",
    "described_table",
    "drop_table",
    "get_table",
    "insert_query",
    "sequences_follow",
]


def create_table(statement: st.CreateTable, session: Session) -> Result:
    """Add a table to the catalog; `AS query` also fills it. When that fails nothing has changed."""
    table = described_table(statement, session)
    if table is None:
        return Result.ok()
    elsewhere = (
        None if table.temporary else session.catalogs.database(table.path.catalog, table.path.database).elsewhere
    )
    if elsewhere is not None:
        return _foreign_tables.create_foreign_table(table, statement, session, elsewhere)
    result = Result.ok()
    if statement.query is not None:
        with session.views.making(_filling.Filling(table.path)), session.filling(table):
            replaces = statement.replace and _takes_over_files(table, session)
            with _following(session) if statement.follows else nullcontext():
                # A sink shows for each key what came last, as RisingWave's does.
                last_shows = statement.follows and bool(table.primary_key)
                result = insert_query(
                    session, table, statement.query, statement.text, replaces=replaces, last_shows=last_shows
                )
    else:
        session.database.forget_rows(table.storage)
        if table.connector is None:
            session.memory_table(table)
    session.catalogs.replace(table)
    if table.connector is None and table.options:
        _view_options.keep_history(table, session)
    return result


def insert_query(
    session: Session,
    table: CatalogTable,
    query: st.QueryText,
    text: str,
    *,
    replaces: bool = False,
    last_shows: bool = False,
) -> Result:
    """Fill a new table with a query's rows (CREATE TABLE AS). `replaces`: they take the place of those that are in its
    files. `last_shows`: of rows with one primary key the last one shows, whatever the key of the query is."""
    names = tuple(st.Name(f, query.span) for f in _query_names(session, query))
    name = st.ObjectName((table.path.catalog, table.path.database, table.path.name), query.span)
    clash = LAST_SHOWS if last_shows else None
    insert = st.Insert(name, query, names, overwrite=replaces, text=text, replaces=replaces, on_conflict=clash)
    return run_writing(Inserts([(insert, table)], text), session)


def _query_names(session: Session, query: st.QueryText) -> tuple[str, ...]:
    return plan_query(session, query.query).schema.names


@contextmanager
def _following(session: Session) -> Iterator[None]:
    """While the job of a sink is begun."""
    before = session.options
    session.options = Options({**before.as_dict(), FOLLOW.key: "true"})
    try:
        yield
    finally:
        session.options = before


def _takes_over_files(table: CatalogTable, session: Session) -> bool:
    """Whether a table is made over the files of the one that it replaces."""
    before = session.catalogs.twin(table)
    if not isinstance(before, CatalogTable) or before.connector is None or before.connector != table.connector:
        return False
    sink = session.open_sink(table, {}, live=False)
    if not isinstance(sink, SupportsReplacement):
        return False
    with suppress(SqlEngineError):
        replaced = session.open_sink(before, {}, live=False)
        return _place(replaced) == _place(sink)
    return False


def _place(sink: SinkTable) -> str:
    return os.path.realpath(str(sink.describe().get("path")))


def declared_table(statement: st.CreateTable, session: Session) -> CatalogTable:
    """The table that a statement which is kept has made before."""
    return _with_constraints(_written_table(statement, session), statement, session)


def _with_constraints(table: CatalogTable, statement: st.CreateTable, session: Session) -> CatalogTable:
    given = statement.constraints
    return _constraints.with_constraints(table, given, session) if given else table


def _written_table(statement: st.CreateTable, session: Session) -> CatalogTable:
    """The table as the statement's columns and clauses say, unchecked."""
    return CatalogTable(
        session.catalogs.qualify(statement.name.parts),
        catalog_columns(statement.columns),
        catalog_watermark(statement.watermarks[0]) if statement.watermarks else None,
        _key_names(statement.primary_key),
        tuple(n.text for n in statement.partitioned_by),
        st.options_dict(statement.options),
        statement.comment,
        statement.temporary,
        _constraint_name(statement.primary_key),
        session=session.number if statement.temporary else 0,
        distribution=catalog_distribution(statement.distribution),
    )


def described_table(statement: st.CreateTable, session: Session) -> CatalogTable | None:
    """The table that a statement would make, checked; None when it is there and IF NOT EXISTS. Changes nothing."""
    table = _written_table(statement, session)
    existing = session.catalogs.twin(table, statement.name.span)
    if existing is not None and statement.if_not_exists:
        return None
    _check_place(existing, statement, session)
    if statement.like is not None:
        table = _table_like.merged_like(table, statement.like, session)
    if statement.query is not None:
        if is_numbered(table):
            _column_values.refuse_from_query(statement.name.span)
        table = _with_query_columns(table, query_schema(session, statement.query.query), statement)
    _column_values.check_identifiers(table, statement.name.span)
    if session.catalogs.maker(table) is None:
        _check_options(table, session, statement.options)
    if table.connector is not None and not any(isinstance(c, PhysicalColumn) for c in table.columns):
        with pointing_at(statement.name.span):
            table = _inferred_tables.with_found_columns(table, session)
    if session.harness.stand_in is not None:
        session.harness.declared[table.path] = table
        table = session.harness.stand_in(table)
    return _with_constraints(checked_table(table, session, statement), statement, session)


def _check_options(table: CatalogTable, session: Session, given: Sequence[ddl.Option]) -> None:
    try:
        check_connector(table, session, given)
    except OptionError as error:
        # A stand-in needs no connector; a name that is nearly one is wrong all the same.
        unknown = error.code == "E1501" and not (error.hint or "").startswith("did you mean")
        if session.harness.stand_in is None or not unknown:
            raise


def _check_place(existing: CatalogObject | None, statement: st.CreateTable, session: Session) -> None:
    """Raise CatalogError when the name is taken, or when there is nothing to replace."""
    name, span = statement.name.parts[-1], statement.name.span
    if existing is None:
        if statement.replace and not statement.create:
            raise CatalogError(
                f'there is no table "{name}" to replace', code="E1407", span=span, hint="use CREATE OR REPLACE TABLE"
            )
        return
    if not statement.replace or statement.query is None:
        hint = "use IF NOT EXISTS, or DROP it first"
        raise CatalogError(f'"{name}" exists already', code="E1401", span=span, hint=hint)
    if not isinstance(existing, CatalogTable):
        raise _not_a_table(existing, span)
    _check_unread(existing, span, session)
    check_unchanged(existing.storage, session.epoch, span)


def drop_table(statement: st.DropTable, session: Session) -> Result:
    path = session.catalogs.qualify(statement.name.parts)
    found = session.catalogs.find(path)
    if found is None and statement.if_exists:
        return Result.ok()
    table = get_table(session, statement.name)
    if statement.temporary and not table.temporary:
        raise CatalogError(
            f'"{path.name}" is not a temporary table',
            code="E1408",
            span=statement.name.span,
            hint="leave out TEMPORARY",
        )
    _check_unread(table, statement.name.span, session)
    check_unchanged(table.storage, session.epoch, statement.name.span)
    sequences_follow(table, None, session)
    session.database.forget_rows(table.storage)
    session.catalogs.remove(table)
    return Result.ok()


def sequences_follow(
    before: CatalogTable, after: CatalogTable | None, session: Session, renamed: tuple[str, str] | None = None
) -> None:
    """Sequences that go with a column of a table go with it, or know its new name."""
    if session.catalogs.definitions("sequence", before.path.catalog, before.path.database) and not before.temporary:
        _sequences.follow_table(before, after, session, renamed)


def get_table(session: Session, name: ddl.ObjectName) -> CatalogTable:
    """The table of a name; raises CatalogError E1409 for views."""
    found = session.catalogs.get(name.parts, name.span, "stored table")
    if isinstance(found, CatalogTable):
        return found
    raise _not_a_table(found, name.span)


def _not_a_table(found: CatalogView | MaterializedView, span: Span) -> CatalogError:
    kind = found.kind if isinstance(found, MaterializedView) else "view"
    return CatalogError(
        f'"{found.path.name}" is {with_article(kind)}, not a table',
        code="E1409",
        span=span,
        hint=f"DROP and ALTER name its kind: DROP {kind.upper()} {found.path.name}",
    )


def _check_unread(table: CatalogTable, span: Span, session: Session) -> None:
    """Raise CatalogError E1410 when a materialized view reads the table."""
    dependents = session.views.dependents(table.storage)
    if dependents:
        names = "the materialized view " + ", ".join(f'"{d.name}"' for d in dependents)
        raise CatalogError(
            f'"{table.path.name}" is read by {names}',
            code="E1410",
            span=span,
            hint="drop the view first",
        )


def catalog_columns(columns: Sequence[ddl.ColumnDefinition]) -> tuple[TableColumn, ...]:
    """Columns of the syntax as columns of the catalog."""
    return tuple(catalog_column(c) for c in columns)


def catalog_column(column: ddl.ColumnDefinition) -> TableColumn:
    name = column.name.text
    match column:
        case ddl.PhysicalColumn():
            given = column.default
            default = None if given is None else DefaultValue(given.expression, given.text)
            return PhysicalColumn(name, column.type, column.comment, default, column.identity)
        case ddl.MetadataColumn():
            return MetadataColumn(name, column.type, column.key or name, column.virtual, column.comment)
        case ddl.ComputedColumn():
            return ComputedColumn(name, column.expression.expression, column.expression.text, column.comment)
        case _:
            raise UnsupportedError(
                f'column "{name}" is of a kind that a table cannot have',
                span=column.span,
                hint="a column has a type, is METADATA, or is computed: c AS expression",
            )


def catalog_watermark(watermark: ddl.Watermark) -> Watermark:
    return Watermark(watermark.column.parts, watermark.expression.expression, watermark.expression.text)


def catalog_distribution(distribution: ddl.Distribution | None) -> TableDistribution | None:
    if distribution is None:
        return None
    columns = tuple(name.text for name in distribution.columns)
    return TableDistribution(columns, distribution.kind, distribution.buckets)


def _key_names(key: ddl.PrimaryKey | None) -> tuple[str, ...]:
    return tuple(n.text for n in key.columns) if key is not None else ()


def _constraint_name(key: ddl.PrimaryKey | None) -> str | None:
    return key.name.text if key is not None and key.name is not None else None


def checked_table(table: CatalogTable, session: Session, statement: st.CreateTable | None = None) -> CatalogTable:
    """The table with its key columns NOT NULL, after checks of all that can be checked without opening anything.

    Raises BindError: no columns, unknown key, partition or watermark columns, wrong expressions.
    """
    names = [c.name for c in table.columns]
    if not names:
        raise BindError(
            f'table "{table.path.name}" has no columns',
            code="E1421",
            span=statement.name.span if statement else None,
            hint="declare at least one column, or use LIKE or AS SELECT",
        )
    physical = [c.name for c in table.columns if isinstance(c, PhysicalColumn)]
    key_spans = (
        {n.text: n.span for n in statement.primary_key.columns}
        if statement is not None and statement.primary_key
        else {}
    )
    for name in table.primary_key:
        if name not in physical:
            raise BindError(
                f'primary key column "{name}" is not a physical column of the table',
                code="E1423",
                span=key_spans.get(name),
                hint=did_you_mean(name, physical),
            )
    partition_spans = {n.text: n.span for n in statement.partitioned_by} if statement is not None else {}
    for name in table.partitioned_by:
        if name not in physical:
            raise BindError(
                f'partition column "{name}" is not a physical column of the table',
                code="E1424",
                span=partition_spans.get(name),
                hint=did_you_mean(name, physical),
            )
    for name in table.distribution.columns if table.distribution is not None else ():
        if name not in physical:
            raise BindError(
                f'distribution column "{name}" is not a physical column of the table',
                code="E1424",
                span=_place_of_distribution(statement, name),
                hint=did_you_mean(name, physical),
            )
    columns = tuple(
        replace(c, type=c.type.not_null()) if isinstance(c, PhysicalColumn) and c.name in table.primary_key else c
        for c in table.columns
    )
    table = replace(table, columns=columns)
    with pointing_at(statement.name.span if statement is not None else None):
        if session.catalogs.maker(table) is None:
            check_memory_table(table)
    with pointing_at(_place_of_watermark(statement)):
        check_declaration(session, table)
    if any(isinstance(c, PhysicalColumn) and (c.default or c.identity) for c in columns):
        with pointing_at(statement.name.span if statement is not None else None):
            table = _column_values.with_checked_values(table, session)
    if table.constraints:
        with pointing_at(statement.name.span if statement is not None else None):
            _constraints.check_kept(table, session)
    return table


def _place_of_distribution(statement: st.CreateTable | None, name: str) -> Span | None:
    given = statement.distribution.columns if statement is not None and statement.distribution is not None else ()
    return next((column.span for column in given if column.text == name), None)


def _place_of_watermark(statement: st.CreateTable | None) -> Span | None:
    return statement.watermarks[0].span if statement is not None and statement.watermarks else None


def _with_query_columns(table: CatalogTable, query: Schema, statement: st.CreateTable) -> CatalogTable:
    """CREATE TABLE AS: columns only in the CREATE part first, then the query's.

    A column in both keeps the query's place and takes the declared type.
    """
    if statement.column_order:
        order = [n.text for n in statement.column_order]
        if sorted(order) != sorted(query.names):
            raise BindError(
                "the column list is not a reordering of the query's columns " + ", ".join(query.names),
                code="E1425",
                span=statement.column_order[0].span,
                hint="name each of them once; with types other columns may stand beside them",
            )
        by_name = {f.name: f.type for f in query}
        return replace(table, columns=tuple(PhysicalColumn(n, by_name[n].materialized()) for n in order))
    declared: dict[str, TableColumn] = {c.name: c for c in table.columns}
    for column in table.columns:
        if isinstance(column, PhysicalColumn) and column.name not in query.names and not column.type.nullable:
            raise TypeMismatchError(
                f'column "{column.name}" is not in the query and cannot be NOT NULL',
                code="E1430",
                span=_span_of(statement, column.name),
                hint="leave NOT NULL out: rows of the query have no value for it",
            )
    first = tuple(c for c in table.columns if c.name not in query.names)
    rest = tuple(_declared_or(declared.get(f.name), f.name, f.type) for f in query)
    return replace(table, columns=first + rest)


def _declared_or(declared: TableColumn | None, name: str, type_: DataType) -> TableColumn:
    return declared if declared is not None else PhysicalColumn(name, type_.materialized())


def _span_of(statement: st.CreateTable, name: str) -> Span | None:
    return next((c.name.span for c in statement.columns if c.name.text == name), None)
