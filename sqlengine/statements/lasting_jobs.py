"""INSERTs in the background of a database in a folder: they go on when it is opened again.

A job is kept as its statement, with the catalog, database and options that were current; what it has done is in its
checkpoints (`sqlengine/database/kept_jobs.py`). What nobody can make again when the database is opened is not kept: it
ends with the process, which a warning says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from connectors.memory import MemorySink, MemoryTable, TableSnapshot
from connectors.pushed import PushedSource
from runtime.checkpoint.keys import KEY_FILE
from runtime.core.errors import SqlEngineError
from runtime.core.logs import Log, tell
from runtime.core.options import Options
from runtime.local.checkpoints import RETAINED, Checkpoints
from runtime.plan.nodes import PhysicalNode, SinkExec, SourceExec
from runtime.plan.walk import walk_all
from sqlengine.api.result import Result
from sqlengine.catalog.objects import CatalogTable
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
from sqlengine.statements.create_text import quoted
from sqlengine.statements.lasting_views import current
from sqlengine.statements.queries import insert, statement_set
from sqlengine.statements.query_reads import Reads, reads_of

__all__ = ["checkpoints", "forget_failed", "kept_job", "restore_jobs"]

_log = Log("database")

_OF_THE_START = {option.key for option in (*DATABASE_OPTIONS, KEY_FILE, SAVEPOINT_PATH, RECOVERY_PATH)}
"""Options that belong to the opening of the database, or to the first start of a job."""

Inserts = Sequence[tuple[st.Insert, CatalogTable]]


def kept_job(session: Session, name: str, inserts: Inserts, text: str, plans: Sequence[PhysicalNode]) -> KeptJob | str:
    """What keeps a job that is about to begin in the background; or why it ends with the process."""
    durable = session.durable
    assert durable is not None
    reads = [reads_of(session, statement.query.query) for statement, _ in inserts]
    why = _why_not(session, inserts, reads, plans)
    if why is not None:
        return why
    uses = JobUses(
        frozenset(path for r in reads for path in r.objects),
        frozenset(table.path for _, table in inserts),
        frozenset(name for r in reads for name in r.functions),
    )
    if isinstance(parse_statement(text), st.Insert | st.StatementSet):
        kept = text
    else:
        # CREATE TABLE AS: the table is there when it goes on.
        ((statement, table),) = inserts
        kept = f"INSERT INTO {'.'.join(map(quoted, table.path.parts))} {statement.query.text}"
    options = {k: v for k, v in session.options.as_dict().items() if k not in _OF_THE_START}
    catalogs = session.catalogs
    definition = Definition(
        kept, catalogs.current_catalog, catalogs.current_database, tuple(sorted(options.items()))
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
    if not stored and session.options.get(CHECKPOINT_DIR):
        return None
    for table in stored:
        table.logged = True
    return kept.checkpoints(
        session.options,
        session.clock,
        session.options.get(RETAINED),
        stored=bool(stored),
        alone=len(stored) == len(sinks),
    )


def _why_not(session: Session, inserts: Inserts, reads: Sequence[Reads], plans: Sequence[PhysicalNode]) -> str | None:
    """Why a job cannot be made again."""
    if session.parameters is not None and session.parameters.keys:
        return "it has parameters"
    if session.options.text(TARGET.key) is not None:
        return f"it runs where '{TARGET.key}' says"
    for (_, table), read in zip(inserts, reads, strict=True):
        if table.temporary:
            return f'it writes to the temporary table "{table.path.name}"'
        if read.temporary:
            return f"it reads {read.temporary[0]}"
    for node in walk_all(plans):
        if isinstance(node, SourceExec) and isinstance(node.table, MemoryTable | TableSnapshot):
            return f"it reads {node.name}, whose changes are not kept for it"
        if isinstance(node, SourceExec) and isinstance(node.table, PushedSource):
            return f"it reads {node.name}, into which the program pushes"
    return None


def restore_jobs(session: Session) -> None:
    """Have the jobs of a database that was opened go on. One that cannot is told, shown as failed, and tried again the
    next time."""
    durable = session.durable
    assert durable is not None
    with session.views.lock:
        for place, definition in list(durable.definitions.items()):
            if place[0] == "job":
                _restore(session, durable, place[1], definition)


def _restore(session: Session, durable: Durable, name: str, definition: Definition) -> None:
    failure = durable.definitions.get(("failure", name))
    if failure is not None:
        session.jobs.failed[name] = FailedJob(name, definition.text, failure.catalog, failure.text)
        return
    try:
        statement = parse_statement(definition.text)
        with current(session, definition), _options(session, definition):
            if isinstance(statement, st.StatementSet):
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
    session.options = Options({**own, **dict(definition.options)})
    try:
        yield
    finally:
        session.options = before


def forget_failed(name: str, session: Session) -> Result:
    """STOP JOB of a job that has failed: it is there no more."""
    with session.views.lock:
        del session.jobs.failed[name]
        if session.durable is not None:
            forget(name, session.durable)
    return Result.ok()
