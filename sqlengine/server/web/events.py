"""Server-sent events: what goes on without end, to whoever listens. A client that does not read is dropped, not waited for.

Source: WHATWG HTML, "Server-sent events".
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from aiohttp import web

from runtime.core.wakeup import Wakeup
from sqlengine.server.http.refused import Refused

__all__ = ["EVENTS", "EventStream", "LoopWakeup", "Streams", "after_of"]

EVENTS = "text/event-stream"
ALIVE_SECONDS = 15.0
"""A stream without news says so often that it is there."""
_MOST_STREAMS = 500


class Streams:
    """How many streams there are; bounded. A block of one ends quietly when its client has gone."""

    def __init__(self) -> None:
        self._open = 0

    def __enter__(self) -> None:
        """Raises Refused 503 when there are too many."""
        if self._open >= _MOST_STREAMS:
            raise Refused(503, f"there are {_MOST_STREAMS} streams already")
        self._open += 1

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        self._open -= 1
        return kind is not None and issubclass(kind, ConnectionError)


class EventStream:
    """The events that answer one request."""

    def __init__(self, request: web.Request) -> None:
        self._request = request
        self.response = web.StreamResponse(
            headers={"Content-Type": EVENTS, "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        )

    async def begin(self) -> None:
        """From now on there are events."""
        await self.response.prepare(self._request)

    async def send(self, event: str, value: Any, number: int | None = None) -> None:
        """An event; waits until the client has read most of what came before."""
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        head = f"event: {event}\n" if number is None else f"event: {event}\nid: {number}\n"
        await self.response.write(f"{head}data: {text}\n\n".encode())

    async def alive(self) -> None:
        """Nothing has happened."""
        await self.response.write(b": there\n\n")

    def abort(self) -> None:
        """The connection ends at once."""
        if self._request.transport is not None:
            self._request.transport.abort()


class LoopWakeup(Wakeup):
    """Wakes a task of a loop, from any thread."""

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()

    def wake(self) -> None:
        self.call(self._event.set)

    def call(self, what: Callable[[], object]) -> None:
        """Have the loop call something; harmless when it has ended."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(what)

    async def woken(self, seconds: float) -> bool:
        """Wait, at most so long; tells whether somebody has woken it."""
        try:
            await asyncio.wait_for(self._event.wait(), seconds)
        except TimeoutError:
            return False
        self._event.clear()
        return True


def after_of(request: web.Request, name: str = "after") -> int | None:
    """Behind which event a client goes on: as a browser says it that has lost its connection, or as a parameter. Raises
    Refused 400."""
    text = request.headers.get("Last-Event-ID") or request.query.get(name)
    if text is None:
        return None
    if not text.isascii() or not text.isdecimal() or len(text) > 18:
        raise Refused(400, f"{name} is the number of an epoch")
    return int(text)
