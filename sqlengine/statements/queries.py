"""Queries and what is filled by them: SELECT, INSERT, statement sets, FLUSH."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from connectors.memory import MemoryTable
from runtime.core.cancellation import Stopped
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import (
    BindError,
    ExpressionError,
    Span,
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
from runtime.plan.nodes import SourceExec
from runtime.plan.walk import walk_all
from sqlengine.api.result import Result
from sqlengine.catalog.objects import CatalogTable, MaterializedView
from sqlengine.database.jobs import RunningJob
from sqlengine.database.recovery import counted_when_begun, job_checkpoints, savepoint_to_restore
from sqlengine.database.session import Session
from sqlengine.options.database import WEIGHT
from sqlengine.parse import statement_nodes as st
from sqlengine.statements.epochs import in_epoch
from sqlengine.statements.planning import Planned, plan_insert, plan_query, plan_statement_set
from sqlengine.text.amounts import counted_rows

if TYPE_CHECKING:
    import sqlengine.database.driving as _driving
    import sqlengine.statements.conflicts as _conflicts
    import sqlengine.statements.lasting_jobs as _lasting_jobs
    import sqlengine.statements.row_changes as _row_changes
    import sqlengine.verify.attach as _attach
else:
    _driving = Room("sqlengine.database.driving")
    _conflicts = Room("sqlengine.statements.conflicts")
    _lasting_jobs = Room("sqlengine.statements.lasting_jobs")
    _attach = Room("sqlengine.verify.attach")
    _row_changes = Room("sqlengine.statements.row_changes")

__all__ = [
    "DML_SYNC",
    "flush",
    "insert",
    "insert_query",
    "run_query",
    "statement_set",
]

DML_SYNC = bool_option("table.dml-sync", False, "wait for the end of an INSERT also when its input is unbounded")


def run_query(statement: st.QueryStatement, session: Session) -> Result:
    """Start a query; its changes come as the result is read."""
    planned = plan_query(session, statement.query.query)
    name = session.jobs.next_id()
    job = session.new_job(name, [planned.physical])
    _attach.verify(session, job, [planned])
    order = planned.order if job.bounded else ()
    running = RunningJob(name, statement.text, job)
    if not job.bounded:
        session.jobs.jobs[name] = running

    def changes() -> Iterator[ChangelogBatch]:
        try:
            for (output,) in job.epochs():
                if output is not None:
                    yield output
        except BaseException as error:
            if not isinstance(error, GeneratorExit):
                running.failure, running.told = without_traceback(error), True
            raise
        finally:
            running.done.set()

    return Result(
        planned.schema,
        changes(),
        job=job,
        is_query=True,
        order=order,
        visible=planned.visible,
        bounded=job.bounded,
        append_only=planned.physical.mode.is_append_only or bool(order),
    )


# --- INSERT
# -----------------------------------------------------------------------------------------------------------------


def insert(statement: st.Insert, session: Session, *, again: str = "") -> Result:
    """Write a query's rows. Bounded input: done when this returns. Unbounded: a job in the background. `again`: the job
    of the database that goes on."""
    table = _target(session, statement)
    if again:
        return _run_inserts([(statement, table)], statement.text, session, again)
    if statement.on_conflict is not None and table.connector is None:
        done = _conflicts.insert_on_conflict(statement, session, table)
        if done is not None:
            return done
    known = _row_changes.insert_known(statement, session, table)
    return _run_inserts([(statement, table)], statement.text, session) if known is None else known


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
        inserts.append((inner, _target(session, inner)))
    if not inserts:
        raise UnsupportedError(
            "the statement set is empty", code="E1606", span=statement.span, hint="put INSERT statements before END"
        )
    return _run_inserts(inserts, statement.text, session, again)


def insert_query(session: Session, table: CatalogTable, query: st.QueryText, text: str) -> Result:
    """Fill a new table with a query's rows (CREATE TABLE AS)."""
    names = tuple(st.Name(f, query.span) for f in _query_names(session, query))
    return _run_inserts(
        [
            (
                st.Insert(
                    st.ObjectName((table.path.catalog, table.path.database, table.path.name), query.span),
                    query,
                    names,
                    text=text,
                ),
                table,
            )
        ],
        text,
        session,
    )


def _query_names(session: Session, query: st.QueryText) -> tuple[str, ...]:
    return plan_query(session, query.query).schema.names


def _target(session: Session, statement: st.Insert) -> CatalogTable:
    found = session.catalogs.get(statement.table.parts, statement.table.span)
    if isinstance(found, CatalogTable):
        if found.connector is None:
            admit(session.options, accounts=session.database.memory_accounts.accounts)
        return found
    kind = "materialized view" if isinstance(found, MaterializedView) else "view"
    raise BindError(
        f'"{found.path.name}" is a {kind} and takes no INSERT',
        code="E1428",
        span=statement.table.span,
        hint="INSERT INTO the tables that it reads",
    )


def _run_inserts(inserts: list[tuple[st.Insert, CatalogTable]], text: str, session: Session, again: str = "") -> Result:
    name = again or session.jobs.next_id()
    into_memory = any(table.connector is None for _, table in inserts)
    done: Result | None = None
    if into_memory and not again:
        try:
            done = in_epoch(session, lambda: _run_bounded(name, inserts, text, session), blind=True)
        except Stopped:
            raise _stopped_before_writing(inserts) from None
    elif not into_memory:
        done = _run_bounded(name, inserts, text, session, again=bool(again))
    if done is not None:
        return done
    # A writer that stages until the end would never show a row of unbounded input.
    with session.alone():
        planned = _plan(inserts, session, live=True)
        return _begin(name, inserts, text, session, planned, locked=True, goes_on=bool(again))


def _begin(
    name: str,
    inserts: list[tuple[st.Insert, CatalogTable]],
    text: str,
    session: Session,
    planned: list[Planned],
    *,
    locked: bool,
    goes_on: bool,
) -> Result:
    """A job in the background, which a database in a folder keeps where it can. Called with the lock held. `locked`: tables
    in memory are read or changed."""
    plans = [plan.physical for plan in planned]
    kept = "" if session.durable is None else _lasting_jobs.kept_job(session, name, inserts, text, plans)
    with counted_when_begun(session):
        checkpoints, savepoint = None, None
        if not isinstance(kept, str):
            name, checkpoints = kept.name, _lasting_jobs.checkpoints(session, kept, plans)
        if checkpoints is None:
            checkpoints = job_checkpoints(session, plans)
        if not locked or checkpoints is not None:
            savepoint = savepoint_to_restore(session)
        job = session.new_job(name, plans, checkpoints, savepoint)
    _attach.verify(session, job, planned)

    share = _driving.share_of(job, session.options.get(WEIGHT))

    def drive() -> None:
        _driving.drive_job(job, share, session, locked=locked)

    run, uses = (drive, None) if isinstance(kept, str) else (kept.driven(job, drive), kept.uses)
    running = session.jobs.start(name, text, job, run, locked=locked, goes_on=goes_on, uses=uses, weight=share.weight)
    result = _background(running, text)
    if isinstance(kept, str) and kept:
        result.warnings = (*result.warnings, f"{name} ends with the process: {kept}")
    return result


def _run_bounded(
    name: str, inserts: list[tuple[st.Insert, CatalogTable]], text: str, session: Session, *, again: bool = False
) -> Result | None:
    """Run INSERTs to their end, or in the background; None for those into tables in memory whose input has no end."""
    into_memory = any(table.connector is None for _, table in inserts)
    planned = _plan(inserts, session, live=False)
    plans = [plan.physical for plan in planned]
    sources = [node.table for node in walk_all(plans) if isinstance(node, SourceExec)]
    bounded = all(table.bounded for table in sources)
    if not bounded and into_memory:
        return None
    reads_memory = any(isinstance(table, MemoryTable) for table in sources)
    if again or not bounded or (session.inserts_in_background and not into_memory and not reads_memory):
        with session.alone():
            return _begin(name, inserts, text, session, planned, locked=reads_memory, goes_on=again)
    target = inserts[0][0].table.span if len(inserts) == 1 else None
    with counted_when_begun(session):
        job = session.new_job(name, plans, job_checkpoints(session, plans), savepoint_to_restore(session))
    _attach.verify(session, job, planned)
    if session.epoch is not None:
        session.epoch.cancellation = job.cancellation
    with _pointing_at_target(target), session.without_lock():
        session.jobs.run(name, text, job)
    if job.status == "CANCELED" and not job.stopped_with_savepoint:
        raise _stopped(job, inserts)
    return _written(job, inserts)


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


def _plan(inserts: list[tuple[st.Insert, CatalogTable]], session: Session, *, live: bool) -> list[Planned]:
    if len(inserts) == 1:
        return [plan_insert(session, *inserts[0], live=live)]
    return plan_statement_set(session, inserts, live=live)


def _one_cell(text: str) -> ChangelogBatch:
    return ChangelogBatch.of([pa.array([text])], Schema.of(("job id", STRING)))


def _written(job: Job, inserts: list[tuple[st.Insert, CatalogTable]]) -> Result:
    names = [str(table.path) for _, table in inserts]
    rows = [s.rows_written for s in job.dataflow.sinks()]
    if job.resumed_finished:
        written = ", ".join(dict.fromkeys(table.path.name for _, table in inserts))
        summary = f"{written}: all was written by an earlier run; nothing to do (--fresh starts anew)"
        return Result.table(
            Schema.of(*((n, BIGINT.not_null()) for n in names)), [[0] for _ in rows], job=job, summary=summary
        )
    summary = ", ".join(
        f"{counted_rows(n)} written to {table.path.name}" for n, (_, table) in zip(rows, inserts, strict=True)
    )
    return Result.table(
        Schema.of(*((n, BIGINT.not_null()) for n in names)), [[r] for r in rows], job=job, summary=summary
    )


def _stopped(job: Job, inserts: list[tuple[st.Insert, CatalogTable]]) -> UnsupportedError:
    """What has become of an INSERT that was stopped before its input ended."""
    hint = "run it again when it may go on to its end"
    if job.checkpoints is not None:
        what = "its newest checkpoint counts"
        hint = "run it again: it goes on from there"
    elif all(table.connector is None for _, table in inserts):
        return _stopped_before_writing(inserts)
    elif job.gave_up:
        what = "the epoch at hand was given up, and what was not published before is dropped"
    else:
        rows = zip(job.dataflow.sinks(), inserts, strict=True)
        what = ", ".join(f"{counted_rows(s.rows_written)} written to {table.path.name}" for s, (_, table) in rows)
    return UnsupportedError(f"the INSERT was stopped before its end: {what}", code="E1633", hint=hint)


def _stopped_before_writing(inserts: list[tuple[st.Insert, CatalogTable]]) -> UnsupportedError:
    names = ", ".join(dict.fromkeys(table.path.name for _, table in inserts))
    return UnsupportedError(
        f"the INSERT was stopped before its end: nothing was written to {names}",
        code="E1633",
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
