"""Queries and what is filled by them: SELECT, INSERT, statement sets, FLUSH."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from connectors.memory import MemoryTable
from runtime.core.cancellation import Stopped
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import (
    BindError,
    ExpressionError,
    Span,
    SqlEngineError,
    UnsupportedError,
    without_traceback,
)
from runtime.core.memory import admit
from runtime.core.options import bool_option
from runtime.core.rooms import Room
from runtime.core.schema import Schema
from runtime.core.secrets import masked_sql
from runtime.core.types import BIGINT, STRING
from runtime.local.job import Job
from runtime.plan.nodes import PhysicalNode, SourceExec
from runtime.plan.walk import walk_all
from sqlengine.catalog.objects import CatalogTable, MaterializedView, is_numbered
from sqlengine.database.jobs import Begun, RunningJob
from sqlengine.database.recovery import counted_when_begun, job_checkpoints, savepoint_to_restore
from sqlengine.database.session import RUNTIME_MODE, Session
from sqlengine.options.database import FOLLOW, WEIGHT
from sqlengine.parse import parse_statement
from sqlengine.parse import statement_nodes as st
from sqlengine.parse.trees import has_order
from sqlengine.results.result import Result
from sqlengine.results.stopped import INSERT_STOPPED
from sqlengine.statements.epochs import in_epoch
from sqlengine.statements.planning import Planned, plan_insert, plan_query, plan_statement_set
from sqlengine.text.amounts import counted_rows

if TYPE_CHECKING:
    import runtime.spark.gathered as _gathered
    import sqlengine.bind.defaults as _defaults
    import sqlengine.database.driving as _driving
    import sqlengine.database.numbering as _numbering
    import sqlengine.statements.conflicts as _conflicts
    import sqlengine.statements.create_text as _create_text
    import sqlengine.statements.inserted_rows as _inserted_rows
    import sqlengine.statements.lasting_jobs as _lasting_jobs
    import sqlengine.statements.query_reads as _query_reads
    import sqlengine.statements.row_changes as _row_changes
    import sqlengine.statements.verified as _attach
    import sqlengine.statements.written_query as _written_query
    from runtime.spi.sink import SinkTable
    from sqlengine.statements.query_reads import Reads
else:
    _driving = Room("sqlengine.database.driving")
    _numbering = Room("sqlengine.database.numbering")
    _gathered = Room("runtime.spark.gathered")
    _conflicts = Room("sqlengine.statements.conflicts")
    _defaults = Room("sqlengine.bind.defaults")
    _inserted_rows = Room("sqlengine.statements.inserted_rows")
    _create_text = Room("sqlengine.statements.create_text")
    _lasting_jobs = Room("sqlengine.statements.lasting_jobs")
    _written_query = Room("sqlengine.statements.written_query")
    _attach = Room("sqlengine.statements.verified")
    _row_changes = Room("sqlengine.statements.row_changes")
    _query_reads = Room("sqlengine.statements.query_reads")

__all__ = [
    "DML_SYNC",
    "FORCE_RECOMPILE",
    "Inserts",
    "Kept",
    "LAST_SHOWS",
    "Writing",
    "flush",
    "insert",
    "run_query",
    "run_writing",
    "statement_set",
]

LAST_SHOWS = "DEDUPLICATE"
"""What ON CONFLICT DOES where the last of several rows with one key shows."""

DML_SYNC = bool_option("table.dml-sync", False, "wait for the end of an INSERT also when its input is unbounded")


FORCE_RECOMPILE = bool_option(
    "table.plan.force-recompile", False, "whether COMPILE PLAN replaces a plan that is there already"
)


def run_query(statement: st.QueryStatement, session: Session) -> Result:
    """Start a query; its changes come as the result is read."""
    follows = session.queries_follow and session.options.get(RUNTIME_MODE) == "streaming" and not session.in_epoch
    # What is published between the plan and its first look at a table would be missed.
    with session.alone() if follows else nullcontext():
        planned = plan_query(session, statement.query.query, follow=follows)
        name = session.jobs.next_id()
        job = session.new_job(name, [planned.physical])
    reads_memory = follows and any(
        isinstance(n, SourceExec) and isinstance(n.table, MemoryTable) for n in walk_all([planned.physical])
    )
    turn = (lambda: session.views.lock) if reads_memory else nullcontext
    _attach.verify(session, job, [planned])
    order = planned.order if job.bounded else ()
    running = RunningJob(name, statement.text, job)
    if not job.bounded:
        session.jobs.jobs[name] = running

    def changes() -> Iterator[ChangelogBatch]:
        try:
            for (output,) in job.epochs(turn=turn):
                if output is not None:
                    if reads_memory and session.durable is not None:
                        session.durable.settle()
                    yield output
        except BaseException as error:
            if not isinstance(error, GeneratorExit):
                running.failure, running.told = without_traceback(error), True
            raise
        finally:
            running.done.set()

    def write(table: SinkTable) -> bool:
        """The rows go into a table, and nobody reads them any more."""
        writing = _written_query.written_job(session, planned, table, in_tasks=job.dataflow.elsewhere is not None)
        if writing is None:
            return False
        session.forget(job)
        _attach.verify(session, writing, [planned])
        writing.run()
        return True

    def in_files(spark: object, locate: Callable[[SqlEngineError], SqlEngineError]) -> object:
        try:
            return _gathered.gathered_frame(write, planned.schema, session.options, spark)
        except SqlEngineError as error:
            raise locate(error) from error.__cause__

    result = Result(
        planned.schema,
        changes(),
        job=job,
        is_query=True,
        order=order,
        visible=planned.visible,
        bounded=job.bounded,
        append_only=planned.physical.mode.is_append_only or bool(order),
    )
    if job.bounded and not follows:
        result.in_files = in_files
    return result


# --- INSERT
# -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Kept:
    """What a database keeps of a job so that it can be made again: a statement, and options of its own."""

    text: str
    options: Mapping[str, str]


class Writing(Protocol):
    """One job that writes: its plans have a root for each of the tables `targets`."""

    @property
    def text(self) -> str:
        """The statement, for people."""
        ...

    @property
    def targets(self) -> Sequence[CatalogTable]: ...

    @property
    def span(self) -> Span | None:
        """The name of the table in the statement, where there is one."""
        ...

    @property
    def into_memory(self) -> bool:
        """Whether it writes to a table without connector."""
        ...

    def plans(self, session: Session, *, live: bool) -> Sequence[PhysicalNode]:
        """How it runs. `live`: tables in memory show every epoch."""
        ...

    def watch(self, session: Session, job: Job) -> None:
        """Have the job check itself, where that is asked for."""
        ...

    def reads(self, session: Session) -> Sequence[Reads]:
        """What it reads, all of it or by target."""
        ...

    def kept(self) -> Kept: ...


@dataclass
class Inserts:
    """INSERT statements."""

    inserts: Sequence[tuple[st.Insert, CatalogTable]]
    text: str
    planned: Sequence[Planned] = field(default=(), init=False)

    @property
    def targets(self) -> Sequence[CatalogTable]:
        return [table for _, table in self.inserts]

    @property
    def span(self) -> Span | None:
        return self.inserts[0][0].table.span if len(self.inserts) == 1 else None

    @property
    def into_memory(self) -> bool:
        return any(table.connector is None for table in self.targets)

    def plans(self, session: Session, *, live: bool) -> Sequence[PhysicalNode]:
        if len(self.inserts) == 1:
            self.planned = [plan_insert(session, *self.inserts[0], live=live)]
        else:
            self.planned = plan_statement_set(session, self.inserts, live=live)
        return [plan.physical for plan in self.planned]

    def watch(self, session: Session, job: Job) -> None:
        _attach.verify(session, job, self.planned)

    def reads(self, session: Session) -> Sequence[Reads]:
        return [_query_reads.reads_of(session, statement.query.query) for statement, _ in self.inserts]

    def kept(self) -> Kept:
        if isinstance(parse_statement(self.text), st.Insert | st.StatementSet):
            return Kept(self.text, {})
        # CREATE TABLE AS: the table is there when it goes on.
        ((statement, table),) = self.inserts
        clash = f" ON CONFLICT DO {LAST_SHOWS}" if statement.on_conflict == LAST_SHOWS else ""
        path = ".".join(map(_create_text.quoted, table.path.parts))
        return Kept(f"INSERT INTO {path} {statement.query.text}{clash}", {})


def insert(statement: st.Insert, session: Session, *, again: str = "") -> Result:
    """Write a query's rows. Bounded input: done when this returns. Unbounded: a job in the background. `again`: the job
    of the database that goes on."""
    table = target_table(session, statement)
    if again:
        return run_writing(Inserts([(statement, table)], statement.text), session, again)
    if statement.on_conflict is not None and table.connector is None:
        done = _conflicts.insert_on_conflict(statement, session, table)
        if done is not None:
            return done
    known = _row_changes.insert_known(statement, session, table)
    if known is None and table.connector is None and (_is_left_to_number(statement, table) or _is_sorted(statement)):
        return _inserted_rows.insert_computed(statement, session, table)
    return run_writing(Inserts([(statement, table)], statement.text), session) if known is None else known


def _is_left_to_number(statement: st.Insert, table: CatalogTable) -> bool:
    return is_numbered(table) and bool(_defaults.left_to_number(statement, table))


def _is_sorted(statement: st.Insert) -> bool:
    """Whether the rows of an INSERT have an order, as only input that ends has: by it they are numbered and kept."""
    return not statement.overwrite and has_order(statement.query.query)


def statement_set(statement: st.StatementSet, session: Session, *, again: str = "") -> Result:
    """All INSERTs as one dataflow. `again`: the job of the database that goes on."""
    inserts: list[tuple[st.Insert, CatalogTable]] = []
    for inner in statement.statements:
        if not isinstance(inner, st.Insert):
            raise UnsupportedError(
                "a statement set holds INSERT statements only",
                code="E1606",
                span=inner.span,
                hint="put the others before it",
            )
        table = target_table(session, inner)
        if _is_left_to_number(inner, table):
            raise UnsupportedError(
                f'the rows of "{table.path.name}" are numbered, by an INSERT alone',
                code="E1607",
                span=inner.table.span,
                hint="take it out of the statement set",
            )
        inserts.append((inner, table))
    if not inserts:
        raise UnsupportedError(
            "the statement set is empty", code="E1606", span=statement.span, hint="put INSERT statements before END"
        )
    return run_writing(Inserts(inserts, statement.text), session, again)


def target_table(session: Session, statement: st.Insert) -> CatalogTable:
    found = session.catalogs.get(statement.table.parts, statement.table.span)
    if isinstance(found, CatalogTable):
        if found.connector is None:
            admit(session.options, accounts=session.database.memory_accounts.accounts)
        return found
    kind = found.kind if isinstance(found, MaterializedView) else "view"
    raise BindError(
        f'"{found.path.name}" is a {kind} and takes no INSERT',
        code="E1428",
        span=statement.table.span,
        hint="INSERT INTO the tables that it reads",
    )


def run_writing(writing: Writing, session: Session, again: str = "") -> Result:
    """Carry out what writes to tables: to its end, or as a job in the background when its input has none. `again`: the job
    of the database that goes on."""
    name = again or session.jobs.next_id()
    into_memory = writing.into_memory
    done: Result | None = None
    if into_memory and not again:
        try:
            done = in_epoch(session, lambda: _run_bounded(name, writing, session), blind=True)
        except Stopped:
            raise _stopped_before_writing(writing) from None
    elif not into_memory:
        # What is followed is planned and begun as of one moment.
        with session.alone() if session.options.get(FOLLOW) else nullcontext():
            done = _run_bounded(name, writing, session, again=bool(again))
    if done is not None:
        return done
    # A writer that stages until the end would never show a row of unbounded input.
    with session.alone():
        plans = writing.plans(session, live=True)
        return _begin(name, writing, session, plans, locked=True, goes_on=bool(again))


def _begin(
    name: str, writing: Writing, session: Session, plans: Sequence[PhysicalNode], *, locked: bool, goes_on: bool
) -> Result:
    """A job in the background, which a database in a folder keeps where it can. Called with the lock held. `locked`: tables
    in memory are read or changed."""
    _numbering.refuse_numbers(plans, "a job in the background")
    kept = "" if session.durable is None else _lasting_jobs.kept_job(session, name, writing, plans)
    with counted_when_begun(session):
        checkpoints, savepoint = None, None
        if not isinstance(kept, str):
            name, checkpoints = kept.name, _lasting_jobs.checkpoints(session, kept, plans)
        elif kept:
            locked = locked or _lasting_jobs.follows(plans)
        if checkpoints is None:
            checkpoints = job_checkpoints(session, plans)
        if not locked or checkpoints is not None:
            savepoint = savepoint_to_restore(session, unread=session.target.divides(session.options))
        job = session.new_job(name, plans, checkpoints, savepoint)
    writing.watch(session, job)

    share = _driving.share_of(job, session.options.get(WEIGHT))
    inbox = None if isinstance(kept, str) else kept.inbox

    def drive() -> None:
        epoch = nullcontext if inbox is None else inbox.epoch
        _driving.drive_job(job, share, session, locked=locked, epoch=epoch)

    run, uses = (drive, None) if isinstance(kept, str) else (kept.driven(job, drive), kept.uses)
    again, catalogs = writing.kept(), session.catalogs
    begun = Begun(
        again.text,
        catalogs.current_catalog,
        catalogs.current_database,
        {**session.options.as_dict(), **again.options},
    )
    running = session.jobs.start(
        name, writing.text, job, run, locked=locked, goes_on=goes_on, uses=uses, weight=share.weight, begun=begun
    )
    result = _background(running, writing.text)
    if isinstance(kept, str) and kept:
        result.warnings = (*result.warnings, f"{name} ends with the process: {kept}")
    return result


def _run_bounded(name: str, writing: Writing, session: Session, *, again: bool = False) -> Result | None:
    """Run to the end, or in the background; None for what fills tables in memory from input that has no end."""
    into_memory = writing.into_memory
    plans = writing.plans(session, live=False)
    sources = [node.table for node in walk_all(plans) if isinstance(node, SourceExec)]
    bounded = all(table.bounded for table in sources)
    if not bounded and into_memory:
        return None
    reads_memory = any(isinstance(table, MemoryTable) for table in sources)
    if again or not bounded or (session.inserts_in_background and not into_memory and not reads_memory):
        with session.alone():
            return _begin(name, writing, session, plans, locked=reads_memory, goes_on=again)
    with counted_when_begun(session):
        savepoint = savepoint_to_restore(session, unread=session.target.divides(session.options))
        job = session.new_job(name, plans, job_checkpoints(session, plans), savepoint)
    writing.watch(session, job)
    if session.epoch is not None:
        session.epoch.cancellation = job.cancellation
    with _pointing_at_target(writing.span), session.without_lock():
        session.jobs.run(name, writing.text, job)
    if job.status == "CANCELED" and not job.stopped_with_savepoint:
        raise _stopped(job, writing)
    return _written(job, writing)


@contextmanager
def _pointing_at_target(span: Span | None) -> Generator[None]:
    """What the table of an INSERT does not take is told at its name."""
    try:
        yield
    except ExpressionError as error:
        if error.code == "E2011":
            error.span = error.span or span
        raise


def _background(running: RunningJob, text: str) -> Result:
    return Result(
        Schema.of(("job id", STRING)),
        iter([_one_cell(running.id)]),
        job=running.job,
        waiter=running.wait,
        bounded=False,
        summary=f"{running.id} runs in the background: {_shortened(text)}",
    )


def _one_cell(text: str) -> ChangelogBatch:
    return ChangelogBatch.of([pa.array([text])], Schema.of(("job id", STRING)))


def _written(job: Job, writing: Writing) -> Result:
    names = [str(table.path) for table in writing.targets]
    rows = [s.rows_written for s in job.dataflow.sinks()]
    if job.resumed_finished:
        written = ", ".join(dict.fromkeys(table.path.name for table in writing.targets))
        summary = f"{written}: all was written by an earlier run; nothing to do (--fresh starts anew)"
        return Result.table(
            Schema.of(*((n, BIGINT.not_null()) for n in names)), [[0] for _ in rows], job=job, summary=summary
        )
    summary = ", ".join(
        f"{counted_rows(n)} written to {table.path.name}" for n, table in zip(rows, writing.targets, strict=True)
    )
    return Result.table(
        Schema.of(*((n, BIGINT.not_null()) for n in names)), [[r] for r in rows], job=job, summary=summary
    )


def _stopped(job: Job, writing: Writing) -> UnsupportedError:
    """What has become of an INSERT that was stopped before its input ended."""
    hint = "run it again when it may go on to its end"
    if job.checkpoints is not None:
        what = "its newest checkpoint counts"
        hint = "run it again: it goes on from there"
    elif all(table.connector is None for table in writing.targets):
        return _stopped_before_writing(writing)
    elif job.gave_up:
        what = "the epoch at hand was given up, and what was not published before is dropped"
    else:
        rows = zip(job.dataflow.sinks(), writing.targets, strict=True)
        what = ", ".join(f"{counted_rows(s.rows_written)} written to {table.path.name}" for s, table in rows)
    return UnsupportedError(f"the INSERT was stopped before its end: {what}", code=INSERT_STOPPED, hint=hint)


def _stopped_before_writing(writing: Writing) -> UnsupportedError:
    names = ", ".join(dict.fromkeys(table.path.name for table in writing.targets))
    return UnsupportedError(
        f"the INSERT was stopped before its end: nothing was written to {names}",
        code=INSERT_STOPPED,
        hint="run it again when it may go on to its end",
    )


def _shortened(text: str) -> str:
    line = masked_sql(" ".join(text.split()))
    return line if len(line) <= 80 else line[:77] + "..."


def flush(statement: st.Flush, session: Session) -> Result:
    """Wait until every view has taken all input that is there."""
    del statement
    session.views.flush()
    return Result.ok()
