"""A client of the protocol that sends what a test says, also what no client should."""

from __future__ import annotations

import socket
import struct

__all__ = ["WireClient", "message"]


def message(type_: bytes, payload: bytes = b"") -> bytes:
    return type_ + struct.pack("!i", len(payload) + 4) + payload


class WireClient:
    """A socket, and the messages that come out of it."""

    def __init__(self, host: str, port: int, *, start: bool = True) -> None:
        self.socket = socket.create_connection((host, port), timeout=60)
        if start:
            self.start()

    def start(self, version: int = 3 << 16, **parameters: str) -> None:
        given = {"user": "sqlengine", **parameters}
        body = b"".join(f"{k}\0{v}\0".encode() for k, v in given.items()) + b"\0"
        self.socket.sendall(struct.pack("!ii", len(body) + 8, version) + body)
        self.until(b"Z")

    def send(self, *messages: bytes) -> None:
        self.socket.sendall(b"".join(messages))

    def read(self) -> tuple[bytes, bytes] | None:
        """The next message; None when the server has closed the connection."""
        head = self._exactly(5)
        if head is None:
            return None
        return head[:1], self._exactly(int.from_bytes(head[1:], "big") - 4) or b""

    def until(self, type_: bytes) -> list[tuple[bytes, bytes]]:
        """Messages up to the first of a type."""
        found = []
        while (read := self.read()) is not None:
            found.append(read)
            if read[0] == type_:
                return found
        raise AssertionError(f"the connection ended: {found}")

    def ended(self) -> list[bytes]:
        """The types of messages up to the end of the connection."""
        found = []
        try:
            while (read := self.read()) is not None:
                found.append(read[0])
        except ConnectionResetError:
            pass
        return found

    def query(self, text: str) -> list[bytes]:
        """The types of messages that answer a Query."""
        self.send(message(b"Q", text.encode() + b"\0"))
        return [type_ for type_, _ in self.until(b"Z")]

    def close(self) -> None:
        self.socket.close()

    def _exactly(self, size: int) -> bytes | None:
        data = b""
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            if not piece:
                return None
            data += piece
        return data
