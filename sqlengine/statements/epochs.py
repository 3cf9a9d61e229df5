"""BEGIN EPOCH, END EPOCH, ROLLBACK EPOCH: several statements that change tables in memory in one step.

Until its end the session's own statements see what the epoch has changed, wherever they name a table; nobody else does:
materialized views, jobs and subscribers hear of it when it ends. A materialized view that the session reads meanwhile is
answered by its query (`sqlengine/database/open_views.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from runtime.core.errors import ExpressionError, PlanningError
from runtime.core.rooms import Room
from sqlengine.catalog.objects import ObjectPath
from sqlengine.database.open_epoch import OpenEpoch, RowConflict
from sqlengine.database.session import Session
from sqlengine.parse import statement_nodes as st
from sqlengine.results.result import Result

if TYPE_CHECKING:
    import sqlengine.database.commits as _commits
else:
    _commits = Room("sqlengine.database.commits")

__all__ = ["begin_epoch", "end_epoch", "in_epoch", "rollback_epoch", "together"]

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
    session has changed the same rows meanwhile, and BrokenConstraint where one has brought a value that may be there once."""
    epoch = _open(statement, session)
    try:
        _commits.commit(session, epoch)
    except (PlanningError, ExpressionError):
        epoch.close()
        session.epoch = None
        raise
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
    for _ in range(_ATTEMPTS):
        with suppress(RowConflict):
            session.read_anew()
            return _at_once(session, run, OpenEpoch(implicit=True, blind=blind))
    with session.alone():
        return _at_once(session, run, OpenEpoch(implicit=True, alone=True, blind=blind))


def together(session: Session, run: Callable[[], T], storage: ObjectPath) -> T:
    """Carry out a statement that adds a few rows to one table, or nothing, with those of others that wait."""
    return run() if session.epoch is not None else _commits.together(session, run, storage)


def _at_once(session: Session, run: Callable[[], T], epoch: OpenEpoch) -> T:
    session.epoch = epoch
    try:
        result = run()
        _commits.commit(session, epoch)
    finally:
        epoch.close()
        session.epoch = None
    return result


def _open(statement: st.Statement, session: Session) -> OpenEpoch:
    epoch = session.epoch
    if epoch is None:
        raise PlanningError("no epoch is open", code="E1712", span=statement.span, hint="BEGIN EPOCH opens one")
    return epoch
