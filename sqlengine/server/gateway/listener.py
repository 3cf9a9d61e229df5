"""The port of the gateway: who may connect, how much may come in, which sessions there are, and how long they last."""

from __future__ import annotations

import asyncio
import base64
import binascii
import functools
import hashlib
import hmac
import ipaddress
import secrets
import ssl
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from aiohttp import web

from runtime.core.logs import Log
from sqlengine.api.environment import TableEnvironment
from sqlengine.server.gateway.failures import Refused, error_list
from sqlengine.server.gateway.session import GatewaySession
from sqlengine.server.postgres.scram import Verifier

__all__ = ["GatewayServer"]

T = TypeVar("T")
_log = Log("server")
_IDLE_SECONDS = 600.0
"""A session that nobody uses for so long is closed."""
_REQUEST_SECONDS = 30.0
"""A request has to have arrived by then."""
_MOST_BYTES = 16 * 1024 * 1024
"""Of a body."""
_MOST_SESSIONS = 1000
_MOST_CONNECTIONS = 2000
_SWEEP_SECONDS = 5.0


class GatewayServer:
    """Serves a database to clients of Flink's SQL Gateway.

    Args:
        environment: a session of the database; each session of a client gets one of its own.
        routes: adds the paths, with what answers them.
        users: what is kept of their passwords, which come by HTTP's basic authentication; None: everybody may connect
            who says an address of this machine.
        tls: how connections are encrypted; None: they are not.
        idle_seconds: a session that nobody uses for so long is closed.
    """

    def __init__(
        self,
        environment: TableEnvironment,
        routes: Callable[[web.Application, GatewayServer], None],
        *,
        users: Mapping[str, Verifier] | None = None,
        tls: ssl.SSLContext | None = None,
        idle_seconds: float = _IDLE_SECONDS,
    ) -> None:
        self._environment = environment
        self._users = users
        self._tls = tls
        self._idle_seconds = idle_seconds
        self._known: set[bytes] = set()
        """Of users who have proved who they are, with a key of this process."""
        self._key = secrets.token_bytes(32)
        self.sessions: dict[str, GatewaySession] = {}
        self._application = web.Application(client_max_size=_MOST_BYTES, middlewares=[self._guarded])
        routes(self._application, self)
        self._runner = web.AppRunner(
            self._application, access_log=None, handle_signals=False, keepalive_timeout=60, shutdown_timeout=2
        )
        self._server: asyncio.Server | None = None
        self._sweeper: asyncio.Task[None] | None = None
        self._begun: set[int] = set()
        """Connections on which a request has begun."""

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen; the address, with the port that was chosen for 0. Raises OSError."""
        await self._runner.setup()
        self._server = await asyncio.get_running_loop().create_server(
            self._protocol, host, port, ssl=self._tls, backlog=512
        )
        self._sweeper = asyncio.get_running_loop().create_task(self._sweep())
        found = self._server.sockets[0].getsockname()
        return found[0], found[1]

    async def stop(self) -> None:
        """Take no more requests, and close all sessions."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        if self._server is not None:
            self._server.close()
        for handle in tuple(self.sessions):
            await self.close_session(handle)
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

    # --- sessions

    async def in_thread(self, work: Callable[[], T]) -> T:
        """What blocks is done by another thread."""
        return await asyncio.get_running_loop().run_in_executor(None, work)

    def open_session(self, properties: Mapping[str, str], name: str | None) -> GatewaySession:
        """Raises Refused when there are too many."""
        if len(self.sessions) >= _MOST_SESSIONS:
            raise Refused(500, f"there are {_MOST_SESSIONS} sessions already; close some, or wait until they time out")
        session = GatewaySession(self._environment.new_session(), properties, name)
        self.sessions[session.handle] = session
        return session

    def session(self, handle: str) -> GatewaySession:
        """Raises Refused for one that is not there."""
        found = self.sessions.get(handle)
        if found is None:
            raise Refused(500, f"there is no session {handle}; it was closed, or has timed out")
        found.touch()
        return found

    async def close_session(self, handle: str) -> None:
        """Raises Refused for one that is not there."""
        session = self.session(handle)
        del self.sessions[handle]
        session.stop()
        await self.in_thread(session.close)

    async def close_idle(self, now: float) -> None:
        """Close the sessions that nobody has used for too long, as of `now` (of `time.monotonic`)."""
        for handle, session in tuple(self.sessions.items()):
            if now - session.used > self._idle_seconds and handle in self.sessions:
                _log.info("the gateway's session %s has timed out", handle)
                await self.close_session(handle)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            await self.close_idle(time.monotonic())

    # --- requests

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Callable[[web.Request], Any]) -> web.StreamResponse:
        self._begun.add(id(request.protocol))
        try:
            self._check_who(request)
            return await handler(request)
        except Refused as refused:
            return _errors(refused.status, refused.errors)
        except web.HTTPException as error:
            if error.status == 404:
                return _errors(404, (f"Not found: {request.path}",))
            return _errors(error.status, (error.reason,))
        except TimeoutError:
            return _errors(408, ("the request has not arrived in time",))
        except (ConnectionError, asyncio.CancelledError):
            raise
        except Exception as error:
            return _errors(500, error_list(error))

    def _check_who(self, request: web.Request) -> None:
        if self._users is None:
            # A page in a browser that has given its name our address would say its name.
            if not _is_local(request.host):
                raise Refused(403, "give --users FILE to be reached by this name")
            return
        header = request.headers.get("Authorization", "")
        proof = hmac.digest(self._key, header.encode(), hashlib.sha256)
        if proof in self._known:
            return
        name, password = _basic(header)
        verifier = self._users.get(name)
        if verifier is None or not verifier.accepts(password):
            raise Refused(401, "a user and a password are needed: Authorization: Basic ...")
        self._known.add(proof)


@functools.cache
def _is_local(host: str) -> bool:
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() and not host.endswith("]") else host
    try:
        return ipaddress.ip_address(name.strip("[]")).is_loopback
    except ValueError:
        return name == "localhost"


def _basic(header: str) -> tuple[str, str]:
    kind, _, encoded = header.partition(" ")
    if kind.lower() != "basic":
        return "", ""
    try:
        name, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return "", ""
    return name, password


def _errors(status: int, errors: Any) -> web.Response:
    return web.json_response({"errors": list(errors)}, status=status)


class _TooMany(asyncio.Protocol):
    """A connection more than there may be."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()
