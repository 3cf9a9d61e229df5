"""One client's socket: messages in, bytes out. Knows frames, not what they mean.

Reading stops while a message is complete and not taken, so that a client that sends without end fills its own buffers,
not ours; writing waits (`drain`) while the client does not read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from runtime.core.wakeup import nobody
from sqlengine.server.postgres.messages import MAX_MESSAGE, MAX_STARTUP, Malformed, Payload
from sqlengine.server.tls import Certificate

__all__ = ["ALPN", "Wire"]

ALPN = "postgresql"
"""What TLS calls this protocol."""
_HANDSHAKE = b"\x16"
"""A connection of TLS begins with it, and no message of PostgreSQL's."""

_READ_AHEAD = 256 * 1024
"""So many bytes are read before they are asked for."""
_WRITE_BEHIND = 256 * 1024
"""With so many bytes not yet sent, `drain` waits."""
_GATHERED = 16 * 1024
"""So many bytes are sent at once, whatever follows."""
_GATHERED_SECONDS = 0.005
"""What nobody has sent by then goes: a statement may take long after the first of its answers."""


class Wire(asyncio.Protocol):
    """The frames of one connection.

    What is to be sent gathers until the connection waits for its client, as PostgreSQL's does: the answers to the messages
    of a statement are one call of the system, and wake the client once.

    Args:
        serve: runs the connection, from its first message to its end.
    """

    def __init__(self, serve: Callable[[Wire], Coroutine[Any, Any, None]]) -> None:
        self._serve = serve
        self._loop = asyncio.get_running_loop()
        self._buffer = bytearray()
        self._unsent: list[bytes | bytearray | memoryview] = []
        self._unsent_bytes = 0
        self._sends: asyncio.TimerHandle | None = None
        self._arrived: asyncio.Future[None] | None = None
        self._may_send: asyncio.Future[None] | None = None
        self._paused = False
        self._ended = False
        self._task: asyncio.Task[None] | None = None
        self._transport: asyncio.Transport | None = None
        self.binding: bytes | None = None
        """Of the certificate that the connection is encrypted with, for proofs that are bound to it."""
        self.on_lost: Callable[[], object] | None = None
        """Called when the client is gone, whatever is going on then."""
        self.quick: Callable[[], bool] | None = None
        """Looks first at what arrives, while somebody waits for a message."""
        self.on_room: Callable[[], object] = nobody
        """Called when a client that was behind has read enough that more may be sent."""

    # --- what asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=_WRITE_BEHIND)
        if self._task is None:
            self._task = self._loop.create_task(self._serve(self))

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if self.quick is not None and self._arrived is not None and self.quick() and not self._buffer:
            return
        if len(self._buffer) > _READ_AHEAD and not self._paused and self._arrived is None:
            self._paused = True
            self._require().pause_reading()
        self._wake()

    def eof_received(self) -> bool:
        self._ended = True
        self._wake()
        self._lost()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended = True
        self._wake()
        self.resume_writing()
        self._lost()

    def pause_writing(self) -> None:
        if self._may_send is None:
            self._may_send = self._loop.create_future()

    def resume_writing(self) -> None:
        waiting, self._may_send = self._may_send, None
        if waiting is not None and not waiting.done():
            waiting.set_result(None)
        self.on_room()

    def _lost(self) -> None:
        if self.on_lost is not None:
            self.on_lost()

    def _wake(self) -> None:
        waiting, self._arrived = self._arrived, None
        if waiting is not None and not waiting.done():
            waiting.set_result(None)

    def _require(self) -> asyncio.Transport:
        assert self._transport is not None
        return self._transport

    # --- for the connection

    @property
    def is_behind(self) -> bool:
        """Whether the client has much to read before it should be sent more."""
        return self._may_send is not None

    @property
    def ended(self) -> bool:
        """Whether the client is gone."""
        return self._ended

    @property
    def peer(self) -> str:
        """Where the client is, for logs."""
        name = self._require().get_extra_info("peername")
        return f"{name[0]}:{name[1]}" if isinstance(name, tuple) else str(name or "local")

    @property
    def is_encrypted(self) -> bool:
        return self._require().get_extra_info("sslcontext") is not None

    async def first(self) -> Payload | None:
        """The first message, which has no type; None at the end of the connection."""
        size = await self._size(0, MAX_STARTUP)
        return None if size is None else Payload(self._take(size)[4:])

    async def read(self, limit: int = MAX_MESSAGE) -> tuple[bytes, Payload] | None:
        """The next message: its type and its payload; None at the end of the connection.

        Raises Malformed for a length that no message has.
        """
        size = await self._size(1, limit)
        if size is None:
            return None
        data = self._take(size)
        return data[:1], Payload(data[5:])

    @property
    def buffer(self) -> bytearray:
        """What has arrived and was not read."""
        return self._buffer

    def consume(self, size: int) -> None:
        """So many bytes of the buffer are read."""
        del self._buffer[:size]

    @property
    def waits(self) -> bool:
        """Whether the client reads less than is sent."""
        return self._may_send is not None

    @property
    def has_more(self) -> bool:
        """Whether bytes are there that were not read: the client has sent on."""
        return bool(self._buffer)

    async def _size(self, at: int, limit: int) -> int | None:
        """The size of the whole message that begins the buffer, when it is all there."""
        while True:
            # Looked at anew each time: what began the buffer may have been taken out meanwhile.
            if len(self._buffer) >= at + 4:
                length = int.from_bytes(self._buffer[at : at + 4], "big", signed=True)
                if not 4 <= length <= limit:
                    raise Malformed(f"a message says that it has {length} bytes")
                if len(self._buffer) >= at + length:
                    return at + length
            if self._ended:
                return None
            if self._paused:
                self._paused = False
                self._require().resume_reading()
            self.flush()
            self._arrived = self._loop.create_future()
            await self._arrived

    def _take(self, size: int) -> bytes:
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data

    def send(self, data: bytes | bytearray | memoryview) -> None:
        """Send something, with what else there is to send soon."""
        # What somebody still sends after the last message would follow it: a transport that closes takes more to write.
        if self._ended or self._require().is_closing():
            return
        self._unsent.append(data)
        self._unsent_bytes += len(data)
        if self._arrived is not None or self._unsent_bytes >= _GATHERED:
            self.flush()
        elif self._sends is None:
            self._sends = self._loop.call_later(_GATHERED_SECONDS, self.flush)

    def flush(self) -> None:
        """Send what has gathered."""
        if self._sends is not None:
            self._sends.cancel()
            self._sends = None
        if self._unsent:
            unsent, size = self._unsent, self._unsent_bytes
            self._unsent, self._unsent_bytes = [], 0
            transport = self._require()
            if not self._ended and not transport.is_closing():
                for part in unsent if size >= _GATHERED else (b"".join(unsent),):
                    transport.write(part)

    async def drain(self) -> None:
        """Send what has gathered, and wait until the client has read enough that more may be sent."""
        self.flush()
        if self._may_send is not None:
            await asyncio.shield(self._may_send)

    async def begins_encrypted(self) -> bool:
        """Whether the client has begun TLS without asking first, as PostgreSQL 17's do; waits for its first byte."""
        self.flush()
        while not self._buffer and not self._ended:
            self._arrived = self._loop.create_future()
            await self._arrived
        return self._buffer[:1] == _HANDSHAKE

    async def encrypt(self, certificate: Certificate, *, begun: bool = False) -> None:
        """Go on with TLS. `begun`: what has arrived belongs to it. Raises Malformed when the client has sent more before it
        could be encrypted."""
        arrived = bytes(self._buffer)
        if arrived and not begun:
            raise Malformed("bytes follow the request for TLS in clear text")
        self._buffer.clear()
        self.flush()
        self.binding = certificate.binding
        plain = self._require()
        starting = self._loop.create_task(self._loop.start_tls(plain, self, certificate.context, server_side=True))
        if begun:
            # Now what decrypts is behind the socket, and hears of that in the loop's next turn, before anything is read.
            await asyncio.sleep(0)
            self._loop.call_soon(_feed, plain, arrived)
        transport = await starting
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=_WRITE_BEHIND)
        if begun and transport.get_extra_info("ssl_object").selected_alpn_protocol() != ALPN:
            raise Malformed(f"TLS without a request, and without the protocol {ALPN}")

    def abort(self) -> None:
        """End the connection, whatever is not yet sent."""
        self._require().abort()

    def close(self) -> None:
        """Send what is left, and nothing more, and end the connection; nobody reads from it any more, however long its other
        end takes to agree."""
        self.flush()
        self._require().close()
        self._ended = True
        self._wake()


def _feed(transport: asyncio.Transport, data: bytes) -> None:
    """What has been read already reaches what decrypts it."""
    protocol = transport.get_protocol()
    assert isinstance(protocol, asyncio.BufferedProtocol)
    while data and not transport.is_closing():
        space = memoryview(protocol.get_buffer(len(data)))
        size = min(len(space), len(data))
        space[:size] = data[:size]
        protocol.buffer_updated(size)
        data = data[size:]
