"""The folder of a database as one thing: opened, it says what there was; each epoch is added; checkpoints are made.

    owner.json, .lock     who owns it (`lease.py`)
    log/                  epochs since the newest checkpoint (`log.py`)
    checkpoints/          definitions and rows as they were after some epoch (`checkpoint.py`)
    jobs/                 the checkpoints of jobs (`sqlengine/database/kept_jobs.py`)

What there is is the newest checkpoint and the log behind it. A checkpoint is taken when the log has grown by so many
bytes, in intervals, and when the database is closed. What it says is fixed while the epoch is added; another thread
writes it.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

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

__all__ = ["JOBS", "Contents", "DatabaseFolder", "FolderSettings", "read_backup"]

_log = Logger("database")

_MOST_PIECES = 32
"""A table in more pieces is written anew."""

JOBS = "jobs"
"""Where the checkpoints of jobs are."""

_EMPTY_LOG_BYTES = 256
"""A file of the log with epochs is larger than one without."""

Contents = Callable[[Storage], list[ChangelogBatch]]
"""Gives all rows of a table as they are after the last epoch that was added, as insertions."""


@dataclass(frozen=True, slots=True)
class FolderSettings:
    """`synchronous`: see `log.py`. `checkpoint_bytes`: how large the log grows; `checkpoint_seconds`: how old a
    checkpoint gets while epochs come, without end when 0."""

    synchronous: str = "full"
    checkpoint_bytes: int = 64 << 20
    checkpoint_seconds: float = 0.0
    keys: Keys = field(default_factory=Keys)


@dataclass(slots=True)
class _State:
    """What there is. `since`: what has changed in a table since the manifest; None where only all its rows tell."""

    definitions: dict[Place, Definition]
    rows: dict[Storage, list[ChangelogBatch]]
    since: dict[Storage, list[ChangelogBatch] | None] = field(default_factory=dict)

    def add(self, changes: EpochChanges, *, rows: bool) -> None:
        """Take in an epoch; `rows`: the tables' rows are kept, too."""
        for place, definition in changes.definitions.items():
            # At the end, also when it was there: views are made in this order.
            self.definitions.pop(place, None)
            if definition is not None:
                self.definitions[place] = definition
            elif place[0] == "table":
                self._drop((place[1], place[2], place[3]))
        for table in changes.tables:
            if table.anew:
                self.since[table.storage] = None
                if rows:
                    self.rows[table.storage] = []
            if rows:
                self.rows.setdefault(table.storage, []).extend(table.batches)
            since = self.since.setdefault(table.storage, [])
            if since is not None:
                since.extend(table.batches)

    def _drop(self, storage: Storage) -> None:
        self.rows.pop(storage, None)
        self.since[storage] = None


class DatabaseFolder:
    """A database in a folder that this process owns. `add` and `begin_checkpoint` are called one after another, in the
    order of epochs; the rest from any thread."""

    def __init__(
        self, storage: LocalStorage, lease: Lease, settings: FolderSettings, manifest: Manifest, state: _State, log: Log
    ) -> None:
        self.place = storage.place
        self._storage = storage
        self._lease = lease
        self._settings = settings
        self._manifest = manifest
        self._state = state
        self._log = log
        self._writer: threading.Thread | None = None
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

    def take_rows(self) -> dict[Storage, list[ChangelogBatch]]:
        """The rows that tables had when the database was opened, as changes from nothing; given once."""
        rows, self._state.rows = self._state.rows, {}
        return rows

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

    def add(self, changes: EpochChanges, contents: Contents) -> None:
        """Add an epoch to the log; `settle` waits until it is safe. A checkpoint is begun when it is time.

        Raises:
            DatabaseError: E3704, the log has stopped.
        """
        self._log.append(bodies_of(changes))
        self._state.add(changes, rows=False)
        if self._checkpoint_is_due():
            self.begin_checkpoint(contents)

    def settle(self) -> None:
        """Wait until all epochs that were added are as safe as `synchronous` says. Raises DatabaseError E3704."""
        self._log.settle()

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

    def _checkpoint_is_due(self) -> bool:
        if self._writer is not None and self._writer.is_alive():
            return False
        seconds = self._settings.checkpoint_seconds
        old = seconds > 0 and time.monotonic() - self._checkpointed >= seconds
        return old or self._log.written >= self._settings.checkpoint_bytes

    def begin_checkpoint(self, contents: Contents) -> None:
        """Fix what the next checkpoint says; it is written by a thread."""
        self._wait()
        write = self._fixed(contents)
        self._writer = threading.Thread(target=write, name="checkpoint of the database", daemon=True)
        self._writer.start()

    def checkpoint(self, contents: Contents) -> bool:
        """Make one; tells whether that succeeded. What has failed is told, and loses nothing: the log goes on."""
        self._wait()
        return self._fixed(contents)()

    def _wait(self) -> None:
        if self._writer is not None:
            self._writer.join()
            self._writer = None

    def _fixed(self, contents: Contents) -> Callable[[], bool]:
        """What a checkpoint says as of now, to be written."""
        first = self._log.begin_file()
        self._checkpointed = time.monotonic()
        manifest = Manifest(self._manifest.identity, first - 1, self._lease.token, dict(self._state.definitions))
        since, self._state.since = self._state.since, {}
        tables = [(p[1], p[2], p[3]) for p in manifest.definitions if p[0] == "table"]
        rows: dict[Storage, list[ChangelogBatch]] = {}
        for table in tables:
            pieces = self._manifest.tables.get(table, [])
            changes = since.get(table, [])
            if changes is None or _is_cheaper_anew(sum(p.segment.rows for p in pieces), len(pieces), changes):
                rows[table] = contents(table)
            else:
                if pieces:
                    manifest.tables[table] = list(pieces)
                if changes:
                    rows[table] = changes

        def write() -> bool:
            try:
                self._write(manifest, rows, first)
            except Exception as error:
                # What was fixed is not there: next time these tables are written whole.
                for table in since:
                    self._state.since[table] = None
                _log.failure(f"the checkpoint after epoch {manifest.epoch:,} failed", error, path=self.place)
                reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
                tell(f"the checkpoint of {self.place} failed: {reason}; the log has all, and grows")
                return False
            return True

        return write

    def _write(self, manifest: Manifest, rows: dict[Storage, list[ChangelogBatch]], first: int) -> None:
        started = time.monotonic()
        self._lease.check()
        checkpoint.save(self._storage, manifest, rows, self._settings.keys)
        self._manifest = manifest
        _log.info(
            "the checkpoint after epoch %d is complete",
            manifest.epoch,
            path=self.place,
            epoch=manifest.epoch,
            rows=sum(len(b) for batches in rows.values() for b in batches),
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

    def backup(self, path: str, contents: Contents) -> int:
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
        rows = {(p[1], p[2], p[3]): contents((p[1], p[2], p[3])) for p in definitions if p[0] == "table"}
        manifest = Manifest(os.urandom(16).hex(), self.epoch, 0, definitions)
        try:
            Log(storage, manifest.identity, 0, keys, "full", LogEnd(self.epoch)).close()
            checkpoint.save(storage, manifest, {table: b for table, b in rows.items() if b}, keys)
        except OSError as error:
            raise DatabaseError(
                f"the backup {place} cannot be written: {error.strerror or error}",
                hint="see to the disk; what is there is no backup",
            ) from error
        return sum(len(batch) for batches in rows.values() for batch in batches)

    def close(self, contents: Contents) -> None:
        """Make a checkpoint where there is something to save, and give the folder back. Harmless when called again.

        Raises:
            DatabaseError: E3704, what was added last may be lost.
        """
        try:
            self._wait()
            if self._log.failure is None:
                if self._log.epoch > self._manifest.epoch:
                    self.checkpoint(contents)
                self._log.close()
            else:
                self._log.abandon()
        finally:
            self._lease.release()


def read_backup(path: str, keys: Keys) -> tuple[dict[Place, Definition], dict[Storage, list[ChangelogBatch]]]:
    """The definitions and rows of a database that nobody has open, such as a backup. Changes nothing.

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
        _, state, _ = _newest(storage, found, keys)
    except Damage as damage:
        raise DatabaseError(
            f"the backup {storage.place} is damaged: {damage}", code="E3702", hint="take another one"
        ) from damage
    except OSError as error:
        raise DatabaseError(
            f"the backup {storage.place} cannot be read: {error.strerror or error}", hint="see to the folder"
        ) from error
    return state.definitions, state.rows


def _is_cheaper_anew(kept: int, pieces: int, changes: list[ChangelogBatch]) -> bool:
    """Whether all rows are fewer bytes to read at a start than the pieces with further changes behind them."""
    undoes = any(batch.kinds is not None for batch in changes)
    return bool(changes) and (pieces >= _MOST_PIECES or (undoes and sum(map(len, changes)) > kept))


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
    manifest, state, end = _newest(storage, found, settings.keys)
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
        checkpoint.save(storage, manifest, {}, settings.keys)
    except BaseException:
        log.abandon()
        raise
    _log.info("%s is made", storage.place, path=storage.place)
    return DatabaseFolder(storage, lease, settings, manifest, _State({}, {}), log)


def _newest(storage: LocalStorage, found: list[tuple[int, str]], keys: Keys) -> tuple[Manifest, _State, LogEnd]:
    """The newest checkpoint that can be read, with the log behind it, which must go as far as any checkpoint did."""
    damage: Damage | None = None
    for epoch, path in found:
        try:
            manifest = checkpoint.read_manifest(storage, path, epoch, keys)
            state, end = _read(storage, manifest, keys)
        except Damage as error:
            damage = damage or error
            continue
        if end.epoch < found[0][0]:
            break
        if damage is not None:
            _log.warning("%s: %s; an older checkpoint and the log are whole", storage.place, damage, path=storage.place)
        return manifest, state, end
    raise damage or Damage("the log ends before the newest checkpoint")


def _read(storage: LocalStorage, manifest: Manifest, keys: Keys) -> tuple[_State, LogEnd]:
    reader = SegmentReader(storage)
    state = _State(
        dict(manifest.definitions),
        {table: list(checkpoint.read_rows(reader, pieces)) for table, pieces in manifest.tables.items()},
    )
    end = LogEnd(manifest.epoch)
    for group in read_log(storage, manifest.identity, manifest.epoch, keys, end):
        for body in group.bodies:
            state.add(changes_of(body, f"epoch {group.epoch:,} of the log"), rows=True)
    if end.file is None:
        raise Damage(f"the log behind epoch {manifest.epoch:,} is missing")
    return state, end
