"""Messages of the protocol as bytes: what a server reads and what it writes.

A message is a type byte, its length as a big-endian int32 that counts itself, and the payload; the first message of a
connection has no type. Source: PostgreSQL 15, 55.7 "Message Formats".
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from sqlengine.server.postgres.types import Described

__all__ = [
    "CANCEL",
    "GSS",
    "MAX_MESSAGE",
    "MAX_STARTUP",
    "SSL",
    "Malformed",
    "Payload",
    "authentication",
    "backend_key",
    "command_complete",
    "copy_in",
    "copy_out",
    "error_or_notice",
    "message",
    "negotiate_version",
    "parameter_description",
    "parameter_status",
    "ready",
    "row_description",
]

SSL, GSS, CANCEL = 80877103, 80877104, 80877102
"""Codes in the place of a version, by which a first message asks for something else than a session."""

MAX_STARTUP = 10_000
"""Bytes of a message before a client is known."""
MAX_MESSAGE = 64 * 1024 * 1024
"""Bytes of any other message: a statement, its values, or a piece of COPY."""


class Malformed(Exception):
    """A message that is not what its type says; the connection cannot go on."""


class Payload:
    """Reads the payload of a message from its start. Every method raises Malformed where too little is left."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def byte(self) -> bytes:
        return self.take(1)

    def int16(self) -> int:
        return int.from_bytes(self.take(2), "big", signed=True)

    def int32(self) -> int:
        return int.from_bytes(self.take(4), "big", signed=True)

    def count(self) -> int:
        """The number of things that follow, at least a byte or two each."""
        number = int.from_bytes(self.take(2), "big")
        if number > self.left:
            raise Malformed(f"{number} values are announced, and {self.left} bytes are left")
        return number

    def take(self, size: int) -> bytes:
        """So many bytes."""
        end = self._at + size
        if size < 0 or end > len(self._data):
            raise Malformed(f"{size} bytes are announced, and {self.left} are left")
        found, self._at = self._data[self._at : end], end
        return found

    def text(self) -> str:
        """A text up to its zero byte."""
        end = self._data.find(b"\0", self._at)
        if end < 0:
            raise Malformed("a text has no end")
        found, self._at = self._data[self._at : end], end + 1
        try:
            return found.decode()
        except UnicodeDecodeError as error:
            raise Malformed("a text is not UTF-8") from error

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def end(self) -> None:
        """Nothing may be left."""
        if self.left:
            raise Malformed(f"{self.left} bytes are left over")


def message(type_: bytes, payload: bytes = b"") -> bytes:
    return type_ + struct.pack("!i", len(payload) + 4) + payload


def _text(value: str) -> bytes:
    return value.replace("\0", "").encode("utf-8", "replace") + b"\0"


def authentication(code: int, payload: bytes = b"") -> bytes:
    """0 is Ok, 10 SASL with mechanisms, 11 and 12 its further steps."""
    return message(b"R", struct.pack("!i", code) + payload)


def parameter_status(name: str, value: str) -> bytes:
    return message(b"S", _text(name) + _text(value))


def backend_key(process: int, secret: int) -> bytes:
    """By which a CancelRequest names the connection."""
    return message(b"K", struct.pack("!iI", process, secret))


def negotiate_version(unknown: Sequence[str]) -> bytes:
    """The newest minor version is 0, and these options are not known."""
    return message(b"v", struct.pack("!ii", 0, len(unknown)) + b"".join(map(_text, unknown)))


def ready(state: bytes) -> bytes:
    """`I` idle, `T` in a transaction, `E` in one that has failed."""
    return message(b"Z", state)


def command_complete(tag: str) -> bytes:
    return message(b"C", _text(tag))


def parameter_description(types: Sequence[int]) -> bytes:
    return message(b"t", struct.pack(f"!H{len(types)}I", len(types), *types))


def row_description(columns: Sequence[Described], formats: Sequence[int]) -> bytes:
    """Names and types of columns; `formats`: 0 text, 1 binary, for each."""
    parts = [struct.pack("!H", len(columns))]
    for column, format_ in zip(columns, formats, strict=True):
        type_ = column.type
        parts.append(_text(column.name) + struct.pack("!IhIhih", 0, 0, type_.oid, type_.size, column.modifier, format_))
    return message(b"T", b"".join(parts))


def copy_in(columns: int, binary: bool) -> bytes:
    """The client may send rows for so many columns."""
    return _copy(b"G", columns, binary)


def copy_out(columns: int, binary: bool) -> bytes:
    """Rows of so many columns follow."""
    return _copy(b"H", columns, binary)


def _copy(type_: bytes, columns: int, binary: bool) -> bytes:
    return message(type_, struct.pack(f"!bH{columns}h", binary, columns, *[int(binary)] * columns))


def error_or_notice(type_: bytes, fields: Iterable[tuple[str, str]]) -> bytes:
    """ErrorResponse `E` or NoticeResponse `N`: fields by their letters."""
    return message(type_, b"".join(letter.encode() + _text(text) for letter, text in fields) + b"\0")
