"""Histories of tables and views in the checkpoints of a database: what has come since the last one, without what is old."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from connectors.memory.past import TableHistory
from runtime.checkpoint.segments import SegmentReader
from runtime.checkpoint.storage import Damage
from runtime.core.changelog import ChangelogBatch
from runtime.core.logs import Log, tell
from sqlengine.catalog.objects import ObjectPath
from sqlengine.database.database import Database
from sqlengine.database.folder.changes import Definition, Place, Storage
from sqlengine.database.folder.pieces import RowChanges, RowPiece, read_rows
from sqlengine.database.folder.saved_history import HistoryChanges, SavedHistory

__all__ = ["KeptHistories"]

_log = Log("database")
_KINDS = ("table", "materialized view")


@dataclass(slots=True)
class _Kept:
    """What is written of a history: changes from number `first` to before `end`."""

    history: TableHistory
    first: int
    end: int
    pieces: list[RowPiece] = field(default_factory=list)
    fixed: int = 0
    """The end, when what is being written is complete."""


class KeptHistories:
    """All histories of a database, for its checkpoints. Used with the lock held."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._kept: dict[Storage, _Kept] = {}

    def fix(self, definitions: Mapping[Place, Definition]) -> dict[Storage, HistoryChanges]:
        """What the next checkpoint writes of what is defined."""
        before, self._kept = self._kept, {}
        found: dict[Storage, HistoryChanges] = {}
        for storage, history in self._defined(definitions).items():
            kept = before.get(storage)
            if kept is None or kept.history is not history:
                kept = _Kept(history, history.first, history.first)
            while kept.pieces and kept.first + kept.pieces[0].segment.rows <= history.first:
                kept.first += kept.pieces.pop(0).segment.rows
            if kept.end < history.first:
                kept.first = kept.end = history.first
            self._kept[storage] = kept
            kept.fixed = history.changed
            found[storage] = self._changes(history, kept.pieces, kept.end)
        return found

    def images(self, definitions: Mapping[Place, Definition]) -> dict[Storage, HistoryChanges]:
        """All of the histories; the next checkpoint is as if nobody had asked."""
        return {s: self._changes(history, [], 0) for s, history in self._defined(definitions).items()}

    def settle(self, written: Mapping[Storage, SavedHistory] | None) -> None:
        """What was fixed last is written, and the checkpoint says this; or (None) it never will be."""
        if written is None:
            self._kept = {}
            return
        for storage, kept in self._kept.items():
            kept.pieces, kept.end = list(written[storage].pieces), kept.fixed

    def go_on(self, saved: Mapping[Storage, SavedHistory], reader: SegmentReader, *, own: bool) -> None:
        """Tables and views that are as they were at a checkpoint go on with their histories.

        Args:
            own: the next checkpoint of this folder names the files again.
        """
        for storage, found in saved.items():
            table = self._database.memory.get(ObjectPath(*storage))
            history = None if table is None else self._database.histories.of(table)
            if history is None:
                continue
            try:
                rows = [batch.rows for batch in read_rows(reader, found.pieces)]
                if not all(map(history.fits, rows)):
                    raise Damage("its changes have other columns")
            except (Damage, OSError) as damage:
                _log.warning("the history of %s begins anew: %s", ".".join(storage), damage)
                tell(f"the history of {'.'.join(storage)} cannot be read, and begins anew: {damage}")
                continue
            history.restore(rows, found.began, found.epoch)
            if own:
                self._kept[storage] = _Kept(history, 0, history.changed, list(found.pieces))

    def _defined(self, definitions: Mapping[Place, Definition]) -> dict[Storage, TableHistory]:
        found: dict[Storage, TableHistory] = {}
        for place in definitions:
            table = self._database.memory.get(ObjectPath(*place[1:])) if place[0] in _KINDS else None
            history = None if table is None else self._database.histories.of(table)
            if history is not None and history.began is not None:
                found[place[1], place[2], place[3]] = history
        return found

    def _changes(self, history: TableHistory, pieces: list[RowPiece], after: int) -> HistoryChanges:
        began = history.oldest(self._database.histories.now())
        assert began is not None
        batches = [ChangelogBatch(rows) for rows in history.written(after) if len(rows)]
        return HistoryChanges(began, RowChanges(list(pieces), batches), history.first_epoch)
