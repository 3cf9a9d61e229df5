"""Connections between the processes of one job: authenticated sockets that carry whole messages.

Whoever connects proves that it knows the secret of the job before a byte of it is taken for more than that, and so does
who accepts (a challenge in both directions, HMAC with SHA-256). Messages are pickles, so only processes of the job itself
are read from. Large payloads travel beside the pickle and are memory of the received frame, aligned as Arrow wants them.

One thread reads all connections of a process (`Hub`), so that whoever sends never waits for somebody who sends as well.
It also says at times that the process is there, and takes one that is silent for too long for lost.
"""

from __future__ import annotations

import hashlib
import hmac
import pickle
import secrets
import selectors
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import pyarrow as pa

from runtime.tasks.shipping import loads

__all__ = ["Door", "Frame", "Hub", "Link", "dial"]

BESIDE_BYTES = 4096
"""A payload of at least this size travels beside the pickle."""
SILENT_SECONDS = 60.0
"""So long nothing may be heard of a process before it counts as lost. It says that it is there far more often."""
_ALIVE_SECONDS = 5.0
_SHAKE_SECONDS = 10.0
_MOST_STRANGERS = 256
"""So many connections may be at their handshake at once."""
_ALIGNED = 64
_ALIVE = (1 << 64) - 1
_HELLO = struct.Struct("<4sI32s")
_MAGIC = b"sqe1"
_PREFIX = struct.Struct("<QQQ")
"""Tag, size of the head, size of the body."""
_JOINED_BYTES = 1 << 16


class Frame(NamedTuple):
    """A message as it has arrived. `tag`: what it was sent with."""

    tag: int
    head: pa.Buffer
    body: pa.Buffer | None

    def load(self) -> Any:
        """What was sent."""
        view = memoryview(self.head)
        (count,) = struct.unpack_from("<I", view)
        buffers: list[pa.Buffer] = []
        at = 0
        for size in struct.unpack_from(f"<{count}Q", view, 4):
            assert self.body is not None
            buffers.append(self.body.slice(at, size))
            at += size + -size % _ALIGNED
        return loads(view[4 + 8 * count :], buffers)


class Link:
    """A connection to another process of the job, which has proved that it is one.

    Args:
        number: which member of the job it is; of a driver 0.
    """

    def __init__(self, connected: socket.socket, number: int) -> None:
        self.number = number
        self.heard = time.monotonic()
        self._socket = connected
        self._sending = threading.Lock()

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, thing: Any, tag: int = 0) -> None:
        """Raises OSError when the other has gone, or takes nothing for long."""
        beside: list[pickle.PickleBuffer] = []
        head = pickle.dumps(thing, protocol=5, buffer_callback=beside.append)
        raw = [buffer.raw() for buffer in beside]
        table = struct.pack(f"<I{len(raw)}Q", len(raw), *(len(r) for r in raw))
        parts: list[Any] = []
        for r in raw:
            parts += [r, bytes(-len(r) % _ALIGNED)]
        size = sum(len(p) for p in parts)
        parts.insert(0, _PREFIX.pack(tag, len(table) + len(head), size) + table + head)
        with self._sending:
            if size < _JOINED_BYTES:
                self._socket.sendall(b"".join(parts))
                return
            for part in parts:
                self._socket.sendall(part)

    def alive(self) -> None:
        """Say that this process is there; nothing when it is just sending."""
        if not self._sending.acquire(blocking=False):
            return
        try:
            with suppress(BlockingIOError):
                message = _PREFIX.pack(_ALIVE, 0, 0)
                sent = self._socket.send(message, socket.MSG_DONTWAIT)
                self._socket.sendall(message[sent:])
        except OSError:
            # Who reads finds out.
            pass
        finally:
            self._sending.release()

    def receive(self, into: memoryview) -> int:
        """What is there, at most so much; 0 when the other has ended. Raises BlockingIOError when nothing is there."""
        return self._socket.recv_into(into, len(into), socket.MSG_DONTWAIT)

    def end(self) -> None:
        """Nothing passes any more; the hub that reads it closes it."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """For who reads it alone: its number may be another connection's from now on."""
        self.end()
        self._socket.close()


class _Arriving:
    """The frame of a link that is under way."""

    def __init__(self) -> None:
        self.prefix = bytearray(_PREFIX.size)
        self.begin()

    def begin(self) -> None:
        self.tag = 0
        self.head: pa.Buffer | None = None
        self.body: pa.Buffer | None = None
        self.left = [memoryview(self.prefix)]

    def next(self) -> Frame | None:
        """All that was waited for is there: the frame, when it is whole."""
        if self.head is None:
            self.tag, head, body = _PREFIX.unpack(self.prefix)
            self.head = _room(head)
            self.body = _room(body) if body else None
            self.left = [memoryview(b).cast("B") for b in (self.head, self.body) if b is not None and b.size]
            if self.left:
                return None
        frame = Frame(self.tag, self.head, self.body)
        self.begin()
        return frame


def _room(size: int) -> pa.Buffer:
    return pa.allocate_buffer(size)


class Hub:
    """Reads all links of a process in a thread of its own.

    Args:
        take: gets each frame, and None once for a link that is lost, in that thread.
    """

    def __init__(self, take: Callable[[Link, Frame | None], None]) -> None:
        self._take = take
        self._selector = selectors.DefaultSelector()
        self._wake, self._woken = socket.socketpair()
        self._woken.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._new: list[Link] = []
        self._lock = threading.Lock()
        self._ended = False
        self._thread = threading.Thread(target=self._read, name="sqlengine-links", daemon=True)
        self._thread.start()

    def add(self, link: Link) -> None:
        with self._lock:
            self._new.append(link)
        self._nudge()

    def close(self) -> None:
        """All links are closed, and nothing is taken any more."""
        self._ended = True
        self._nudge()
        self._thread.join()

    def _nudge(self) -> None:
        with suppress(OSError):
            self._wake.send(b"x")

    def _read(self) -> None:
        arriving: dict[Link, _Arriving] = {}
        said = time.monotonic()
        while not self._ended:
            for key, _ in self._selector.select(_ALIVE_SECONDS):
                link = key.data
                if link is None:
                    with suppress(OSError):
                        self._woken.recv(4096)
                elif not self._drained(link, arriving[link]):
                    self._lost(link, arriving)
            with self._lock:
                new, self._new = self._new, []
            for link in new:
                arriving[link] = _Arriving()
                with suppress(OSError, ValueError):
                    self._selector.register(link, selectors.EVENT_READ, link)
            now = time.monotonic()
            if now - said >= _ALIVE_SECONDS:
                said = now
                for link in list(arriving):
                    link.alive()
                    if now - link.heard > SILENT_SECONDS:
                        self._lost(link, arriving)
        for link in [*arriving, *self._new]:
            link.close()
        self._selector.close()
        self._wake.close()
        self._woken.close()

    def _lost(self, link: Link, arriving: dict[Link, _Arriving]) -> None:
        with suppress(KeyError, ValueError, OSError):
            self._selector.unregister(link)
        del arriving[link]
        link.close()
        self._take(link, None)

    def _drained(self, link: Link, arriving: _Arriving) -> bool:
        """Take what has arrived; whether more can come."""
        try:
            while True:
                size = link.receive(arriving.left[0])
                if not size:
                    return False
                link.heard = time.monotonic()
                arriving.left[0] = arriving.left[0][size:]
                if arriving.left[0]:
                    continue
                del arriving.left[0]
                if not arriving.left:
                    frame = arriving.next()
                    if frame is not None and frame.tag != _ALIVE:
                        self._take(link, frame)
        except BlockingIOError:
            return True
        except (OSError, MemoryError):
            return False


class Door:
    """Where other processes of the job connect.

    Args:
        host: the name by which they know this machine; port 0: any.
        admit: gets each link whose other end has proved to know the secret, in a thread of its own.

    Raises:
        OSError: nothing can be listened to there.
    """

    def __init__(self, host: str, port: int, secret: bytes, admit: Callable[[Link], None]) -> None:
        self._secret = secret
        self._admit = admit
        self._strangers = threading.BoundedSemaphore(_MOST_STRANGERS)
        self._listening = _listen(host, port)
        self.address: tuple[str, int] = (host, self._listening.getsockname()[1])
        threading.Thread(target=self._accept, name="sqlengine-door", daemon=True).start()

    def close(self) -> None:
        with suppress(OSError):
            # Wakes the thread that accepts.
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                connected, _ = self._listening.accept()
            except OSError:
                return
            if self._strangers.acquire(blocking=False):
                threading.Thread(target=self._greet, args=(connected,), daemon=True).start()
            else:
                connected.close()

    def _greet(self, connected: socket.socket) -> None:
        try:
            connected.settimeout(_SHAKE_SECONDS)
            hello = _exactly(connected, _HELLO.size)
            magic, number, _ = _HELLO.unpack(hello)
            if magic != _MAGIC:
                raise ConnectionError("another protocol")
            challenge = secrets.token_bytes(32)
            connected.sendall(challenge + _proof(self._secret, b"accepts", hello, challenge))
            if not hmac.compare_digest(_exactly(connected, 32), _proof(self._secret, b"connects", hello, challenge)):
                raise ConnectionError("another secret")
            _prepare(connected)
        except OSError:
            connected.close()
            return
        finally:
            self._strangers.release()
        self._admit(Link(connected, number))


def dial(address: tuple[str, int], number: int, to: int, secret: bytes) -> Link:
    """A link to who listens at an address.

    Args:
        number: who connects.
        to: who is there.

    Raises:
        OSError: nobody is there, or one who does not know the secret.
    """
    connected = socket.create_connection(address, timeout=_SHAKE_SECONDS)
    try:
        hello = _HELLO.pack(_MAGIC, number, secrets.token_bytes(32))
        connected.sendall(hello)
        answer = _exactly(connected, 64)
        challenge, proof = answer[:32], answer[32:]
        if not hmac.compare_digest(proof, _proof(secret, b"accepts", hello, challenge)):
            raise ConnectionError("who listens there does not belong to the job")
        connected.sendall(_proof(secret, b"connects", hello, challenge))
        _prepare(connected)
        return Link(connected, to)
    except BaseException:
        connected.close()
        raise


def _proof(secret: bytes, role: bytes, hello: bytes, challenge: bytes) -> bytes:
    return hmac.digest(secret, role + hello + challenge, hashlib.sha256)


def _exactly(connected: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        more = connected.recv(size - len(found))
        if not more:
            raise ConnectionError("the other end has gone")
        found += more
    return found


def _prepare(connected: socket.socket) -> None:
    """Small messages go at once, and a machine that has gone is noticed."""
    connected.settimeout(None)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(SILENT_SECONDS), 0))
    timeout = getattr(socket, "TCP_USER_TIMEOUT", None)
    if timeout is not None:
        connected.setsockopt(socket.IPPROTO_TCP, timeout, int(SILENT_SECONDS * 1000))


def _listen(host: str, port: int) -> socket.socket:
    """At the address by which others know this machine; where that is not one of its own (it is behind another one), at all
    of its addresses."""
    places: Sequence[Any] = ()
    with suppress(OSError):
        places = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    for family, _, _, _, address in places:
        with suppress(OSError):
            return socket.create_server(address[:2], family=family, backlog=_MOST_STRANGERS)
    return socket.create_server(("", port), backlog=_MOST_STRANGERS)
