"""A listener of HTTP: what it answers with 200 is in the journal, durable.

It runs in a thread of its own, with a loop of its own. Requests that come together are one write and one fsync. Listeners are
the process's: tables with other routes share one at the same address.
"""

from __future__ import annotations

import asyncio
import hmac
import ssl
import threading
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from runtime.core.errors import ConnectorError
from runtime.core.logs import connector_log
from runtime.core.secrets import Secret

__all__ = ["Listening", "Route", "routed"]

_WAITING = 64 << 20
"""Bytes of requests that are being read, or wait to be written."""
_BODY_SECONDS = 30.0
_START_SECONDS = 30.0
_MOST_KEY = 512
_RETRY = {"Retry-After": "1"}


@dataclass(frozen=True)
class Listening:
    """Where a listener is. `certificate`, `key`: files (PEM), empty for a listener without TLS."""

    host: str
    port: int
    certificate: str = ""
    key: str = ""

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True)
class Route:
    """A path of a listener, and what is done with what comes there.

    Attributes:
        token: that a request must bear; empty: none, and then no request of a page in a browser is taken.
        header: has the key by which repeats are known.
        needs_key: a request without it is refused.
        most: bytes of a body.
        malformed: why a body is no message of the table; None for one that is.
        knows, has_room, append: see `Journal`.
    """

    path: str
    token: Secret
    header: str
    needs_key: bool
    most: int
    malformed: Callable[[bytes], str | None]
    knows: Callable[[str], bool]
    has_room: Callable[[int], bool]
    append: Callable[[list[tuple[str, bytes]]], None]


@dataclass
class _Waiting:
    """Requests of a route that are not written yet, and those that are being written, by key."""

    route: Route
    messages: list[tuple[str, bytes, asyncio.Future[None]]] = field(
        default_factory=list[tuple[str, bytes, "asyncio.Future[None]"]]
    )
    by_key: dict[str, asyncio.Future[None]] = field(default_factory=dict[str, "asyncio.Future[None]"])
    writing: bool = False


class _Listener:
    """See the module."""

    def __init__(self, where: Listening) -> None:
        self.where = where
        self._web = _library()
        self._routes: dict[str, _Waiting] = {}
        self._bytes = 0
        self._disk = ThreadPoolExecutor(1, thread_name_prefix="webhook journal")
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._error: Exception | None = None
        self._runner: Any = None
        self._thread = threading.Thread(target=self._run, name=f"webhook {where}", daemon=True)
        self._log = connector_log(__name__)

    def start(self) -> None:
        """Returns when it listens. Raises ConnectorError E3254."""
        self._thread.start()
        self._ready.wait(_START_SECONDS)
        if self._error is not None or not self._ready.is_set():
            self._disk.shutdown()
            raise ConnectorError(
                f"nothing can listen at {self.where}: {self._error or 'it takes too long'}",
                code="E3254",
                hint="is the port taken, and do the certificate and its key fit?",
            ) from self._error

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_START_SECONDS)
        self._disk.shutdown(wait=True)

    def add(self, route: Route) -> None:
        """Raises ConnectorError E3254 for a path that is taken."""
        if route.path in self._routes:
            raise ConnectorError(
                f"{self.where}{route.path} is listened to for another table, or for this one by another query",
                code="E3254",
                hint="give each table a 'route' of its own, and let others read the table of a materialized view",
            )
        self._routes[route.path] = _Waiting(route)

    def remove(self, route: Route) -> None:
        """Returns when nothing is written through it any more."""

        async def removed() -> None:
            # In the loop's thread, so that nothing is between a look at the routes and a write.
            del self._routes[route.path]
            await self._loop.run_in_executor(self._disk, lambda: None)

        asyncio.run_coroutine_threadsafe(removed(), self._loop).result()

    @property
    def is_used(self) -> bool:
        return bool(self._routes)

    # --- in the thread

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._listen())
            self._ready.set()
            self._loop.run_forever()
        except Exception as error:
            self._error = error
        finally:
            self._loop.run_until_complete(self._over())
            self._loop.close()
            self._ready.set()

    async def _over(self) -> None:
        """Requests that are under way end without an answer."""
        if self._runner is not None:
            await self._runner.cleanup()
        left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _listen(self) -> None:
        web = self._web
        server = web.Server(self._answer, access_log=None, keepalive_timeout=60)
        self._runner = web.ServerRunner(server, shutdown_timeout=1.0)
        await self._runner.setup()
        context = None
        if self.where.certificate:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(self.where.certificate, self.where.key or None)
        site = web.TCPSite(self._runner, self.where.host, self.where.port, ssl_context=context, reuse_address=True)
        await site.start()

    async def _answer(self, request: Any) -> Any:
        """What a request is answered."""
        web = self._web
        waiting = self._routes.get(request.path)
        if waiting is None:
            return web.Response(status=404)
        route = waiting.route
        if refused := self._refused(route, request):
            return web.Response(status=refused[0], text=refused[1])
        key = request.headers.get(route.header, "")
        if len(key) > _MOST_KEY or (route.needs_key and not key):
            return web.Response(status=400, text=f"the header {route.header} is missing, or too long")
        if route.knows(key):
            return web.Response()
        size = request.content_length if request.content_length is not None else route.most
        if size > route.most:
            return web.Response(status=413, text=f"at most {route.most} bytes")
        if self._bytes + size > _WAITING + route.most or not route.has_room(size):
            return web.Response(status=503, text="too much waits", headers=_RETRY)
        self._bytes += size
        try:
            return await self._taken(waiting, request, key)
        finally:
            self._bytes -= size

    def _refused(self, route: Route, request: Any) -> tuple[int, str] | None:
        if route.token:
            given = request.headers.get("Authorization", "")
            wanted = f"Bearer {route.token.reveal()}"
            if not hmac.compare_digest(given.encode("utf-8", "replace"), wanted.encode()):
                return 401, "the token is missing, or wrong"
        elif "Origin" in request.headers:
            return 403, "pages of browsers are not taken"
        if request.method not in ("POST", "PUT"):
            return 405, "POST is taken"
        if request.headers.get("Content-Encoding", "identity") != "identity":
            return 415, "bodies are taken as they are"
        return None

    async def _taken(self, waiting: _Waiting, request: Any, key: str) -> Any:
        web, route = self._web, waiting.route
        body = await self._body(request, route.most)
        if body is None:
            return web.Response(status=413, text=f"at most {route.most} bytes")
        if (why := route.malformed(body)) is not None:
            return web.Response(status=400, text=why)
        if route.knows(key):
            return web.Response()
        written = waiting.by_key.get(key) if key else None
        if written is None:
            written = self._loop.create_future()
            waiting.messages.append((key, body, written))
            if key:
                waiting.by_key[key] = written
            if not waiting.writing:
                waiting.writing = True
                self._log_lost(asyncio.ensure_future(self._write(waiting)))
        try:
            await asyncio.shield(written)
        except OSError as error:
            return web.Response(status=503, text=f"it cannot be kept: {error.strerror}", headers=_RETRY)
        return web.Response()

    async def _body(self, request: Any, most: int) -> bytes | None:
        """None for one that is too long."""
        found = bytearray()
        async with asyncio.timeout(_BODY_SECONDS):
            async for part in request.content.iter_chunked(1 << 16):
                found += part
                if len(found) > most:
                    return None
        return bytes(found)

    async def _write(self, waiting: _Waiting) -> None:
        """Write what waits, and what comes in the meantime."""
        try:
            while waiting.messages:
                taken, waiting.messages = waiting.messages, []
                error: OSError | None = None
                if self._routes.get(waiting.route.path) is not waiting:
                    error = OSError(0, "the table is not read any more")
                else:
                    try:
                        messages = [(key, body) for key, body, _ in taken]
                        await self._loop.run_in_executor(self._disk, waiting.route.append, messages)
                    except OSError as failed:
                        error = failed
                for key, _, written in taken:
                    waiting.by_key.pop(key, None)
                    if error is None:
                        written.set_result(None)
                    else:
                        written.set_exception(error)
        finally:
            waiting.writing = False

    def _log_lost(self, writing: Awaitable[None]) -> None:
        """A failure that nobody waits for is told."""

        def told(done: Any) -> None:
            if not done.cancelled() and (error := done.exception()) is not None:
                self._log.failure(f"requests at {self.where} cannot be kept", error)

        assert isinstance(writing, asyncio.Future)
        writing.add_done_callback(told)


_listeners: dict[tuple[str, int], _Listener] = {}
_listening = threading.Lock()


@contextmanager
def routed(where: Listening, route: Route) -> Generator[None]:
    """While the block runs, what comes at the route is taken. Raises ConnectorError E3254."""
    with _listening:
        listener = _listeners.get((where.host, where.port))
        if listener is None:
            listener = _Listener(where)
            listener.start()
            _listeners[where.host, where.port] = listener
        elif listener.where != where:
            raise ConnectorError(
                f"{where} is listened to with another certificate", code="E3254", hint="give all tables there the same"
            )
        listener.add(route)
    try:
        yield
    finally:
        with _listening:
            listener.remove(route)
            if not listener.is_used:
                del _listeners[where.host, where.port]
                listener.stop()


def _library() -> Any:
    try:
        from aiohttp import web
    except ImportError as error:
        raise ConnectorError(
            "the library that listens to HTTP is not installed", code="E3255", hint="pip install 'sqlengine[webhook]'"
        ) from error
    return web
