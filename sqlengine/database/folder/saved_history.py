"""The history of a table in a checkpoint: since when it goes back, and its changes in pieces of files (`pieces.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from runtime.checkpoint.members import Members
from runtime.checkpoint.segments import SegmentReader, SegmentWriter
from sqlengine.database.folder.pieces import RowChanges, RowPiece, pieces_json, pieces_of, row_pieces

__all__ = ["HistoryChanges", "SavedHistory", "history_json", "history_of"]


@dataclass(frozen=True, slots=True)
class SavedHistory:
    """`began`: the first moment of which the rows are known, milliseconds since 1970; `epoch`: the first epoch, None where
    numbers were not noted."""

    began: int
    pieces: list[RowPiece] = field(default_factory=list)
    epoch: int | None = None

    @property
    def files(self) -> set[str]:
        """All that it needs."""
        return {piece.segment.file for piece in self.pieces}

    def renamed(self, names: Mapping[str, str]) -> SavedHistory:
        """The same in other files."""
        moved = [replace(p, segment=replace(p.segment, file=names[p.segment.file])) for p in self.pieces]
        return replace(self, pieces=moved)


@dataclass(slots=True)
class HistoryChanges:
    """What a checkpoint writes of a history."""

    began: int
    rows: RowChanges
    epoch: int | None = None

    def write(self, writer: SegmentWriter, reader: SegmentReader) -> SavedHistory:
        """Raises OSError, and Damage for older files that were to be merged."""
        return SavedHistory(self.began, row_pieces(self.rows, writer, reader), self.epoch)


def history_json(history: SavedHistory) -> object:
    """A history as JSON."""
    first = {} if history.epoch is None else {"epoch": history.epoch}
    return {"began": history.began, "pieces": pieces_json(history.pieces), **first}


def history_of(value: Any, where: str) -> SavedHistory:
    """The reverse of `history_json`. Raises Damage."""
    members = Members(value, where, ("began", "pieces", "epoch"))
    first = members.integer("epoch") if "epoch" in members.mapping() else None
    return SavedHistory(members.integer("began"), pieces_of(members.value("pieces"), where), first)
