"""What jobs follow, in a checkpoint of a database: how each table has changed from one checkpoint to the next, as far as a job
has not taken it, in pieces of files (`pieces.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from runtime.checkpoint.members import Members, as_integer, as_list
from runtime.checkpoint.segments import SegmentReader, SegmentWriter
from runtime.checkpoint.storage import Damage
from runtime.core.changelog import ChangelogBatch
from sqlengine.database.folder.changes import Storage, storage_of
from sqlengine.database.folder.pieces import RowChanges, RowPiece, pieces_json, pieces_of, row_pieces

__all__ = ["CutChanges", "SavedCut", "SavedCuts", "SavedTable", "cuts_json", "cuts_of"]


@dataclass(frozen=True, slots=True)
class SavedCut:
    """The changes of a table up to a cut, which has the number of a checkpoint, and its watermark then."""

    number: int
    watermark: int
    idle: bool
    pieces: list[RowPiece] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class SavedTable:
    """`since`: the cut behind which all changes are there."""

    since: int
    cuts: list[SavedCut] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class SavedCuts:
    """`jobs`: what each follows, and the cut up to which it has taken that; None: nothing so far."""

    jobs: dict[str, tuple[int | None, list[Storage]]] = field(default_factory=dict)
    tables: dict[Storage, SavedTable] = field(default_factory=dict)

    @property
    def files(self) -> set[str]:
        """All that it needs."""
        return {piece.segment.file for table in self.tables.values() for cut in table.cuts for piece in cut.pieces}

    def renamed(self, names: Mapping[str, str]) -> SavedCuts:
        """The same in other files."""

        def moved(piece: RowPiece) -> RowPiece:
            return replace(piece, segment=replace(piece.segment, file=names[piece.segment.file]))

        tables = {
            storage: replace(table, cuts=[replace(cut, pieces=list(map(moved, cut.pieces))) for cut in table.cuts])
            for storage, table in self.tables.items()
        }
        return replace(self, tables=tables)


@dataclass(slots=True)
class CutChanges:
    """What a checkpoint writes: `before` without what comes to each table with it."""

    before: SavedCuts = field(default_factory=SavedCuts)
    new: dict[Storage, list[tuple[SavedCut, list[ChangelogBatch]]]] = field(default_factory=dict)

    def write(self, writer: SegmentWriter, reader: SegmentReader) -> SavedCuts:
        """Raises OSError."""
        tables = dict(self.before.tables)
        for storage, cuts in self.new.items():
            written = [replace(cut, pieces=row_pieces(RowChanges([], rows), writer, reader)) for cut, rows in cuts]
            tables[storage] = replace(tables[storage], cuts=[*tables[storage].cuts, *written])
        return replace(self.before, tables=tables)


def cuts_json(saved: SavedCuts) -> object:
    """As JSON."""
    return {
        "jobs": [[name, cut, *(list(s) for s in follows)] for name, (cut, follows) in saved.jobs.items()],
        "tables": [
            [
                list(storage),
                table.since,
                *([cut.number, cut.watermark, cut.idle, pieces_json(cut.pieces)] for cut in table.cuts),
            ]
            for storage, table in saved.tables.items()
        ],
    }


def cuts_of(value: Any, where: str) -> SavedCuts:
    """The reverse of `cuts_json`. Raises Damage."""
    members = Members(value, where, ("jobs", "tables"))
    saved = SavedCuts()
    for entry in members.list("jobs"):
        name, cut, *follows = _parts(entry, where)
        if not isinstance(name, str):
            raise Damage(f"{where} has a job without a name")
        taken = None if cut is None else as_integer(cut, "a cut", where, 0)
        saved.jobs[name] = taken, [storage_of(s, where) for s in follows]
    for entry in members.list("tables"):
        storage, since, *cuts = _parts(entry, where)
        found = [_cut_of(cut, where) for cut in cuts]
        saved.tables[storage_of(storage, where)] = SavedTable(as_integer(since, "a cut", where, 0), found)
    return saved


def _cut_of(value: object, where: str) -> SavedCut:
    parts = as_list(value, "a cut", where)
    if len(parts) != 4 or not isinstance(parts[2], bool):
        raise Damage(f"{where} has a cut of {len(parts)} parts")
    number, watermark = as_integer(parts[0], "a cut", where, 0), as_integer(parts[1], "a watermark", where)
    return SavedCut(number, watermark, parts[2], pieces_of(parts[3], where))


def _parts(value: object, where: str) -> list[Any]:
    parts = as_list(value, "what is followed", where)
    if len(parts) < 2:
        raise Damage(f"{where} follows something of {len(parts)} parts")
    return parts
