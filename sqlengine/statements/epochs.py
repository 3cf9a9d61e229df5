"""BEGIN EPOCH, END EPOCH, ROLLBACK EPOCH: several statements that change tables in memory in one step.

Until its end the session's own statements see what the epoch has changed, wherever they name a table; nobody else does:
materialized views, jobs and subscribers hear of it when it ends. A materialized view that the session reads meanwhile is
answered by its query (`sqlengine/database/open_views.py`).
"""

from __future__ import annotations

from runtime.core.errors import PlanningError
from sqlengine.api.result import Result
from sqlengine.database.session import Session
from sqlengine.parse import statement_nodes as st

__all__ = ["begin_epoch", "end_epoch", "rollback_epoch"]


def begin_epoch(statement: st.BeginEpoch, session: Session) -> Result:
    if session.in_epoch:
        raise PlanningError(
            "an epoch is open already", code="E1712", span=statement.span, hint="END EPOCH or ROLLBACK EPOCH first"
        )
    session.in_epoch = True
    kept = {view.path for view in session.views.jobs()}
    for path, table in session.memory.items():
        # What a view keeps is changed by nobody but its job.
        if path not in kept:
            table.begin_epoch()
    return Result.ok()


def end_epoch(statement: st.EndEpoch, session: Session) -> Result:
    """All changes since BEGIN EPOCH become visible together."""
    _check_open(statement, session)
    session.in_epoch = False
    session.publish(list(session.memory.values()))
    return Result.ok()


def rollback_epoch(statement: st.RollbackEpoch, session: Session) -> Result:
    """All tables in memory are as they were before BEGIN EPOCH. Definitions, and what was written to tables with a
    connector, stay."""
    _check_open(statement, session)
    session.in_epoch = False
    for table in session.memory.values():
        table.rollback()
    session.publish(list(session.memory.values()))
    return Result.ok()


def _check_open(statement: st.Statement, session: Session) -> None:
    if not session.in_epoch:
        raise PlanningError("no epoch is open", code="E1712", span=statement.span, hint="BEGIN EPOCH opens one")
