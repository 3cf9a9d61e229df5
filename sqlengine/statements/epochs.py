"""BEGIN EPOCH, END EPOCH, ROLLBACK EPOCH: several statements that change tables in memory in one step.

Until its end the session's own statements see what the epoch has changed, wherever they name a table; nobody else does:
materialized views, jobs and subscribers hear of it when it ends. A materialized view that the session reads meanwhile is
answered by its query (`sqlengine/database/open_views.py`).
"""

from __future__ import annotations

from runtime.core.errors import PlanningError
from sqlengine.api.result import Result
from sqlengine.database.open_epoch import OpenEpoch
from sqlengine.database.session import Session
from sqlengine.parse import statement_nodes as st

__all__ = ["begin_epoch", "end_epoch", "rollback_epoch"]


def begin_epoch(statement: st.BeginEpoch, session: Session) -> Result:
    if session.in_epoch:
        raise PlanningError(
            "an epoch is open already", code="E1712", span=statement.span, hint="END EPOCH or ROLLBACK EPOCH first"
        )
    session.epoch = OpenEpoch()
    return Result.ok()


def end_epoch(statement: st.EndEpoch, session: Session) -> Result:
    """All changes since BEGIN EPOCH become visible together. Raises PlanningError E1716, and none does, where another
    session has changed the same rows meanwhile."""
    epoch = _open(statement, session)
    session.epoch = None
    session.publish(epoch.commit(session.memory))
    return Result.ok()


def rollback_epoch(statement: st.RollbackEpoch, session: Session) -> Result:
    """All tables in memory are as they were before BEGIN EPOCH. Definitions, and what was written to tables with a
    connector, stay."""
    _open(statement, session)
    session.epoch = None
    return Result.ok()


def _open(statement: st.Statement, session: Session) -> OpenEpoch:
    epoch = session.epoch
    if epoch is None:
        raise PlanningError("no epoch is open", code="E1712", span=statement.span, hint="BEGIN EPOCH opens one")
    return epoch
