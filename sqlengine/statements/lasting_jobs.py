"""INSERTs in the background of a database in a folder: they go on when it is opened again.

A job is kept as its statement, with the catalog, database and options that were current; what it has done is in its
checkpoints (`sqlengine/database/kept_jobs.py`). What nobody can make again when the database is opened is not kept: it
ends with the process, which a warning says.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from connectors.memory import MemorySink, MemoryTable, TableSnapshot
from connectors.memory.followed import FollowedTable
from connectors.memory.snapshot import PastRows
from connectors.pushed import PushedSource
from runtime.checkpoint.fitting import taking
from runtime.checkpoint.keys import KEY_FILE
from runtime.core.errors import SqlEngineError, UnsupportedError
from runtime.core.logs import Log, tell
from runtime.core.options import Options
from runtime.core.rooms import Room
from runtime.local.checkpoints import RETAINED, Checkpoints
from runtime.plan.nodes import PhysicalNode, SinkExec, SourceExec
from runtime.plan.walk import walk_all
from sqlengine.catalog.objects import CatalogTable, MaterializedView, ObjectPath
from sqlengine.database.binding import without_known_keys
from sqlengine.database.durable import Durable
from sqlengine.database.folder.changes import Definition
from sqlengine.database.jobs import FailedJob, JobUses
from sqlengine.database.kept_jobs import KeptJob, forget
from sqlengine.database.recovery import CHECKPOINT_DIR, RECOVERY_PATH, SAVEPOINT_PATH
from sqlengine.database.session import Session
from sqlengine.options.database import DATABASE_OPTIONS
from sqlengine.options.target import TARGET
from sqlengine.parse import parse_statement
from sqlengine.parse import statement_nodes as st
from sqlengine.results.result import Result
from sqlengine.statements.lasting_views import current
from sqlengine.statements.queries import Writing, insert, statement_set
from sqlengine.statements.query_reads import Reads

if TYPE_CHECKING:
    import sqlengine.statements.compiled_plans as _compiled_plans
else:
    _compiled_plans = Room("sqlengine.statements.compiled_plans")

__all__ = ["checkpoints", "follows", "forget_failed", "kept_job", "restore_jobs"]

_log = Log("database")

_OF_THE_START = {option.key for option in (*DATABASE_OPTIONS, KEY_FILE, SAVEPOINT_PATH, RECOVERY_PATH)}
"""Options that belong to the opening of the database, or to the first start of a job."""

_ROWS = "rows of "
"""What the name of an option of a kept job begins with that says how many rows a table had when the job was planned."""
_KNOWS_KEYS = "keys of views"
"""An option of a kept job that was planned over the keys of the views that it reads; those of older versions know none."""


def kept_job(session: Session, name: str, writing: Writing, plans: Sequence[PhysicalNode]) -> KeptJob | str:
    """What keeps a job that is about to begin in the background; or why it ends with the process."""
    durable = session.durable
    assert durable is not None
    reads = writing.reads(session)
    why = _why_not(session, writing, reads, plans)
    if why is not None:
        return why
    uses = JobUses(
        frozenset(path for r in reads for path in r.objects),
        frozenset(table.path for table in writing.targets),
        frozenset(name for r in reads for name in r.functions),
    )
    kept = writing.kept()
    options = {k: v for k, v in session.options.as_dict().items() if k not in _OF_THE_START}
    options |= {**kept.options, _KNOWS_KEYS: "1"}
    options |= {_ROWS + json.dumps(path.parts): str(rows) for path, rows in _read_tables(session, reads, plans).items()}
    catalogs = session.catalogs
    definition = Definition(
        kept.text, catalogs.current_catalog, catalogs.current_database, tuple(sorted(options.items()))
    )  # fmt: skip
    known = durable.definitions.get(("job", name))
    for failed in list(session.jobs.failed.values()):
        before = durable.definitions.get(("job", failed.id))
        if known is None and before is not None and _alike(before, definition):
            # Begun again it goes on.
            name = failed.id
    return KeptJob(name, known or definition, session.database, durable, uses)


def _alike(first: Definition, second: Definition) -> bool:
    return (first.text, first.catalog, first.database) == (second.text, second.catalog, second.database)


def checkpoints(session: Session, kept: KeptJob, plans: Sequence[PhysicalNode]) -> Checkpoints | None:
    """From where the job goes on; None when the options say where the checkpoints of jobs are, and the log need not
    know."""
    sinks = [node.table for node in walk_all(plans) if isinstance(node, SinkExec)]
    stored = [table for table in sinks if isinstance(table, MemorySink)]
    reads_tables = any(
        isinstance(n, SourceExec) and isinstance(n.table, TableSnapshot | PastRows) for n in walk_all(plans)
    )
    follows = _followed(plans)
    if not stored and not reads_tables and not follows and session.options.get(CHECKPOINT_DIR):
        return None
    if follows:
        kept.follow(follows, session.options)
    for table in stored:
        _check_no_twins(table)
        table.logged = True
    return kept.checkpoints(
        session.options,
        session.clock,
        session.options.get(RETAINED),
        stored=bool(stored),
        alone=len(stored) == len(sinks),
    )


def _followed(plans: Sequence[PhysicalNode]) -> list[FollowedTable]:
    return [n.table for n in walk_all(plans) if isinstance(n, SourceExec) and isinstance(n.table, FollowedTable)]


def follows(plans: Sequence[PhysicalNode]) -> bool:
    """Whether a job follows tables of the database."""
    return bool(_followed(plans))


def _check_no_twins(sink: MemorySink) -> None:
    """Raise UnsupportedError for a table whose rows may be refused when a checkpoint has them already."""
    rules = sink.table.rules if isinstance(sink.table, MemoryTable) else None
    if rules is not None and rules.uniques:
        raise UnsupportedError(
            f'a job that goes on cannot write to {sink.table.name}, whose constraint "{rules.uniques[0].name}" may refuse '
            "what it has written",
            code="E1607",
            hint="DROP CONSTRAINT, or give the columns of UNIQUE to the PRIMARY KEY; input that ends can be inserted",
        )


def _why_not(session: Session, writing: Writing, reads: Sequence[Reads], plans: Sequence[PhysicalNode]) -> str | None:
    """Why a job cannot be made again."""
    if session.parameters is not None and session.parameters.keys:
        return "it has parameters"
    if session.options.text(TARGET.key) is not None:
        return f"it runs where '{TARGET.key}' says"
    for table in writing.targets:
        if table.temporary:
            return f'it writes to the temporary table "{table.path.name}"'
    for read in reads:
        if read.temporary:
            return f"it reads {read.temporary[0]}"
    kept = {str(path) for path in _read_tables(session, reads, plans)}
    for node in walk_all(plans):
        if isinstance(node, SourceExec) and isinstance(node.table, MemoryTable):
            return f"it follows {node.name}, whose changes are not kept for it"
        if isinstance(node, SourceExec) and isinstance(node.table, TableSnapshot) and node.table.name not in kept:
            return f"it reads {node.name}, which is no table of the database"
        if isinstance(node, SourceExec) and isinstance(node.table, PushedSource):
            return f"it reads {node.name}, into which the program pushes"
    return None


def _read_tables(session: Session, reads: Sequence[Reads], plans: Sequence[PhysicalNode]) -> dict[ObjectPath, int]:
    """The tables without connector and materialized views that plans read as they are when the job begins, or follow, each
    with the number of rows over which they were planned."""
    found: dict[ObjectPath, int] = {}
    paths = {str(path): path for r in reads for path in r.objects}
    for node in walk_all(plans):
        table = node.table if isinstance(node, SourceExec) else None
        if not isinstance(table, TableSnapshot | FollowedTable) or table.name not in paths:
            continue
        path = paths[table.name]
        if isinstance(session.catalogs.find(path), CatalogTable | MaterializedView):
            rows = table.statistics().rows
            assert rows is not None
            found[path] = int(rows)
    return found


def restore_jobs(session: Session) -> None:
    """Have the jobs of a database that was opened go on. One that cannot is told, shown as failed, and tried again the
    next time."""
    durable = session.durable
    assert durable is not None
    with session.views.lock:
        for place, definition in list(durable.definitions.items()):
            if place[0] == "job":
                _restore(session, durable, place[1], definition)
        marks = {d.catalog for place, d in durable.definitions.items() if place[0] == "checkpoint"}
        try:
            durable.folder.job_folders.remove_others(marks)
        except OSError as error:
            _log.warning("checkpoints of former owners stay: %s", error, path=durable.folder.place)


def _restore(session: Session, durable: Durable, name: str, definition: Definition) -> None:
    failure = durable.definitions.get(("failure", name))
    if failure is not None:
        session.jobs.failed[name] = FailedJob(name, definition.text, failure.catalog, failure.text)
        return
    try:
        statement = parse_statement(definition.text)
        histories = session.database.histories
        with (
            histories.going_on(),
            current(session, definition),
            _options(session, definition),
            _planned_over(session, definition),
            nullcontext() if _KNOWS_KEYS in dict(definition.options) else without_known_keys(),
        ):
            if isinstance(statement, st.ExecutePlan):
                given = dict(definition.options)
                _compiled_plans.execute_plan(statement, session, again=name, text=given.get(_compiled_plans.KEPT, ""))
            elif isinstance(statement, st.StatementSet):
                statement_set(statement, session, again=name)
            else:
                assert isinstance(statement, st.Insert)
                insert(statement, session, again=name)
    except SqlEngineError as error:
        session.jobs.failed[name] = FailedJob(name, definition.text, error.code, error.message)
        _log.failure(f"the job {name} could not go on", error, path=durable.folder.place, job=name)
        tell(f"{name} is kept, but could not go on: {error.code} {error.message}")


@contextmanager
def _options(session: Session, definition: Definition) -> Iterator[None]:
    """The options that were set when a job was begun."""
    before = session.options
    own = {k: v for k, v in before.as_dict().items() if k in _OF_THE_START}
    apart = (_compiled_plans.KEPT, _KNOWS_KEYS)
    given = {k: v for k, v in definition.options if not k.startswith(_ROWS) and k not in apart}
    session.options = Options({**own, **given})
    try:
        yield
    finally:
        session.options = before


@contextmanager
def _planned_over(session: Session, definition: Definition) -> Iterator[None]:
    """While a job is planned, tables have the numbers of rows that they had when it was planned first: its state is that
    of the same joins."""
    with taking("what is known of a job"):
        kept = [
            (ObjectPath(*json.loads(key.removeprefix(_ROWS))), int(rows))
            for key, rows in definition.options
            if key.startswith(_ROWS)
        ]
    tables: list[MemoryTable] = []
    for path, rows in kept:
        found = session.catalogs.find(path)
        if isinstance(found, CatalogTable | MaterializedView):
            tables.append(session.memory_table(found))
            tables[-1].stated_rows = rows
    try:
        yield
    finally:
        for table in tables:
            table.stated_rows = None


def forget_failed(name: str, session: Session) -> Result:
    """STOP JOB of a job that has failed: it is there no more."""
    with session.views.lock:
        del session.jobs.failed[name]
        if session.durable is not None:
            forget(name, session.durable)
    return Result.ok()
