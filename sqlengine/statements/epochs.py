"""BEGIN EPOCH, END EPOCH, ROLLBACK EPOCH: several statements that change tables in memory in one step.

Until its end the session's own statements see what the epoch has changed, wherever they name a table; nobody else does:
materialized views, jobs and subscribers hear of it when it ends. A materialized view that the session reads meanwhile is
answered by its query (`sqlengine/database/open_views.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from runtime.core.errors import PlanningError
from sqlengine.api.result import Result
from sqlengine.database.open_epoch import OpenEpoch, RowConflict
from sqlengine.database.session import Session
from sqlengine.parse import statement_nodes as st

__all__ = ["begin_epoch", "end_epoch", "in_epoch", "rollback_epoch"]

T = TypeVar("T")

_ATTEMPTS = 3


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
    try:
        tables = epoch.commit(session.stored)
    except PlanningError:
        epoch.close()
        session.epoch = None
        raise
    epoch.close()
    session.epoch = None
    session.publish(tables)
    return Result.ok()


def rollback_epoch(statement: st.RollbackEpoch, session: Session) -> Result:
    """All tables in memory are as they were before BEGIN EPOCH. Definitions, and what was written to tables with a
    connector, stay."""
    _open(statement, session).close()
    session.epoch = None
    return Result.ok()


def in_epoch(session: Session, run: Callable[[], T], *, blind: bool = False) -> T:
    """Carry out a statement that changes rows: as a part of the open epoch, or as an epoch of its own.

    While it runs nobody waits for it. When another session has changed one of the same rows meanwhile, it is carried out
    again, over what is there then; after some times while the others wait.

    Args:
        blind: it says nothing of the rows that were there, so that nobody's change can contradict it.
    """
    if session.epoch is not None:
        return run()
    for attempt in range(_ATTEMPTS + 1):
        epoch = session.epoch = OpenEpoch(implicit=True, alone=attempt == _ATTEMPTS)
        try:
            result = run()
            tables = epoch.commit(session.stored, blind=blind)
        except RowConflict:
            if epoch.alone:
                raise
        else:
            session.epoch = None
            session.publish(tables)
            return result
        finally:
            epoch.close()
            session.epoch = None
    raise AssertionError("the last attempt gives a result or raises")


def _open(statement: st.Statement, session: Session) -> OpenEpoch:
    epoch = session.epoch
    if epoch is None:
        raise PlanningError("no epoch is open", code="E1712", span=statement.span, hint="BEGIN EPOCH opens one")
    return epoch
