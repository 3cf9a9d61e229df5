"""What an epoch of a database has changed, as bytes: definitions as SQL text, rows as Arrow IPC.

A body is the length of a JSON text, that text, and the rows of the tables in its order. An epoch of many rows is several
bodies, of which the first has the definitions.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from runtime.checkpoint.arrow_streams import read_streams
from runtime.checkpoint.members import Members, as_integer, as_list
from runtime.checkpoint.storage import Damage
from runtime.core.changelog import DELETE, INSERT, ChangelogBatch
from runtime.core.strict_json import read_json

__all__ = [
    "JOB_KINDS",
    "KINDS",
    "Body",
    "BodyHead",
    "Definition",
    "EpochChanges",
    "Place",
    "Storage",
    "TableChanges",
    "TableEntry",
    "batch_of",
    "bodies_of",
    "changes_of",
    "definitions_json",
    "definitions_of",
    "head_of",
    "rows_of",
    "storage_of",
]

_LENGTH = struct.Struct("<Q")
_BODY_BYTES = 32 << 20
"""About the most rows that a body has."""
_BATCH_ROWS = 1 << 17
_FEW_ROWS = 1024
_FEW_BYTES = 1 << 12
_END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"
_KINDS = "kinds of changes"

Body = Sequence[bytes | memoryview]
"""In pieces, which stand one after another."""
JOB_KINDS = ("job", "checkpoint", "failure")
"""What is known of a job: its statement, the number of the checkpoint that counts, why it has failed."""
KINDS = (
    "catalog", "database", "table", "view", "materialized view", "function", "model", "connection", "procedure", "role", "token",
    "grants", "secret", "sequence",
    *JOB_KINDS,
)  # fmt: skip
"""What is defined."""
Storage = tuple[str, str, str]
"""Under what rows are kept: the names of a catalog, a database and a table."""
Place = tuple[str, ...]
"""What a definition is of: a kind and a name, such as ("table", "c", "d", "t") or ("function", "F")."""


@dataclass(frozen=True, slots=True)
class Definition:
    """A statement that makes something, the catalog and database that were current for its names, and the options that
    were set when its meaning depends on them."""

    text: str
    catalog: str
    database: str
    options: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class TableChanges:
    """The changes of a table, given by its storage. `anew`: they are all its rows, in the place of those it had."""

    storage: Storage
    anew: bool
    batches: list[ChangelogBatch]


@dataclass(slots=True)
class EpochChanges:
    """What an epoch has changed. A definition that is None is gone. `moment`: when it was complete, milliseconds since 1970;
    `number`: that of the epoch of the database; None where nobody has said."""

    definitions: dict[Place, Definition | None] = field(default_factory=dict)
    tables: list[TableChanges] = field(default_factory=list)
    moment: int | None = None
    number: int | None = None

    def __bool__(self) -> bool:
        return bool(self.definitions or self.tables)


@dataclass(frozen=True, slots=True)
class TableEntry:
    """What a body says of the rows of a table: how many there are, and the length of their stream in bytes. `kinds`: they
    are changes that may update and delete."""

    storage: Storage
    anew: bool
    kinds: bool
    rows: int
    length: int


@dataclass(frozen=True, slots=True)
class BodyHead:
    """What a body has; the rows stand behind `end` in the order of `tables`."""

    definitions: dict[Place, Definition | None]
    tables: list[TableEntry]
    moment: int | None
    number: int | None
    end: int


def rows_of(batch: ChangelogBatch) -> pa.RecordBatch:
    """Changes as rows: those of a batch with kinds have them as their last column."""
    if batch.kinds is None:
        return batch.rows
    names = [*batch.rows.schema.names, _KINDS]
    return pa.RecordBatch.from_arrays([*batch.columns, pa.array(batch.kinds)], names=names)


def batch_of(rows: pa.RecordBatch, *, kinds: bool, where: str) -> ChangelogBatch:
    """The reverse of `rows_of`.

    Raises:
        Damage: the last column has no kinds.
    """
    if not kinds:
        return ChangelogBatch(rows)
    last = rows.num_columns - 1
    if last < 0 or rows.schema.types[last] != pa.int8() or rows.column(last).null_count:
        raise Damage(f"{where} has changes without kinds")
    found = np.asarray(rows.column(last))
    if len(found) and (int(found.min()) < INSERT or int(found.max()) > DELETE):
        raise Damage(f"{where} has a change of a kind that there is not")
    return ChangelogBatch(rows.select(range(last)), found)


def bodies_of(changes: EpochChanges) -> list[Body]:
    """The bodies of an epoch."""
    bodies: list[Body] = []
    definitions = definitions_json(changes.definitions)
    entries: list[list[object]] = []
    streams: list[bytes | memoryview] = []
    size = 0
    for table in changes.tables:
        anew = table.anew
        for rows, kinds in _pieces(table):
            stream = _stream(rows)
            length = sum(map(len, stream))
            if streams and size + length > _BODY_BYTES:
                bodies.append(_body(definitions, entries, streams, changes))
                definitions, entries, streams, size = [], [], [], 0
            entries.append([list(table.storage), anew, kinds, rows.num_rows, length])
            streams += stream
            size += length
            anew = False
        if anew:
            entries.append([list(table.storage), True, False, 0, 0])
    bodies.append(_body(definitions, entries, streams, changes))
    return bodies


def _pieces(table: TableChanges) -> Iterator[tuple[pa.RecordBatch, bool]]:
    for batch in table.batches:
        rows = rows_of(batch.decoded())
        for start in range(0, rows.num_rows, _BATCH_ROWS):
            yield rows.slice(start, _BATCH_ROWS), batch.kinds is not None


def _stream(rows: pa.RecordBatch) -> Body:
    """Rows as an IPC stream. The columns of many rows are not copied: the pieces are their own buffers."""
    if rows.num_rows < _FEW_ROWS:
        return [b"".join((rows.schema.serialize(), rows.serialize(), _END_OF_STREAM))]
    pieces = _Pieces()
    with pa.PythonFile(pieces, mode="w") as file, pa.ipc.new_stream(file, rows.schema) as writer:
        writer.write_batch(rows)
    return pieces.joined()


class _Pieces:
    """A file for Arrow that keeps what is written: bytes, or buffers of columns."""

    closed = False

    def __init__(self) -> None:
        self._written: list[bytes | pa.Buffer] = []

    def write(self, data: bytes | pa.Buffer) -> int:
        self._written.append(data)
        return len(data)

    def flush(self) -> None: ...

    def close(self) -> None: ...

    def joined(self) -> Body:
        """All that was written; small neighbours are one piece."""
        pieces: list[bytes | memoryview] = []
        small: list[bytes | pa.Buffer] = []
        for data in self._written:
            if len(data) < _FEW_BYTES:
                small.append(data)
                continue
            pieces += [b"".join(small), memoryview(data)]
            small = []
        return [piece for piece in (*pieces, b"".join(small)) if piece]


def _body(definitions: object, entries: object, streams: Iterable[bytes | memoryview], changes: EpochChanges) -> Body:
    said = {"moment": changes.moment, "number": changes.number}
    when = {name: value for name, value in said.items() if value is not None}
    head = json.dumps({"definitions": definitions, "tables": entries, **when}).encode()
    return [_LENGTH.pack(len(head)) + head, *streams]


def changes_of(body: pa.Buffer, where: str) -> EpochChanges:
    """What a body says. Names of columns and their types are not compared with those of the tables yet.

    Args:
        where: what the body is of, for messages.
    Raises:
        Damage: it is none that `bodies_of` has written.
    """
    head = head_of(body, where)
    at = head.end
    changes = EpochChanges(head.definitions, moment=head.moment, number=head.number)
    for table in head.tables:
        if table.length > body.size - at:
            raise Damage(f"{where} is cut off")
        batches: list[ChangelogBatch] = []
        try:
            stream = read_streams(body.slice(at, table.length))
            batches = [batch_of(b, kinds=table.kinds, where=where) for b in stream]
        except ValueError as error:
            raise Damage(f"{where} cannot be decoded: {error}") from error
        if sum(map(len, batches)) != table.rows:
            raise Damage(f"{where} has another number of rows than it says")
        at += table.length
        changes.tables.append(TableChanges(table.storage, table.anew, batches))
    if at != body.size:
        raise Damage(f"{where} is longer than it says")
    return changes


def head_of(body: pa.Buffer, where: str) -> BodyHead:
    """What a body says that it has, without its rows. Raises Damage."""
    if body.size < _LENGTH.size:
        raise Damage(f"{where} is cut off")
    (length,) = _LENGTH.unpack_from(body, 0)
    end = _LENGTH.size + length
    if end > body.size:
        raise Damage(f"{where} is cut off")
    try:
        head = Members(
            read_json(body.slice(_LENGTH.size, length).to_pybytes()),
            where,
            ("definitions", "tables", "moment", "number"),
        )
    except ValueError as error:
        raise Damage(f"{where}: {error}") from error
    definitions = definitions_of(head.list("definitions"), where)
    moment, number = (head.integer(name) if name in head.mapping() else None for name in ("moment", "number"))
    return BodyHead(definitions, [_entry(entry, where) for entry in head.list("tables")], moment, number, end)


def definitions_json(definitions: Mapping[Place, Definition | None]) -> list[object]:
    """Definitions as JSON."""
    return [
        [list(place), None if d is None else [d.text, d.catalog, d.database, *(text for o in d.options for text in o)]]
        for place, d in definitions.items()
    ]


def definitions_of(value: Sequence[object], where: str) -> dict[Place, Definition | None]:
    """The reverse of `definitions_json`. Raises Damage."""
    found: dict[Place, Definition | None] = {}
    for pair in value:
        place, definition = _sequence(pair, 2, where)
        parts = as_list(place, "place", where)
        if not 2 <= len(parts) <= 5 or parts[0] not in KINDS or not all(isinstance(part, str) for part in parts):
            raise Damage(f"{where} defines something of no name")
        if definition is None:
            found[tuple(parts)] = None
            continue
        texts = as_list(definition, "definition", where)
        if len(texts) < 3 or len(texts) % 2 == 0 or not all(isinstance(text, str) for text in texts):
            raise Damage(f"{where} has a definition without text")
        one, two, three = texts[:3]
        found[tuple(parts)] = Definition(one, two, three, tuple(zip(texts[3::2], texts[4::2], strict=True)))
    return found


def storage_of(value: object, where: str) -> Storage:
    """The three names of a table's storage. Raises Damage."""
    names = _sequence(value, 3, where)
    if not all(isinstance(name, str) for name in names):
        raise Damage(f"{where} has rows of a table without name")
    return names[0], names[1], names[2]


def _entry(value: object, where: str) -> TableEntry:
    storage, anew, kinds, rows, size = _sequence(value, 5, where)
    if not isinstance(anew, bool) or not isinstance(kinds, bool):
        raise Damage(f"{where} has rows of which it does not say what they are")
    return TableEntry(
        storage_of(storage, where),
        anew,
        kinds,
        as_integer(rows, "rows", where, 0),
        as_integer(size, "size", where, 0),
    )


def _sequence(value: object, length: int, where: str) -> list[Any]:
    found = as_list(value, "an entry", where)
    if len(found) != length:
        raise Damage(f"{where} has an entry of {len(found)} parts instead of {length}")
    return found
