"""STOP JOB and CREATE SAVEPOINT."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING

from runtime.checkpoint.epoch_state import CheckpointInfo
from runtime.core.errors import OptionError, PlanningError, pointing_at
from runtime.core.rooms import Room
from runtime.core.schema import Schema
from runtime.core.secrets import masked_text
from runtime.core.types import STRING
from sqlengine.database.jobs import RunningJob
from sqlengine.database.session import Session
from sqlengine.options.savepoint_paths import SAVEPOINT_DIR, next_savepoint
from sqlengine.parse import statement_nodes as st
from sqlengine.results.result import Result

if TYPE_CHECKING:
    import sqlengine.statements.lasting_jobs as _lasting_jobs
else:
    _lasting_jobs = Room("sqlengine.statements.lasting_jobs")

__all__ = ["create_savepoint", "stop_job"]


def stop_job(statement: st.StopJob, session: Session) -> Result:
    """End a background job cleanly: its sinks publish what they have. WITH SAVEPOINT its state is written first, and
    the savepoint's path is the result; WITH DRAIN all windows fire before that."""
    if statement.job.text in session.jobs.failed:
        return _lasting_jobs.forget_failed(statement.job.text, session)
    with pointing_at(statement.job.span):
        running = session.jobs.get(statement.job.text)
    if not statement.savepoint:
        if statement.drain:
            raise PlanningError(
                "WITH DRAIN goes with WITH SAVEPOINT",
                code="E1609",
                span=statement.span,
                hint=f"STOP JOB '{statement.job.text}' WITH SAVEPOINT WITH DRAIN",
            )
        running.stop()
        return Result.ok()
    path = _path(session, running, None, statement)
    written = running.job.savepoint(path, stop=True, drain=statement.drain)
    info = _wait(running, written)
    running.stop()
    return _shown(info)


def create_savepoint(statement: st.CreateSavepoint, session: Session) -> Result:
    """Write a savepoint of a running job, which goes on. The result is its path."""
    with pointing_at(statement.job.span):
        running = session.jobs.get(statement.job.text)
    path = _path(session, running, statement.path, statement)
    return _shown(_wait(running, running.job.savepoint(path)))


def _wait(running: RunningJob, written: Future[CheckpointInfo]) -> CheckpointInfo:
    return written.result()


def _path(session: Session, running: RunningJob, given: st.Name | None, statement: st.Statement) -> str:
    if given is not None:
        return given.text
    folder = session.options.get(SAVEPOINT_DIR)
    if not folder:
        raise OptionError(
            "it is not said where savepoints go",
            code="E1509",
            span=statement.span,
            hint=f"SET '{SAVEPOINT_DIR.key}' = '/a/folder' first",
        )
    return next_savepoint(folder, running.id)


def _shown(info: CheckpointInfo) -> Result:
    return Result.table(Schema.of(("savepoint path", STRING.not_null())), [[masked_text(info.path)]])
