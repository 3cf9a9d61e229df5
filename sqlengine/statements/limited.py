"""Statements of a role that may take only so much: the rows of its results, and the memory and state of what is its own.

The time of a statement is measured where it arrives (`server/`), with the time in which the client fetches rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from runtime.core.cancellation import Cancellation
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import AccessError
from runtime.core.memory import MemoryAccount
from sqlengine.catalog.objects import ObjectPath
from sqlengine.database.database import Database
from sqlengine.database.session import Session
from sqlengine.parse import ddl_nodes as ddl
from sqlengine.parse import statement_nodes as st
from sqlengine.results.result import Result
from sqlengine.roles.limits import Limits
from sqlengine.statements.targets import table_target
from sqlengine.text.amounts import counted_rows, human_bytes

__all__ = ["check_rows", "execute_limited", "reading_parts", "taken_by"]

_MEASURED_FOR_SECONDS = 0.25
_OWN_GROWTH = 1 / 32
"""Work that has taken less than this part of a limit is not to blame."""
_STATE = ("VIEW", "JOB")
_PASSING = ("output of ", "input from ", "rows to be written", "changes to be shown")
"""Parts of views and jobs that are gone with the epoch at hand."""


def execute_limited(
    statement: st.Statement, session: Session, execute: Callable[[st.Statement, Session], Result]
) -> Result:
    """Carry out a statement within the limits of the session's role.

    Raises AccessError E1803 for too many rows, once they are read; E1804 for memory and E1805 for state: before rows are
    added, and while the statement, or the job that it starts, takes more.
    """
    assert session.authority is not None
    role = session.authority.role
    fills = isinstance(statement, _FILL) or (isinstance(statement, ddl.CreateTable) and statement.query is not None)
    takes = fills or isinstance(statement, st.QueryStatement | st.Update)
    if not takes or (role.limits.memory is None and role.limits.state is None):
        result = execute(statement, session)
    else:
        watched = _Watched(session.database, role.name, role.limits, _made_by(statement, session))
        if fills:
            watched.admit()
        with Cancellation(limit=watched.look).governing():
            result = execute(statement, session)
        if result.job is not None:
            result.job.cancellation.limit_too(watched.look)
    counts = role.limits.rows is not None and result.is_query and result.bounded and not _parts.get()
    if counts and not isinstance(statement, st.Subscribe):
        result.through(lambda batches: _counted(batches, session))
    return result


_parts: ContextVar[bool] = ContextVar("parts", default=False)


@contextmanager
def reading_parts() -> Generator[None]:
    """Within the block queries read what a result is made of elsewhere: `check_rows` counts its rows."""
    before = _parts.set(True)
    try:
        yield
    finally:
        _parts.reset(before)


def check_rows(session: Session, count: int) -> None:
    """Raises AccessError E1803 for a result that has more rows than the role of the session may have."""
    role = None if session.authority is None else session.authority.role
    if role is not None and role.limits.rows is not None and count > role.limits.rows:
        raise AccessError(
            f'the result has more than {counted_rows(role.limits.rows)}, the limit of the role "{role.name}"',
            code="E1803",
            hint="ask for fewer with WHERE or LIMIT; who may make roles raises it: ALTER ROLE .. ROW LIMIT n",
        )


_FILL = (st.Insert, st.StatementSet, st.ExecutePlan, st.CreateMaterializedView)


def _made_by(statement: st.Statement, session: Session) -> str | None:
    """The name of the view or table that a statement fills: it has no owner yet."""
    if isinstance(statement, st.CreateMaterializedView | ddl.CreateTable):
        return str(ObjectPath(*table_target(session, statement.name).path))
    return None


def _counted(batches: Iterable[ChangelogBatch], session: Session) -> Iterator[ChangelogBatch]:
    count = 0
    for batch in batches:
        count += len(batch)
        check_rows(session, count)
        yield batch


def taken_by(database: Database, role: str, made: str | None = None) -> tuple[int, int]:
    """The bytes in memory that are a role's, and those of the state, in memory and on the disk, of its views and jobs.

    `made`: the name of a view or table that will be the role's.
    """
    memory = state = 0
    roles, jobs = database.roles, database.roles.jobs
    owned = {str(ObjectPath(*target.path)) for target in roles.owned_by(role) if target.kind == "table"} | {made}

    def is_own(account: MemoryAccount) -> bool:
        if account.owner_kind in ("JOB", "QUERY"):
            return jobs.get(account.owner) == role
        return account.owner_kind in ("TABLE", "VIEW") and account.owner in owned

    for account in filter(is_own, database.memory_accounts.accounts()):
        memory += account.bytes
        if account.owner_kind in _STATE and not account.part.startswith(_PASSING):
            state += account.bytes + account.disk_bytes
    return memory, state


class _Watched:
    """What a role has, measured now and then while work of it goes on.

    Args:
        clock: seconds.
    """

    def __init__(
        self,
        database: Database,
        role: str,
        limits: Limits,
        made: str | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._role = role
        self._limits = limits
        self._clock = clock
        self._made = made
        self._before = taken_by(database, role, made)
        self._measured_at = clock()

    def admit(self) -> None:
        """Raises AccessError where a limit is reached already."""
        self._check(self._before, (0, 0))

    def look(self) -> None:
        """Raises AccessError where a limit is reached, and more has come since the work began."""
        now = self._clock()
        if now - self._measured_at >= _MEASURED_FOR_SECONDS:
            taken = taken_by(self._database, self._role, self._made)
            self._measured_at = self._clock()
            self._before = min(self._before[0], taken[0]), min(self._before[1], taken[1])
            self._check(taken, self._before)

    def _check(self, taken: tuple[int, int], before: tuple[int, int]) -> None:
        limits = (("memory", "E1804", self._limits.memory), ("state", "E1805", self._limits.state))
        for (what, code, limit), now, then in zip(limits, taken, before, strict=True):
            if limit is not None and now > limit and now - then >= limit * _OWN_GROWTH:
                raise AccessError(
                    f'the role "{self._role}" has {human_bytes(now)} of {what}, and may have {human_bytes(limit)}',
                    code=code,
                    hint=f"DROP or DELETE what is not needed, SHOW JOBS and STOP JOB; who may make roles raises it: "
                    f"ALTER ROLE .. {what.upper()} LIMIT 'size'",
                )
