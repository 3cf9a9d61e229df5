"""How a database is opened: who owns it, which checkpoint is the newest, and what the log says behind it.

In an object store the owner before may still be there, standing still, although somebody has taken over. So the new owner
first writes an empty epoch behind the last one: as the files of the log are made and never replaced (`log_files.py`), what
the other one writes from then on is refused, and what it had written before is read. Then the checkpoint's files are copied
(`checkpoint.adopted`), because the other one may yet complete a checkpoint and delete what that does not need. That it has
done so meanwhile is seen by the newest manifest, and opening begins again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from connectors.memory.column_files import ColumnFiles, filed
from runtime.checkpoint.keys import Keys
from runtime.checkpoint.local_storage import LocalStorage
from runtime.checkpoint.object_lease import FOLDER as OWNERS
from runtime.checkpoint.remote_storage import RemoteStorage
from runtime.checkpoint.segments import SegmentReader
from runtime.checkpoint.shared_folder import SharedFolder
from runtime.checkpoint.shared_storage import SharedStorage
from runtime.checkpoint.storage import Damage
from runtime.core.errors import CheckpointError, DatabaseError
from runtime.core.logs import Log as Logger
from runtime.core.logs import tell
from sqlengine.database.folder import checkpoint
from sqlengine.database.folder.changes import EpochChanges, bodies_of, changes_of
from sqlengine.database.folder.checkpoint import Manifest
from sqlengine.database.folder.job_folders import FOLDER as JOBS
from sqlengine.database.folder.lease import OWNER, FolderLease, Lease, SharedLease
from sqlengine.database.folder.log import Log, identity_of, read_log
from sqlengine.database.folder.log_end import LogEnd
from sqlengine.database.folder.log_files import FOLDER as LOG_FOLDER
from sqlengine.database.folder.log_files import log_files
from sqlengine.database.folder.pieces import read_rows
from sqlengine.database.folder.stored import State, Stored, StoredRows

__all__ = ["Opened", "check_is_new", "damaged", "owned", "read_backup", "shared_storage_of", "storage_of"]

_log = Logger("database")

_EMPTY_LOG_BYTES = 256
"""A file of the log with epochs is larger than one without."""
_MADE_LOG_BYTES = 512
"""One with an epoch in which something has changed is larger than that with which a database is made."""

Place = LocalStorage | SharedStorage
Adopt = Callable[[Manifest], Manifest]


@dataclass(frozen=True, slots=True)
class Opened:
    """A database that this process owns, as it was when it was opened."""

    lease: Lease
    manifest: Manifest
    state: State
    log: Log


def storage_of(path: str) -> Place:
    """The folder at a path, or below the prefix of an object store that a URI names. Raises DatabaseError E3706."""
    if "://" not in path:
        local = LocalStorage(path)
        return SharedFolder(path) if _is_shared(local) else local
    try:
        return RemoteStorage.at(path)
    except CheckpointError as error:
        raise DatabaseError(error.message, code="E3706", hint=error.hint) from error


def _is_shared(storage: LocalStorage) -> bool:
    """Whether the folder has an owner as an object store has one, and not by a lock of the system."""
    return os.path.isdir(os.path.join(storage.place, OWNERS))


def shared_storage_of(path: str, keys: Keys) -> SharedStorage:
    """The same; a folder is one from then on that several machines may reach, with an owner that another one can follow.

    Raises:
        DatabaseError: a process has it open that knows nothing of others (E3701); it keeps jobs (E3712); it is damaged
        (E3702), newer (E3703), or no folder of a database (E3706).
        OSError: it cannot be read or written.
    """
    storage = storage_of(path)
    _check_place(storage)
    if isinstance(storage, SharedStorage):
        return storage
    lease = FolderLease.take(storage)
    try:
        if not _is_shared(storage):
            _share(storage, lease, keys)
    except Damage as damage:
        raise damaged(storage, damage) from damage
    finally:
        lease.release()
    return SharedFolder(path)


def _share(storage: LocalStorage, lease: FolderLease, keys: Keys) -> None:
    if checkpoint.manifests(storage):
        # Opened, the log loses the torn end that a crash has left.
        opened = _opened(storage, lease, keys, "full", None)
        # The name of the next file is free: the newest has an epoch.
        opened.log.append(bodies_of(EpochChanges()))
        opened.log.close()
        if any(place[0] == "job" for place in opened.state.definitions):
            raise DatabaseError(
                f"the database {storage.place} keeps jobs, whose checkpoints know of one machine alone",
                code="E3712",
                hint="end them first: open it as before, and STOP JOB .. WITH SAVEPOINT; then begin them again from there",
            )
    SharedLease.take(SharedFolder(storage.place)).release()


def damaged(storage: Place, damage: Damage) -> DatabaseError:
    """That a database is not as it was written."""
    return DatabaseError(
        f"the database {storage.place} is damaged: {damage}",
        code="E3702",
        hint="RESTORE it from a backup; nothing in the folder was changed",
    )


def check_is_new(storage: Place) -> None:
    """Raises DatabaseError E3708 when there is something already; OSError when that cannot be told."""
    place = storage.place
    if isinstance(storage, SharedStorage):
        empty = not storage.names()
    else:
        empty = not os.path.lexists(place) or (os.path.isdir(place) and not os.listdir(place))
    if not empty:
        raise DatabaseError(f"there is something already at {place}", code="E3708", hint="give a folder that is new")


def owned(
    storage: Place, keys: Keys, synchronous: str, files: ColumnFiles | None, taken: SharedLease | None = None
) -> Opened:
    """Own a database, which is made where there is none, and read what it holds.

    Args:
        taken: the right to do so, where this process has it already.

    Raises:
        Damage: it is not as it was written.
        DatabaseError: somebody else owns it (E3701), it is of a newer version (E3703), or no folder of a database (E3706).
        OSError: it cannot be read or written.
    """
    started = time.monotonic()
    _check_place(storage)
    if isinstance(storage, LocalStorage):
        lease = FolderLease.take(storage)
        with _released_on_failure(lease):
            if _is_shared(storage):
                raise DatabaseError(
                    f"other servers have begun to stand by for the database {storage.place}",
                    code="E3701",
                    hint="open it again",
                )
            opened = _opened(storage, lease, keys, synchronous, files)
    else:
        lease = SharedLease.take(storage) if taken is None else taken
        with _released_on_failure(lease):
            opened = _taken_over(storage, lease, keys, synchronous, files)
    _log.info(
        "%s is open at epoch %d", storage.place, opened.log.epoch, path=storage.place, epoch=opened.log.epoch,
        seconds=round(time.monotonic() - started, 3),
    )  # fmt: skip
    return opened


@contextmanager
def _released_on_failure(lease: Lease) -> Generator[None]:
    try:
        yield
    except BaseException:
        lease.release()
        raise


def read_backup(path: str, keys: Keys, files: ColumnFiles | None = None) -> Stored:
    """What there is in a database that nobody has open, such as a backup. Changes nothing.

    Raises:
        DatabaseError: there is none (E3706), it is damaged (E3702), newer (E3703), or cannot be read (E3700).
    """
    storage = storage_of(path)
    try:
        found = checkpoint.manifests(storage)
        if not found:
            raise DatabaseError(
                f"there is no database at {storage.place}", code="E3706", hint="give the path of a backup"
            )
        manifest, state, _ = _newest(storage, found, keys, files, lambda manifest: manifest)
    except Damage as damage:
        raise DatabaseError(
            f"the backup {storage.place} is damaged: {damage}", code="E3702", hint="take another one"
        ) from damage
    except OSError as error:
        raise DatabaseError(
            f"the backup {storage.place} cannot be read: {error.strerror or error}", hint="see to the folder"
        ) from error
    return Stored(
        state.definitions, state.rows, state.views, storage, state.histories, state.moments, numbers=state.numbers,
        number=manifest.number,
    )  # fmt: skip


def _check_place(storage: Place) -> None:
    """Raises DatabaseError E3706 for what is no folder, or one with other files."""
    place = storage.place
    if isinstance(storage, SharedStorage):
        found = storage.names()
    elif not os.path.lexists(place):
        return
    elif not os.path.isdir(place):
        raise DatabaseError(f"{place} is no folder", code="E3706", hint="give the folder of a database, or a new one")
    else:
        found = set(os.listdir(place))
    names = {name for name in found if not name.startswith(("_", "."))}
    if names - {OWNER, OWNERS, LOG_FOLDER, checkpoint.FOLDER, JOBS}:
        raise DatabaseError(
            f"{place} holds other files: {', '.join(sorted(names)[:3])}",
            code="E3706",
            hint="give the folder of a database, or a new one",
        )


def _opened(storage: Place, lease: Lease, keys: Keys, synchronous: str, files: ColumnFiles | None) -> Opened:
    found = checkpoint.manifests(storage)
    if not found:
        return _made(storage, lease, keys, synchronous)
    manifest, state, end = _newest(storage, found, keys, files, lambda manifest: manifest)
    lease.exceed(max(manifest.owner, end.owner))
    if end.dropped:
        tell(f"{storage.place}: {end.cut:,} bytes at the end of the log were never synced, and are dropped")
    log = Log(storage, manifest.identity, lease.token, keys, synchronous, end)
    return Opened(lease, manifest, state, log)


def _made(storage: Place, lease: Lease, keys: Keys, synchronous: str) -> Opened:
    """A new database. Its log is there before its manifest, so that a log that is missing later is damage."""
    for first, path in log_files(storage):
        if first > 1 or storage.read(path).size > _EMPTY_LOG_BYTES:
            raise Damage("there is a log, and no checkpoint before it")
        storage.delete(path)  # A crash has left it while the database was made.
    manifest = Manifest(os.urandom(16).hex(), 0, lease.token)
    log = Log(storage, manifest.identity, lease.token, keys, synchronous, LogEnd(0))
    try:
        checkpoint.save(storage, manifest, {}, {}, keys)
    except BaseException:
        log.abandon()
        raise
    _log.info("%s is made", storage.place, path=storage.place)
    return Opened(lease, manifest, State({}, {}), log)


def _taken_over(
    storage: SharedStorage, lease: Lease, keys: Keys, synchronous: str, files: ColumnFiles | None
) -> Opened:
    """See the head of this file."""

    storage.clear()

    def adopt(manifest: Manifest) -> Manifest:
        return manifest if lease.trusts(manifest.owner) else checkpoint.adopted(storage, manifest, lease.token)

    while True:
        found = checkpoint.manifests(storage)
        if not found:
            _make(storage, lease, keys)
            continue
        try:
            manifest = _manifest(storage, found, keys)
            lease.check()
            lease.exceed(manifest.owner)
            if not _is_fenced(storage, manifest, lease, keys):
                continue
            manifest, state, end = _newest(storage, found, keys, files, adopt)
        except (Damage, FileNotFoundError):
            if checkpoint.manifests(storage)[:1] != found[:1]:
                continue
            raise
        log = Log(storage, manifest.identity, lease.token, keys, synchronous, end)
        return Opened(lease, manifest, state, log)


def _manifest(storage: SharedStorage, found: list[tuple[int, str]], keys: Keys) -> Manifest:
    """The newest that can be read. Raises Damage, OSError."""
    damage: Damage | None = None
    for epoch, path in found:
        try:
            return checkpoint.read_manifest(storage, path, epoch, keys)
        except Damage as error:
            damage = damage or error
    raise damage or Damage("there is no checkpoint")


def _is_fenced(storage: SharedStorage, manifest: Manifest, lease: Lease, keys: Keys) -> bool:
    """Write an empty epoch behind the last one, so that nobody with a lower token writes more; tells whether that was
    possible: another epoch may have come meanwhile.

    Raises:
        Damage: the log is not as it was written.
        DatabaseError: the log is of a newer version (E3703).
        OSError: the store cannot be read or written.
    """
    after = max([manifest.epoch, *(first - 1 for first, _ in log_files(storage)[-1:])])
    end = LogEnd(after)
    for _ in read_log(storage, manifest.identity, after, keys, end):
        pass
    lease.exceed(end.owner)
    log = Log(storage, manifest.identity, lease.token, keys, "full", LogEnd(end.epoch))
    try:
        log.append(bodies_of(EpochChanges()), fence=not lease.trusts(lease.token - 1))
        log.settle()
    except DatabaseError as error:
        if error.code != "E3707":
            raise OSError(5, error.message) from error
        return False
    return True


def _make(storage: SharedStorage, lease: Lease, keys: Keys) -> None:
    """Make a new database. Two that do so at once make one: the first file of the log says which.

    Raises:
        Damage: there is a log with epochs, and no checkpoint before it.
        OSError: the store cannot be read or written.
    """
    identity, sizes = os.urandom(16).hex(), storage.files(LOG_FOLDER)
    if any(first > 1 or sizes[path] > _MADE_LOG_BYTES for first, path in log_files(storage)):
        raise Damage("there is a log, and no checkpoint before it")
    log = Log(storage, identity, lease.token, keys, "full", LogEnd(0))
    try:
        log.append(bodies_of(EpochChanges()))
        log.settle()
    except DatabaseError as error:
        if error.code != "E3707":
            raise OSError(5, error.message) from error
        identity = identity_of(storage, 1)
    with suppress(FileExistsError):
        checkpoint.save(storage, Manifest(identity, 0, lease.token), {}, {}, keys)
        _log.info("%s is made", storage.place, path=storage.place)


def _newest(
    storage: Place, found: list[tuple[int, str]], keys: Keys, files: ColumnFiles | None, adopt: Adopt
) -> tuple[Manifest, State, LogEnd]:
    """The newest checkpoint that can be read, with the log behind it, which must go as far as any checkpoint did. `adopt`:
    see `checkpoint.adopted`."""
    damage: Damage | None = None
    for epoch, path in found:
        try:
            manifest = adopt(checkpoint.read_manifest(storage, path, epoch, keys))
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


def _read(storage: Place, manifest: Manifest, keys: Keys, files: ColumnFiles | None) -> tuple[State, LogEnd]:
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
    for table, history in manifest.histories.items():
        is_table = ("table", *table) in state.definitions
        if table in state.views or (is_table and not (table in state.rows and state.rows[table].anew)):
            state.histories[table] = history
    return state, end
