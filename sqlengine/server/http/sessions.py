"""Which sessions clients have, and how long they last."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from runtime.core.logs import Log
from sqlengine.api.environment import TableEnvironment
from sqlengine.database.acting import act_for
from sqlengine.server.access import Access, TooMany
from sqlengine.server.http.access import WHO
from sqlengine.server.http.refused import Refused
from sqlengine.server.http.session import HttpSession

__all__ = ["IDLE_SECONDS", "Sessions", "in_thread"]

T = TypeVar("T")
_log = Log("server")
IDLE_SECONDS = 600.0
"""A session that nobody uses for so long is closed."""
_MOST_SESSIONS = 1000
_SWEEP_SECONDS = 5.0


async def in_thread(work: Callable[[], T]) -> T:
    """What blocks is done by another thread."""
    return await asyncio.get_running_loop().run_in_executor(None, work)


class Sessions:
    """The sessions of the clients of one server, by their handles.

    Args:
        environment: a session of the database; each session of a client gets one of its own, and is that user's alone.
        access: knows how many sessions a role may have.
        missing: the status of HTTP for a session that is not there.
        port: its name in the audit.
        idle_seconds: a session that nobody uses for so long is closed.
        most: so many at once.
    """

    def __init__(
        self,
        environment: TableEnvironment,
        access: Access,
        *,
        missing: int,
        port: str,
        idle_seconds: float = IDLE_SECONDS,
        most: int = _MOST_SESSIONS,
    ) -> None:
        self._environment = environment
        self._access = access
        self._missing = missing
        self._port = port
        self._idle_seconds = idle_seconds
        self._most = most
        self.sessions: dict[str, HttpSession] = {}
        self._sweeper: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Close idle ones from now on."""
        self._sweeper = asyncio.get_running_loop().create_task(self._sweep())

    async def stop(self) -> None:
        """Close them all."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        for handle in tuple(self.sessions):
            await self._end(handle)

    def open(self, properties: Mapping[str, str], name: str | None, client: str) -> HttpSession:
        """A session of whoever asks, from an address. Raises Refused when there are too many."""
        if len(self.sessions) >= self._most:
            raise Refused(
                self._missing, f"there are {self._most} sessions already; close some, or wait until they time out"
            )
        who = WHO.get()
        try:
            release = self._access.connect(who)
        except TooMany as error:
            raise Refused(self._missing, f'the role "{who.user}" has {error} connections already') from None
        environment = self._environment.new_session()
        act_for(environment.session, who)
        audit = self._access.audit
        trail = None if audit is None else audit.of(self._port, client, who.user)
        session = HttpSession(environment, properties, name, missing=self._missing, trail=trail)
        session.on_close = release
        if trail is not None:
            trail.tell("connected")
        self.sessions[session.handle] = session
        return session

    def get(self, handle: str) -> HttpSession:
        """One of whoever asks. Raises Refused for one that is not there, or another user's."""
        found = self.sessions.get(handle)
        if found is None or found.user != WHO.get().user:
            raise Refused(self._missing, f"there is no session {handle}; it was closed, or has timed out")
        found.touch()
        return found

    async def close(self, handle: str) -> None:
        """Raises Refused for one that is not there, or another user's."""
        await self._end(self.get(handle).handle)

    async def _end(self, handle: str) -> None:
        session = self.sessions.pop(handle)
        session.stop()
        await in_thread(session.close)
        if session.trail is not None:
            session.trail.tell("disconnected")

    async def close_idle(self, now: float) -> None:
        """Close the sessions that nobody has used for too long, as of `now` (of `time.monotonic`)."""
        for handle, session in tuple(self.sessions.items()):
            if now - session.used > self._idle_seconds and handle in self.sessions:
                _log.info("the session %s has timed out", handle)
                await self._end(handle)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            await self.close_idle(time.monotonic())
