"""SHOW ...: lists of what there is, and SHOW CREATE ..., the statement that would make it again."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from runtime.core.errors import CatalogError, UnsupportedError, did_you_mean, pointing_at
from runtime.core.rooms import Room
from runtime.core.schema import Schema
from runtime.core.types import BOOLEAN, INT, STRING
from runtime.spi.abilities import ListsPartitions
from sqlengine.catalog.objects import CatalogTable, CatalogView, MaterializedView, OpenTable
from sqlengine.database.binding import Binding
from sqlengine.database.information_schema import INFORMATION_SCHEMA, INFORMATION_TABLES
from sqlengine.database.session import SYSTEM_DATABASE, Session
from sqlengine.database.system_tables import SystemTables
from sqlengine.parse import statement_nodes as st
from sqlengine.results.result import Result
from sqlengine.statements.create_text import (
    catalog_text,
    database_text,
    definition_text,
    literal,
    quoted,
    table_text,
    view_text,
)
from sqlengine.statements.describe import column_rows, described_schema

if TYPE_CHECKING:
    import sqlengine.statements.grants as _grants
    import sqlengine.statements.procedures as _procedures
    import sqlengine.statements.roles as _roles
    import sqlengine.statements.secrets as _secrets
else:
    _grants = Room("sqlengine.statements.grants")
    _procedures = Room("sqlengine.statements.procedures")
    _roles = Room("sqlengine.statements.roles")
    _secrets = Room("sqlengine.statements.secrets")

__all__ = ["show"]


def show(statement: st.Show, session: Session) -> Result:
    """The rows of any SHOW, filtered by its LIKE."""
    maker = _SHOWS.get(statement.kind)
    if maker is None:
        raise UnsupportedError(
            f"SHOW {statement.kind} cannot be carried out by this engine",
            code="E1604",
            span=statement.span,
            hint="there is SHOW " + ", ".join(sorted(_SHOWS)),
        )
    return maker(statement, session)


def _list(title: str, names: Iterable[str], statement: st.Show) -> Result:
    kept = [n for n in names if like_matches(statement.like, n)]
    return Result.table(Schema.of((title, STRING.not_null())), [kept])


def like_matches(pattern: st.LikePattern | None, name: str) -> bool:
    """MySQL's LIKE: `%` any text, `_` one character, backslash takes the next one as it is."""
    if pattern is None:
        return True
    pieces, characters = [], iter(pattern.pattern)
    for c in characters:
        pieces.append(
            ".*" if c == "%" else "." if c == "_" else re.escape(next(characters, "\\")) if c == "\\" else re.escape(c)
        )
    flags = re.IGNORECASE | re.DOTALL if pattern.ignore_case else re.DOTALL
    return (re.fullmatch("".join(pieces), name, flags) is not None) != pattern.negated


def _database_of(statement: st.Show, session: Session) -> tuple[str, str]:
    parts = statement.name.parts if statement.name is not None else ()
    if len(parts) == 2:
        catalog, database = parts
    else:
        catalog, database = session.catalogs.current_catalog, parts[0] if parts else session.catalogs.current_database
    session.catalogs.database(catalog, database, statement.name.span if statement.name is not None else None)
    return catalog, database


def _objects(title: str, kinds: tuple[type, ...]) -> Callable[[st.Show, Session], Result]:
    def make(statement: st.Show, session: Session) -> Result:
        if statement.name is not None and statement.name.parts == (SYSTEM_DATABASE,):
            return _list(title, list(SystemTables.NAMES) if CatalogTable in kinds else [], statement)
        if statement.name is not None and statement.name.parts[-1] == INFORMATION_SCHEMA:
            catalog = statement.name.parts[0] if len(statement.name.parts) == 2 else session.catalogs.current_catalog
            if INFORMATION_SCHEMA not in session.catalogs.catalog(catalog, statement.name.span).databases:
                return _list(title, list(INFORMATION_TABLES) if CatalogTable in kinds else [], statement)
        things = session.catalogs.seen_objects(*_database_of(statement, session))
        return _list(title, [t.path.name for t in things if isinstance(t, kinds)], statement)

    return make


def _materialized(title: str, kind: str) -> Callable[[st.Show, Session], Result]:
    def make(statement: st.Show, session: Session) -> Result:
        things = session.catalogs.seen_objects(*_database_of(statement, session))
        return _list(
            title, [t.path.name for t in things if isinstance(t, MaterializedView) and t.kind == kind], statement
        )

    return make


def _databases(statement: st.Show, session: Session) -> Result:
    name = statement.name.parts[0] if statement.name is not None else session.catalogs.current_catalog
    return _list("database name", session.catalogs.seen_databases(name), statement)


def _columns(statement: st.Show, session: Session) -> Result:
    assert statement.name is not None
    rows = column_rows(session, session.described(statement.name.parts, statement.name.span))
    rows = [r for r in rows if like_matches(statement.like, str(r[0]))]
    schema = described_schema(rows)
    return Result.table(schema, [[r[i] for r in rows] for i in range(len(schema))])


def _partitions(statement: st.Show, session: Session) -> Result:
    """The partitions of a table of files, as its folders are named: `day=mon/hour=7`."""
    assert statement.name is not None
    name, span = statement.name, statement.name.span
    table = session.catalogs.get(name.parts, span)
    if not isinstance(table, CatalogTable) or not table.partitioned_by:
        raise CatalogError(
            f'"{table.path.name}" is not partitioned',
            code="E1226",
            span=span,
            hint="CREATE TABLE .. PARTITIONED BY (column) divides files into folders",
        )
    wanted: dict[str, str | None] = {}
    for column, value in statement.partition.values if statement.partition is not None else ():
        if column.text not in table.partitioned_by:
            raise CatalogError(
                f'"{column.text}" is no partition column of {table.path.name}',
                code="E1226",
                span=column.span,
                hint=did_you_mean(column.text, table.partitioned_by),
            )
        if value is not None:
            wanted[column.text] = value.expression.name
    opened = Binding(session, False).resolve(name.parts, span, {})
    source = opened.source if isinstance(opened, OpenTable) else None
    found = source.partitions() if isinstance(source, ListsPartitions) else ()
    rows = [
        "/".join(f"{c}={'NULL' if p[c] is None else p[c]}" for c in table.partitioned_by)
        for p in found
        if all(p.get(c) == v for c, v in wanted.items())
    ]
    return _list("partition name", rows, statement)


def _functions(statement: st.Show, session: Session) -> Result:
    known: Iterable[str] = session.user_functions if statement.user else session.functions.functions
    if session.authority is not None:
        known = _roles.known_functions(known, session)
    names = sorted(name.lower() for name in known if name[:1].isalpha() and " " not in name)
    return _list("function name", names, statement)


def _modules(statement: st.Show, session: Session) -> Result:
    if statement.full:
        names, used = list(session.modules), list(session.modules.values())
        return Result.table(Schema.of(("module name", STRING.not_null()), ("used", BOOLEAN.not_null())), [names, used])
    return _list("module name", [name for name, used in session.modules.items() if used], statement)


def _jobs(statement: st.Show, session: Session) -> Result:
    rows = session.jobs.rows().to_pydict()
    if session.authority is not None:
        rows = _roles.own_jobs(rows, session)
    schema = Schema.of(("job id", STRING), ("statement", STRING), ("status", STRING), ("weight", INT))
    return Result.table(schema, [rows["job"], rows["statement"], rows["status"], rows["weight"]])


def _create_table(statement: st.Show, session: Session) -> Result:
    assert statement.name is not None
    table = session.catalogs.get(statement.name.parts, statement.name.span, "stored table")
    if not isinstance(table, CatalogTable):
        raise CatalogError(
            f'"{table.path.name}" is not a table', code="E1409", span=statement.name.span, hint="use SHOW CREATE VIEW"
        )
    return _text(table_text(table))


def _create_view(statement: st.Show, session: Session) -> Result:
    assert statement.name is not None
    view = session.catalogs.get(statement.name.parts, statement.name.span, "any view")
    if isinstance(view, CatalogTable):
        raise CatalogError(
            f'"{view.path.name}" is a table', code="E1409", span=statement.name.span, hint="use SHOW CREATE TABLE"
        )
    return _text(view_text(view))


def _create_or_alter(statement: st.Show, session: Session) -> Result:
    text = str(_create_view(statement, session).to_arrow().column(0)[0].as_py())
    return _text(text.replace("CREATE ", "CREATE OR ALTER ", 1))


def _create_catalog(statement: st.Show, session: Session) -> Result:
    assert statement.name is not None
    return _text(catalog_text(session.catalogs.catalog(statement.name.parts[0], statement.name.span)))


def _create_database(statement: st.Show, session: Session) -> Result:
    assert statement.name is not None
    parts = statement.name.parts
    catalog, name = parts if len(parts) == 2 else (session.catalogs.current_catalog, parts[-1])
    database = session.catalogs.database(catalog, name, statement.name.span)
    return _text(database_text(database, name=f"{quoted(catalog)}.{quoted(name)}"))


def _create_function(statement: st.Show, session: Session) -> Result:
    assert statement.name is not None
    name, span = statement.name.parts[-1], statement.name.span
    entry = session.user_functions.get(name.upper())
    if entry is not None and entry.path:
        words = "CREATE TEMPORARY FUNCTION" if name.upper() in session.own_functions else "CREATE FUNCTION"
        return _text(f"{words} {quoted(name)} AS {literal(entry.path)} LANGUAGE PYTHON")
    with pointing_at(span):
        session.functions.get(name)
    own = name.upper() not in session.user_functions
    raise CatalogError(
        f'no statement has made the function "{name}"',
        code="E1444",
        span=span,
        hint="it belongs to the engine; DESCRIBE FUNCTION tells about it"
        if own
        else "a Python program has given it a name; put it into a module for CREATE FUNCTION to find",
    )


def _definitions(title: str, kind: str) -> Callable[[st.Show, Session], Result]:
    def make(statement: st.Show, session: Session) -> Result:
        found = session.catalogs.seen_definitions(kind, *_database_of(statement, session))
        return _list(title, [d.path.name for d in found], statement)

    return make


def _create_definition(kind: str) -> Callable[[st.Show, Session], Result]:
    def make(statement: st.Show, session: Session) -> Result:
        assert statement.name is not None
        return _text(definition_text(session.catalogs.definition(kind, statement.name.parts, statement.name.span)))

    return make


def _procedure_names(statement: st.Show, session: Session) -> Result:
    return _list("procedure name", _procedures.procedure_names(statement, session), statement)


def _text(text: str) -> Result:
    return Result.table(Schema.of(("result", STRING.not_null())), [[text]])


def _current(title: str, value: Callable[[Session], str]) -> Callable[[st.Show, Session], Result]:
    return lambda statement, session: Result.table(Schema.of((title, STRING.not_null())), [[value(session)]])


def _nothing(title: str) -> Callable[[st.Show, Session], Result]:
    return lambda statement, session: _list(title, (), statement)


def _names(title: str, values: Callable[[Session], Sequence[str]]) -> Callable[[st.Show, Session], Result]:
    return lambda statement, session: _list(title, values(session), statement)


_SHOWS: dict[str, Callable[[st.Show, Session], Result]] = {
    "CATALOGS": _names("catalog name", lambda s: [c.name for c in s.catalogs.seen_catalogs()]),
    "CURRENT CATALOG": _current("current catalog name", lambda s: s.catalogs.current_catalog),
    "CREATE CATALOG": _create_catalog,
    "CREATE DATABASE": _create_database,
    "CREATE FUNCTION": _create_function,
    "DATABASES": _databases,
    "CURRENT DATABASE": _current("current database name", lambda s: s.catalogs.current_database),
    "TABLES": _objects("table name", (CatalogTable, CatalogView, MaterializedView)),
    "CREATE TABLE": _create_table,
    "COLUMNS": _columns,
    "VIEWS": _objects("view name", (CatalogView,)),
    "CREATE VIEW": _create_view,
    "MATERIALIZED VIEWS": _materialized("materialized view name", "materialized view"),
    "MATERIALIZED TABLES": _materialized("materialized table", "materialized table"),
    "CREATE MATERIALIZED VIEW": _create_view,
    "CREATE MATERIALIZED TABLE": _create_view,
    "CREATE OR ALTER MATERIALIZED TABLE": _create_or_alter,
    "FUNCTIONS": _functions,
    "MODULES": _modules,
    "JARS": _nothing("jars"),
    "JOBS": _jobs,
    "MODELS": _definitions("model name", "model"),
    "CREATE MODEL": _create_definition("model"),
    "SEQUENCES": _definitions("sequence name", "sequence"),
    "CREATE SEQUENCE": _create_definition("sequence"),
    "CONNECTIONS": _definitions("connection name", "connection"),
    "CREATE CONNECTION": _create_definition("connection"),
    "PARTITIONS": _partitions,
    "PROCEDURES": _procedure_names,
    "ROLES": lambda statement, session: _roles.show_roles(statement, session),
    "USERS": lambda statement, session: _roles.show_roles(statement, session),
    "TOKENS": lambda statement, session: _roles.show_tokens(statement, session),
    "SECRETS": lambda statement, session: _secrets.show_secrets(statement, session),
    "GRANTS": lambda statement, session: _grants.show_grants(statement, session),
}
