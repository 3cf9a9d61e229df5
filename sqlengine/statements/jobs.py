"""STOP JOB."""

from __future__ import annotations

from runtime.core.errors import UnsupportedError, pointing_at
from sqlengine.parse import statement_nodes as st
from sqlengine.result import Result
from sqlengine.session import Session

__all__ = ["stop_job"]


def stop_job(statement: st.StopJob, session: Session) -> Result:
    """End a background job cleanly: its sinks publish what they have."""
    if statement.savepoint or statement.drain:
        raise UnsupportedError(
            "a job stops without a savepoint here", code="E1609", span=statement.span, hint="STOP JOB 'id'"
        )
    with pointing_at(statement.job.span):
        running = session.jobs.get(statement.job.text)
    running.stop()
    return Result.ok()
