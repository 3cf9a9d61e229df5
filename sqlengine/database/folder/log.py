"""The log of a database: its epochs in files, each there whole or not at all, synced before anybody is told.

The first frame of a file names the database and the version of the format; then come epochs one after another
(`frames.py`). When a file is full, or a checkpoint makes those before superfluous, it is synced and the next one begins. So
only the newest may have a torn end. Where files are: `log_files.py`.

Who appends an epoch gets a ticket, and waits with `settle` until it is as safe as `synchronous` says:

    full     on the disk: it survives a power cut. Who waits at the same time is served by one sync.
    normal   with the operating system: it survives the end of the process. A power cut may take what came after the last
             checkpoint or change of file, never half an epoch.
    off      as `normal`, and checkpoints are not waited for, either.

In an object store each of them is as `full`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from runtime.checkpoint.keys import NO_KEYS, Keys
from runtime.checkpoint.members import Members
from runtime.checkpoint.storage import Damage, Storage
from runtime.core.errors import DatabaseError
from runtime.core.strict_json import read_json
from sqlengine.database.folder.changes import Body
from sqlengine.database.folder.frames import LAST, OPENING, Frame, FrameReader, frame_of
from sqlengine.database.folder.log_end import FORMAT, LogEnd
from sqlengine.database.folder.log_files import contents, files_for, log_files, log_name

__all__ = ["EpochBodies", "Log", "identity_of", "read_log"]

_OPENING_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class EpochBodies:
    """An epoch of the log: its number, and the bodies of its frames."""

    epoch: int
    bodies: list[pa.Buffer]


def read_log(storage: Storage, identity: str, after: int, keys: Keys, end: LogEnd) -> Iterator[EpochBodies]:
    """The epochs behind the one with the number `after`. `end` is filled meanwhile.

    Raises:
        Damage: bytes are not those that were written, or epochs are missing.
        DatabaseError: a newer version has written them (E3703).
        OSError: files cannot be read.
    """
    files = log_files(storage)
    end.epoch = after
    # Those that hold older epochs only are left over from a checkpoint, and may be gone in part.
    needed = max((i for i, (first, _) in enumerate(files) if first <= after + 1), default=0)
    read = contents(storage, [path for _, path in files[needed:]])
    for (number, (first, path)), data in zip(enumerate(files[needed:], needed), read, strict=True):
        newest = number == len(files) - 1
        end.file, end.first, end.size = path, first, 0
        frames = FrameReader(data, path, keys, identity)
        reading = _FileReader(frames, path, identity, first)
        if number == needed and first > after + 1:
            raise Damage(f"epochs {after + 1:,} to {first - 1:,} are missing from the log")
        for group in reading.epochs(end, newest=newest):
            if group.epoch <= after:
                continue
            if group.epoch != end.epoch + 1:
                raise Damage(f"{path}: epoch {group.epoch:,} follows epoch {end.epoch:,}")
            end.epoch = group.epoch
            yield group
        end.cut, end.dropped = data.size - end.size, frames.dropped


def identity_of(storage: Storage, first: int) -> str:
    """The database that the file of the log from an epoch on says it is of. Nothing of it is verified: who reads the log
    with that does so. Raises Damage, OSError."""
    path = log_name(first)
    opening = next(FrameReader(storage.read(path), path, NO_KEYS, "").frames(may_be_torn=True), None)
    if opening is None or opening.body.size > _OPENING_BYTES:
        raise Damage(f"{path} does not begin as a file of a log")
    try:
        return Members(read_json(opening.body.to_pybytes()), path, (), known=False).text("database")
    except ValueError as error:
        raise Damage(f"{path}: {error}") from error


class _FileReader:
    def __init__(self, reader: FrameReader, path: str, identity: str, first: int) -> None:
        self._reader = reader
        self._path = path
        self._identity = identity
        self._next = first

    def epochs(self, end: LogEnd, *, newest: bool) -> Iterator[EpochBodies]:
        """The whole epochs of a file; `end.size` is where the last of them ends."""
        frames = self._reader.frames(may_be_torn=newest)
        opening = next(frames, None)
        if opening is None:
            if newest:
                return
            raise Damage(f"{self._path} is empty")
        end.format = self._check_opening(opening)
        end.size = opening.end
        parts: list[Frame] = []
        for frame in frames:
            if frame.owner < end.owner:
                raise Damage(
                    f"{self._path}: a process has written epoch {frame.epoch:,} that no longer owned the database"
                )
            if frame.epoch != self._next or frame.part != len(parts) or frame.flags & OPENING:
                raise Damage(f"{self._path}: a part of epoch {frame.epoch:,} where epoch {self._next:,} should be")
            parts.append(frame)
            if frame.flags & LAST:
                self._next += 1
                end.size, end.owner = frame.end, frame.owner
                yield EpochBodies(frame.epoch, [part.body for part in parts])
                parts = []
        if parts and not newest:
            raise Damage(f"{self._path} ends within epoch {self._next:,}")

    def _check_opening(self, frame: Frame) -> int:
        """The format of the file."""
        if not frame.flags & OPENING or frame.body.size > _OPENING_BYTES or frame.epoch != self._next:
            raise Damage(f"{self._path} does not begin as a file of a log")
        try:
            members = Members(
                read_json(frame.body.to_pybytes()), self._path, ("format", "database", "first"), known=False
            )
        except ValueError as error:
            raise Damage(f"{self._path}: {error}") from error
        if members.integer("format", 1) > FORMAT:
            raise DatabaseError(
                f"{self._path} was written by a newer version of sqlengine",
                code="E3703",
                hint="open the database with that version or a newer one",
            )
        members.check_names()
        if members.text("database") != self._identity:
            raise Damage(f"{self._path} belongs to another database")
        if members.integer("first", 1) != self._next:
            raise Damage(f"{self._path} is under the name of another file")
        return members.integer("format", 1)


class Log:
    """Takes epochs, from any thread.

    Args:
        storage: the folder of the database.
        identity: that of the database.
        owner: the fencing token of this process.
        keys: the first signs every frame, if there are any.
        synchronous: `full`, `normal` or `off`.
        end: where the log ends; what stands behind is cut off.
    """

    def __init__(self, storage: Storage, identity: str, owner: int, keys: Keys, synchronous: str, end: LogEnd) -> None:
        self._identity = identity
        self._owner = owner
        self._keys = keys
        self._waits = synchronous != "off"
        self.failure: DatabaseError | None = None
        """What made it stop: nothing is taken any more."""
        self.epoch = end.epoch
        """The number of the last epoch that was appended."""
        self._settled = end.epoch
        # Whoever holds both takes `_syncing` first.
        self._syncing = threading.Lock()
        self._writing = threading.Lock()
        self.written = end.size
        """Bytes of epochs since the log was opened or `begin_file`."""
        goes_on = end.file is not None and end.size > 0
        self._first = end.first if goes_on else end.epoch + 1
        try:
            self._files = files_for(storage, self._opening, end)
        except OSError as error:
            raise self._stopped(error) from error
        self._full = synchronous == "full" or not self._files.survive
        if goes_on and end.format < FORMAT and end.epoch >= end.first:
            # An older version of the engine is to say that it does not know what follows.
            self.begin_file()

    def append(self, bodies: Sequence[Body], *, fence: bool = False) -> int:
        """Adds an epoch, one frame for each body; gives its number, which is the ticket for `settle`.

        Args:
            fence: the object that begins with this epoch is never deleted, so that a former owner cannot make it.

        Raises:
            DatabaseError: E3704; nobody knows whether it is there after the next start, and no further epoch is taken.
        """
        with self._writing:
            self.check()
            epoch = self.epoch + 1
            pieces: list[bytes | memoryview] = []
            for part, body in enumerate(bodies):
                pieces += frame_of(
                    body,
                    epoch=epoch,
                    part=part,
                    last=part == len(bodies) - 1,
                    fence=fence,
                    synced=self._files.synced,
                    owner=self._owner,
                    keys=self._keys,
                    identity=self._identity,
                )
            try:
                self._files.write(epoch, pieces)
                self.written += sum(map(len, pieces))
                self.epoch = epoch
            except OSError as error:
                raise self._stopped(error) from error
            except BaseException:
                # Interrupted in between, the number would be given twice.
                self.stop()
                raise
            return epoch

    def settle(self, epoch: int | None = None) -> None:
        """Waits until an epoch and all before it (all that there are, without a number) are as safe as they are to be.

        Raises:
            DatabaseError: E3704; nobody knows whether they are there after the next start. E3707: another process has
            taken over, and they are not.
        """
        wanted = self.epoch if epoch is None else epoch
        if not self._full:
            self.check()
            return
        while self._settled < wanted:
            with self._syncing:
                # While one syncs, the others gather here; the next sync is for all of them.
                if self._settled < wanted:
                    self._sync()
        self.check()

    @property
    def settled(self) -> int:
        """The last epoch that is known to be safe."""
        return self._settled

    @property
    def files(self) -> int:
        """How many files have been begun since the log was opened or `begin_file`."""
        return self._files.count

    def remove_before(self, first: int) -> None:
        """Deletes files that have no epoch from `first` on, but for the newest one: a log that is missing is damage.
        Raises OSError."""
        self._files.remove_before(first)

    def check(self) -> None:
        """Raises DatabaseError E3704 or E3707 when it has stopped."""
        if self.failure is not None:
            raise DatabaseError(self.failure.message, code=self.failure.code, hint=self.failure.hint)

    def stop(self) -> None:
        """Take no more epochs: what was to be added has become known by halves."""
        self.failure = self.failure or DatabaseError(
            "the log was interrupted while it was written", code="E3704", hint="close the database and open it again"
        )

    def begin_file(self) -> int:
        """The epochs that follow go to a new file; gives the number of the first. What was appended before is safe."""
        with self._syncing, self._writing:
            self.check()
            if self._first == self.epoch + 1:
                return self._first  # It is as good as new.
            try:
                self._files.finish(wait=self._waits)
                if self._waits:
                    self._settled = self.epoch
                self._files.begin(self.epoch + 1)
            except (OSError, DatabaseError) as error:
                raise self._stopped(error) from error
            self._first, self.written = self.epoch + 1, 0
            return self._first

    def close(self) -> None:
        """No more epochs are taken; those that were are safe. Raises DatabaseError E3704."""
        with self._syncing, self._writing:
            self.check()
            try:
                self._files.finish(wait=True)
            except (OSError, DatabaseError) as error:
                raise self._stopped(error) from error
            self.failure = _closed()

    def abandon(self) -> None:
        """Take no more epochs; the file stays as it is."""
        with self._syncing, self._writing:
            self.failure = self.failure or _closed()
            self._files.abandon()

    def _sync(self) -> None:
        with self._writing:
            self.check()
            make_safe, epoch = self._files.unsafe(), self.epoch
        try:
            make_safe()
        except (OSError, DatabaseError) as error:
            # Asked again the system may say that all is well: what it could not write is forgotten.
            raise self._stopped(error) from error
        self._settled = epoch

    def _opening(self, first: int) -> list[bytes | memoryview]:
        body = json.dumps({"format": FORMAT, "database": self._identity, "first": first}).encode()
        return frame_of([body], epoch=first, opening=True, owner=self._owner, keys=self._keys, identity=self._identity)

    def _stopped(self, error: OSError | DatabaseError) -> DatabaseError:
        if isinstance(error, DatabaseError):
            self.failure = error
        else:
            self.failure = DatabaseError(
                f"the log cannot be written: {error.strerror or error}",
                code="E3704",
                hint="close the database, see to the disk, and open it again: what was told to be done is there; "
                "the statement at hand may be there, whole, or not",
            )
        return DatabaseError(self.failure.message, code=self.failure.code, hint=self.failure.hint)


def _closed() -> DatabaseError:
    return DatabaseError("the database is closed", code="E3704", hint="open it again")
