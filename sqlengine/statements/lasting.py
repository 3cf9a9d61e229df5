"""A database in a folder: opened with all that was made in it, and its definitions kept as statements change them.

    TableEnvironment.create(path="shop")

Definitions are kept as the statements that make them (`create_text.py`), with the catalog and database that were current.
Tables and views come back as they were declared, unchecked: what does not work any more says so when it is used. Rows of
tables without connector come from the folder, and so do materialized views with their state (`lasting_views.py`), under
the options that were set when they were made. One that cannot be made is there and says why.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from runtime.checkpoint.keys import keys_of
from runtime.checkpoint.shared_storage import SharedStorage
from runtime.checkpoint.storage import Damage
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import CatalogError, DatabaseError, OptionError, Span, SqlEngineError
from runtime.core.logs import Log, tell
from runtime.core.options import Options
from runtime.core.rooms import Room
from runtime.core.schema import Schema
from runtime.core.types import BIGINT
from sqlengine.catalog.catalog import Catalog, CatalogObject, Database
from sqlengine.catalog.definitions import CatalogSequence
from sqlengine.catalog.objects import CatalogTable, CatalogView, MaterializedView, ObjectPath, is_numbered
from sqlengine.database.durable import Durable
from sqlengine.database.folder.changes import JOB_KINDS, Definition, Place, Storage
from sqlengine.database.folder.folder import DatabaseFolder, FolderSettings
from sqlengine.database.folder.lease import SharedLease
from sqlengine.database.folder.opening import read_backup, shared_storage_of
from sqlengine.database.folder.stored import Stored
from sqlengine.database.session import Session
from sqlengine.options.database import CHECKPOINT_INTERVAL, CHECKPOINT_SIZE, DATABASE_OPTIONS, SYNCHRONOUS
from sqlengine.parse import ddl_nodes as ddl
from sqlengine.parse import parse_script, parse_statement
from sqlengine.parse import session_nodes as sn
from sqlengine.parse import statement_nodes as st
from sqlengine.parse.trees import Tree
from sqlengine.results.result import Result
from sqlengine.statements import functions, views
from sqlengine.statements.create_text import catalog_text, create_text, database_text, definition_text, literal, quoted
from sqlengine.statements.databases import IN_MEMORY, create_catalog
from sqlengine.statements.dispatch import carry_out
from sqlengine.statements.file_catalog import FILE
from sqlengine.statements.lasting_views import current, follow_again, make_views, meaning, views_go_on
from sqlengine.statements.query_reads import kind_of, query_reads
from sqlengine.statements.tables import declared_table
from sqlengine.statements.used_by_jobs import check_unused
from sqlengine.table_options.memory_tables import column_files, history_retention

if TYPE_CHECKING:
    import sqlengine.statements.grants as _grants
    import sqlengine.statements.role_texts as _role_texts
    import sqlengine.statements.sequences as _sequences
else:
    _grants = Room("sqlengine.statements.grants")
    _role_texts = Room("sqlengine.statements.role_texts")
    _sequences = Room("sqlengine.statements.sequences")

__all__ = [
    "backup",
    "check_statement",
    "keep_definitions",
    "open_database",
    "restore",
    "shared_at",
]

_log = Log("database")


def open_database(session: Session, path: str, lease: SharedLease | None = None) -> None:
    """Have a session's objects and rows in a folder. `lease`: with which this process owns it already. Raises
    DatabaseError."""
    settings = FolderSettings(
        session.options.get(SYNCHRONOUS),
        session.options.get(CHECKPOINT_SIZE),
        session.options.get(CHECKPOINT_INTERVAL) / 1000,
        keys_of(session.options),
        column_files(session.options),
    )
    folder = DatabaseFolder.open(path, settings, lease)
    durable = Durable(folder, session.database)
    try:
        with session.alone(redefines=True):
            _restore(session, durable)
    except BaseException as error:
        session.database.durable = None
        durable.abandon()
        if isinstance(error, Damage):
            raise DatabaseError(
                f"the database {folder.place} is damaged: {error}",
                code="E3702",
                hint="RESTORE it from a backup; nothing in the folder was changed",
            ) from error
        raise


def shared_at(path: str, options: Mapping[str, str]) -> SharedStorage:
    """The place of a database for which servers stand by. Raises DatabaseError, and what `keys_of` raises."""
    try:
        return shared_storage_of(path, keys_of(Options(options)))
    except OSError as error:
        raise DatabaseError(f"{path} cannot be read or written: {error.strerror or error}", hint="see to it") from error


# --- what is there
# ---------------------------------------------------------------------------------------------------------------------


def keep_definitions(session: Session) -> None:
    """After a statement that may have changed definitions: what differs goes to the log."""
    durable = session.durable
    assert durable is not None
    durable.define(_definitions(session, durable))


def _definitions(session: Session, durable: Durable) -> dict[Place, Definition]:
    """All that is there and kept, and what could not be made when the database was opened."""
    found: dict[Place, Definition] = {}
    current = session.catalogs.current_catalog, session.catalogs.current_database

    def keep(place: Place, text: str, *now: str, options: tuple[tuple[str, str], ...] = ()) -> None:
        found[place] = Definition(text, now[0] if now else "", now[1] if now else "", options)

    for catalog in session.catalogs.catalogs():
        if not _is_kept(catalog, session):
            continue
        keep(("catalog", catalog.name), catalog_text(catalog, masked=False))
        if catalog.options.get("type") != IN_MEMORY:
            continue
        for database in catalog.databases.values():
            name = f"{quoted(catalog.name)}.{quoted(database.name)}"
            keep(("database", catalog.name, database.name), database_text(database, name=name, masked=False))
            for definition in (d for d in database.definitions.values() if d.is_kept):
                place = (definition.kind, *definition.path.parts)
                if isinstance(definition, CatalogSequence):
                    text = definition_text(definition)
                    found[place] = session.database.sequences.definition(definition, text)
                else:
                    keep(place, definition_text(definition, masked=False))
            for thing in database.objects.values():
                kind = kind_of(thing)
                place = (kind, *thing.path.parts)
                known = durable.known.get(place)
                if known is not None and known[0] is thing:
                    found[place] = known[1]
                    continue
                text = create_text(thing, masked=False)
                before = durable.definitions.get(place)
                if before is not None and before.text == text:
                    found[place] = before  # It was measured, no more.
                elif isinstance(thing, MaterializedView) and _is_same_view(known, thing) and before is not None:
                    found[place] = replace(before, text=text)
                elif isinstance(thing, MaterializedView):
                    keep(place, text, *current, options=meaning(session.options))
                else:
                    keep(place, text, thing.path.catalog, thing.path.database)
                durable.known[place] = thing, found[place]
            for table in database.objects.values():
                if isinstance(table, CatalogTable) and is_numbered(table):
                    found.update(session.database.sequences.definitions(table))
    for name, function in session.database.user_functions.items():
        keep(("function", name), f"CREATE FUNCTION {quoted(name)} AS {literal(function.path)} LANGUAGE PYTHON")
    if session.database.known_roles is not None:
        for place, text in _role_texts.role_definitions(session.database.known_roles):
            keep(place, text)
    found.update({place: d for place, d in durable.definitions.items() if place[0] in JOB_KINDS})
    for place, definition in list(durable.unmade.items()):
        if found.setdefault(place, definition) is not definition:
            del durable.unmade[place]
    return found


def _is_same_view(known: tuple[CatalogObject, Definition] | None, view: MaterializedView) -> bool:
    """Whether nothing but its options has changed: its query was written where it was."""
    return known is not None and isinstance(known[0], MaterializedView) and known[0].query is view.query


def _is_kept(catalog: Catalog, session: Session) -> bool:
    kind = catalog.options.get("type")
    return kind in (IN_MEMORY, FILE) or kind in session.registry.catalogs.names()


# --- made again
# ---------------------------------------------------------------------------------------------------------------------


def _restore(session: Session, durable: Durable) -> None:
    """What the folder holds: tables and views as they were at the checkpoint, then what has changed since."""
    stored = durable.folder.take()
    _restore_all_but_views(session, durable, stored)
    left = views_go_on(session, durable, stored, own=True)
    session.database.durable = durable
    session.views.on_moved = durable.checkpoint_when_due
    durable.begin()
    make_views(session, durable, stored, left)
    follow_again(session, durable, stored)


def _restore_all_but_views(session: Session, durable: Durable, stored: Stored) -> None:
    """Definitions, and tables with the rows of the checkpoint."""
    definitions = stored.definitions
    places = {kind: [p for p in definitions if p[0] == kind] for kind in {p[0] for p in definitions}}
    for place in places.get("catalog", []):
        _restore_catalog(session, durable, place, definitions[place])
    for place in places.get("database", []):
        statement = parse_statement(definitions[place].text)
        assert isinstance(statement, st.CreateDatabase)
        made = Database(place[2], statement.comment, st.options_dict(statement.options))
        session.catalogs.catalog(place[1]).databases[place[2]] = made
    for place in (*places.get("role", []), *places.get("token", []), *places.get("secret", [])):
        carry_out(parse_statement(definitions[place].text), session)
    for place in places.get("grants", []):
        for statement in parse_script(definitions[place].text):
            assert isinstance(statement, st.Grant | st.GrantRole)
            _grants.restore_grants(statement, session)
    for place in places.get("function", []):
        with _kept_when_it_fails(durable, place, definitions[place]):
            statement = parse_statement(definitions[place].text)
            assert isinstance(statement, st.CreateFunction)
            functions.create_function(statement, session)
    for place in (*places.get("connection", []), *places.get("model", []), *places.get("procedure", [])):
        with _kept_when_it_fails(durable, place, definitions[place]):
            carry_out(parse_statement(definitions[place].text), session)
    named = [place for place in places.get("sequence", []) if len(place) == 4]
    for place in named:
        statement = parse_statement(definitions[place].text)
        assert isinstance(statement, sn.CreateSequence)
        session.catalogs.define(_sequences.declared_sequence(statement, session))
    for place in (*places.get("table", []), *places.get("view", [])):
        _declare(session, durable, place, definitions[place])
    for place in places.get("sequence", []):
        session.database.sequences.restore(place, definitions[place])
    for storage, rows in stored.tables.items():
        batches = [*rows.before, *(batch for _, changes in rows.after for batch in changes)]
        if batches:
            _check_rows(session, storage, batches)
            table = session.memory_table(_table(session, storage))
            table.apply_again(*rows.before)
            table.publish()


@contextmanager
def _kept_when_it_fails(durable: Durable, place: Place, definition: Definition) -> Iterator[None]:
    """What cannot be made now is told, and stays defined until something else has its name."""
    try:
        yield
    except SqlEngineError as error:
        durable.unmade[place] = definition
        _log.failure(f"the {place[0]} {place[1]} could not be made again", error, path=durable.folder.place)
        tell(f"the {place[0]} {place[1]} is kept, but could not be made again: {error.code} {error.message}")


def _restore_catalog(session: Session, durable: Durable, place: Place, definition: Definition) -> None:
    statement = parse_statement(definition.text)
    assert isinstance(statement, st.CreateCatalog)
    options = st.options_dict(statement.options)
    if options.get("type") == IN_MEMORY:
        made = Catalog(place[1], statement.comment, options, {})
        session.catalogs.put_catalog(made)
        return
    with _kept_when_it_fails(durable, place, definition):
        create_catalog(statement, session, carry_out)


def _declare(session: Session, durable: Durable, place: Place, definition: Definition) -> None:
    with current(session, definition):
        statement = parse_statement(definition.text)
        if isinstance(statement, ddl.CreateTable):
            thing: CatalogTable | CatalogView = declared_table(statement, session)
        else:
            assert isinstance(statement, st.CreateView)
            thing = views.declared_view(statement, session)
    session.catalogs.replace(thing)
    durable.known[place] = thing, definition
    if isinstance(thing, CatalogTable) and thing.connector is None and history_retention(thing) is not None:
        session.memory_table(thing)  # It may be empty, and have been otherwise.


def _table(session: Session, storage: Storage) -> CatalogTable:
    """A table without connector. Raises Damage."""
    found = session.catalogs.find(ObjectPath(*storage))
    if not isinstance(found, CatalogTable) or found.connector is not None:
        raise Damage(f"there are rows of {'.'.join(storage)}, which is no table without connector")
    return found


def _check_rows(session: Session, storage: Storage, batches: list[ChangelogBatch]) -> None:
    """Raises Damage for rows that are none of the table."""
    arrow = session.memory_table(_table(session, storage)).schema.arrow
    for batch in batches:
        if batch.rows.schema.types != arrow.types or batch.rows.schema.names != arrow.names:
            raise Damage(f"there are rows of other columns than {'.'.join(storage)} has")


# --- backups
# ---------------------------------------------------------------------------------------------------------------------


def backup(statement: st.Backup, session: Session) -> Result:
    """Write the database as it is after the last epoch to another folder."""
    rows = _durable(session, statement.span).backup(statement.path.text)
    summary = f"{rows:,} row{'' if rows == 1 else 's'} are in the backup {statement.path.text}"
    return Result.table(Schema.of(("rows", BIGINT.not_null())), [[rows]], summary=summary)


def restore(statement: st.Restore, session: Session) -> Result:
    """Have all of a backup in a database that has nothing yet."""
    durable = _durable(session, statement.span)
    kept = [p for p in durable.definitions if p[0] not in ("catalog", "database")]
    if kept or len(session.catalogs.catalogs()) > 1:
        what = f"the {kept[0][0]} {kept[0][-1]}" if kept else "a catalog"
        raise DatabaseError(
            f"this database has {what} already",
            code="E3708",
            span=statement.span,
            hint="open a new folder, and RESTORE there",
        )
    stored = read_backup(statement.path.text, keys_of(session.options), column_files(session.options))
    try:
        _restore_all_but_views(session, durable, stored)
    except Damage as damage:
        raise DatabaseError(
            f"the backup {statement.path.text} is damaged: {damage}", code="E3702", hint="take another one"
        ) from damage
    left = views_go_on(session, durable, stored, own=False)
    make_views(session, durable, stored, left)
    keep_definitions(session)
    return Result.ok()


def _durable(session: Session, span: Span) -> Durable:
    if session.durable is None:
        raise DatabaseError(
            "this database is in memory alone",
            code="E3709",
            span=span,
            hint='give it a folder: sqlengine shop/, or TableEnvironment.create(path="shop")',
        )
    return session.durable


# --- what may be kept
# ---------------------------------------------------------------------------------------------------------------------


def check_statement(statement: st.Statement, session: Session) -> None:
    """Before a statement is carried out.

    Raises:
        OptionError: SET of what is read when the database is opened.
        DatabaseError: E3704, the log has stopped; E3705, a view would outlive what it reads.
        CatalogError: E1410, a materialized view or a job reads what is to be dropped or changed.
    """
    durable = session.durable
    assert durable is not None
    durable.check()
    check_unused(statement, session)
    match statement:
        case st.Set(option=ddl.Option(key=key, span=span)) if key in {option.key for option in DATABASE_OPTIONS}:
            raise OptionError(
                f"option '{key}' is read when the database is opened",
                span=span,
                hint=f"give it then: sqlengine -D {key}=..., or TableEnvironment.create({{...}}, path=...)",
            )
        case st.CreateView(temporary=False) | st.CreateMaterializedView():
            reads = _check_query(session, statement.query.query, statement.name)
            if isinstance(statement, st.CreateView):
                before = session.catalogs.find(session.catalogs.qualify(statement.name.parts))
                if statement.or_replace and isinstance(before, CatalogView) and not before.temporary:
                    _check_unread(session, durable, before, statement.name.span)
            else:
                durable.view_reads[session.catalogs.qualify(statement.name.parts)] = reads
        case st.DropTable() | st.DropMaterializedView() | ddl.AlterTable():
            keeps_it = isinstance(statement, ddl.AlterTable) and isinstance(
                statement.action, ddl.SetOptions | ddl.ResetOptions
            )
            found = session.catalogs.find(session.catalogs.qualify(statement.name.parts))
            if found is not None and not keeps_it:
                _check_unread(session, durable, found, statement.name.span)
        case ddl.AlterView() | st.DropView():
            found = session.catalogs.find(session.catalogs.qualify(statement.name.parts))
            if not isinstance(found, CatalogView) or found.temporary:
                return
            _check_unread(session, durable, found, statement.name.span)
            if isinstance(statement, ddl.AlterView) and isinstance(statement.action, ddl.NewQuery):
                _check_query(session, statement.action.query.query, statement.name)


def _check_query(session: Session, query: Tree, name: ddl.ObjectName) -> frozenset[ObjectPath]:
    """The views that the query of a kept view reads."""
    try:
        reads, wrong = query_reads(session, query)
    except SqlEngineError:
        return frozenset()  # The statement itself says so.
    if wrong:
        raise DatabaseError(
            f'"{name.parts[-1]}" is kept in the folder of the database, and reads {wrong[0]}, which is not',
            code="E3705",
            span=name.span,
            hint="make what it reads without TEMPORARY (a function with AS 'module.name' LANGUAGE PYTHON), or make a "
            "TEMPORARY VIEW",
        )
    return reads


def _check_unread(session: Session, durable: Durable, view: CatalogObject, span: Span) -> None:
    """Raises CatalogError E1410 when a materialized view reads a view, or the past of a table."""
    if getattr(view, "temporary", False):
        return
    readers = [p for p, reads in durable.view_reads.items() if view.path in reads and p != view.path]
    for reader in readers:
        if isinstance(session.catalogs.find(reader), MaterializedView):
            raise CatalogError(
                f'"{view.path.name}" is read by the materialized view "{reader.name}", which is made again from it when '
                "the database is opened",
                code="E1410",
                span=span,
                hint="drop the materialized view first",
            )
