"""The folder of a database as one thing: opened, it says what there was; each epoch is added; checkpoints are made.

    owner.json, .lock     who owns it (`lease.py`); in an object store owner/
    log/                  epochs since the newest checkpoint (`log.py`)
    checkpoints/          definitions and rows as they were after some epoch (`checkpoint.py`)
    jobs/                 the checkpoints of jobs (`job_folders.py`)

What there is is the newest checkpoint and the log behind it. A checkpoint is taken when the log has grown by so many
bytes, in intervals, and when the database is closed. What it says is fixed between two epochs, when views know all that
tables have; another thread writes it.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from connectors.memory.column_files import ColumnFiles
from runtime.checkpoint.keys import Keys
from runtime.checkpoint.local_storage import LocalStorage
from runtime.checkpoint.remote_storage import RemoteStorage
from runtime.checkpoint.segments import SegmentReader
from runtime.checkpoint.shared_storage import SharedStorage
from runtime.checkpoint.storage import Damage
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import DatabaseError
from runtime.core.logs import Log as Logger
from runtime.core.logs import tell
from sqlengine.database.folder import checkpoint
from sqlengine.database.folder.changes import (
    JOB_KINDS,
    Definition,
    EpochChanges,
    Place,
    Storage,
    bodies_of,
)
from sqlengine.database.folder.checkpoint import Manifest
from sqlengine.database.folder.job_folders import job_folders
from sqlengine.database.folder.lease import Lease, SharedLease, taken_over
from sqlengine.database.folder.log import Log
from sqlengine.database.folder.log_end import LogEnd
from sqlengine.database.folder.log_entries import LogEntry, log_entries
from sqlengine.database.folder.opening import check_is_new, damaged, owned, storage_of
from sqlengine.database.folder.pieces import RowChanges, is_cheaper_anew
from sqlengine.database.folder.saved_cuts import CutChanges, SavedCuts
from sqlengine.database.folder.saved_history import HistoryChanges, SavedHistory
from sqlengine.database.folder.stored import State, Stored
from sqlengine.database.folder.view_state import ViewChanges, ViewState

__all__ = ["DatabaseFolder", "FolderSettings", "Kept"]

_log = Logger("database")
_NO_END = 1 << 60


class Kept(Protocol):
    """What the folder asks of the tables and views that it keeps, as they are after the last epoch that was added."""

    def contents(self, table: Storage) -> list[ChangelogBatch]:
        """All rows of a table, as insertions."""
        ...

    def count(self, table: Storage) -> int:
        """How many they are."""
        ...

    def view_changes(self, definitions: Mapping[Place, Definition]) -> dict[Storage, ViewChanges]:
        """What has changed in views since the checkpoint before. `definitions`: those that are written with it."""
        ...

    def view_images(self, definitions: Mapping[Place, Definition]) -> dict[Storage, ViewChanges]:
        """All of the views. What the next checkpoint writes is as if nobody had asked."""
        ...

    def history_changes(self, definitions: Mapping[Place, Definition]) -> dict[Storage, HistoryChanges]:
        """What has come to histories since the checkpoint before."""
        ...

    def history_images(self, definitions: Mapping[Place, Definition]) -> dict[Storage, HistoryChanges]:
        """All of the histories."""
        ...

    def cut_changes(self, number: int, definitions: Mapping[Place, Definition]) -> CutChanges | None:
        """What has changed in the tables that jobs follow, for the checkpoint of that number; None: they follow nothing."""
        ...

    def epoch_number(self) -> int:
        """The number of the newest epoch, as readers know it."""
        ...

    def unread_views(self, definitions: Mapping[Place, Definition]) -> dict[Storage, ViewState]:
        """Views that do not run now, and can go on later from where the checkpoint before has them."""
        ...


@dataclass(frozen=True, slots=True)
class FolderSettings:
    """`synchronous`: see `log.py`. `checkpoint_bytes`: how large the log grows; `checkpoint_seconds`: how old a
    checkpoint gets while epochs come, without end when 0. `files`: where rows are kept while they are read; None: in
    memory."""

    synchronous: str = "full"
    checkpoint_bytes: int = 64 << 20
    checkpoint_seconds: float = 0.0
    keys: Keys = field(default_factory=Keys)
    files: ColumnFiles | None = None


class DatabaseFolder:
    """A database in a folder that this process owns. `add` and `begin_checkpoint` are called one after another, in the
    order of epochs; the rest from any thread."""

    def __init__(
        self,
        storage: LocalStorage | SharedStorage,
        lease: Lease,
        settings: FolderSettings,
        manifest: Manifest,
        state: State,
        log: Log,
    ) -> None:
        self.place = storage.place
        self._storage = storage
        self._lease = lease
        self.job_folders = job_folders(storage, lease)
        """Where the checkpoints of jobs are."""
        self._settings = settings
        self._manifest = manifest
        self._state = state
        self._log = log
        self._writer: threading.Thread | None = None
        self._written: bool | None = None
        self._checkpointed = time.monotonic()
        self._most_files = storage.many if isinstance(storage, SharedStorage) else _NO_END

    @staticmethod
    def open(path: str, settings: FolderSettings, lease: SharedLease | None = None) -> DatabaseFolder:
        """Own a folder, which is made where there is none, and read what it holds.

        Args:
            lease: with which it is owned already.

        Raises:
            DatabaseError: somebody else owns it (E3701), it is damaged (E3702), of a newer version (E3703), no folder of
            a database (E3706), or cannot be read or written (E3700).
        """
        storage = storage_of(path)
        try:
            opened = owned(storage, settings.keys, settings.synchronous, settings.files, lease)
            return DatabaseFolder(storage, opened.lease, settings, opened.manifest, opened.state, opened.log)
        except Damage as damage:
            raise damaged(storage, damage) from damage
        except OSError as error:
            raise DatabaseError(
                f"the database {storage.place} cannot be opened: {error.strerror or error}",
                hint="see to the folder and its permissions"
                if not isinstance(storage, RemoteStorage)
                else "see to its URI, the credentials in the environment, and the network",
            ) from error

    @property
    def definitions(self) -> dict[Place, Definition]:
        """What is defined, views in the order in which they are to be made."""
        return self._state.definitions

    def take(self) -> Stored:
        """What there was when the database was opened; its rows are given once."""
        rows, self._state.rows = self._state.rows, {}
        views, self._state.views = self._state.views, {}
        histories, self._state.histories = self._state.histories, {}
        moments, self._state.moments = self._state.moments, {}
        numbers, self._state.numbers = self._state.numbers, {}
        return Stored(
            self.definitions, rows, views, self._storage, histories, moments, self._manifest.followed, numbers,
            self._manifest.number,
        )  # fmt: skip

    @property
    def views(self) -> Mapping[Storage, ViewState]:
        """Views as the newest checkpoint has them."""
        return self._manifest.views

    @property
    def histories(self) -> Mapping[Storage, SavedHistory]:
        """Histories as the newest checkpoint has them."""
        return self._manifest.histories

    @property
    def followed(self) -> SavedCuts:
        """What jobs follow, as the newest checkpoint has it."""
        return self._manifest.followed

    @property
    def checkpoint_number(self) -> int:
        """The number of the newest checkpoint."""
        return self._manifest.epoch

    @property
    def checkpoint_age(self) -> float:
        """Seconds since it was begun."""
        return time.monotonic() - self._checkpointed

    def segments(self) -> SegmentReader:
        """Reads the files of checkpoints."""
        return SegmentReader(self._storage)

    @property
    def keys(self) -> Keys:
        """Who signs what is written."""
        return self._settings.keys

    @property
    def epoch(self) -> int:
        """The number of the last epoch."""
        return self._log.epoch

    def stop(self) -> None:
        """Take no more epochs, because one has become known by halves: memory and log may differ."""
        self._log.stop()

    def check(self) -> None:
        """Raises DatabaseError E3704 when the log has stopped, E3707 when it is known that another process has taken
        over."""
        self._log.check()
        try:
            lost = self._lease.is_known_lost
        except OSError as error:
            raise DatabaseError(
                f"nobody knows whether this process still owns the database {self.place}: {error.strerror or error}",
                code="E3704",
                hint="see to the network, or to the disk; it goes on when they are there again",
            ) from error
        if lost:
            raise taken_over(self.place)

    @property
    def is_doubtful(self) -> bool:
        """Whether this process has stood still, or was cut off, for so long that another one may have taken over; `check`
        finds out."""
        return self._lease.is_doubtful

    def when_taken_over(self, call: Callable[[], object]) -> None:
        """Have something called, from any thread, when another process has taken over."""
        if isinstance(self._lease, SharedLease):
            self._lease.when_lost(call)

    def add(self, changes: EpochChanges) -> None:
        """Add an epoch to the log; `settle` waits until it is safe.

        Raises:
            DatabaseError: E3704, the log has stopped.
        """
        self._log.append(bodies_of(changes))
        self._state.add(changes)

    def settle(self, epoch: int | None = None) -> None:
        """Wait until an epoch and those before it, or all that were added, are as safe as `synchronous` says. Raises
        DatabaseError E3704."""
        self._log.settle(epoch)

    def entries(self) -> list[LogEntry]:
        """The checkpoints that are kept, and what the log has.

        Raises:
            DatabaseError: they are damaged (E3702), or cannot be read (E3700).
        """
        try:
            return log_entries(self._storage, self._manifest.identity, self.keys, self._log.settled)
        except Damage as damage:
            raise DatabaseError(
                f"the database {self.place} is damaged: {damage}",
                code="E3702",
                hint="BACKUP it now: what is in memory is whole",
            ) from damage
        except OSError as error:
            raise DatabaseError(
                f"the log of {self.place} cannot be read: {error.strerror or error}", hint="see to the disk"
            ) from error

    # --- checkpoints

    def checkpoint_is_due(self, more: int) -> bool:
        """Whether one is to be begun. `more`: bytes that are to be written beside those of the log."""
        seconds = self._settings.checkpoint_seconds
        if self.is_behind and seconds > 0 and self.is_older_than(seconds):
            return True
        large = self._log.written + more >= self._settings.checkpoint_bytes or self._log.files >= self._most_files
        return large and (self.is_behind or more > 0) and not self._is_writing

    def is_older_than(self, seconds: float) -> bool:
        """Whether the newest checkpoint was begun before that, and none is being written."""
        return self.checkpoint_age >= seconds and not self._is_writing

    @property
    def _is_writing(self) -> bool:
        return self._writer is not None and self._writer.is_alive()

    @property
    def is_behind(self) -> bool:
        """Whether there are epochs that the newest checkpoint does not have."""
        return self._log.epoch > self._manifest.epoch

    def begin_checkpoint(self, kept: Kept) -> None:
        """Fix what the next checkpoint says; it is written by a thread. `outcome` is to be asked for before."""
        self._wait()
        write = self._fixed(kept)
        self._writer = threading.Thread(target=write, name="checkpoint of the database", daemon=True)
        self._writer.start()

    def checkpoint(self, kept: Kept) -> bool:
        """Make one; tells whether that succeeded. What has failed is told, and loses nothing: the log goes on."""
        self._wait()
        self._fixed(kept)()
        return bool(self._written)

    def outcome(self, *, wait: bool = False) -> bool | None:
        """Whether the checkpoint that was begun last is complete, told once; None while it is written."""
        if wait:
            self._wait()
        if self._is_writing:
            return None
        written, self._written = self._written, None
        return written

    def _wait(self) -> None:
        if self._writer is not None:
            self._writer.join()
            self._writer = None

    def _fixed(self, kept: Kept) -> Callable[[], None]:
        """What a checkpoint says as of now, to be written."""
        self._written = None
        if not self.is_behind:
            # What views have read of connectors is no epoch; a checkpoint has the number of one.
            self._log.append(bodies_of(EpochChanges()))
        first = self._log.begin_file()
        self._checkpointed = time.monotonic()
        manifest = Manifest(self._manifest.identity, first - 1, self._lease.token, dict(self._state.definitions))
        since, self._state.since = self._state.since, {}
        rows = self._fixed_rows(manifest, kept, since)
        views = kept.view_changes(manifest.definitions)
        histories = kept.history_changes(manifest.definitions)
        manifest.views.update(kept.unread_views(manifest.definitions))
        followed = kept.cut_changes(manifest.epoch, manifest.definitions)
        manifest.number = kept.epoch_number()

        def write() -> None:
            try:
                self._write(manifest, rows, views, histories, followed, first)
                self._written = True
            except Exception as error:
                # What was fixed is not there: next time these tables are written whole.
                for table in since:
                    self._state.since[table] = None
                _log.failure(f"the checkpoint after epoch {manifest.epoch:,} failed", error, path=self.place)
                reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
                tell(f"the checkpoint of {self.place} failed: {reason}; the log has all, and grows")
                self._written = False

        return write

    def _fixed_rows(
        self, manifest: Manifest, kept: Kept, since: Mapping[Storage, list[ChangelogBatch] | None]
    ) -> dict[Storage, RowChanges]:
        rows: dict[Storage, RowChanges] = {}
        for table in [(p[1], p[2], p[3]) for p in manifest.definitions if p[0] == "table"]:
            pieces = self._manifest.tables.get(table, [])
            changes = since.get(table, [])
            if changes is None or (changes and is_cheaper_anew(pieces, changes, kept.count(table))):
                rows[table] = RowChanges([], kept.contents(table))
            elif changes:
                rows[table] = RowChanges(pieces, changes)
            elif pieces:
                manifest.tables[table] = list(pieces)
        return rows

    def _write(
        self,
        manifest: Manifest,
        rows: Mapping[Storage, RowChanges],
        views: Mapping[Storage, ViewChanges],
        histories: Mapping[Storage, HistoryChanges],
        followed: CutChanges | None,
        first: int,
    ) -> None:
        started = time.monotonic()
        self._lease.check()
        checkpoint.save(self._storage, manifest, rows, views, self._settings.keys, histories, followed)
        self._manifest = manifest
        _log.info(
            "the checkpoint after epoch %d is complete",
            manifest.epoch,
            path=self.place,
            epoch=manifest.epoch,
            rows=sum(changes.rows for changes in rows.values()),
            views=len(manifest.views),
            seconds=round(time.monotonic() - started, 3),
        )
        checkpoint.remove_others(self._storage, manifest)
        self._log.remove_before(first)

    def abandon(self) -> None:
        """Give the folder back as it is."""
        self._wait()
        self._log.abandon()
        self._lease.release()

    def backup(self, path: str, kept: Kept) -> int:
        """Write all there is to another folder, which becomes a database of its own; gives the number of rows.

        Raises:
            DatabaseError: E3708, there is something already; E3700, it cannot be written.
        """
        storage = storage_of(path)
        place, keys = storage.place, self._settings.keys
        check_is_new(storage)
        definitions = {p: d for p, d in self._state.definitions.items() if p[0] not in JOB_KINDS}
        tables = [(p[1], p[2], p[3]) for p in definitions if p[0] == "table"]
        rows = {table: RowChanges([], kept.contents(table)) for table in tables}
        manifest = Manifest(os.urandom(16).hex(), self.epoch, 0, definitions, number=kept.epoch_number())
        try:
            log = Log(storage, manifest.identity, 0, keys, "full", LogEnd(self.epoch))
            # An object store has no file of the log without an epoch.
            log.append(bodies_of(EpochChanges()))
            log.close()
            filled = {table: changes for table, changes in rows.items() if changes.batches}
            views, histories = kept.view_images(definitions), kept.history_images(definitions)
            checkpoint.save(storage, manifest, filled, views, keys, histories)
        except OSError as error:
            raise DatabaseError(
                f"the backup {place} cannot be written: {error.strerror or error}",
                hint="see to the disk; what is there is no backup",
            ) from error
        return sum(changes.rows for changes in rows.values())

    def close(self, kept: Kept, *, moved: bool) -> None:
        """Make a checkpoint where there is something to save, and give the folder back. Harmless when called again.

        Args:
            moved: views have, although no epoch has come.

        Raises:
            DatabaseError: E3704, what was added last may be lost.
        """
        try:
            self._wait()
            if self._log.failure is None:
                if self.is_behind or moved:
                    self.checkpoint(kept)
                self._log.close()
            else:
                self._log.abandon()
        finally:
            self._lease.release()
