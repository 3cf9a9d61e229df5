"""Functions of the catalogue that act on sessions: pg_notify, pg_cancel_backend, pg_terminate_backend, pg_sleep.

Source: PostgreSQL 15, 9.27.2 "Server Signaling Functions", SQL command NOTIFY.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from runtime.core.cancellation import look
from sqlengine.server.postgres.catalogue.live import Sessions
from sqlengine.server.postgres.notices import Notice
from sqlengine.server.postgres.notifying import checked_channel
from sqlengine.server.postgres.sqlstate import PgError

if TYPE_CHECKING:
    from sqlengine.server.postgres.session import ClientSession

__all__ = ["Acts", "Asked", "Function"]

_NAP_SECONDS = 0.02


@dataclass(frozen=True)
class Function:
    """A function of Python under the name by which macros call it. `takes_null`: without it, NULL gives NULL."""

    name: str
    call: Callable[..., Any]
    types: tuple[str, ...]
    gives: str
    takes_null: bool = False


@dataclass
class Asked:
    """A question that may act: what its functions say to its client, and why one has failed."""

    session: ClientSession
    notices: list[Notice] = field(default_factory=list)
    failure: PgError | None = None


class Acts:
    """What functions do whose session DuckDB knows by its number alone.

    Args:
        sessions: of those who are connected.
    """

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._asked: dict[int, Asked] = {}

    def functions(self) -> Sequence[Function]:
        """What DuckDB may call."""
        return (
            Function("py_sleep", _sleep, ("DOUBLE",), "VARCHAR"),
            Function("py_notify", self._notify, ("INTEGER", "VARCHAR", "VARCHAR"), "VARCHAR", takes_null=True),
            Function("py_cancel", self._cancel, ("INTEGER", "INTEGER"), "BOOLEAN"),
            Function("py_terminate", self._terminate, ("INTEGER", "INTEGER", "BIGINT"), "BOOLEAN"),
        )

    @contextmanager
    def on_behalf_of(self, session: ClientSession) -> Generator[Asked]:
        """While a question of a session is answered. What it tells others counts with its transaction, and is forgotten when
        the question fails. Raises what a function has raised, instead of what DuckDB makes of it."""
        asked = self._asked[session.number] = Asked(session)
        mark = session.listener.mark()
        try:
            yield asked
        except BaseException as error:
            session.listener.back_to(mark)
            if asked.failure is not None:
                raise asked.failure from error
            raise
        finally:
            del self._asked[session.number]
        if session.transaction.state == b"I":
            session.listener.commit()

    # --- called by DuckDB

    def _notify(self, asker: int, channel: str | None, payload: str | None) -> str:
        asked = self._asked[asker]
        try:
            asked.session.check_not_replica("NOTIFY")
            asked.session.listener.tell(checked_channel(channel), payload or "")
        except PgError as error:
            asked.failure = error
            raise
        return ""

    def _cancel(self, asker: int, number: int) -> bool:
        target = self._target(asker, number, "cancel", "query", "query is being canceled")
        if target is None:
            return False
        target.cancel("canceling statement due to user request")
        return True

    def _terminate(self, asker: int, number: int, milliseconds: int) -> bool:
        """Waits so long until the session has gone, 0: not at all."""
        target = self._target(asker, number, "terminate", "process", "process is being terminated")
        if target is None:
            return False
        target.terminate("terminating connection due to administrator command")
        end = time.monotonic() + milliseconds / 1000
        while milliseconds and self._find(number) is not None:
            look()
            if time.monotonic() > end:
                told = f"backend with PID {number} did not terminate within {milliseconds} milliseconds"
                self._asked[asker].notices.append(Notice(told))
                return False
            time.sleep(_NAP_SECONDS)
        return True

    def _find(self, number: int) -> ClientSession | None:
        return next((session for session in self._sessions() if session.number == number), None)

    def _target(self, asker: int, number: int, verb: str, thing: str, whose: str) -> ClientSession | None:
        """The session of a number, on which the asker may act; None and a warning where there is none."""
        asked, target = self._asked[asker], self._find(number)
        if target is None:
            asked.notices.append(Notice(f"PID {number} is not a PostgreSQL server process"))
            return None
        mine, theirs = asked.session.environment.session.authority, target.environment.session.authority
        if mine is None or mine.is_superuser:
            return target
        if theirs is None or theirs.is_superuser:
            asked.failure = PgError("42501", f"must be a superuser to {verb} superuser {thing}")
        elif theirs.name not in mine.roles.all_of(mine.name):
            asked.failure = PgError(
                "42501", f"must be a member of the role whose {whose}", hint=f"GRANT {theirs.name} TO {mine.name}"
            )
        if asked.failure is not None:
            raise asked.failure
        return target


def _sleep(seconds: float) -> str:
    """`pg_sleep`; a request to stop ends it."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        look()
        time.sleep(min(left, _NAP_SECONDS))
    return ""
