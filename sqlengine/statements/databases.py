"""Catalogs and databases: CREATE, ALTER, DROP, USE."""

from __future__ import annotations

from collections.abc import Callable

from runtime.core.errors import CatalogError, OptionError, Span, SqlEngineError, did_you_mean, pointing_at
from runtime.spi.catalog import CatalogRequest
from sqlengine.catalog.catalog import Catalog, Database
from sqlengine.catalog.foreign import foreign_catalog
from sqlengine.catalog.objects import CatalogTable, MaterializedView
from sqlengine.database.acting import with_secrets
from sqlengine.database.open_views import check_unchanged
from sqlengine.database.session import Session
from sqlengine.parse import ddl_nodes as ddl
from sqlengine.parse import statement_nodes as st
from sqlengine.results.result import Result
from sqlengine.statements.file_catalog import FILE, load_file, open_file

__all__ = [
    "alter_catalog",
    "alter_database",
    "create_catalog",
    "create_database",
    "drop_catalog",
    "drop_database",
    "use_catalog",
    "use_database",
]

IN_MEMORY = "generic_in_memory"


def create_catalog(
    statement: st.CreateCatalog, session: Session, execute: Callable[[st.Statement, Session], Result]
) -> Result:
    """Add a catalog; one of type `file` with the definitions in its file, which `execute` carries out."""
    options = st.options_dict(statement.options)
    kind = options.get("type")
    if kind not in (IN_MEMORY, FILE):
        return _create_foreign(statement, session, kind, options)
    default = options.get("default-database", "default")
    file = open_file(options, statement.name.span) if kind == FILE else None
    catalog = Catalog(statement.name.text, statement.comment, options, {default: Database(default)}, file)
    if not session.catalogs.create_catalog(catalog, if_not_exists=statement.if_not_exists, span=statement.name.span):
        return Result.ok()
    result = Result.ok()
    try:
        if file is not None:
            result.warnings = tuple(load_file(catalog, session, execute))
    except SqlEngineError:
        session.catalogs.drop_catalog(catalog.name)
        raise
    return result


def _create_foreign(statement: st.CreateCatalog, session: Session, kind: str | None, options: dict[str, str]) -> Result:
    """Add a catalog of another system, which is found by its type."""
    name, span = statement.name.text, statement.name.span
    known = sorted({FILE, IN_MEMORY, *session.registry.catalogs.names()})
    if kind is None:
        raise OptionError(
            "a catalog needs the option 'type'", code="E1507", span=span, hint="there is: " + ", ".join(known)
        )
    if statement.if_not_exists and name in {c.name for c in session.catalogs.catalogs()}:
        return Result.ok()
    try:
        factory = session.registry.catalogs.get(kind)
    except OptionError as error:
        # A package may have added types by now.
        error.span, known = span, sorted({FILE, IN_MEMORY, *session.registry.catalogs.names()})
        error.hint = did_you_mean(kind, known) or "there is: " + ", ".join(known)
        raise
    with pointing_at(span):
        given = with_secrets(session, options, session.authority)
        if session.database.outside is not None:
            # A secret may be an address.
            session.database.outside.check(given)
        inner = factory.open(CatalogRequest(name, given))
        session.catalogs.create_catalog(foreign_catalog(name, statement.comment, options, inner), span=span)
    return Result.ok()


def alter_catalog(statement: st.AlterCatalog, session: Session) -> Result:
    catalog = session.catalogs.catalog(statement.name.text, statement.name.span)
    match statement.action:
        case ddl.SetOptions(options=options):
            for option in options:
                if option.key in ("type", "path"):
                    raise OptionError(
                        f"a catalog's '{option.key}' cannot be changed",
                        span=option.span,
                        hint="DROP the catalog and create it again",
                    )
            catalog.options.update(st.options_dict(options))
        case ddl.ResetOptions(keys=keys):
            for key in keys:
                if key.text in ("type", "path"):
                    raise OptionError(
                        f"a catalog's '{key.text}' cannot be reset",
                        span=key.span,
                        hint="DROP the catalog and create it again",
                    )
                catalog.options.pop(key.text, None)
        case ddl.SetComment(comment=comment):
            catalog.comment = comment
        case _:
            raise CatalogError(
                "a catalog takes SET, RESET and COMMENT",
                code="E1413",
                span=statement.span,
                hint="for example ALTER CATALOG c SET ('k' = 'v')",
            )
    return Result.ok()


def drop_catalog(statement: st.DropCatalog, session: Session) -> Result:
    """Forget a catalog and what is in it; a file that keeps it stays."""
    catalogs = session.catalogs
    if statement.name.text in {c.name for c in catalogs.catalogs()} and statement.name.text != catalogs.current_catalog:
        catalog = catalogs.catalog(statement.name.text)
        for database in catalog.databases.values():
            _check_unchanged(database, statement.name.span, session)
        for database in catalog.databases:
            _close_views(session, catalog.name, database)
        for database in catalog.databases.values():
            for thing in database.objects.values():
                if isinstance(thing, (CatalogTable, MaterializedView)):
                    session.database.forget_rows(thing.storage)
    session.catalogs.drop_catalog(statement.name.text, if_exists=statement.if_exists, span=statement.name.span)
    return Result.ok()


def _database_path(name: ddl.ObjectName, session: Session) -> tuple[str, str]:
    match name.parts:
        case (database,):
            return session.catalogs.current_catalog, database
        case (catalog, database):
            return catalog, database
        case _:
            raise CatalogError(
                f"a database name has one or two parts: {name}",
                code="E1403",
                span=name.span,
                hint="write catalog.database",
            )


def create_database(statement: st.CreateDatabase, session: Session) -> Result:
    catalog, name = _database_path(statement.name, session)
    database = Database(name, statement.comment, st.options_dict(statement.options))
    session.catalogs.create_database(catalog, database, if_not_exists=statement.if_not_exists, span=statement.name.span)
    return Result.ok()


def alter_database(statement: st.AlterDatabase, session: Session) -> Result:
    catalog, name = _database_path(statement.name, session)
    database = session.catalogs.database(catalog, name, statement.name.span)
    if not isinstance(statement.action, ddl.SetOptions):
        raise CatalogError(
            "a database takes SET",
            code="E1413",
            span=statement.span,
            hint="for example ALTER DATABASE d SET ('k' = 'v')",
        )
    database.options.update(st.options_dict(statement.action.options))
    return Result.ok()


def drop_database(statement: st.DropDatabase, session: Session) -> Result:
    catalog, name = _database_path(statement.name, session)
    if statement.cascade and name in session.catalogs.catalog(catalog).databases:
        _check_unchanged(session.catalogs.database(catalog, name, statement.name.span), statement.name.span, session)
        _close_views(session, catalog, name)
    gone = session.catalogs.drop_database(
        catalog, name, if_exists=statement.if_exists, cascade=statement.cascade, span=statement.name.span
    )
    for thing in gone:
        if isinstance(thing, (CatalogTable, MaterializedView)):
            session.memory.pop(thing.storage, None)
    return Result.ok()


def _check_unchanged(database: Database, span: Span | None, session: Session) -> None:
    for thing in database.objects.values():
        if isinstance(thing, CatalogTable):
            check_unchanged(thing.storage, session.epoch, span)


def _close_views(session: Session, catalog: str, database: str) -> None:
    inside = session.catalogs.database(catalog, database).objects.values()
    paths = {thing.path for thing in inside}
    for thing in inside:
        outsiders = [d for d in session.views.dependents(thing.path) if d not in paths]
        if outsiders:
            raise CatalogError(
                f'"{thing.path.name}" is read by the materialized view "{outsiders[0].name}"',
                code="E1410",
                hint="drop that first",
            )
    for thing in inside:
        if isinstance(thing, MaterializedView):
            session.views.remove(thing.path)


def use_catalog(statement: st.UseCatalog, session: Session) -> Result:
    session.catalogs.use_catalog(statement.name.text, statement.name.span)
    return Result.ok()


def use_database(statement: st.UseDatabase, session: Session) -> Result:
    session.catalogs.use_database(*_database_path(statement.name, session), statement.name.span)
    return Result.ok()
