"""What a client of Flight may send: its frames of HTTP/2 are counted before anything is made of them.

Arrow takes messages of any size from gRPC, and unpacks compressed ones, before a server is asked. Each request here is one
message of at most so many bytes, and none is compressed. Sources: RFC 9113, 4.1 and 6.1; gRPC over HTTP/2 (a message is a
byte that says whether it is compressed, its length in four, and the bytes).
"""

from __future__ import annotations

from typing import Final

__all__ = ["MOST_STREAMS", "Budget", "Frames", "NotAllowedFrames"]

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_HEAD = 9
_DATA, _HEADERS, _RESET = 0, 1, 3
_END_STREAM, _PADDED = 1, 8
MOST_STREAMS = 1024
"""Requests of a connection that have no answer yet."""


class NotAllowedFrames(Exception):
    """The connection ends; the text says why."""


class Budget:
    """Bytes of requests without an answer, of all connections."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.taken = 0

    def take(self, size: int) -> None:
        """Raises NotAllowedFrames when there is no more."""
        if self.taken + size > self._most:
            raise NotAllowedFrames(f"requests without an answer have more than {self._most} bytes")
        self.taken += size


class _Stream:
    """A request on its way: `size` of what has come, how much of the message at hand is `left`, and the `head` of the next."""

    __slots__ = ("head", "left", "size")

    def __init__(self) -> None:
        self.size = 0
        self.left = 0
        self.head = b""


class Frames:
    """Looks at both directions of a connection, as the bytes come.

    Args:
        most: bytes of a request.
        budget: shared by all connections.
    """

    def __init__(self, most: int, budget: Budget) -> None:
        self._most = most
        self._budget = budget
        self._streams: dict[int, _Stream] = {}
        self._sent = _Cutter(_PREFACE)
        self._got = _Cutter(b"")
        self.begun = False
        """Whether a request has begun."""

    def sent(self, data: bytes) -> None:
        """By the client. Raises NotAllowedFrames."""
        for kind, flags, number, payload in self._sent.cut(data):
            if kind == _HEADERS and number not in self._streams and payload is None:
                if len(self._streams) >= MOST_STREAMS:
                    raise NotAllowedFrames(f"more than {MOST_STREAMS} requests have no answer")
                self._streams[number] = _Stream()
                self.begun = True
            elif kind == _RESET and payload is None:
                self._forget(number)
            elif kind == _DATA:
                if flags & _PADDED:
                    raise NotAllowedFrames("data are padded")
                if payload is not None:
                    self._take(number, payload)

    def got(self, data: bytes) -> None:
        """By the server, which answers."""
        for kind, flags, number, payload in self._got.cut(data):
            if payload is None and (kind == _RESET or (kind in (_DATA, _HEADERS) and flags & _END_STREAM)):
                self._forget(number)

    def end(self) -> None:
        """The connection is gone."""
        for number in tuple(self._streams):
            self._forget(number)

    def _forget(self, number: int) -> None:
        found = self._streams.pop(number, None)
        if found is not None:
            self._budget.taken -= found.size

    def _take(self, number: int, payload: bytes) -> None:
        stream = self._streams.get(number)
        if stream is None:
            return  # It has its answer already.
        self._budget.take(len(payload))
        stream.size += len(payload)
        if stream.size > self._most:
            raise NotAllowedFrames(f"a request has more than {self._most} bytes")
        at = 0
        while at < len(payload):
            if stream.left:
                step = min(stream.left, len(payload) - at)
                stream.left -= step
                at += step
                continue
            step = 5 - len(stream.head)
            stream.head += payload[at : at + step]
            at += step
            if stream.head[0] != 0:
                raise NotAllowedFrames("a message is compressed")
            if len(stream.head) == 5:
                stream.left, stream.head = int.from_bytes(stream.head[1:], "big"), b""
                if stream.left > self._most:
                    raise NotAllowedFrames(f"a message of {stream.left} bytes is announced")


class _Cutter:
    """Cuts bytes into frames. Args: `preface`: what has to come before the first."""

    def __init__(self, preface: bytes) -> None:
        self._preface = preface
        self._head = b""
        self._left = 0
        self._kind = self._flags = self._stream = 0

    def cut(self, data: bytes) -> list[tuple[int, int, int, bytes | None]]:
        """Kind, flags and stream of each frame, first with None; of data, then with each part of them that has come. Raises
        NotAllowedFrames for another preface."""
        found: list[tuple[int, int, int, bytes | None]] = []
        at, size = 0, len(data)
        while at < size:
            if self._preface:
                part = data[at : at + len(self._preface)]
                if not self._preface.startswith(part):
                    raise NotAllowedFrames("this is no HTTP/2")
                self._preface = self._preface[len(part) :]
            elif self._left:
                part = data[at : at + self._left]
                if self._kind == _DATA:
                    found.append((self._kind, self._flags, self._stream, part))
                self._left -= len(part)
            else:
                part = data[at : at + _HEAD - len(self._head)]
                self._head += part
                if len(self._head) == _HEAD:
                    head, self._head = self._head, b""
                    self._left = int.from_bytes(head[:3], "big")
                    self._kind, self._flags = head[3], head[4]
                    self._stream = int.from_bytes(head[5:], "big") & 0x7FFFFFFF
                    found.append((self._kind, self._flags, self._stream, None))
            at += len(part)
        return found
