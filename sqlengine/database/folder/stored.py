"""What a database in a folder holds: what was there when it was opened, and what has changed since the last checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from connectors.memory.column_files import ColumnFiles, filed
from runtime.checkpoint.storage import Storage as Files
from runtime.core.changelog import ChangelogBatch
from sqlengine.database.folder.changes import Definition, EpochChanges, Place, Storage
from sqlengine.database.folder.saved_cuts import SavedCuts
from sqlengine.database.folder.saved_history import SavedHistory
from sqlengine.database.folder.view_state import ViewState

__all__ = ["State", "Stored", "StoredRows"]


@dataclass(slots=True)
class StoredRows:
    """The rows of a table when the database was opened. `anew`: they all came after the checkpoint, and stand in `before`."""

    before: list[ChangelogBatch] = field(default_factory=list)
    """Those that it had at the checkpoint, as changes from nothing."""
    after: list[tuple[int, list[ChangelogBatch]]] = field(default_factory=list)
    """How it has changed since, by epoch."""
    anew: bool = False


@dataclass(slots=True)
class Stored:
    """What there was when a database was opened. `views`: those that are still defined as they were at the checkpoint."""

    definitions: dict[Place, Definition]
    tables: dict[Storage, StoredRows]
    views: dict[Storage, ViewState]
    storage: Files
    histories: dict[Storage, SavedHistory] = field(default_factory=dict)
    """Those of tables and views that have the rows of the checkpoint."""
    moments: dict[int, int] = field(default_factory=dict)
    """When epochs after the checkpoint were complete, by their numbers."""
    followed: SavedCuts = field(default_factory=SavedCuts)
    """What jobs follow, at the checkpoint."""
    numbers: dict[int, int] = field(default_factory=dict)
    """The numbers of those epochs as readers know them."""
    number: int = 0
    """That of the checkpoint's epoch; 0: nobody knows it."""


@dataclass(slots=True)
class State:
    """What there is. `since`: what has changed in a table since the manifest; None where only all its rows tell. `files`:
    where rows are kept while they are read; None: in memory."""

    definitions: dict[Place, Definition]
    rows: dict[Storage, StoredRows]
    views: dict[Storage, ViewState] = field(default_factory=dict)
    since: dict[Storage, list[ChangelogBatch] | None] = field(default_factory=dict)
    files: ColumnFiles | None = None
    histories: dict[Storage, SavedHistory] = field(default_factory=dict)
    moments: dict[int, int] = field(default_factory=dict)
    numbers: dict[int, int] = field(default_factory=dict)

    def add(self, changes: EpochChanges, epoch: int | None = None) -> None:
        """Take in an epoch; with its number, the tables' rows are kept, too."""
        if epoch is not None and changes.moment is not None:
            self.moments[epoch] = changes.moment
        if epoch is not None and changes.number is not None:
            self.numbers[epoch] = changes.number
        for place, definition in changes.definitions.items():
            # At the end, also when it was there: views are made in this order.
            self.definitions.pop(place, None)
            if definition is not None:
                self.definitions[place] = definition
            elif place[0] == "table":
                self._anew((place[1], place[2], place[3]), epoch)
        for table in changes.tables:
            if table.anew:
                self._anew(table.storage, epoch)
            batches = table.batches
            if epoch is not None:
                batches = [filed(batch, self.files) for batch in batches]
                self._add_rows(table.storage, batches, epoch)
            since = self.since.setdefault(table.storage, [])
            if since is not None:
                since.extend(batches)

    def _anew(self, storage: Storage, epoch: int | None) -> None:
        self.since[storage] = None
        if epoch is not None:
            self.rows[storage] = StoredRows(anew=True)
            self.histories.pop(storage, None)

    def _add_rows(self, storage: Storage, batches: Sequence[ChangelogBatch], epoch: int) -> None:
        rows = self.rows.setdefault(storage, StoredRows())
        if rows.anew:
            rows.before += batches
        elif rows.after and rows.after[-1][0] == epoch:
            rows.after[-1][1].extend(batches)
        else:
            rows.after.append((epoch, list(batches)))
