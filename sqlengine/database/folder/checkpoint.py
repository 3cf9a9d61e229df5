"""Checkpoints of a database: its definitions, the rows of its tables (`pieces.py`) and its views (`view_state.py`).

All of it is as it was after one epoch. Pieces of the checkpoint before are used again, so a checkpoint writes what has
changed. The manifest names them; it is written last and appears at once. Nothing that the newest manifest names is ever
changed.

The name of a file begins with the fencing token of who wrote it. An owner deletes no file of a later one. So who takes over
from an owner that may still be there copies what it needs (`adopted`): nothing that the other does reaches those.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from runtime.checkpoint.keys import Keys
from runtime.checkpoint.members import Members, as_list
from runtime.checkpoint.segments import SegmentReader, SegmentWriter
from runtime.checkpoint.shared_storage import SharedStorage
from runtime.checkpoint.storage import Damage
from runtime.checkpoint.storage import Storage as Files
from runtime.core.errors import DatabaseError
from runtime.core.strict_json import read_json
from runtime.kernels.checksum import crc32
from sqlengine.database.folder.changes import Definition, Place, Storage, definitions_json, definitions_of, storage_of
from sqlengine.database.folder.pieces import FILE, FOLDER, RowChanges, RowPiece, pieces_json, pieces_of, row_pieces
from sqlengine.database.folder.saved_cuts import CutChanges, SavedCuts, cuts_json, cuts_of
from sqlengine.database.folder.saved_history import HistoryChanges, SavedHistory, history_json, history_of
from sqlengine.database.folder.view_state import ViewChanges, ViewState, view_json, view_of

__all__ = ["FOLDER", "FORMAT", "Manifest", "adopted", "manifests", "read_manifest", "remove_others", "save"]

FORMAT = 5
"""The version of manifests and of the files that they name. Since 3 there are views, since 4 histories, since 5 what jobs
follow, and numbers of epochs."""
_DIGITS = 20
_MANIFEST = re.compile(rf"{FOLDER}/manifest-(\d{{{_DIGITS}}})\.json")
_MOST_BYTES = 256 << 20
_TOKEN_DIGITS = 8
_RANDOM_BYTES = 6
_COPIES = 16
_MEMBERS = (
    "format", "database", "epoch", "owner", "definitions", "tables", "views", "histories", "followed",
    "number",
)  # fmt: skip


@dataclass(slots=True)
class Manifest:
    """What a checkpoint says: all that there was after an epoch. `owner`: the fencing token of who wrote it; `number`: that of
    the epoch as readers know it, 0 where nobody has said."""

    identity: str
    epoch: int
    owner: int
    definitions: dict[Place, Definition] = field(default_factory=dict)
    tables: dict[Storage, list[RowPiece]] = field(default_factory=dict)
    views: dict[Storage, ViewState] = field(default_factory=dict)
    histories: dict[Storage, SavedHistory] = field(default_factory=dict)
    followed: SavedCuts = field(default_factory=SavedCuts)
    number: int = 0

    @property
    def files(self) -> set[str]:
        """All that it needs."""
        found = {piece.segment.file for pieces in self.tables.values() for piece in pieces}
        named = (*self.views.values(), *self.histories.values())
        return found.union(self.followed.files, *(saved.files for saved in named))


def _name(epoch: int) -> str:
    return f"{FOLDER}/manifest-{epoch:0{_DIGITS}}.json"


def manifests(storage: Files) -> list[tuple[int, str]]:
    """The manifests by the number of their epoch, the newest first."""
    found = [(int(m[1]), path) for path in storage.files(FOLDER) if (m := _MANIFEST.fullmatch(path))]
    return sorted(found, reverse=True)


def save(
    storage: Files,
    manifest: Manifest,
    rows: Mapping[Storage, RowChanges],
    views: Mapping[Storage, ViewChanges],
    keys: Keys,
    histories: Mapping[Storage, HistoryChanges] | None = None,
    followed: CutChanges | None = None,
) -> None:
    """Writes a checkpoint: what is written of tables, views and histories is added to the manifest.

    Raises:
        OSError: it cannot be written; those before it are as they were.
        Damage: older files that were to be merged are damaged.
    """
    writer = SegmentWriter(storage, FOLDER, _stem(manifest.owner), digests=bool(keys))
    reader = SegmentReader(storage)
    try:
        for table, changes in rows.items():
            manifest.tables[table] = row_pieces(changes, writer, reader)
        for view, changed in views.items():
            manifest.views[view] = changed.write(writer, reader)
        for table, history in (histories or {}).items():
            manifest.histories[table] = history.write(writer, reader)
        if followed is not None:
            manifest.followed = followed.write(writer, reader)
        writer.close()
        storage.publish(_name(manifest.epoch), _manifest_bytes(manifest, keys))
    except BaseException:
        with suppress(OSError):
            writer.abandon()
        raise


def _manifest_bytes(manifest: Manifest, keys: Keys) -> bytes:
    body = json.dumps(
        {
            "format": FORMAT,
            "database": manifest.identity,
            "epoch": manifest.epoch,
            "owner": manifest.owner,
            "definitions": definitions_json(manifest.definitions),
            "tables": [[list(table), pieces_json(pieces)] for table, pieces in manifest.tables.items()],
            "views": [[list(view), view_json(state)] for view, state in manifest.views.items()],
            "histories": [[list(table), history_json(history)] for table, history in manifest.histories.items()],
            "followed": cuts_json(manifest.followed),
            "number": manifest.number,
        }
    ).encode()
    mac = keys.sign(b"database\n" + body) if keys else "-"
    return f"{crc32(body):08x} {mac}\n".encode() + body


def read_manifest(storage: Files, path: str, epoch: int, keys: Keys) -> Manifest:
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
    for table, pieces in _by_name(members.list("tables"), path):
        manifest.tables[table] = pieces_of(pieces, path)
    for view, state in _by_name(members.list("views", []), path):
        manifest.views[view] = view_of(state, path)
    for table, history in _by_name(members.list("histories", []), path):
        manifest.histories[table] = history_of(history, path)
    if "number" in members.mapping():
        manifest.number = members.integer("number", 0)
    if "followed" in members.mapping():
        manifest.followed = cuts_of(members.value("followed"), path)
    return manifest


def _by_name(value: list[Any], where: str) -> Iterator[tuple[Storage, Any]]:
    for entry in value:
        pair = as_list(entry, "a table", where)
        if len(pair) != 2:
            raise Damage(f"{where} has a table of {len(pair)} parts")
        yield storage_of(pair[0], where), pair[1]


def adopted(storage: SharedStorage, manifest: Manifest, owner: int) -> Manifest:
    """The same manifest with copies of all files, which belong to the owner with that token. Nothing else is written.

    Raises:
        Damage: a file is missing.
        OSError: they cannot be copied.
    """
    stem = _stem(owner)
    names = {
        file: f"{FOLDER}/state-{stem}-{i}.{file.rpartition('.')[2]}" for i, file in enumerate(sorted(manifest.files))
    }

    def copy(file: str) -> None:
        try:
            storage.copy(file, names[file])
        except FileNotFoundError as error:
            raise Damage(f"{file} is missing") from error

    with ThreadPoolExecutor(_COPIES, thread_name_prefix="copies a checkpoint") as copying:
        for _ in copying.map(copy, names):
            pass
    return replace(
        manifest,
        tables={
            table: [replace(p, segment=replace(p.segment, file=names[p.segment.file])) for p in pieces]
            for table, pieces in manifest.tables.items()
        },
        views={view: view_of(_renamed(view_json(state), names), FOLDER) for view, state in manifest.views.items()},
        histories={table: history.renamed(names) for table, history in manifest.histories.items()},
        followed=manifest.followed.renamed(names),
    )


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    """JSON with other files in its segments: a segment is a list that begins with its file and where in it."""
    if isinstance(value, dict):
        return {name: _renamed(member, names) for name, member in value.items()}
    if not isinstance(value, list | tuple):
        return value
    if len(value) >= 6 and isinstance(value[0], str) and value[0] in names and isinstance(value[1], int):
        return [names[value[0]], *value[1:]]
    return [_renamed(member, names) for member in value]


def remove_others(storage: Files, manifest: Manifest) -> None:
    """Deletes what a manifest, the newest, does not need: older ones, their files, and what a crash has left. Raises
    OSError."""
    needed = {_name(manifest.epoch)} | manifest.files
    others = sorted(path for path in set(storage.files(FOLDER)) - needed if not _is_later(path, manifest))
    # Manifests first: none is to name files that are gone.
    for path in sorted(others, key=lambda path: FILE.fullmatch(path) is not None):
        storage.delete(path)


def _stem(owner: int) -> str:
    """How the names of files begin that an owner makes now; there are no others with it."""
    return f"{owner:0{_TOKEN_DIGITS}x}{os.urandom(_RANDOM_BYTES).hex()}"


def _is_later(path: str, manifest: Manifest) -> bool:
    """Whether a file is of an owner after the one that wrote a manifest."""
    found = _MANIFEST.fullmatch(path)
    if found is not None:
        return int(found[1]) > manifest.epoch
    stem = path.removeprefix(f"{FOLDER}/state-").partition("-")[0]
    # Files of older versions have no token.
    token = stem[: -2 * _RANDOM_BYTES] if FILE.fullmatch(path) else ""
    return len(token) >= _TOKEN_DIGITS and int(token, 16) > manifest.owner
