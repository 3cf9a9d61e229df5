"""The checkpoints of a job in a folder, and savepoints, each in a folder of its own.

    LOCATION/JOB/chk-7/manifest.json            what checkpoint 7 holds; written last
    LOCATION/JOB/chk-7/state-<token>-0.plan.json
    LOCATION/JOB/chk-7/state-<token>-1.arrows   rows, see `segments.py`; also files of older checkpoints are used
    LOCATION/JOB/copy-7/state-...               the same rows, for checkpoint 8, where several are kept

A file is made under a name that no file had before, and is never changed. It is deleted when no retained manifest names
it. A write that fails or is cut short leaves files without a manifest: they are no checkpoint, and the next write
deletes them.
"""

from __future__ import annotations

import os
import re
import secrets
import threading
import zlib
from contextlib import suppress

import pyarrow as pa
from pyarrow import fs

from runtime.checkpoint.epoch_state import CheckpointInfo, EpochState, Restored
from runtime.checkpoint.image import Chains, ImageWriter, read_image
from runtime.checkpoint.keys import NO_KEYS, Keys
from runtime.checkpoint.local_storage import LocalStorage
from runtime.checkpoint.manifest import MANIFEST, MOST_BYTES, Manifest, decode_manifest
from runtime.checkpoint.object_storage import ObjectStorage
from runtime.checkpoint.segments import SegmentReader
from runtime.checkpoint.shared_storage import SharedStorage
from runtime.checkpoint.storage import Damage, Storage
from runtime.core.errors import CheckpointError, InternalError, OptionError
from runtime.core.logs import Log

__all__ = [
    "CheckpointInfo",
    "CheckpointStore",
    "Restored",
    "folder_name",
    "read_savepoint",
    "storage_at",
    "write_savepoint",
]

_log = Log("checkpoint")
_FOLDER = re.compile(r"(chk|copy)-(\d{1,18})")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_NAME = 100


class CheckpointStore:
    """The checkpoints of one job.

    Args:
        location: a folder, a URI that pyarrow knows (`s3://bucket/path?region=..`), a pyarrow file system, of which
            the root is used, or an object store. Nothing is made there before the first write.
        job: its name; signs that a folder's name cannot have are replaced.
        retained: how many complete checkpoints are kept. From two on all rows are written twice, so that no damage of
            one file is that of all of them.
        keys: who may have written a checkpoint.
        copies: whether rows are written twice, where something else decides than `retained`.

    Raises:
        CheckpointError: the location cannot be reached.
        OptionError: `retained` is less than 1.
    """

    def __init__(
        self,
        location: str | fs.FileSystem | SharedStorage,
        job: str,
        retained: int = 1,
        keys: Keys = NO_KEYS,
        *,
        copies: bool | None = None,
    ) -> None:
        if retained < 1:
            raise OptionError(
                f"option 'execution.checkpointing.num-retained' cannot be '{retained}'", hint="it is at least 1"
            )
        self._storage = storage_at(location, folder_name(job))
        self._job = job
        self._retained = retained
        self._copies = retained > 1 if copies is None else copies
        self._keys = keys
        self._token = secrets.token_hex(4)
        self._reader = SegmentReader(self._storage)
        self._chains = Chains()
        self._writing = threading.Lock()
        # All files of the folder by path, and the complete checkpoints, oldest first, once something is written.
        self._files: dict[str, int] | None = None
        self._complete: list[Manifest] = []
        self._next = 1
        # Why checkpoints that `latest` or `refuse` found to be damaged are, and manifests that `list` has read.
        self._damaged: dict[int, str] = {}
        self._read: dict[int, tuple[Manifest, int]] = {}

    @property
    def path(self) -> str:
        """The folder of the job's checkpoints."""
        return self._storage.place

    def claim(self) -> None:
        """Makes sure that no other process writes checkpoints of this job; writing and clearing do so anyhow.

        Raises:
            CheckpointError: another one does (E3405), or the folder cannot be made.
        """
        try:
            self._storage.claim()
        except OSError as error:
            raise CheckpointError(f"{self.path} cannot be written: {error}", code="E3406") from error

    def write(self, state: EpochState) -> CheckpointInfo:
        """Writes a checkpoint and deletes those that are not to be kept any more. May be called from any thread.

        Tables that are complete begin a new chain; of others the changes since the call before are written. After a
        failure all tables must be complete.

        Raises:
            CheckpointError: it could not be written. The checkpoints before it are as they were; what was written is
                deleted as far as possible.
        """
        with self._writing:
            files = self._open()
            number, self._next = self._next, self._next + 1
            # Should this fail, it is looked again at what is there.
            chains, self._chains, self._files = self._chains, Chains(), None
            writer = ImageWriter(
                self._storage,
                f"chk-{number}",
                self._token,
                self._reader,
                self._keys,
                line=1 - chains.line,
                copies=self._copies,
            )
            try:
                manifest, size, chains = writer.write(state, chains, "checkpoint", number, self._job, files)
            except Exception as error:
                raise _write_failure(error, writer, f"checkpoint {number} cannot be written to {self.path}") from error
            self._chains = chains
            self._files = {**files, **manifest.files, manifest.path: size}
            self._files.update(writer.left())
            self._read[number] = manifest, size
            self._complete.append(manifest)
            self._expire()
            return manifest.info(self.path, "completed", size)

    def latest(self, *, unread: bool = False) -> Restored | None:
        """The newest complete checkpoint of which all files are as they were written; None when there is none at all.
        `unread`: the state of operators is read by whoever asks for it, who finds out whether it is.

        Raises:
            CheckpointError: all are damaged; or a newer version of the engine wrote one; or the files cannot be read
                now. An older one is not used then: what is wrong may pass.
        """
        for number in sorted(self._numbers() - self._damaged.keys(), reverse=True):
            try:
                restored = read_image(self._storage, self._manifest(number)[0], unread=unread)
            except Damage as damage:
                if number not in self._numbers():
                    # Another process has just deleted it, which has newer ones.
                    return self.latest(unread=unread)
                self.refuse(number, str(damage))
            except OSError as error:
                if number not in self._numbers():
                    return self.latest(unread=unread)
                raise CheckpointError(
                    f"checkpoint {number} in {self.path} cannot be read: {error}",
                    code="E3406",
                    hint=f"if it never can be, delete the folder chk-{number} to go on from the checkpoint before it",
                ) from error
            else:
                restored.problems.extend(self._problems())
                return restored
        if problems := self._problems():
            raise CheckpointError(
                f"no checkpoint in {self.path} can be used: " + "; ".join(problems),
                code="E3402",
                hint="go on from a savepoint (execution.state-recovery.path), or start anew with --fresh",
            )
        return None

    def refuse(self, number: int, why: str) -> None:
        """A checkpoint cannot be gone on from, so that `latest` gives the one before it. The first reason stays."""
        if number in self._damaged:
            return
        text, path = "checkpoint %d of %s is damaged, the one before it is used: %s", f"{self.path}/chk-{number}"
        _log.warning(text, number, self._job, why, checkpoint=number, path=path, code="E3402")
        self._damaged[number] = why

    def _problems(self) -> list[str]:
        """Why checkpoints that are there cannot be used, newest first."""
        there = self._numbers()
        return [
            f"checkpoint {number} is damaged and cannot be used: {why}"
            for number, why in sorted(self._damaged.items(), reverse=True)
            if number in there
        ]

    def list(self) -> list[CheckpointInfo]:
        """All checkpoints that there are, oldest first. Raises CheckpointError when the place cannot be read."""
        found: list[CheckpointInfo] = []
        for number in sorted(self._numbers()):
            try:
                manifest, size = self._manifest(number)
            except Damage as damage:
                self.refuse(number, str(damage))
                path = f"{self.path}/chk-{number}"
                found.append(CheckpointInfo(number, "checkpoint", 0, 0, 0, 0, 0, "damaged", path))
            except FileNotFoundError:
                continue
            except OSError as error:
                raise CheckpointError(f"{self.path} cannot be read: {error}", code="E3406") from error
            else:
                found.append(manifest.info(self.path, "damaged" if number in self._damaged else "completed", size))
        return found

    def go_back(self, number: int) -> None:
        """Deletes the checkpoints after one, which count no more, all of them for 0. Raises CheckpointError when that is
        not possible."""
        later = [n for n in self._numbers() if n > number]
        with self._writing:
            # What is written next is complete.
            self._chains, self._files, self._complete = Chains(), None, []
            try:
                self._storage.claim()
                for found in sorted(later, reverse=True):
                    self._storage.delete(f"chk-{found}/{MANIFEST}")
            except OSError as error:
                raise CheckpointError(f"{self.path} cannot be cleared: {error}", code="E3406") from error

    def clear(self) -> None:
        """Deletes all checkpoints of the job. Raises CheckpointError when that is not possible."""
        with self._writing:
            self._chains, self._files, self._complete = Chains(), None, []
            self._damaged.clear()
            self._read.clear()
            try:
                self._storage.claim()
                self._files = self._storage.files()
                # The newest manifest goes last: a clearing that is cut short does not bring an older one to light.
                self._delete([path for path in sorted(self._files, key=_clearing_order) if _ours(path)])
            except OSError as error:
                raise CheckpointError(f"{self.path} cannot be cleared: {error}", code="E3406") from error
            finally:
                self._files = None

    def close(self) -> None:
        """Nothing more will be written: another process may."""
        self._storage.release()

    def _numbers(self) -> set[int]:
        """The checkpoints that have a manifest."""
        try:
            return _numbers(self._storage.files())
        except OSError as error:
            raise CheckpointError(f"{self.path} cannot be read: {error}", code="E3406") from error

    def _manifest(self, number: int) -> tuple[Manifest, int]:
        """The manifest of a checkpoint, and its size. Raises Damage, or OSError when it cannot be read."""
        known = self._read.get(number)
        if known is not None and number not in self._damaged:
            return known
        manifest, size = _read_manifest(self._storage, f"chk-{number}", self._keys)
        if (manifest.kind, manifest.id, manifest.job) != ("checkpoint", number, self._job):
            raise Damage(f"{manifest.path} is that of {manifest.kind} {manifest.id} of the job {manifest.job[:80]!r}")
        self._read[number] = manifest, size
        return manifest, size

    def _open(self) -> dict[str, int]:
        """All files by path. The first time, and after a failure, it looks what is there, and deletes what interrupted
        writes have left."""
        if self._files is not None:
            return self._files
        try:
            self._storage.claim()
            files = self._storage.files()
            folders = {path.partition("/")[0] for path in files}
            numbers = [int(match[2]) for folder in folders if (match := _FOLDER.fullmatch(folder))]
            # A damaged manifest keeps the files of its folder until newer checkpoints are complete.
            spared: set[str] = set()
            complete: list[Manifest] = []
            for number in sorted(_numbers(files)):
                try:
                    complete.append(self._manifest(number)[0])
                except Damage as damage:
                    self.refuse(number, str(damage))
                    spared.add(f"chk-{number}")
        except OSError as error:
            raise CheckpointError(f"{self.path} cannot be read: {error}", code="E3406") from error
        self._files, self._complete = files, complete
        self._next = max(self._next, max(numbers, default=0) + 1)
        self._sweep(spared)
        return files

    def _expire(self) -> None:
        """Forgets checkpoints that are not to be kept, and deletes what nothing refers to."""
        usable = [manifest for manifest in self._complete if manifest.id not in self._damaged]
        self._complete = usable[-self._retained :]
        kept = {manifest.id for manifest in self._complete}
        self._read = {number: found for number, found in self._read.items() if number in kept}
        self._sweep(set())

    def _sweep(self, spared: set[str]) -> None:
        """Deletes files that no complete checkpoint needs, manifests first; folders of `spared` stay. What cannot be
        deleted now is tried again after the next write."""
        assert self._files is not None
        needed = {path for manifest in self._complete for path in (*manifest.files, manifest.path)}
        gone = [path for path in self._files if path not in needed and path.partition("/")[0] not in spared]
        with suppress(OSError):
            self._delete(sorted((path for path in gone if _ours(path)), key=_clearing_order))

    def _delete(self, paths: list[str]) -> None:
        """Deletes files in this order, and the folders that have none then."""
        assert self._files is not None
        for path in paths:
            self._storage.delete(path)
            del self._files[path]
        left = {path.rpartition("/")[0] for path in self._files}
        for folder in {path.rpartition("/")[0] for path in paths} - left:
            self._storage.delete_folder(folder)


def write_savepoint(path: str, state: EpochState, job: str, keys: Keys = NO_KEYS) -> CheckpointInfo:
    """Writes a savepoint: a folder that holds all that it needs.

    Args:
        path: a folder that is not there or empty; local, or a URI that pyarrow knows.
        state: its tables must all be complete.
        keys: who signs it.

    Raises:
        CheckpointError: something is there already, or it could not be written.
    """
    for saved in state.operators:
        if not all(changes.complete for task in saved.tasks for changes in task):
            raise InternalError(f"a savepoint needs the whole state of {saved.name}")
    storage, folder = _parted(path)
    try:
        there = storage.files(folder)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error}", code="E3406") from error
    if there:
        raise CheckpointError(f"there are files in {path} already", code="E3407", hint="give a new folder")
    writer = ImageWriter(storage, folder, secrets.token_hex(4), SegmentReader(storage), keys)
    try:
        manifest, size, _ = writer.write(state, Chains(), "savepoint", 0, job, {})
    except Exception as error:
        raise _write_failure(error, writer, f"the savepoint cannot be written to {path}") from error
    return manifest.info(storage.place, "completed", size)


def read_savepoint(path: str, keys: Keys = NO_KEYS, *, unread: bool = False) -> Restored:
    """What a savepoint holds; `path` may also be the folder of a checkpoint (`.../chk-7`). `unread`: see `latest`.

    Raises:
        CheckpointError: there is none, or it is damaged, or a newer version of the engine wrote it, or somebody who has
            none of the keys.
    """
    storage, folder = _parted(path)
    try:
        return read_image(storage, _read_manifest(storage, folder, keys)[0], unread=unread)
    except FileNotFoundError as error:
        raise CheckpointError(
            f"there is no savepoint in {path}", code="E3404", hint=_what_is_there(storage, folder)
        ) from error
    except Damage as damage:
        raise CheckpointError(
            f"the savepoint {path} is damaged: {damage}",
            code="E3402",
            hint="go on from another one or from a checkpoint, or start anew with --fresh",
        ) from damage
    except OSError as error:
        raise CheckpointError(f"the savepoint {path} cannot be read: {error}", code="E3406") from error


def _read_manifest(storage: Storage, folder: str, keys: Keys) -> tuple[Manifest, int]:
    """The manifest in a folder, and its size. Raises Damage, or OSError when it cannot be read."""
    data = storage.read(f"{folder}/{MANIFEST}", 0, MOST_BYTES + 1).to_pybytes()
    return decode_manifest(data, folder, keys), len(data)


def jobs_at(location: str, keys: Keys = NO_KEYS) -> dict[str, str]:
    """The jobs that have complete checkpoints at a location: the folder of each by its name. Folders whose newest
    manifest is damaged are left out.

    Raises CheckpointError E3406 when they cannot be read.
    """
    storage = storage_at(location, "")
    found: dict[str, str] = {}
    try:
        newest: dict[str, int] = {}
        for path in storage.files():
            folder, _, rest = path.partition("/")
            for number in _numbers({rest: 0}):
                newest[folder] = max(number, newest.get(folder, 0))
        for folder, number in newest.items():
            with suppress(Damage):
                found[_read_manifest(storage, f"{folder}/chk-{number}", keys)[0].job] = folder
    except OSError as error:
        raise CheckpointError(f"{storage.place} cannot be read: {error}", code="E3406") from error
    return found


def _what_is_there(storage: Storage, folder: str) -> str:
    """The advice for a path that is no savepoint: checkpoints below it."""
    needed = "give the folder that holds the file manifest.json"
    try:
        found = sorted(p.removesuffix("/" + MANIFEST) for p in storage.files(folder) if p.endswith("/" + MANIFEST))
    except OSError:
        return needed
    return f"{needed}: there is {', '.join(f'{storage.place}/{p}' for p in found[-5:])}" if found else needed


def _write_failure(error: Exception, writer: ImageWriter, what: str) -> Exception:
    """Takes back what was written, and says what went wrong; errors that are no failures of the store as they are."""
    try:
        writer.abandon()
    except CheckpointError as unknown:
        return unknown
    except OSError:
        # What is left has no manifest; the next job that writes here deletes it.
        pass
    if isinstance(error, Damage):
        return CheckpointError(f"{what}: {error}", code="E3401", hint="the next checkpoint is written in full")
    if isinstance(error, OSError | pa.ArrowException):
        return CheckpointError(f"{what}: {error}", code="E3401")
    if isinstance(error, TypeError | ValueError):
        return InternalError(f"{what}: {error}")
    return error


def storage_at(location: str | fs.FileSystem | SharedStorage, folder: str) -> Storage:
    """A folder at a location: a path, a URI that pyarrow knows, a file system, or an object store. Raises CheckpointError
    E3406."""
    if isinstance(location, SharedStorage):
        return location.below(folder)
    if not isinstance(location, str):
        return ObjectStorage(location, folder, f"{location.type_name}:{folder}")
    if "://" not in location:
        return LocalStorage(f"{location}/{folder}", location)
    try:
        system, root = fs.FileSystem.from_uri(location)
    except (OSError, pa.ArrowException) as error:
        raise CheckpointError(
            f"{location} cannot be reached: {error}",
            code="E3406",
            hint="give a local folder, or a URI such as 's3://bucket/path?region=eu-central-1'",
        ) from error
    if isinstance(system, fs.LocalFileSystem):
        return LocalStorage(f"{root}/{folder}", root)
    head, mark, query = location.partition("?")
    place = f"{head.rstrip('/')}/{folder}"
    return ObjectStorage(system, f"{root.rstrip('/')}/{folder}", place, place + mark + query)


def _parted(path: str) -> tuple[Storage, str]:
    """The storage of the folder above a path, because checkpoints refer to their neighbours, and the last name."""
    # A link to a savepoint is one, too.
    head, mark, query = path.partition("?") if "://" in path else (_resolved(path), "", "")
    above, _, name = head.rstrip("/").rpartition("/")
    if not above and not head.startswith("/"):
        above = "."
    return storage_at((above or "/") + mark + query, ""), name


def _resolved(path: str) -> str:
    full = os.path.expanduser(path)
    return os.path.realpath(full) if os.path.islink(full.rstrip("/")) else path


def folder_name(job: str) -> str:
    """The name as that of a folder; different names stay different."""
    safe = _UNSAFE.sub("_", job).lstrip("._")[:_LONGEST_NAME]
    return safe if safe and safe == job else f"{safe}-{zlib.crc32(job.encode()):08x}"


def _numbers(files: dict[str, int]) -> set[int]:
    found = (path.split("/") for path in files if path.endswith("/" + MANIFEST))
    return {
        int(match[2])
        for parts in found
        if len(parts) == 2 and (match := _FOLDER.fullmatch(parts[0])) and match[1] == "chk"
    }


def _ours(path: str) -> bool:
    """Whether a file is one that this store makes: others that somebody put there are left alone."""
    folder, _, name = path.rpartition("/")
    return bool(_FOLDER.fullmatch(folder)) and (name.startswith(("state-", "_", ".")) or name == MANIFEST)


def _clearing_order(path: str) -> tuple[bool, int]:
    """Manifests before other files, and older ones before newer ones."""
    match = _FOLDER.fullmatch(path.partition("/")[0])
    return not path.endswith("/" + MANIFEST), int(match[2]) if match else 0
