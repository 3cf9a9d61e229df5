"""The port before Arrow Flight: it takes connections, encrypts them, and hands their bytes on.

Flight listens at a socket in a folder that only this user may enter. So the certificate of a connection is the one of its
time, as at the other ports; a client that says nothing is sent away; and what a client sends is bounded (`Frames`).
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import tempfile
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from runtime.core.logs import Log
from sqlengine.server.state.frames import Budget, Frames, NotAllowedFrames
from sqlengine.server.state.wire import MOST_BYTES
from sqlengine.server.tls import Tls

__all__ = ["Door", "peer_of"]

T = TypeVar("T")
_log = Log("server")
_SAYS_SECONDS = 30.0
"""A client that has asked nothing by then is sent away."""
_MOST_CONNECTIONS = 1000
_MOST_REQUEST = MOST_BYTES + 64 * 1024
"""A ticket, and what is around it."""
_MOST_WAITING = 256 << 20
"""Bytes of all requests that have no answer yet."""
_WRITE_BEHIND = 1 << 20
_LONGEST_PATH = 60
"""A path of a socket may have 107 bytes, and ends with the address of a client."""


class Door:
    """Args: `tls`: how connections are encrypted; None: they are not."""

    def __init__(self, tls: Tls | None) -> None:
        self._tls = tls
        self._budget = Budget(_MOST_WAITING)
        base = tempfile.gettempdir()
        self._folder = tempfile.mkdtemp(prefix="sqlengine-", dir=base if len(base) < _LONGEST_PATH else "/tmp")
        self.inside = os.path.join(self._folder, "flight")
        """Where Flight has to listen."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="door of the state server", daemon=True)
        self._thread.start()
        self._server: asyncio.Server | None = None
        self._clients: set[_Client] = set()

    def listen(self, host: str, port: int) -> int:
        """Take connections; the port, where 0 is any. Raises OSError."""
        return self._told(self._listen(host, port))

    def close(self) -> None:
        """Take no more, and end those that there are."""
        self._told(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _run(self) -> None:
        self._loop.run_forever()
        self._loop.close()

    def _told(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _listen(self, host: str, port: int) -> int:
        context = None if self._tls is None else self._tls.listening("h2")
        waits = None if context is None else _SAYS_SECONDS
        self._server = await self._loop.create_server(
            lambda: _Client(self), host, port, ssl=context, ssl_handshake_timeout=waits, backlog=512
        )
        return int(self._server.sockets[0].getsockname()[1])

    async def _stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for client in tuple(self._clients):
            client.end()
        await asyncio.sleep(0)

    # --- for its connections

    def comes(self, client: _Client) -> Frames | None:
        """What looks at a new one; None: there are too many."""
        if len(self._clients) >= _MOST_CONNECTIONS:
            return None
        self._clients.add(client)
        self._loop.call_later(_SAYS_SECONDS, client.end_silent)
        return Frames(_MOST_REQUEST, self._budget)

    def goes(self, client: _Client) -> None:
        """One has ended."""
        self._clients.discard(client)

    async def through(self, client: _Client, peer: str) -> None:
        """Connect one with Flight, which hears who it is by the name of its socket."""
        name = os.path.join(self._folder, peer)
        with socket.socket(socket.AF_UNIX) as made:
            made.setblocking(False)
            made.bind(name)
            try:
                await self._loop.sock_connect(made, self.inside)
            finally:
                os.unlink(name)
            await self._loop.create_unix_connection(lambda: _Inside(client), sock=made.dup())


class _Side(asyncio.Protocol):
    """One of the two sockets of a connection. It is read while the other one takes what comes."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.other: _Side | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.set_write_buffer_limits(high=_WRITE_BEHIND)

    def pause_writing(self) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.resume_reading()


class _Client(_Side):
    def __init__(self, door: Door) -> None:
        super().__init__()
        self._door = door
        self._task: asyncio.Task[None] | None = None
        self._early = bytearray()
        self._ended = False
        self.frames: Frames | None = None
        self.peer = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        name = transport.get_extra_info("peername")
        self.peer = f"{name[0]}:{name[1]}"
        self.frames = self._door.comes(self)
        if self.frames is None:
            transport.close()
            return
        self._task = asyncio.get_running_loop().create_task(self._connect())

    async def _connect(self) -> None:
        try:
            await self._door.through(self, self.peer)
        except OSError as error:
            _log.info("connection from %s has ended: %s", self.peer, error)
            self.end()

    def is_through(self, other: _Side) -> None:
        """Flight has taken the connection."""
        self.other = other
        if self._ended:
            self.end()
        elif self._early and other.transport is not None:
            other.transport.write(bytes(self._early))
            self._early.clear()

    def data_received(self, data: bytes) -> None:
        if self.frames is None or self._ended:
            return
        try:
            self.frames.sent(data)
        except NotAllowedFrames as error:
            _log.warning("connection from %s: %s", self.peer, error)
            self.end()
            return
        if self.other is None or self.other.transport is None:
            self._early += data
        else:
            self.other.transport.write(data)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.end()

    def end_silent(self) -> None:
        """It has asked nothing in time."""
        if self.frames is not None and not self.frames.begun:
            self.end()

    def end(self) -> None:
        """Both sockets are closed."""
        self._ended = True
        self._door.goes(self)
        if self.frames is not None:
            self.frames.end()
        for side in (self, self.other):
            if side is not None and side.transport is not None:
                side.transport.abort()


class _Inside(_Side):
    def __init__(self, client: _Client) -> None:
        super().__init__()
        self.other = self._client = client

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._client.is_through(self)

    def data_received(self, data: bytes) -> None:
        client = self._client
        if client.frames is not None:
            client.frames.got(data)
        if client.transport is not None:
            client.transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        client = self._client
        if client.transport is not None:
            # What Flight has said last is still sent.
            client.transport.close()


def peer_of(name: str) -> str:
    """The address of a client, of what gRPC calls it."""
    return name.rpartition("/")[2]
