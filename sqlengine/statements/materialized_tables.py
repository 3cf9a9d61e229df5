"""ALTER MATERIALIZED TABLE, and the schedule of those that are computed again.

A materialized table with REFRESH_MODE = CONTINUOUS is a materialized view. One with FULL, and one that is suspended, is a
view whose job has ended: its rows stay as they are. To bring it up to date its query is computed again, and what
differs is one epoch for whoever reads it.
"""

from __future__ import annotations

from dataclasses import replace

from runtime.core.errors import CatalogError, Span, SqlEngineError
from sqlengine.catalog.objects import MaterializedView, ObjectPath, TableRefresh
from sqlengine.database.folder.changes import Definition
from sqlengine.database.session import Session
from sqlengine.parse import ddl_nodes as ddl
from sqlengine.parse import statement_nodes as st
from sqlengine.parse.refresh_nodes import StartMode
from sqlengine.parse.refresh_nodes import TableRefresh as WrittenRefresh
from sqlengine.results.result import Result
from sqlengine.statements.lasting_views import current, with_options
from sqlengine.statements.queries import flush
from sqlengine.statements.refreshed_partition import RefreshedPartition, refreshed_partition
from sqlengine.statements.table_refresh import check_options
from sqlengine.statements.view_options import changed_options, keep_history
from sqlengine.statements.views import create_materialized_view

__all__ = ["alter_materialized_table", "due"]


def alter_materialized_table(statement: ddl.AlterMaterializedTable, session: Session) -> Result:
    """Carry out one action. Raises CatalogError E1413 when it does not fit what the table is."""
    span = statement.name.span
    table = session.catalogs.get(statement.name.parts, span, "materialized table")
    if not isinstance(table, MaterializedView) or table.refresh is None:
        raise CatalogError(
            f'"{table.path.name}" is not a materialized table', code="E1409", span=span, hint="SHOW MATERIALIZED TABLES"
        )
    refresh = table.refresh
    match statement.action:
        case ddl.Suspend():
            if refresh.suspended:
                raise _not_so(table, "is suspended already", span, "ALTER MATERIALIZED TABLE t RESUME")
            session.views.rest(table.path)
            session.catalogs.replace(replace(table, refresh=replace(refresh, suspended=True)))
        case ddl.Resume(options=options):
            if not refresh.suspended:
                raise _not_so(table, "is not suspended", span, "it is brought up to date as its definition says")
            check_options(st.options_dict(options), statement)
            resumed = replace(table, refresh=replace(refresh, suspended=False))
            session.catalogs.replace(resumed)
            try:
                _compute_again(resumed, session)
            except SqlEngineError:
                session.catalogs.replace(table)
                raise
        case ddl.Refresh(partition=partition):
            part = None if partition is None else refreshed_partition(table, refresh, partition, session)
            if table.rests:
                _compute_again(table, session, part)
            else:
                flush(st.Flush(), session)
        case ddl.SetOptions(options=options):
            given = st.options_dict(options)
            check_options(given, statement)
            _with_options(table, refresh, statement.action, session)
        case ddl.ResetOptions():
            _with_options(table, refresh, statement.action, session)
    return Result.ok()


def _with_options(
    table: MaterializedView, refresh: TableRefresh, action: ddl.SetOptions | ddl.ResetOptions, session: Session
) -> None:
    changed = replace(table, refresh=replace(refresh, options=changed_options(refresh.options, action)))
    if not table.rests:
        session.views.check(table.path)
    session.catalogs.replace(changed)
    keep_history(changed, session)


def due(session: Session) -> list[ObjectPath]:
    """The materialized tables that are older than they may be. Each is told once: the next time is from now on."""
    now = session.clock.now()
    found = [path for path, at in list(session.views.schedule.items()) if at <= now]
    for path in found:
        thing = session.catalogs.find(path)
        if isinstance(thing, MaterializedView) and thing.refresh is not None and not thing.refresh.suspended:
            session.views.schedule[path] = now + thing.refresh.milliseconds
        else:
            del session.views.schedule[path]
    return [path for path in found if path in session.views.schedule]


def _compute_again(table: MaterializedView, session: Session, part: RefreshedPartition | None = None) -> None:
    """Compute the query again, over what it reads now, under the names and options with which it was written; of `part`
    alone."""
    assert table.refresh is not None
    statement = st.CreateMaterializedView(
        ddl.ObjectName(table.path.parts),
        st.QueryText(table.query, table.text),
        tuple(st.ViewColumn(ddl.Name(c.name), c.comment) for c in table.columns),
        or_replace=True,
        alters=True,
        table=WrittenRefresh(start=StartMode("BEGINNING", resume=True)),
    )
    made = Definition("", table.refresh.catalog, table.refresh.database, table.refresh.settings)
    with current(session, made), with_options(session, made):
        create_materialized_view(statement, session, anew=True, part=part)


def _not_so(table: MaterializedView, what: str, span: Span, hint: str) -> CatalogError:
    return CatalogError(f'the materialized table "{table.path.name}" {what}', code="E1413", span=span, hint=hint)
