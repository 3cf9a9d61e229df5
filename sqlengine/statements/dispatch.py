"""Which function carries out which statement."""

from __future__ import annotations

import functools
import pkgutil
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from runtime.core.errors import SqlEngineError, UnsupportedError
from runtime.core.rooms import Room
from sqlengine.database.session import Session
from sqlengine.parse import ddl_nodes as ddl
from sqlengine.parse import session_nodes as sn
from sqlengine.parse import statement_nodes as st
from sqlengine.parse.reading import without_header
from sqlengine.results.result import Result

if TYPE_CHECKING:
    import sqlengine.database.commits as _commits
    import sqlengine.database.filling as _filling
    import sqlengine.statements.allowed as _allowed
    import sqlengine.statements.databases as _databases
    import sqlengine.statements.explain as _explain
    import sqlengine.statements.file_catalog as _file_catalog
    import sqlengine.statements.in_the_making as _in_the_making
    import sqlengine.statements.jobs as _jobs
    import sqlengine.statements.lasting as _lasting
    import sqlengine.statements.limited as _limited
    import sqlengine.statements.materialized_tables as _materialized_tables
    import sqlengine.statements.prepared as _prepared
    import sqlengine.statements.procedures as _procedures
    import sqlengine.statements.read_only as _read_only
    import sqlengine.statements.returning as _returning
else:
    _allowed = Room("sqlengine.statements.allowed")
    _commits = Room("sqlengine.database.commits")
    _filling = Room("sqlengine.database.filling")
    _in_the_making = Room("sqlengine.statements.in_the_making")
    _databases = Room("sqlengine.statements.databases")
    _explain = Room("sqlengine.statements.explain")
    _jobs = Room("sqlengine.statements.jobs")
    _limited = Room("sqlengine.statements.limited")
    _prepared = Room("sqlengine.statements.prepared")
    _procedures = Room("sqlengine.statements.procedures")
    _read_only = Room("sqlengine.statements.read_only")
    _returning = Room("sqlengine.statements.returning")
    _file_catalog = Room("sqlengine.statements.file_catalog")
    _lasting = Room("sqlengine.statements.lasting")
    _materialized_tables = Room("sqlengine.statements.materialized_tables")

__all__ = ["carry_out", "execute"]


def execute(statement: st.Statement, session: Session) -> Result:
    """Carry out one statement. A materialized view that it has broken is told as a warning of the result: what the
    statement has written stays written.

    Raises UnsupportedError E1604 for a statement that the engine knows but cannot carry
    out."""
    authority = session.authority
    if authority is not None and authority.role.limits.hold_statements:
        return _limited.execute_limited(statement, session, _execute)
    return _execute(statement, session)


def _execute(statement: st.Statement, session: Session) -> Result:
    if session.database.replica is not None:
        _read_only.check(statement, session.database.replica)
    if session.authority is not None and isinstance(statement, (st.StopJob, st.CreateSavepoint, st.Call)):
        _allowed.check(statement, session)
    # A job takes the lock for its last epoch, so whoever waits for that must not hold it.
    if isinstance(statement, st.StopJob):
        return _jobs.stop_job(statement, session)
    if isinstance(statement, st.CreateSavepoint):
        return _jobs.create_savepoint(statement, session)
    if isinstance(statement, st.Call):
        return _procedures.call(statement, session)
    if type(statement) not in _RUN:
        words = " ".join(without_header(statement.text).split()[:2]).upper()
        raise UnsupportedError(
            f"{words} cannot be carried out by this engine",
            code="E1604",
            span=statement.span,
            hint="docs/flink-compatibility.md says what is not there",
        )
    late = _refresh_due(statement, session) if session.views.schedule else ()
    run = _with_others.get(type(statement)) or _run_of(statement)
    session.logged = None
    open_epoch = session.epoch
    mark = {} if open_epoch is None else open_epoch.mark()
    with session.turn:
        session.views.let_time_pass()
        if _reads_a_version(statement):
            result = session.at_a_version(lambda: _checked(run, statement, session))
        else:
            result = _alone(run, statement, session)
        if open_epoch is not None and session.epoch is open_epoch and not open_epoch.implicit:
            _commits.check_twins(session, open_epoch, mark)
        failures = (f"{failed.message}; {failed.hint}" for failed in session.views.new_failures())
        result.warnings = (*result.warnings, *late, *failures)
    if session.durable is not None:
        session.durable.settle(session.logged)
    return result


def _refresh_due(statement: st.Statement, session: Session) -> list[str]:
    """Compute materialized tables again that are older than they may be, before a statement may read them; what has kept
    some from it, in words. Within an epoch that the session has open, nothing is computed."""
    failures: list[str] = []
    if session.epoch is not None or isinstance(statement, (ddl.AlterMaterializedTable, st.DropMaterializedView)):
        return failures
    for path in _materialized_tables.due(session):
        refresh = ddl.AlterMaterializedTable(ddl.ObjectName(path.parts), ddl.Refresh())
        try:
            if session.authority is None:
                execute(refresh, session)
            else:
                _allowed.without_authority(session, functools.partial(execute, refresh, session))
        except SqlEngineError as error:
            failures.append(
                f'the materialized table "{path.name}" could not be refreshed: {error.code} {error.message}'
            )
    return failures


def _reads_a_version(statement: st.Statement) -> bool:
    if isinstance(statement, st.Explain):
        return "ANALYZE" not in statement.details and not _explain.replaces(statement.statement)
    return isinstance(statement, _AT_A_VERSION)


def _checked(run: Callable[[Any, Session], Result], statement: st.Statement, session: Session) -> Result:
    if session.authority is not None or session.database.outside is not None:
        _allowed.check(statement, session)
    if session.durable is not None:
        _lasting.check_statement(statement, session)
    return run(statement, session)


def _alone(run: Callable[[Any, Session], Result], statement: st.Statement, session: Session) -> Result:
    """Carry out a statement that changes definitions, or what runs: one at a time, but for the time in which it fills
    what it makes. Readers see what it has made when it has ended. It begins when what it needs is made by nobody."""
    while True:
        with session.alone(redefines=not isinstance(statement, _DEFINE_NOTHING)):
            filling = _in_the_making.in_the_way(statement, session) if session.views.in_the_making else None
            if filling is None:
                try:
                    return _defined(run, statement, session)
                except _filling.InTheMaking as error:
                    filling = error.filling
        filling.wait()


def _defined(run: Callable[[Any, Session], Result], statement: st.Statement, session: Session) -> Result:
    defines = isinstance(statement, _DEFINITIONS)
    if defines and not isinstance(statement, st.DropCatalog):
        _file_catalog.check_files(session)
    try:
        if session.database.known_roles is None:
            result = _checked(run, statement, session)
        else:
            result = _allowed.defining(lambda: _checked(run, statement, session), statement, session)
    finally:
        # What a statement that fails has done by then, such as the rows of an epoch, is kept as well.
        if session.durable is not None and isinstance(statement, (*_DEFINITIONS, *_FUNCTIONS, *_ROLES)):
            _lasting.keep_definitions(session)
            session.durable.checkpoint_when_due()
    if defines:
        _file_catalog.save_files(session)
        session.views.wake_followers()
    return result


def carry_out(statement: st.Statement, session: Session) -> Result:
    """A statement that is a part of another one."""
    if session.database.replica is not None:
        _read_only.check(statement, session.database.replica)
    return _run_of(statement)(statement, session)


def _run_of(statement: st.Statement) -> Callable[[Any, Session], Result]:
    run = _named(_RUN[type(statement)])
    returns = isinstance(statement, st.Insert | st.Update | st.Delete) and statement.returning is not None
    return functools.partial(_returning.with_rows, run=run) if returns else run


def _create_catalog(statement: st.CreateCatalog, session: Session) -> Result:
    return _databases.create_catalog(statement, session, carry_out)


def _execute_prepared(statement: st.ExecutePrepared, session: Session) -> Result:
    return _prepared.execute_prepared(statement, session, carry_out)


_with_others: dict[type[st.Statement], Callable[[Any, Session], Result]] = {
    st.CreateCatalog: _create_catalog,
    st.ExecutePrepared: _execute_prepared,
}
"""Statements that carry out others."""


@functools.cache
def _named(name: str) -> Callable[[Any, Session], Result]:
    """What carries out a statement; its module is loaded with the first such statement."""
    return pkgutil.resolve_name(f"sqlengine.statements.{name}")


_DEFINITIONS = (
    ddl.CreateTable, st.DropTable, ddl.AlterTable, st.CreateView, st.CreateMaterializedView, st.DropView, st.DropMaterializedView,
    ddl.AlterView, ddl.AlterMaterializedTable, ddl.AlterMaterializedView,
    st.CreateDatabase, st.CreateCatalog, ddl.AlterDatabase, ddl.AlterCatalog, st.DropDatabase, st.DropCatalog,
    st.CreateModel, st.AlterModel, st.DropModel, st.CreateConnection, st.AlterConnection, st.DropConnection,
    st.CreateProcedure, st.DropProcedure, st.CommentOn, sn.CreateSequence, sn.AlterSequence, sn.DropSequence,
)  # fmt: skip
"""Statements after which the files of catalogs say something else."""


_FUNCTIONS = (st.CreateFunction, st.AlterFunction, st.DropFunction)
_ROLES = (
    st.CreateRole,
    st.AlterRole,
    st.DropRole,
    st.CreateToken,
    st.DropToken,
    st.Grant,
    st.GrantRole,
    st.CreateSecret,
    st.DropSecret,
)


_AT_A_VERSION = (
    st.QueryStatement, st.Insert, st.StatementSet, st.CompilePlan, st.ExecutePlan, st.Update, st.Delete, st.Truncate,
    st.BeginEpoch, st.EndEpoch, st.RollbackEpoch,
    st.Flush, st.Prepare, st.ExecutePrepared, st.Deallocate, st.Show, st.Describe, st.Set, st.Reset, st.UseCatalog, st.UseDatabase,
)  # fmt: skip
"""Statements that read definitions and rows as they are after the last epoch, and take the lock at most to commit."""
_DEFINE_NOTHING = (st.Subscribe, st.Explain, st.Backup)


_RUN: dict[type[st.Statement], str] = {
    st.QueryStatement: "queries:run_query",
    st.Insert: "queries:insert",
    st.StatementSet: "queries:statement_set",
    st.CompilePlan: "compiled_plans:compile_plan",
    st.ExecutePlan: "compiled_plans:execute_plan",
    st.Update: "row_changes:update",
    st.Delete: "row_changes:delete",
    st.Truncate: "row_changes:truncate",
    st.AnalyzeTable: "analyze:analyze_table",
    st.BeginEpoch: "epochs:begin_epoch",
    st.EndEpoch: "epochs:end_epoch",
    st.RollbackEpoch: "epochs:rollback_epoch",
    st.Flush: "queries:flush",
    st.Backup: "lasting:backup",
    st.Restore: "lasting:restore",
    st.Subscribe: "subscribe:subscribe",
    st.LoadModule: "modules:load_module",
    st.UnloadModule: "modules:unload_module",
    st.UseModules: "modules:use_modules",
    st.AddJar: "modules:add_jar",
    st.RemoveJar: "modules:add_jar",
    ddl.CreateTable: "tables:create_table",
    st.DropTable: "tables:drop_table",
    ddl.AlterTable: "alter_table:alter_table",
    st.CreateView: "views:create_view",
    st.CreateMaterializedView: "views:create_materialized_view",
    st.DropView: "views:drop_view",
    st.DropMaterializedView: "views:drop_materialized_view",
    st.CommentOn: "comments:comment_on",
    ddl.AlterMaterializedTable: "materialized_tables:alter_materialized_table",
    ddl.AlterMaterializedView: "view_options:alter_materialized_view",
    ddl.AlterView: "views:alter_view",
    st.CreateDatabase: "databases:create_database",
    st.CreateCatalog: "databases:create_catalog",
    ddl.AlterDatabase: "databases:alter_database",
    ddl.AlterCatalog: "databases:alter_catalog",
    st.DropDatabase: "databases:drop_database",
    st.DropCatalog: "databases:drop_catalog",
    st.UseCatalog: "databases:use_catalog",
    st.UseDatabase: "databases:use_database",
    st.CreateFunction: "functions:create_function",
    st.AlterFunction: "functions:alter_function",
    st.DropFunction: "functions:drop_function",
    st.CreateModel: "definitions:create_model",
    st.AlterModel: "definitions:alter_definition",
    st.DropModel: "definitions:drop_definition",
    st.CreateConnection: "definitions:create_connection",
    st.AlterConnection: "definitions:alter_definition",
    st.DropConnection: "definitions:drop_definition",
    st.CreateProcedure: "procedures:create_procedure",
    st.DropProcedure: "definitions:drop_definition",
    sn.CreateSequence: "sequences:create_sequence",
    sn.AlterSequence: "sequences:alter_sequence",
    sn.DropSequence: "sequences:drop_sequence",
    st.CreateRole: "roles:create_role",
    st.AlterRole: "roles:alter_role",
    st.DropRole: "roles:drop_role",
    st.CreateToken: "roles:create_token",
    st.DropToken: "roles:drop_token",
    st.CreateSecret: "secrets:create_secret",
    st.DropSecret: "secrets:drop_secret",
    st.Grant: "grants:grant",
    st.GrantRole: "grants:grant_role",
    st.Prepare: "prepared:prepare",
    st.ExecutePrepared: "prepared:execute_prepared",
    st.Deallocate: "prepared:deallocate",
    st.Show: "show:show",
    st.Describe: "describe:describe",
    st.Explain: "explain:explain",
    st.Set: "settings:set_option",
    st.Reset: "settings:reset_option",
}
