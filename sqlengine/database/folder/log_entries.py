"""What the folder of a database holds of its past, for people: the checkpoints, and each epoch of the log behind them.

All is read from the files, while others write: nothing is noted for it when an epoch is added.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from runtime.checkpoint.keys import Keys
from runtime.checkpoint.storage import Storage as Files
from sqlengine.database.folder import checkpoint
from sqlengine.database.folder.changes import Place, Storage, head_of
from sqlengine.database.folder.frames import OPENING, FrameReader
from sqlengine.database.folder.log_files import log_files

__all__ = ["LogEntry", "log_entries"]


@dataclass(slots=True)
class LogEntry:
    """One thing that an epoch has changed, or a checkpoint.

    Args:
        epoch: its number; of a checkpoint, that of the last epoch in it.
        kind: `definition` (made or changed), `drop`, `rows` (changes), `all rows` (in the place of those before),
            `checkpoint`.
        type: of the object, such as `table`; None for a checkpoint.
        object: its name.
        rows: how many it has; None for definitions.
        bytes: how long they, or the text of the definition, are.
        file: where it is, in the folder of the database.
        synced: whether it is known to survive a power failure.
    """

    epoch: int
    kind: str
    type: str | None
    object: str | None
    rows: int | None
    bytes: int
    file: str
    synced: bool


def log_entries(storage: Files, identity: str, keys: Keys, synced: int) -> list[LogEntry]:
    """The checkpoints and the log, in the order of epochs.

    Args:
        synced: the last epoch that is known to be on the disk.
    Raises:
        Damage: bytes are not those that were written.
        OSError: files cannot be read.
    """
    found: list[LogEntry] = []
    # A checkpoint that is made meanwhile deletes files that it makes superfluous.
    for epoch, path in reversed(checkpoint.manifests(storage)):
        with suppress(FileNotFoundError):
            manifest = checkpoint.read_manifest(storage, path, epoch, keys)
            pieces = [piece.segment for pieces in manifest.tables.values() for piece in pieces]
            rows, length = sum(p.rows for p in pieces), sum(p.length for p in pieces)
            found.append(LogEntry(epoch, "checkpoint", None, None, rows, length, path, True))
    for _, path in log_files(storage):
        with suppress(FileNotFoundError):
            found += sorted(_of_file(storage, path, identity, keys, synced), key=lambda entry: entry.epoch)
    return found


def _of_file(storage: Files, path: str, identity: str, keys: Keys, synced: int) -> Iterator[LogEntry]:
    tables: dict[tuple[int, Storage], LogEntry] = {}
    for frame in FrameReader(storage.read(path), path, keys, identity).frames(may_be_torn=True):
        if frame.flags & OPENING:
            continue
        epoch, where = frame.epoch, f"epoch {frame.epoch:,} of the log"
        head = head_of(frame.body, where)
        for place, definition in head.definitions.items():
            text = "" if definition is None else definition.text
            kind = "drop" if definition is None else "definition"
            length = len(text.encode())
            yield LogEntry(epoch, kind, place[0], _shown(place[1:]), None, length, path, epoch <= synced)
        for table in head.tables:
            known = tables.get((epoch, table.storage))
            if known is None or table.anew:
                kind = "all rows" if table.anew else "rows"
                known = LogEntry(epoch, kind, "table", _shown(table.storage), 0, 0, path, epoch <= synced)
                tables[epoch, table.storage] = known
            known.rows = (known.rows or 0) + table.rows
            known.bytes += table.length
    # An epoch of many rows has many frames.
    yield from tables.values()


def _shown(name: Place) -> str:
    return ".".join(name)
