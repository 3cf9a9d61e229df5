"""The folder of a database as one thing: opened, it says what there was; each epoch is added; checkpoints are made.

    owner.json, .lock     who owns it (`lease.py`)
    log/                  epochs since the newest checkpoint (`log.py`)
    checkpoints/          definitions and rows as they were after some epoch (`checkpoint.py`)
    jobs/                 the checkpoints of jobs (`sqlengine/database/kept_jobs.py`)

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

from connectors.memory.column_files import ColumnFiles, filed
from runtime.checkpoint.keys import Keys
from runtime.checkpoint.local_storage import LocalStorage
from runtime.checkpoint.segments import SegmentReader
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
    changes_of,
)
from sqlengine.database.folder.checkpoint import Manifest
from sqlengine.database.folder.lease import OWNER, Lease
from sqlengine.database.folder.log import FOLDER as LOG_FOLDER
from sqlengine.database.folder.log import Log, LogEnd, log_files, read_log
from sqlengine.database.folder.log_entries import LogEntry, log_entries
from sqlengine.database.folder.pieces import RowChanges, is_cheaper_anew, read_rows
from sqlengine.database.folder.stored import State, Stored, StoredRows
from sqlengine.database.folder.view_state import ViewChanges, ViewState

__all__ = ["JOBS", "DatabaseFolder", "FolderSettings", "Kept", "read_backup"]

_log = Logger("database")

JOBS = "jobs"
"""Where the checkpoints of jobs are."""

_EMPTY_LOG_BYTES = 256
"""A file of the log with epochs is larger than one without."""


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
        self, storage: LocalStorage, lease: Lease, settings: FolderSettings, manifest: Manifest, state: State, log: Log
    ) -> None:
        self.place = storage.place
        self._storage = storage
        self._lease = lease
        self._settings = settings
        self._manifest = manifest
        self._state = state
        self._log = log
        self._writer: threading.Thread | None = None
        self._written: bool | None = None
        self._checkpointed = time.monotonic()

    @staticmethod
    def open(path: str, settings: FolderSettings) -> DatabaseFolder:
        """Own a folder, which is made where there is none, and read what it holds.

        Raises:
            DatabaseError: somebody else owns it (E3701), it is damaged (E3702), of a newer version (E3703), no folder of
            a database (E3706), or cannot be read or written (E3700).
        """
        storage = LocalStorage(path)
        try:
            _check_place(storage)
            lease = Lease.take(storage)
            try:
                return _opened(storage, lease, settings)
            except BaseException:
                lease.release()
                raise
        except Damage as damage:
            raise DatabaseError(
                f"the database {storage.place} is damaged: {damage}",
                code="E3702",
                hint="RESTORE it from a backup; nothing in the folder was changed",
            ) from damage
        except OSError as error:
            raise DatabaseError(
                f"the database {storage.place} cannot be opened: {error.strerror or error}",
                hint="see to the folder and its permissions",
            ) from error

    @property
    def definitions(self) -> dict[Place, Definition]:
        """What is defined, views in the order in which they are to be made."""
        return self._state.definitions

    def take(self) -> Stored:
        """What there was when the database was opened; its rows are given once."""
        rows, self._state.rows = self._state.rows, {}
        views, self._state.views = self._state.views, {}
        return Stored(self.definitions, rows, views, self._storage)

    @property
    def views(self) -> Mapping[Storage, ViewState]:
        """Views as the newest checkpoint has them."""
        return self._manifest.views

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
        """Raises DatabaseError E3704 when the log has stopped."""
        self._log.check()

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
        large = self._log.written + more >= self._settings.checkpoint_bytes
        return large and (self.is_behind or more > 0) and not self._is_writing

    def is_older_than(self, seconds: float) -> bool:
        """Whether the newest checkpoint was begun before that, and none is being written."""
        return time.monotonic() - self._checkpointed >= seconds and not self._is_writing

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
        manifest.views.update(kept.unread_views(manifest.definitions))

        def write() -> None:
            try:
                self._write(manifest, rows, views, first)
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
        self, manifest: Manifest, rows: Mapping[Storage, RowChanges], views: Mapping[Storage, ViewChanges], first: int
    ) -> None:
        started = time.monotonic()
        self._lease.check()
        checkpoint.save(self._storage, manifest, rows, views, self._settings.keys)
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
        for begins, path in log_files(self._storage):
            if begins < first:
                self._storage.delete(path)

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
        storage = LocalStorage(path)
        place, keys = storage.place, self._settings.keys
        if os.path.lexists(place) and not (os.path.isdir(place) and not os.listdir(place)):
            raise DatabaseError(
                f"there is something already at {place}", code="E3708", hint="give a folder that is new"
            )
        definitions = {p: d for p, d in self._state.definitions.items() if p[0] not in JOB_KINDS}
        tables = [(p[1], p[2], p[3]) for p in definitions if p[0] == "table"]
        rows = {table: RowChanges([], kept.contents(table)) for table in tables}
        manifest = Manifest(os.urandom(16).hex(), self.epoch, 0, definitions)
        try:
            Log(storage, manifest.identity, 0, keys, "full", LogEnd(self.epoch)).close()
            filled = {table: changes for table, changes in rows.items() if changes.batches}
            checkpoint.save(storage, manifest, filled, kept.view_images(definitions), keys)
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


def read_backup(path: str, keys: Keys, files: ColumnFiles | None = None) -> Stored:
    """What there is in a database that nobody has open, such as a backup. Changes nothing.

    Raises:
        DatabaseError: there is none (E3706), it is damaged (E3702), newer (E3703), or cannot be read (E3700).
    """
    storage = LocalStorage(path)
    try:
        found = checkpoint.manifests(storage)
        if not found:
            raise DatabaseError(
                f"there is no database at {storage.place}", code="E3706", hint="give the path of a backup"
            )
        _, state, _ = _newest(storage, found, keys, files)
    except Damage as damage:
        raise DatabaseError(
            f"the backup {storage.place} is damaged: {damage}", code="E3702", hint="take another one"
        ) from damage
    except OSError as error:
        raise DatabaseError(
            f"the backup {storage.place} cannot be read: {error.strerror or error}", hint="see to the folder"
        ) from error
    return Stored(state.definitions, state.rows, state.views, storage)


def _check_place(storage: LocalStorage) -> None:
    """Raises DatabaseError E3706 for what is no folder, or one with other files."""
    place = storage.place
    if not os.path.lexists(place):
        return
    if not os.path.isdir(place):
        raise DatabaseError(f"{place} is no folder", code="E3706", hint="give the folder of a database, or a new one")
    names = {name for name in os.listdir(place) if not name.startswith(("_", "."))}
    if names - {OWNER, LOG_FOLDER, checkpoint.FOLDER, JOBS}:
        raise DatabaseError(
            f"{place} holds other files: {', '.join(sorted(names)[:3])}",
            code="E3706",
            hint="give the folder of a database, or a new one",
        )


def _opened(storage: LocalStorage, lease: Lease, settings: FolderSettings) -> DatabaseFolder:
    started = time.monotonic()
    found = checkpoint.manifests(storage)
    if not found:
        return _made(storage, lease, settings)
    manifest, state, end = _newest(storage, found, settings.keys, settings.files)
    lease.exceed(max(manifest.owner, end.owner))
    if end.dropped:
        tell(f"{storage.place}: {end.cut:,} bytes at the end of the log were never synced, and are dropped")
    log = Log(storage, manifest.identity, lease.token, settings.keys, settings.synchronous, end)
    _log.info(
        "%s is open at epoch %d", storage.place, end.epoch, path=storage.place, epoch=end.epoch,
        seconds=round(time.monotonic() - started, 3),
    )  # fmt: skip
    return DatabaseFolder(storage, lease, settings, manifest, state, log)


def _made(storage: LocalStorage, lease: Lease, settings: FolderSettings) -> DatabaseFolder:
    """A new database. Its log is there before its manifest, so that a log that is missing later is damage."""
    for first, path in log_files(storage):
        if first > 1 or storage.read(path).size > _EMPTY_LOG_BYTES:
            raise Damage("there is a log, and no checkpoint before it")
        storage.delete(path)  # A crash has left it while the database was made.
    manifest = Manifest(os.urandom(16).hex(), 0, lease.token)
    log = Log(storage, manifest.identity, lease.token, settings.keys, settings.synchronous, LogEnd(0))
    try:
        checkpoint.save(storage, manifest, {}, {}, settings.keys)
    except BaseException:
        log.abandon()
        raise
    _log.info("%s is made", storage.place, path=storage.place)
    return DatabaseFolder(storage, lease, settings, manifest, State({}, {}), log)


def _newest(
    storage: LocalStorage, found: list[tuple[int, str]], keys: Keys, files: ColumnFiles | None
) -> tuple[Manifest, State, LogEnd]:
    """The newest checkpoint that can be read, with the log behind it, which must go as far as any checkpoint did."""
    damage: Damage | None = None
    for epoch, path in found:
        try:
            manifest = checkpoint.read_manifest(storage, path, epoch, keys)
            state, end = _read(storage, manifest, keys, files)
        except Damage as error:
            damage = damage or error
            continue
        if end.epoch < found[0][0]:
            break
        if damage is not None:
            _log.warning("%s: %s; an older checkpoint and the log are whole", storage.place, damage, path=storage.place)
        return manifest, state, end
    raise damage or Damage("the log ends before the newest checkpoint")


def _read(storage: LocalStorage, manifest: Manifest, keys: Keys, files: ColumnFiles | None) -> tuple[State, LogEnd]:
    reader = SegmentReader(storage)
    state = State(dict(manifest.definitions), {}, files=files)
    for table, pieces in manifest.tables.items():
        state.rows[table] = StoredRows([filed(batch, files) for batch in read_rows(reader, pieces)])
    end = LogEnd(manifest.epoch)
    for group in read_log(storage, manifest.identity, manifest.epoch, keys, end):
        for body in group.bodies:
            state.add(changes_of(body, f"epoch {group.epoch:,} of the log"), group.epoch)
    if end.file is None:
        raise Damage(f"the log behind epoch {manifest.epoch:,} is missing")
    for view, found in manifest.views.items():
        place = ("materialized view", *view)
        if place in state.definitions and state.definitions[place] == manifest.definitions.get(place):
            state.views[view] = found
    return state, end
