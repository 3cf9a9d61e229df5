"""Events of a binary log: what each says, but for its rows."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from runtime.core.errors import ConnectorError

__all__ = [
    "CHECKSUM",
    "HEAD",
    "Events",
    "Shape",
    "TableMap",
    "not_understood",
    "read_rotate",
    "read_statement",
    "read_table_map",
    "trailer_of",
]

HEAD = 19
"""Bytes of what stands before each event."""
QUERY, ROTATE, FORMAT, XID, TABLE_MAP, HEARTBEAT = 2, 4, 15, 16, 19, 27
GTID, ANONYMOUS_GTID, PARTIAL_UPDATE, PAYLOAD, MARIA_GTID, XA_PREPARE = 33, 34, 39, 40, 162, 38
PREVIOUS_GTIDS, TAGGED_GTID = 35, 42
BEGINS = frozenset({GTID, ANONYMOUS_GTID, MARIA_GTID, TAGGED_GTID})
"""Before each transaction."""
MARIA_QUERY_COMPRESSED = 165
WRITE, UPDATE, DELETE = frozenset({23, 30}), frozenset({24, 31}), frozenset({25, 32})
WITH_EXTRA = frozenset({30, 31, 32})
"""Rows of the newer form, which have something before their bitmaps."""
ROWS = WRITE | UPDATE | DELETE
COMPRESSED_ROWS = frozenset({166, 167, 168, 169, 170, 171})
_BEHIND_CHECKSUM = 5
CHECKSUM = 4
_NAMES = 4
"""The number of what tells names of columns, behind all else in a table map."""


def not_understood(what: str) -> ConnectorError:
    """What is said of bytes that are no event."""
    return ConnectorError(
        f"the server has sent what is no event of a binary log: {what}",
        code="E3170",
        hint="is a proxy between here and the server? Its log must be read from the server itself",
    )


class Events:
    """Events as they came: their bytes, and of each (where it begins in them, where it ends, when it was written in seconds since
    1970, its kind, the place behind it in its file: 0 for what is in none).

    Raises:
        ConnectorError: E3170 these are none.
    """

    __slots__ = ("data", "heads")

    def __init__(self, data: bytes, begins: Sequence[int], ends: Sequence[int]) -> None:
        at = np.array(begins, dtype=np.int64)
        if len(at) and (np.array(ends, dtype=np.int64) - at).min() < HEAD:
            raise not_understood("it is too short")
        octets = np.frombuffer(data, dtype=np.uint8)
        self.data = data
        self.heads = list(
            zip(begins, ends, _four(octets, at), octets[at + 4].tolist(), _four(octets, at + 13), strict=True)
        )

    def __len__(self) -> int:
        return len(self.heads)


def _four(octets: npt.NDArray[np.uint8], at: npt.NDArray[np.int64]) -> list[int]:
    """Numbers of four bytes."""
    return octets[at[:, None] + np.arange(4)].view("<u4")[:, 0].tolist()


def trailer_of(event: bytes) -> int:
    """How many bytes of checksum are behind each event that follows a description of the format."""
    if len(event) < HEAD + _BEHIND_CHECKSUM:
        raise not_understood("a format that is too short")
    return CHECKSUM if event[len(event) - _BEHIND_CHECKSUM] == 1 else 0


def read_rotate(event: bytes, trailer: int) -> tuple[str, int]:
    """The file that follows, and where in it."""
    if len(event) < HEAD + 8:
        raise not_understood("a rotation that is too short")
    (place,) = struct.unpack_from("<Q", event, HEAD)
    return event[HEAD + 8 : len(event) - trailer].decode(errors="replace"), place


def read_statement(event: bytes, trailer: int) -> tuple[str, str]:
    """The current database and the text of a statement."""
    try:
        _, _, size, _, variables = struct.unpack_from("<IIBHH", event, HEAD)
        at = HEAD + 13 + variables
        database = event[at : at + size].decode(errors="replace")
        return database, event[at + size + 1 : len(event) - trailer].decode(errors="replace")
    except struct.error as error:
        raise not_understood("a statement that is too short") from error


@dataclass(frozen=True, slots=True)
class Shape:
    """Columns of a table as rows have them. `codes`: their types; `more`: what is said of each type; `names`: where the server
    tells them (`binlog_row_metadata = FULL`)."""

    codes: tuple[int, ...]
    more: tuple[int, ...]
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TableMap:
    """A table, by the number under which rows follow."""

    number: int
    database: str
    table: str
    rest: bytes

    def shape(self) -> Shape:
        """Its columns. Raises ConnectorError E3170."""
        try:
            count, at = _length(self.rest, 0)
            codes = tuple(self.rest[at : at + count])
            at += count
            size, at = _length(self.rest, at)
            more = _more(codes, self.rest[at : at + size])
            at += size + (count + 7) // 8
            return Shape(codes, more, _names(self.rest, at))
        except (IndexError, struct.error) as error:
            raise not_understood("a table map that is too short") from error


def read_table_map(told: bytes) -> TableMap:
    """What an event tells, without its head and checksum. Raises ConnectorError E3170 for what is none."""
    try:
        size = told[8]
        database = told[9 : 9 + size].decode(errors="replace")
        at = size + 10
        size = told[at]
        table = told[at + 1 : at + 1 + size].decode(errors="replace")
        return TableMap(int.from_bytes(told[:6], "little"), database, table, told[at + size + 2 :])
    except IndexError as error:
        raise not_understood("a table map that is too short") from error


_TWO_BYTES = frozenset({15, 16, 246, 247, 248, 253, 254})
_ONE_BYTE = frozenset({4, 5, 17, 18, 19, 245, 249, 250, 251, 252, 255})


def _more(codes: Sequence[int], data: bytes) -> tuple[int, ...]:
    """What is said of each type: of those with two bytes, the first one is the low one."""
    found: list[int] = []
    at = 0
    for code in codes:
        if code in _TWO_BYTES:
            found.append(data[at] | data[at + 1] << 8)
            at += 2
        elif code in _ONE_BYTE:
            found.append(data[at])
            at += 1
        else:
            found.append(0)
    return tuple(found)


def _names(data: bytes, at: int) -> tuple[str, ...]:
    while at < len(data):
        kind = data[at]
        size, at = _length(data, at + 1)
        if kind == _NAMES:
            found: list[str] = []
            end = at + size
            while at < end:
                length, at = _length(data, at)
                found.append(data[at : at + length].decode(errors="replace"))
                at += length
            return tuple(found)
        at += size
    return ()


def _length(data: bytes, at: int) -> tuple[int, int]:
    """A number of MySQL's packed form, and the place behind it."""
    first = data[at]
    if first < 251:
        return first, at + 1
    size = {252: 2, 253: 3, 254: 8}.get(first, 0)
    if at + 1 + size > len(data):
        raise IndexError
    return int.from_bytes(data[at + 1 : at + 1 + size], "little"), at + 1 + size
