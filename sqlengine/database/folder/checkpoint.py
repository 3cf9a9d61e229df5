"""Checkpoints of a database: its definitions, and the rows of its tables in pieces.

A piece is a range of a file (`runtime/checkpoint/segments.py`): all rows of a table at some epoch, or what has changed
since the piece before. Pieces of the checkpoint before are used again, so a checkpoint writes what has changed. The
manifest names them; it is written last and appears at once. Nothing that the newest manifest names is ever changed.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from runtime.checkpoint.keys import Keys
from runtime.checkpoint.local_storage import LocalStorage
from runtime.checkpoint.members import Members, as_integer, as_list
from runtime.checkpoint.segments import Segment, SegmentReader, SegmentWriter
from runtime.checkpoint.storage import Damage
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import DatabaseError
from runtime.core.strict_json import read_json
from runtime.kernels.checksum import crc32
from sqlengine.database.folder.changes import (
    Definition,
    Place,
    Storage,
    batch_of,
    definitions_json,
    definitions_of,
    rows_of,
    storage_of,
)

__all__ = ["FOLDER", "FORMAT", "Manifest", "Piece", "manifests", "read_manifest", "read_rows", "remove_others", "save"]

FOLDER = "checkpoints"
FORMAT = 2
"""The version of manifests and of the files that they name."""
_DIGITS = 20
_MANIFEST = re.compile(rf"{FOLDER}/manifest-(\d{{{_DIGITS}}})\.json")
_FILE = re.compile(rf"{FOLDER}/state-[0-9a-f]+-\d+\.arrows?")
_MOST_BYTES = 256 << 20
_MEMBERS = ("format", "database", "epoch", "owner", "definitions", "tables")


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows of a table in a file; `kinds`: they are changes that may update and delete."""

    segment: Segment
    kinds: bool


@dataclass(slots=True)
class Manifest:
    """What a checkpoint says: all that there was after an epoch. `owner`: the fencing token of who wrote it."""

    identity: str
    epoch: int
    owner: int
    definitions: dict[Place, Definition] = field(default_factory=dict)
    tables: dict[Storage, list[Piece]] = field(default_factory=dict)


def _name(epoch: int) -> str:
    return f"{FOLDER}/manifest-{epoch:0{_DIGITS}}.json"


def manifests(storage: LocalStorage) -> list[tuple[int, str]]:
    """The manifests by the number of their epoch, the newest first."""
    found = [(int(m[1]), path) for path in storage.files(FOLDER) if (m := _MANIFEST.fullmatch(path))]
    return sorted(found, reverse=True)


def save(storage: LocalStorage, manifest: Manifest, rows: Mapping[Storage, list[ChangelogBatch]], keys: Keys) -> None:
    """Writes a checkpoint: `rows` become pieces behind those that the manifest has.

    Raises:
        OSError: it cannot be written; those before it are as they were.
    """
    writer = SegmentWriter(storage, FOLDER, os.urandom(6).hex(), digests=bool(keys))
    try:
        for table, batches in rows.items():
            pieces = manifest.tables.setdefault(table, [])
            pieces += _pieces(writer, batches)
        writer.close()
        storage.publish(_name(manifest.epoch), _manifest_bytes(manifest, keys))
    except BaseException:
        with suppress(OSError):
            writer.abandon()
        raise


def _pieces(writer: SegmentWriter, batches: list[ChangelogBatch]) -> Iterator[Piece]:
    """Neighbours of one kind become one piece, so that order is kept."""
    start = 0
    while start < len(batches):
        end = start + 1
        while end < len(batches) and (batches[end].kinds is None) == (batches[start].kinds is None):
            end += 1
        rows = [rows_of(b.decoded()) for b in batches[start:end]]
        kinds = batches[start].kinds is not None
        yield Piece(writer.rows(rows[0].schema, rows, sum(r.nbytes for r in rows)), kinds)
        start = end


def _manifest_bytes(manifest: Manifest, keys: Keys) -> bytes:
    body = json.dumps(
        {
            "format": FORMAT,
            "database": manifest.identity,
            "epoch": manifest.epoch,
            "owner": manifest.owner,
            "definitions": definitions_json(manifest.definitions),
            "tables": [
                [
                    list(table),
                    [[p.segment.file, p.segment.offset, p.segment.length, p.segment.crc, p.segment.rows,
                      p.segment.digest, p.kinds] for p in pieces],
                ]
                for table, pieces in manifest.tables.items()
            ],
        }
    ).encode()  # fmt: skip
    mac = keys.sign(b"database\n" + body) if keys else "-"
    return f"{crc32(body):08x} {mac}\n".encode() + body


def read_manifest(storage: LocalStorage, path: str, epoch: int, keys: Keys) -> Manifest:
    """The manifest at a path.

    Raises:
        Damage: it is not as it was written.
        DatabaseError: a newer version wrote it (E3703).
        OSError: it cannot be read.
    """
    data = storage.read(path, 0, _MOST_BYTES + 1).to_pybytes()
    if len(data) > _MOST_BYTES:
        raise Damage(f"{path} is larger than {_MOST_BYTES} bytes")
    head, _, body = data.partition(b"\n")
    crc, _, mac = head.decode("ascii", "replace").partition(" ")
    if crc != f"{crc32(body):08x}":
        raise Damage(f"{path} holds other bytes than were written: its checksum differs")
    refusal = keys.refusal(b"database\n" + body, None if mac == "-" else mac)
    if refusal is not None:
        raise Damage(f"{path} {refusal}")
    try:
        members = Members(read_json(body), path, _MEMBERS, known=False)
    except ValueError as error:
        raise Damage(f"{path}: {error}") from error
    if members.integer("format", 1) > FORMAT:
        raise DatabaseError(
            f"{path} was written by a newer version of sqlengine",
            code="E3703",
            hint="open the database with that version or a newer one",
        )
    members.check_names()
    if members.integer("epoch", 0) != epoch:
        raise Damage(f"{path} is under the name of another file")
    definitions = {p: d for p, d in definitions_of(members.list("definitions"), path).items() if d is not None}
    manifest = Manifest(members.text("database"), epoch, members.integer("owner", 0), definitions)
    for table in members.list("tables"):
        pair = as_list(table, "a table", path)
        if len(pair) != 2:
            raise Damage(f"{path} has a table of {len(pair)} parts")
        manifest.tables[storage_of(pair[0], path)] = [_piece(p, path) for p in as_list(pair[1], "pieces", path)]
    return manifest


def _piece(value: object, where: str) -> Piece:
    parts = as_list(value, "a piece", where)
    if len(parts) != 7 or not isinstance(parts[0], str) or not isinstance(parts[5], str):
        raise Damage(f"{where} has a piece of no file")
    file, offset, length, crc, rows, digest, kinds = parts
    if not _FILE.fullmatch(file):
        raise Damage(f"{where} names a file that is none of a checkpoint: {file[:60]!r}")
    at, size, checksum, count = (as_integer(n, "a number", where, 0) for n in (offset, length, crc, rows))
    return Piece(Segment(file, at, size, checksum, count, digest), kinds is True)


def read_rows(reader: SegmentReader, pieces: list[Piece]) -> Iterator[ChangelogBatch]:
    """The rows of a table, piece by piece.

    Raises:
        Damage: they are not those that were written.
        OSError: a file cannot be read.
    """
    for piece in pieces:
        for rows in reader.batches(piece.segment):
            yield batch_of(rows, kinds=piece.kinds, where=piece.segment.file)


def remove_others(storage: LocalStorage, manifest: Manifest) -> None:
    """Deletes what a manifest, the newest, does not need: older ones, their files, and what a crash has left. Raises
    OSError."""
    needed = {_name(manifest.epoch)} | {p.segment.file for pieces in manifest.tables.values() for p in pieces}
    others = sorted(set(storage.files(FOLDER)) - needed)
    # Manifests first: none is to name files that are gone.
    for path in sorted(others, key=lambda path: _FILE.fullmatch(path) is not None):
        storage.delete(path)
