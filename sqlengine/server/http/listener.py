"""A port of HTTP: how many may connect, how much may come in and how long that may take, and what errors look like."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from runtime.core.logs import Log
from sqlengine.roles.authority import Authority
from sqlengine.server.audit import Audit
from sqlengine.server.http.access import WHO
from sqlengine.server.http.refused import Refused
from sqlengine.server.proofs import user_of
from sqlengine.server.tls import Tls

__all__ = ["Guard", "HttpListener"]

_log = Log("server")
_REQUEST_SECONDS = 30.0
"""A request has to have arrived by then."""
_MOST_BYTES = 16 * 1024 * 1024
"""Of a body."""
_MOST_CONNECTIONS = 2000


class Guard(Protocol):
    """Says on whose behalf a request comes."""

    @property
    def audit(self) -> Audit | None:
        """Where that is written down."""
        ...

    async def check(self, request: web.Request) -> Authority:
        """Raises Refused."""
        ...


class HttpListener:
    """Answers requests.

    Args:
        access: says who may ask.
        errors: what answers a request with this status for these reasons.
        failure: what answers a request that has failed.
        tls: how connections are encrypted; None: they are not.
        most_bytes: of a body.
        open_paths: what anybody may ask, without a word of who it is.
        port: its name in the audit.
        operates: requests that change something below this path stand in the audit.
    """

    def __init__(
        self,
        access: Guard,
        errors: Callable[[web.Request, int, Sequence[str]], web.StreamResponse],
        failure: Callable[[web.Request, BaseException], web.StreamResponse],
        *,
        tls: Tls | None = None,
        most_bytes: int = _MOST_BYTES,
        open_paths: Collection[str] = (),
        port: str,
        operates: str | None = None,
    ) -> None:
        self._access = access
        self._errors = errors
        self._failure = failure
        self._tls = tls
        self._open_paths = open_paths
        self._port = port
        self._operates = operates
        self.application = web.Application(client_max_size=most_bytes, middlewares=[self._guarded])
        self._runner = web.AppRunner(
            self.application,
            access_log=None,
            logger=_library_log(),
            auto_decompress=False,
            handle_signals=False,
            keepalive_timeout=60,
            shutdown_timeout=2,
        )
        self._server: asyncio.Server | None = None
        self._begun: set[int] = set()
        """Connections on which a request has begun."""

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen; the address, with the port that was chosen for 0. Raises OSError."""
        await self._runner.setup()
        self._server = await asyncio.get_running_loop().create_server(
            self._protocol, host, port, ssl=None if self._tls is None else self._tls.listening("http/1.1"), backlog=512
        )
        found = self._server.sockets[0].getsockname()
        return found[0], found[1]

    def refuse_more(self) -> None:
        """Take no more connections."""
        if self._server is not None:
            self._server.close()

    async def stop(self) -> None:
        """Take no more requests, and end those that there are."""
        self.refuse_more()
        await self._runner.cleanup()

    def _protocol(self) -> asyncio.Protocol:
        server = self._runner.server
        assert server is not None
        if len(server.connections) >= _MOST_CONNECTIONS:
            return _TooMany()
        made = server()
        loop = asyncio.get_running_loop()
        loop.call_later(_REQUEST_SECONDS, self._close_silent, made)
        return made

    def _close_silent(self, connection: Any) -> None:
        """A connection whose first request has not arrived in time ends."""
        if id(connection) in self._begun:
            self._begun.discard(id(connection))
        elif connection.transport is not None:
            connection.transport.close()

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Callable[[web.Request], Any]) -> web.StreamResponse:
        self._begun.add(id(request.protocol))
        try:
            if request.path not in self._open_paths:
                WHO.set(await self._access.check(request))
        except Refused as refused:
            user = user_of(request.headers.get("Authorization", ""))
            self._write_down(request, "refused", user, status=refused.status, reason="; ".join(refused.errors))
            answer = self._errors(request, refused.status, refused.errors)
            if refused.status == 401:
                answer.headers["WWW-Authenticate"] = 'Basic realm="sqlengine", charset="UTF-8"'
            elif refused.status == 503:
                answer.headers["Retry-After"] = "1"
            return answer
        answer = await self._answered(request, handler)
        if self._operates is not None and request.method != "GET" and request.path.startswith(self._operates):
            self._write_down(request, "request", WHO.get().user, status=answer.status)
        return answer

    async def _answered(self, request: web.Request, handler: Callable[[web.Request], Any]) -> web.StreamResponse:
        try:
            return await handler(request)
        except Refused as refused:
            return self._errors(request, refused.status, refused.errors)
        except web.HTTPException as error:
            reason = f"Not found: {request.path}" if error.status == 404 else error.reason
            answer = self._errors(request, error.status, (reason,))
            if "Allow" in error.headers:
                answer.headers["Allow"] = error.headers["Allow"]
            return answer
        except TimeoutError:
            return self._errors(request, 408, ("the request has not arrived in time",))
        except (ConnectionError, asyncio.CancelledError):
            raise
        except Exception as error:
            return self._failure(request, error)

    def _write_down(self, request: web.Request, event: str, user: str, **more: object) -> None:
        """In the audit, where there is one."""
        audit = self._access.audit
        if audit is not None:
            audit.tell(
                event, self._port, request.remote or "", user, request=f"{request.method} {request.path}", **more
            )


class _Strangers(logging.Filter):
    """What is no request is a line of the log, not a stack trace: strangers could fill it."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = None if record.exc_info is None else record.exc_info[1]
        if not isinstance(error, HttpProcessingError):
            return True
        _log.info("what is no request of HTTP was refused: %s", type(error).__name__)
        return False


def _library_log() -> logging.Logger:
    """Where aiohttp writes."""
    found = logging.getLogger("sqlengine.server.http")
    if not found.filters:
        found.addFilter(_Strangers())
    return found


class _TooMany(asyncio.Protocol):
    """A connection more than there may be."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()
