"""What makes a database last: changes of its tables and definitions go to the log of its folder.

Tables tell of what they publish; `commit` makes that one epoch of the log, and `settle` waits until it is safe. Who
changes definitions hands over all there are (`define`), and what differs from before is logged. Checkpoints have the
materialized views as well (`kept_views.py`). Temporary tables are not kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from connectors.memory import MemoryTable
from runtime.checkpoint.segments import SegmentReader
from runtime.core.changelog import UPDATE_BEFORE, ChangelogBatch
from runtime.core.rooms import Room
from sqlengine.catalog.catalog import CatalogObject
from sqlengine.catalog.objects import ObjectPath
from sqlengine.database.database import Database
from sqlengine.database.folder.changes import Definition, EpochChanges, Place, Storage, TableChanges
from sqlengine.database.folder.folder import DatabaseFolder
from sqlengine.database.folder.saved_cuts import CutChanges
from sqlengine.database.folder.saved_history import HistoryChanges
from sqlengine.database.folder.view_state import ViewChanges, ViewState
from sqlengine.database.kept_histories import KeptHistories
from sqlengine.database.kept_views import OUTSIDE_SECONDS, KeptViews, rows_of

if TYPE_CHECKING:
    import sqlengine.database.followed as _followed
else:
    _followed = Room("sqlengine.database.followed")

__all__ = ["Durable"]


class _Kept:
    """A table whose changes go to the log: those that it has published since the last epoch of that."""

    def __init__(self, storage: Storage, table: MemoryTable, changed: dict[_Kept, None]) -> None:
        self.storage = storage
        self.table = table
        self.changes: list[ChangelogBatch] = []
        self._changed = changed
        table.watchers.add(self)

    def hear(self, changes: Sequence[ChangelogBatch]) -> None:
        self.changes += changes
        self._changed[self] = None


class Durable:
    """The folder of a database and what it is told. Used by one thread at a time, but for `settle` and `check`."""

    def __init__(self, folder: DatabaseFolder, database: Database) -> None:
        self.folder = folder
        self._memory: Mapping[ObjectPath, MemoryTable] = database.memory
        self._views = views = database.views
        self._moment = database.histories.moment
        self._database = database
        self._last_definitions = database.last_definitions
        self.kept_views = KeptViews(views)
        self.kept_histories = KeptHistories(database)
        self._followed: _followed.Followed | None = None
        self._accounts = database.memory_accounts
        self.checkpoint_is_wanted = False
        """Whether something has begun that is known from a checkpoint on, such as a history."""
        self._kept: dict[Storage, _Kept | None] = {}
        """The tables of which the log knows the rows; None for one that has none yet."""
        self._closed = False
        self._changed: dict[_Kept, None] = {}
        self.known: dict[Place, tuple[CatalogObject, Definition]] = {}
        """The objects of which the definition is known, with that."""
        self.unmade: dict[Place, Definition] = {}
        """Catalogs and functions that could not be made when the database was opened."""
        self.view_reads: dict[ObjectPath, frozenset[ObjectPath]] = {}
        """The views from which a materialized view was made."""

    @property
    def definitions(self) -> dict[Place, Definition]:
        """What is defined, as the log has it."""
        return self.folder.definitions

    @property
    def followed(self) -> _followed.Followed:
        """What jobs follow of tables and views."""
        if self._followed is None:
            self._followed = _followed.Followed(self._memory, self._views, self, self.folder.checkpoint_number)
            self._accounts.add(self._followed.held)
        return self._followed

    def follow_no_more(self, job: str) -> None:
        """A job is there no more."""
        if self._followed is not None:
            self._followed.forget(job)

    def checkpoint_age(self) -> float:
        """Seconds since the newest checkpoint was begun."""
        return self.folder.checkpoint_age

    def segments(self) -> SegmentReader:
        """Reads the files of checkpoints."""
        return self.folder.segments()

    def begin(self) -> None:
        """Follow the tables that were restored."""
        for storage in self._tables(self.definitions):
            self._kept[storage] = self._follow(storage)

    def define(self, definitions: Mapping[Place, Definition]) -> None:
        """Log what differs from the definitions before, and the rows of tables that were made, replaced or renamed."""
        changes = EpochChanges()
        for place in [p for p in self.definitions if p not in definitions]:
            changes.definitions[place] = None
            self.known.pop(place, None)
            if len(place) == 4:
                self.view_reads.pop(ObjectPath(*place[1:]), None)
        for place, definition in definitions.items():
            if self.definitions.get(place) != definition:
                changes.definitions[place] = definition
        tables = self._tables(definitions)
        for storage in [s for s in self._kept if s not in tables]:
            del self._kept[storage]
        for storage in tables:
            before, now = self._kept.get(storage), self._memory.get(ObjectPath(*storage))
            if storage in self._kept and now is (None if before is None else before.table):
                continue
            self._kept[storage] = self._follow(storage)
            if before is not None or (now is not None and len(now)):
                changes.tables.append(TableChanges(storage, True, self.contents(storage)))
        self._add(changes)

    def commit(self, definitions: Mapping[Place, Definition | None] | None = None) -> None:
        """What tables have published since the last time becomes an epoch of the log, together with what is to be known
        of a job."""
        if self._changed or definitions:
            self._add(EpochChanges(dict(definitions or {})))

    def publish(self) -> None:
        """What tables have published becomes an epoch of the log, and views follow. Called with the lock held."""
        self.commit()
        self._views.propagate()
        self.checkpoint_when_due()

    def checkpoint_when_due(self) -> None:
        """Begin a checkpoint when it is time. Called with the lock held, when tables, views and definitions are those of
        one epoch; as long as others change a part of them it waits for the end of a later one."""
        if self._closed or self._views.lock.kept:
            return
        self._settle_views()
        kept = self.kept_views
        if kept.has_heirs or self.checkpoint_is_wanted:
            self.checkpoint_is_wanted = False
            self.checkpoint()
            return
        due = self.folder.checkpoint_is_due(kept.bytes) or self._is_followed()
        if due or (self.folder.is_older_than(OUTSIDE_SECONDS) and kept.moved(outside=True)):
            self._views.catch_up()
            self.folder.begin_checkpoint(self)

    def _is_followed(self) -> bool:
        """Whether a job waits for a checkpoint."""
        seconds = None if self._followed is None else self._followed.interval
        return seconds is not None and self.folder.is_older_than(seconds)

    def checkpoint(self) -> bool:
        """Make a checkpoint now; tells whether that succeeded. Called with the lock held."""
        self._settle_views(wait=True)
        self._views.catch_up()
        done = self.folder.checkpoint(self)
        self._settle_views()
        return done

    def _settle_views(self, *, wait: bool = False) -> None:
        """Tell the views what has become of the last checkpoint."""
        written = self.folder.outcome(wait=wait)
        if written is not None:
            self.kept_views.settle(self.folder.views if written else None)
            self.kept_histories.settle(self.folder.histories if written else None)
            if self._followed is not None:
                self._followed.settle(self.folder.followed if written else None)

    def check(self) -> None:
        """Raises DatabaseError E3704 when nothing can be logged any more."""
        if not self._closed:
            self.folder.check()

    def settle(self, epoch: int | None = None) -> None:
        """Wait until an epoch and those before it, or all that was committed, are safe. Raises DatabaseError E3704."""
        if not self._closed:
            self.folder.settle(epoch)

    def close(self) -> None:
        """Save what there is and give the folder back. Called with the lock held, while views run; harmless when called
        again. Raises DatabaseError E3704."""
        if self._closed:
            return
        self._closed = True
        try:
            self.folder.check()
            self.commit(self._last_definitions())
            self._settle_views(wait=True)
            self._views.catch_up()
        finally:
            self.folder.close(self, moved=self.kept_views.moved(outside=False))

    def abandon(self) -> None:
        """Give the folder back as it is: what was not committed is lost."""
        self._closed = True
        self.folder.abandon()

    def backup(self, path: str) -> int:
        """Write all there is to another folder; gives the number of rows. Raises DatabaseError E3700, E3708."""
        self._views.catch_up()
        return self.folder.backup(path, self)

    def follow(self, path: ObjectPath, table: MemoryTable) -> None:
        """Rows of a table begin to be kept in memory: a table that is defined has none before it is first used."""
        if path.parts in self._kept and self._kept[path.parts] is None:
            self._kept[path.parts] = _Kept(path.parts, table, self._changed)

    def _tables(self, definitions: Mapping[Place, Definition]) -> dict[Storage, None]:
        return {(p[1], p[2], p[3]): None for p in definitions if p[0] == "table"}

    def _follow(self, storage: Storage) -> _Kept | None:
        table = self._memory.get(ObjectPath(*storage))
        return None if table is None else _Kept(storage, table, self._changed)

    def _add(self, changes: EpochChanges) -> None:
        try:
            published = list(self._changed)
            self._changed.clear()
            for kept in published:
                batches, kept.changes = kept.changes, []
                if self._kept.get(kept.storage) is kept:
                    changes.tables.append(TableChanges(kept.storage, False, _without_before(kept.table, batches)))
            if changes:
                changes.moment, changes.number = self._moment(), self._database.epoch_at_hand()
                self.folder.add(changes)
        except BaseException:
            # What was published is in memory, and perhaps not in the log.
            self.folder.stop()
            raise

    # --- what the folder asks for: see `Kept`

    def contents(self, table: Storage) -> list[ChangelogBatch]:
        """All rows of a table after the last epoch."""
        found = self._memory.get(ObjectPath(*table))
        return [] if found is None else rows_of(found)

    def count(self, table: Storage) -> int:
        """How many they are."""
        found = self._memory.get(ObjectPath(*table))
        return 0 if found is None else found.held

    def view_changes(self, definitions: Mapping[Place, Definition]) -> dict[Storage, ViewChanges]:
        """What has changed in views since the last checkpoint."""
        return self.kept_views.fix(definitions)

    def view_images(self, definitions: Mapping[Place, Definition]) -> dict[Storage, ViewChanges]:
        """All of the views."""
        return self.kept_views.images(definitions)

    def history_changes(self, definitions: Mapping[Place, Definition]) -> dict[Storage, HistoryChanges]:
        """What has come to histories since the last checkpoint."""
        return self.kept_histories.fix(definitions)

    def history_images(self, definitions: Mapping[Place, Definition]) -> dict[Storage, HistoryChanges]:
        """All of the histories."""
        return self.kept_histories.images(definitions)

    def cut_changes(self, number: int, definitions: Mapping[Place, Definition]) -> CutChanges | None:
        """What has changed in the tables that jobs follow."""
        return None if self._followed is None else self._followed.fix(number, definitions)

    def epoch_number(self) -> int:
        """The number of the newest epoch of the database."""
        return self._database.newest_epoch

    def unread_views(self, definitions: Mapping[Place, Definition]) -> dict[Storage, ViewState]:
        """Views that do not run now, as checkpoints before have them."""
        return self.kept_views.unread(definitions)


def _without_before(table: MemoryTable, batches: list[ChangelogBatch]) -> list[ChangelogBatch]:
    """Where rows have a key a later one replaces the earlier one: what it was need not be kept."""
    if not table.primary_key:
        return batches
    return [b if b.kinds is None else b.filter(np.asarray(b.kinds != UPDATE_BEFORE)) for b in batches]
