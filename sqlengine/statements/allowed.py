"""What a role may do: the one place where a statement is checked before it is carried out, whoever has sent it.

Each kind of statement has its rule; a kind without one is for superusers alone. What a query reads is checked where its names
are bound (`Binding`), so that a view may read what its owner may. Who makes something owns it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from runtime.core.errors import AccessError, Span
from sqlengine.catalog.definitions import CatalogProcedure
from sqlengine.catalog.objects import CatalogTable
from sqlengine.database.session import Session, is_system_table
from sqlengine.parse import ddl_nodes as ddl
from sqlengine.parse import session_nodes as sn
from sqlengine.parse import statement_nodes as st
from sqlengine.roles.authority import Authority
from sqlengine.roles.privileges import OWNERSHIP, Target
from sqlengine.roles.roles import FIRST
from sqlengine.statements.targets import (
    database_target,
    definition_target,
    function_target,
    is_there,
    table_target,
)

__all__ = ["check", "check_option", "defining", "without_authority"]

T = TypeVar("T")
_SYSTEM = Target("system", ())
_OPTIONS = (
    "execution.runtime-mode", "pipeline.name", "optimizer.disabled_rules", "sqlengine.batch.duckdb", "sqlengine.functions.on-error",
    "sqlengine.match.semantics", "sqlengine.rejected.table", "sqlengine.sql.dialect", "sqlengine.verify", "sqlengine.verify.every",
)  # fmt: skip
_OPTION_PREFIXES = ("table.", "sql-client.", "materialized-table.", "restart-strategy.")
"""What every role may set: no paths, no memory, and nothing outside of the session."""

Rule = Callable[[Any, Session, Authority], None]


def check(statement: st.Statement, session: Session) -> None:
    """Raises AccessError: E1800 where the session's role may not carry out a statement, E1801 for a path that nobody may
    reach."""
    _check_paths(statement, session)
    authority = session.authority
    if authority is None or authority.is_superuser:
        return
    rule = _RULES.get(type(statement))
    if rule is None:
        raise _only_superusers(authority, statement.span)
    rule(statement, session, authority)


def check_option(key: str, value: str, session: Session) -> None:
    """The same for an option of the session."""
    if session.database.outside is not None:
        session.database.outside.check({key: value})
    authority = session.authority
    if authority is None or authority.is_superuser:
        return
    if key not in _OPTIONS and not key.startswith(_OPTION_PREFIXES):
        raise authority.denied(f"option '{key}'", None, "superusers set it")


def without_authority(session: Session, work: Callable[[], T]) -> T:
    """What the engine does by itself, whosever statement it comes before."""
    before, session.authority = session.authority, None
    try:
        return work()
    finally:
        session.authority = before


def _check_paths(statement: st.Statement, session: Session) -> None:
    outside = session.database.outside
    if outside is None:
        return
    match statement:
        case st.Backup(path=name) | st.Restore(path=name) | st.CreateSavepoint(path=ddl.Name() as name):
            outside.check_path(name.text)
        case st.CompilePlan(path=str() as path) | st.ExecutePlan(path=path) if path:
            outside.check_path(path)
        case st.CreateCatalog(options=options) | st.CreateModel(options=options) | st.CreateConnection(options=options):
            outside.check(st.options_dict(options))
        case st.AlterModel(action=ddl.SetOptions(options=options)):
            outside.check(st.options_dict(options))
        case _:
            pass


def _only_superusers(authority: Authority, span: Span) -> AccessError:
    return authority.denied("this statement", span, "superusers may carry it out")


# --- who owns what
# ---------------------------------------------------------------------------------------------------------------------


def defining(run: Callable[[], T], statement: st.Statement, session: Session) -> T:
    """Carry out a statement that changes definitions. What it makes is the role's, what it renames keeps its privileges, and
    what is gone has none. Called with the lock of definitions held."""
    roles, authority = session.database.roles, session.authority
    made = _made(statement, session)
    is_new = made is not None and not is_there(session, made)
    renamed = _renamed(statement, session)
    result = run()
    if made is not None and is_new and is_there(session, made) and authority is not None and authority.name != FIRST:
        roles.grant(authority.name, made, (OWNERSHIP,))
    if renamed is not None:
        roles.move(*renamed)
    roles.keep_only(lambda target: is_there(session, target))
    return result


def _made(statement: st.Statement, session: Session) -> Target | None:
    match statement:
        case ddl.CreateTable(temporary=False) | st.CreateView(temporary=False) | st.CreateMaterializedView():
            return table_target(session, statement.name)
        case st.CreateDatabase(name=name):
            return database_target(session, name)
        case st.CreateFunction(temporary=False, name=name):
            return function_target(name.parts[-1])
        case sn.CreateSequence(name=name):
            return definition_target(session, "sequence", name)
        case (
            st.CreateModel(temporary=False) | st.CreateConnection(temporary=False) | st.CreateProcedure(temporary=False)
        ):
            return definition_target(session, _KINDS[type(statement)], statement.name)
        case _:
            return None


def _renamed(statement: st.Statement, session: Session) -> tuple[Target, Target] | None:
    match statement:
        case ddl.AlterTable(action=ddl.RenameTo(name=to)) | ddl.AlterView(action=ddl.RenameTo(name=to)):
            return table_target(session, statement.name), table_target(session, to)
        case (
            st.AlterModel(action=ddl.RenameTo(name=to))
            | st.AlterConnection(action=ddl.RenameTo(name=to))
            | sn.AlterSequence(action=ddl.RenameTo(name=to))
        ):
            before = definition_target(session, _KINDS[type(statement)], statement.name)
            return before, Target(before.kind, (*before.path[:2], to.parts[-1]))
        case _:
            return None


_KINDS: dict[type[st.Statement], str] = {
    st.CreateModel: "model", st.AlterModel: "model", st.DropModel: "model",
    st.CreateConnection: "connection", st.AlterConnection: "connection", st.DropConnection: "connection",
    st.CreateProcedure: "procedure", st.DropProcedure: "procedure", sn.AlterSequence: "sequence",
}  # fmt: skip


# --- the rules
# ---------------------------------------------------------------------------------------------------------------------


def _anybody(statement: st.Statement, session: Session, authority: Authority) -> None:
    """Everybody may, or what carries it out checks it."""


def _is_temporary(session: Session, name: ddl.ObjectName) -> bool:
    found = session.catalogs.find(session.catalogs.qualify(name.parts))
    return getattr(found, "temporary", False)


def _writes(*privileges: str) -> Rule:
    def rule(statement: Any, session: Session, authority: Authority) -> None:
        name = statement.name if isinstance(statement, st.AnalyzeTable) else statement.table
        if _is_temporary(session, name):
            return
        target = table_target(session, name)
        needed = list(privileges)
        if isinstance(statement, st.Insert):
            needed += ["DELETE"] if statement.overwrite else []
            needed += ["UPDATE"] if statement.on_conflict == "UPDATE" else []
        if getattr(statement, "returning", None) is not None:
            needed.append("SELECT")
        for privilege in needed:
            authority.require(privilege, target, name.span)

    return rule


def _inside(statement: Any, session: Session, authority: Authority) -> None:
    """A statement with others in it."""
    for inner in statement.statements if isinstance(statement, st.StatementSet) else (statement.statement,):
        check(inner, session)


def _prepared(statement: st.ExecutePrepared, session: Session, authority: Authority) -> None:
    found = session.prepared.get(statement.name.text)
    if found is not None:
        check(found.statement, session)


def _compile(statement: st.CompilePlan, session: Session, authority: Authority) -> None:
    if statement.path is not None:
        raise _only_superusers(authority, statement.span)
    check(statement.statement, session)


def _creates(statement: Any, session: Session, authority: Authority) -> None:
    """CREATE on the database; what is replaced must be the own."""
    like = statement.like if isinstance(statement, ddl.CreateTable) else None
    if like is not None and not _is_temporary(session, like.source):
        source, target = (
            session.catalogs.find(session.catalogs.qualify(like.source.parts)),
            table_target(session, like.source),
        )
        if isinstance(source, CatalogTable) and source.connector is not None:
            authority.require_own(target, like.source.span)  # Its secrets are copied, too.
        authority.require("SELECT", target, like.source.span)
    if getattr(statement, "temporary", False):
        return
    kind = _KINDS.get(type(statement), "table")
    target = Target(kind, session.catalogs.qualify(statement.name.parts).parts)
    span = statement.name.span
    if is_there(session, target):
        replaces = any(getattr(statement, word, False) for word in ("or_replace", "replace", "alters"))
        if replaces or getattr(statement, "table", None) is not None:
            authority.require_own(target, span)
            return
    authority.require("CREATE", target.containers[0], span)


def _runs_code(statement: Any, session: Session, authority: Authority) -> None:
    """What runs code of Python, whosever it is."""
    authority.require("PYTHON", _SYSTEM, statement.span)
    if isinstance(statement, st.AlterFunction) and not statement.temporary:
        authority.require_own(function_target(statement.name.parts[-1]), statement.name.span)
    if isinstance(statement, st.CreateModel | st.CreateProcedure):
        _creates(statement, session, authority)
    if isinstance(statement, st.AlterModel):
        _changes(statement, session, authority)


def _changes(statement: Any, session: Session, authority: Authority) -> None:
    """What changes something, or drops it: the owner."""
    drops = isinstance(
        statement,
        st.DropTable | st.DropView | st.DropMaterializedView | st.DropModel | st.DropConnection | st.DropProcedure,
    )
    name = statement.name
    if getattr(statement, "temporary", False):
        return
    kind = _KINDS.get(type(statement), "table")
    target = Target(kind, session.catalogs.qualify(name.parts).parts)
    if kind == "table" and _is_temporary(session, name):
        return
    if is_there(session, target):
        authority.require_own(target, name.span, drops=drops)
    renamed = _renamed(statement, session)
    if renamed is not None:
        authority.require("CREATE", renamed[1].containers[0], name.span)


def _creates_database(statement: st.CreateDatabase, session: Session, authority: Authority) -> None:
    authority.require("CREATE", database_target(session, statement.name).containers[0], statement.name.span)


def _owns_database(statement: Any, session: Session, authority: Authority) -> None:
    target = database_target(session, statement.name)
    if is_there(session, target):
        authority.require_own(target, statement.name.span)


def _drops_function(statement: st.DropFunction, session: Session, authority: Authority) -> None:
    target = function_target(statement.name.parts[-1])
    own = target.path[0] in session.own_functions
    if not own and is_there(session, target):
        authority.require_own(target, statement.name.span)


def _drops_sequences(statement: sn.DropSequence, session: Session, authority: Authority) -> None:
    for name in statement.names:
        target = definition_target(session, "sequence", name)
        if is_there(session, target):
            authority.require_own(target, name.span, drops=True)


def _calls(statement: st.Call, session: Session, authority: Authority) -> None:
    path = session.catalogs.qualify(statement.procedure.parts)
    found = session.catalogs.find_definition("procedure", path)
    if not isinstance(found, CatalogProcedure):
        raise authority.denied("the engine's procedures", statement.procedure.span, "superusers call them")
    if not found.temporary:
        authority.require("EXECUTE", Target("procedure", path.parts), statement.procedure.span)


def _on_jobs(statement: Any, session: Session, authority: Authority) -> None:
    """Who has started a job, or may stop all."""
    if isinstance(statement, st.CreateSavepoint) and statement.path is not None:
        raise _only_superusers(authority, statement.span)
    if session.database.roles.jobs.get(statement.job.text) != authority.user:
        authority.require("JOBS", _SYSTEM, statement.job.span)


def _subscribes(statement: st.Subscribe, session: Session, authority: Authority) -> None:
    check_reads(statement.name.parts, session, authority, statement.name.span)


def check_reads(parts: tuple[str, ...], session: Session, authority: Authority, span: Span) -> None:
    """Raises AccessError where a table or view may not be read."""
    found = session.catalogs.find(session.catalogs.qualify(parts))
    if found is not None and not getattr(found, "temporary", False):
        authority.require("SELECT", Target("table", found.path.parts), span)


def _looks(statement: st.Show | st.Describe, session: Session, authority: Authority) -> None:
    """SHOW and DESCRIBE of one thing, of which one must know."""
    name, kind = statement.name, statement.kind.removeprefix("CREATE ").removeprefix("OR ALTER ")
    lists = isinstance(statement, st.Show) and not statement.kind.startswith("CREATE ")
    if (
        name is None
        or (lists and kind not in ("COLUMNS", "PARTITIONS"))
        or (kind == "TABLE" and is_system_table(name.parts))
    ):
        return
    target = _named(kind, name, session)
    if target is None or not is_there(session, target) or (target.kind == "table" and _is_temporary(session, name)):
        return
    if not authority.sees(target):
        raise authority.denied(str(target), name.span, "a role with a privilege on it may know of it")


def _named(kind: str, name: ddl.ObjectName, session: Session) -> Target | None:
    match kind:
        case "CATALOG":
            return Target("catalog", name.parts[:1])
        case "DATABASE":
            return database_target(session, name)
        case "FUNCTION":
            return function_target(name.parts[-1])
        case "MODEL" | "CONNECTION" | "PROCEDURE" | "SEQUENCE":
            return definition_target(session, kind.lower(), name)
        case "JOB":
            return None
        case _:
            return table_target(session, name)


_RULES: dict[type[st.Statement], Rule] = {
    **dict.fromkeys(
        (
            st.QueryStatement, st.BeginEpoch, st.EndEpoch, st.RollbackEpoch, st.Flush, st.Deallocate, st.Set, st.Reset,
            st.UseCatalog, st.UseDatabase, st.UseModules, st.CreateRole, st.AlterRole, st.DropRole, st.CreateToken, st.DropToken,
            st.Grant, st.GrantRole,
        ),
        _anybody,
    ),
    st.Insert: _writes("INSERT"),
    st.Update: _writes("UPDATE"),
    st.Delete: _writes("DELETE"),
    st.Truncate: _writes("TRUNCATE"),
    st.AnalyzeTable: _writes(OWNERSHIP),
    **dict.fromkeys((st.StatementSet, st.Explain, st.Prepare), _inside),
    st.ExecutePrepared: _prepared,
    st.CompilePlan: _compile,
    **dict.fromkeys((ddl.CreateTable, st.CreateView, st.CreateMaterializedView, st.CreateConnection, sn.CreateSequence), _creates),
    **dict.fromkeys(
        (
            st.DropTable, ddl.AlterTable, st.DropView, st.DropMaterializedView, ddl.AlterView, ddl.AlterMaterializedTable,
            ddl.AlterMaterializedView, st.CommentOn, st.AlterConnection, st.DropConnection, st.DropModel, st.DropProcedure,
            sn.AlterSequence,
        ),
        _changes,
    ),
    **dict.fromkeys(
        (st.CreateFunction, st.AlterFunction, st.CreateModel, st.AlterModel, st.CreateProcedure, st.AddJar, st.RemoveJar),
        _runs_code,
    ),
    st.DropFunction: _drops_function,
    sn.DropSequence: _drops_sequences,
    st.CreateDatabase: _creates_database,
    **dict.fromkeys((ddl.AlterDatabase, st.DropDatabase), _owns_database),
    st.Call: _calls,
    **dict.fromkeys((st.StopJob, st.CreateSavepoint), _on_jobs),
    st.Subscribe: _subscribes,
    **dict.fromkeys((st.Show, st.Describe), _looks),
}  # fmt: skip
"""By kind of statement."""
