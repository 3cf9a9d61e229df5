"""Messages of the plugin `pgoutput`, version 1 of its protocol (PostgreSQL's manual, "Logical Replication Message
Formats"): the few that frame transactions one by one, those with rows in columns.

A row is a number of cells, each `n` (NULL), `u` (a large value that has not changed and is not sent) or `t`, a length and
a text. All rows of a batch are walked through together, cell by cell.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from runtime.core.errors import ConnectorError

__all__ = [
    "Begin",
    "Cells",
    "Commit",
    "Relation",
    "RelationColumn",
    "Tuples",
    "copied_cells",
    "read_begin",
    "read_commit",
    "read_relation",
    "read_truncated",
    "read_tuples",
]

INSERT, UPDATE, DELETE = ord("I"), ord("U"), ord("D")
BEGIN, COMMIT, RELATION, TRUNCATE = ord("B"), ord("C"), ord("R"), ord("T")
WHOLE, KEY, NEW = ord("O"), ord("K"), ord("N")
NULL, UNCHANGED, TEXT = ord("n"), ord("u"), ord("t")
HEAD = 25
"""Before a message stand its place in the log and the time, in the frame in which it comes."""
_ROLE = 5
"""Where in a message the first row begins, behind its kind and the number of the table."""
_NO_TEXT = 0xFFFF_FFFF
_PADDING = bytes(8)

Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Begin:
    """A transaction begins: where its commit is in the log, when (microseconds since 2000), and its number."""

    commit: int
    micros: int
    xid: int


@dataclass(frozen=True, slots=True)
class Commit:
    """It ends: what comes next is behind `end`."""

    end: int


@dataclass(frozen=True, slots=True)
class RelationColumn:
    """`key`: it is in the replica identity. `type`: the number of its type; `modifier`: that of the type, -1 without."""

    name: str
    type: int
    modifier: int
    key: bool


@dataclass(frozen=True, slots=True)
class Relation:
    """A table as the rows that follow have it. `identity`: `d` primary key, `i` an index, `f` all columns, `n` nothing."""

    id: int
    schema: str
    name: str
    identity: str
    columns: tuple[RelationColumn, ...]


def read_begin(frame: bytes | memoryview) -> Begin:
    return Begin(*struct.unpack_from(">QqI", frame, HEAD + 1))


def read_commit(frame: bytes | memoryview) -> Commit:
    return Commit(struct.unpack_from(">QQ", frame, HEAD + 2)[1])


def read_truncated(frame: bytes | memoryview) -> tuple[int, ...]:
    """The numbers of the tables that were truncated together."""
    message = bytes(frame[HEAD:])
    (count,) = struct.unpack_from(">I", message, 1)
    return tuple(i for (i,) in struct.iter_unpack(">I", message[6 : 6 + 4 * count]))


def read_relation(frame: bytes | memoryview) -> Relation:
    """Raises ConnectorError E3170 for what is none."""
    message = bytes(frame[HEAD:])
    try:
        (number,) = struct.unpack_from(">I", message, 1)
        schema, name, rest = message[5:].split(b"\0", 2)
        identity, count = chr(rest[0]), struct.unpack_from(">H", rest, 1)[0]
        at = 3
        columns: list[RelationColumn] = []
        for _ in range(count):
            end = rest.index(b"\0", at + 1)
            type_, modifier = struct.unpack_from(">Ii", rest, end + 1)
            columns.append(RelationColumn(rest[at + 1 : end].decode(), type_, modifier, bool(rest[at] & 1)))
            at = end + 9
        return Relation(number, schema.decode() or "pg_catalog", name.decode(), identity, tuple(columns))
    except (ValueError, IndexError, struct.error) as error:
        raise _not_understood() from error


@dataclass(frozen=True, slots=True)
class Cells:
    """One column of rows: what each cell is (`NULL`, `UNCHANGED`, `TEXT`), and where its text is."""

    kind: npt.NDArray[np.uint8]
    start: Places
    length: Places

    def then(self, other: Cells, order: Places) -> Cells:
        """These and those of another, in an order."""
        return Cells(
            np.concatenate([self.kind, other.kind])[order],
            np.concatenate([self.start, other.start])[order],
            np.concatenate([self.length, other.length])[order],
        )


@dataclass(frozen=True, slots=True)
class Tuples:
    """The rows of messages, in the order in which they stand there: of an update the old one, where it is sent, and the new
    one.

    Attributes:
        data: the messages; cells are places in it.
        message: of which each is.
        role: `WHOLE` (an old row), `KEY` (of an old row the key) or `NEW`.
        columns: for each column of the table its cells.
    """

    data: bytes
    message: Places
    role: npt.NDArray[np.uint8]
    columns: tuple[Cells, ...]


def read_tuples(messages: Sequence[bytes | memoryview], count: int) -> tuple[npt.NDArray[np.uint8], Tuples]:
    """What each message is (`INSERT`, `UPDATE`, `DELETE`), and the rows of all.

    Args:
        messages: of these three kinds, of one table, in their frames.
        count: of its columns.
    Raises:
        ConnectorError: E3170 these are no such messages.
    """
    data = b"".join([*messages, _PADDING])
    octets = np.frombuffer(data, dtype=np.uint8)
    lengths = np.fromiter(map(len, messages), np.int64, len(messages))
    ends = np.cumsum(lengths)
    starts = ends - lengths + HEAD
    kind, role = octets[starts], octets[np.minimum(starts + _ROLE, len(data) - 1)]
    first, at = _rows(octets, starts + _ROLE, count)
    twice = np.flatnonzero((kind == UPDATE) & (role != NEW))
    second_role = octets[np.minimum(at[twice], len(data) - 1)]
    second, at[twice] = _rows(octets, at[twice], count)
    old = np.where(kind == INSERT, role == NEW, (role == WHOLE) | (role == KEY) | ((kind == UPDATE) & (role == NEW)))
    if not (np.isin(kind, (INSERT, UPDATE, DELETE)) & old & (at == ends)).all() or (second_role != NEW).any():
        raise _not_understood()
    numbers = np.arange(len(messages))
    order = np.argsort(np.concatenate([numbers * 2, twice * 2 + 1]), kind="stable")
    columns = tuple(one.then(two, order) for one, two in zip(first, second, strict=True))
    roles = np.concatenate([role, second_role])[order]
    return kind, Tuples(data, np.concatenate([numbers, twice])[order], roles, columns)


def _rows(octets: npt.NDArray[np.uint8], at: Places, count: int) -> tuple[list[Cells], Places]:
    """The cells of rows whose roles are at these places, and the places behind them. Nothing beyond the octets is looked at,
    and what is not understood ends elsewhere than it should."""
    limit = len(octets) - len(_PADDING)
    at = np.minimum(at + 1, limit)
    right = (octets[at].astype(np.int64) << 8 | octets[at + 1]) == count
    at = np.where(right, at + 2, limit + 1)
    columns: list[Cells] = []
    for _ in range(count):
        at = np.minimum(at, limit)
        kind = octets[at]
        texts = kind == TEXT
        length = np.where(texts, _numbers(octets, at + 1), 0)
        start = at + 5
        at = np.where(texts, start + length, np.where((kind == NULL) | (kind == UNCHANGED), at + 1, limit + 1))
        columns.append(Cells(kind, start, length))
    return columns, at


def _numbers(octets: npt.NDArray[np.uint8], at: Places) -> Places:
    """The unsigned numbers of four bytes at these places."""
    found = octets[at].astype(np.int64)
    for byte in (1, 2, 3):
        found = found << 8 | octets[at + byte]
    return found


def copied_cells(rows: Sequence[bytes | memoryview], count: int) -> tuple[bytes, tuple[Cells, ...]]:
    """The cells of rows of COPY in its binary form, whose columns are texts, and the bytes in which they are. Raises
    ConnectorError E3170 for what is no such row."""
    data = b"".join([*rows, _PADDING])
    octets = np.frombuffer(data, dtype=np.uint8)
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    ends = np.cumsum(lengths)
    limit = len(data) - len(_PADDING)
    at = ends - lengths
    right = (octets[at].astype(np.int64) << 8 | octets[at + 1]) == count
    at = at + 2
    columns: list[Cells] = []
    for _ in range(count):
        at = np.minimum(at, limit)
        length = _numbers(octets, at)
        missing = length == _NO_TEXT
        length = np.where(missing, 0, length)
        columns.append(Cells(np.where(missing, NULL, TEXT).astype(np.uint8), at + 4, length))
        at = at + 4 + length
    if not (right & (at == ends)).all():
        raise _not_understood()
    return data, tuple(columns)


def _not_understood() -> ConnectorError:
    return ConnectorError(
        "PostgreSQL has sent what is no message of its logical replication",
        code="E3170",
        hint="is a proxy between here and the server? Its logical replication must reach the server itself",
    )
