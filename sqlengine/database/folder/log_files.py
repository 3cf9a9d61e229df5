"""The files of a log: on a disk one is gone on with until a checkpoint, in an object store each commit is one.

A file `log/<epoch>.log` holds epochs from that number on, and begins with a frame that says so. What stands in an object
store cannot be gone on with: all epochs that wait for the same commit become one object, which is there whole or not at
all. It is made, never replaced. So of two processes that write the same epoch one is refused: who takes over from an owner
that may still be there writes an empty epoch behind its last one (`opening.py`), and that owner writes no more. Such an
object is a fence. It is never deleted, because its name would be free.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice, pairwise
from typing import Protocol

import pyarrow as pa

from runtime.checkpoint.keys import NO_KEYS
from runtime.checkpoint.local_storage import LocalStorage
from runtime.checkpoint.shared_storage import SharedStorage
from runtime.checkpoint.storage import Damage, Storage
from sqlengine.database.folder.frames import FENCE, FrameReader
from sqlengine.database.folder.lease import taken_over
from sqlengine.database.folder.log_end import LogEnd

__all__ = ["FOLDER", "LogFiles", "contents", "files_for", "log_files", "log_name"]

FOLDER = "log"
_SUFFIX = ".log"
_DIGITS = 20
_JOINED_BYTES = 1 << 20
"""Up to so many bytes pieces are written at once."""
_READ_AHEAD = 16
_FENCE_BYTES = 4096
"""A fence is smaller."""

Pieces = Sequence[bytes | memoryview]


def log_name(epoch: int) -> str:
    """The path of the file that begins with an epoch."""
    return f"{FOLDER}/{epoch:0{_DIGITS}}{_SUFFIX}"


def log_files(storage: Storage) -> list[tuple[int, str]]:
    """The files of the log by the number of their first epoch; what has another name is none."""
    found: list[tuple[int, str]] = []
    for path in storage.files(FOLDER):
        name = path.rpartition("/")[2].removesuffix(_SUFFIX)
        if name.isdecimal() and name.isascii() and path == log_name(int(name)):
            found.append((int(name), path))
    return sorted(found)


def contents(storage: Storage, paths: Sequence[str]) -> Iterator[pa.Buffer]:
    """What stands in files, one after another. An object store is asked for some at a time. Raises OSError."""
    if not isinstance(storage, SharedStorage):
        yield from map(storage.read, paths)
        return
    with ThreadPoolExecutor(_READ_AHEAD, thread_name_prefix="reads the log") as readers:
        rest = iter(paths)
        waiting: list[Future[pa.Buffer]] = [readers.submit(storage.read, path) for path in islice(rest, _READ_AHEAD)]
        try:
            while waiting:
                yield waiting.pop(0).result()
                waiting += [readers.submit(storage.read, path) for path in islice(rest, 1)]
        finally:
            readers.shutdown(cancel_futures=True)


def _superfluous(storage: Storage, first: int) -> Iterator[tuple[int, str]]:
    for (begins, path), (following, _) in pairwise(log_files(storage)):
        if following <= first:
            yield begins, path


def _is_fence(data: pa.Buffer, path: str) -> bool:
    """Whether an object is a fence, as it says itself. What nobody can read is none."""
    try:
        frames = FrameReader(data, path, NO_KEYS, "").frames(may_be_torn=True)
        return any(frame.flags & FENCE for frame in islice(frames, 2))
    except Damage:
        return False


class LogFiles(Protocol):
    """Where a log puts its epochs. All calls but that of what `unsafe` gives are made with the log's lock for writing.
    Each may raise OSError, and DatabaseError E3707 when another process has taken over."""

    survive: bool
    """Whether what was written survives this process before it is made safe."""

    @property
    def synced(self) -> int:
        """How many bytes of the file at hand are safe."""
        ...

    @property
    def count(self) -> int:
        """How many files there are since `begin`."""
        ...

    def begin(self, first: int) -> None:
        """The epochs from that number on go to a new file."""
        ...

    def write(self, epoch: int, pieces: Pieces) -> None:
        """Adds an epoch."""
        ...

    def unsafe(self) -> Callable[[], None]:
        """What makes all that was written safe when it is called; one after another."""
        ...

    def finish(self, *, wait: bool) -> None:
        """The file at hand gets no more. `wait`: it is safe."""
        ...

    def abandon(self) -> None:
        """The file at hand stays as it is."""
        ...

    def remove_before(self, first: int) -> None:
        """See `Log.remove_before`."""
        ...


def files_for(storage: Storage, opening: Callable[[int], Pieces], end: LogEnd) -> LogFiles:
    """Those of a storage, to be gone on with where the log ends. `opening`: the frame with which a file begins."""
    if isinstance(storage, LocalStorage):
        return _DiskFiles(storage, opening, end)
    return _Objects(storage, opening)


class _DiskFiles:
    """A file that grows, synced as often as somebody waits."""

    survive = True

    def __init__(self, storage: LocalStorage, opening: Callable[[int], Pieces], end: LogEnd) -> None:
        self._storage = storage
        self._opening = opening
        if end.file is not None and end.size:
            self._file = storage.append(end.file, end.size)
            self._size = self._synced = end.size
            self._file.sync()
        else:
            if end.file is not None:
                storage.delete(end.file)
            self.begin(end.epoch + 1)

    @property
    def synced(self) -> int:
        return self._synced

    @property
    def count(self) -> int:
        return 1

    def begin(self, first: int) -> None:
        self._file = self._storage.create(log_name(first))
        self._size = self._synced = 0
        self.write(first, self._opening(first))
        self._file.sync()
        self._storage.settle(FOLDER)
        self._synced = self._size

    def write(self, epoch: int, pieces: Pieces) -> None:
        length = sum(map(len, pieces))
        if length <= _JOINED_BYTES:
            self._file.write(b"".join(pieces))
        else:
            for piece in pieces:
                self._file.write(piece)  # type: ignore[arg-type]
        self._size += length

    def unsafe(self) -> Callable[[], None]:
        file, size = self._file, self._size

        def sync() -> None:
            file.sync()
            self._synced = size

        return sync

    def finish(self, *, wait: bool) -> None:
        if wait:
            self._file.close()
        else:
            self._file.abandon()

    def abandon(self) -> None:
        self._file.abandon()

    def remove_before(self, first: int) -> None:
        for _, path in _superfluous(self._storage, first):
            self._storage.delete(path)


class _Objects:
    """An object for all epochs that wait for the same commit."""

    survive = False
    synced = 0

    def __init__(self, storage: Storage, opening: Callable[[int], Pieces]) -> None:
        self._storage = storage
        self._opening = opening
        self._first = 0
        self._pieces: list[bytes | memoryview] = []
        # By the first epoch: those that this process has made, and those of others that stay.
        self._made: set[int] = set()
        self._fences: set[int] = set()
        self.count = 0

    def begin(self, first: int) -> None:
        self.count = 0

    def write(self, epoch: int, pieces: Pieces) -> None:
        if not self._pieces:
            self._first = epoch
            self._pieces += self._opening(epoch)
        self._pieces += pieces

    def unsafe(self) -> Callable[[], None]:
        first, pieces = self._first, self._pieces
        self._pieces = []

        def publish() -> None:
            if not pieces:
                return
            try:
                self._storage.publish(log_name(first), b"".join(pieces))
            except FileExistsError as error:
                raise taken_over(self._storage.place) from error
            self._made.add(first)
            self.count += 1

        return publish

    def finish(self, *, wait: bool) -> None:
        """It is waited for, whatever `wait` says."""
        self.unsafe()()

    def abandon(self) -> None:
        self._pieces = []

    def remove_before(self, first: int) -> None:
        for begins, path in list(_superfluous(self._storage, first)):
            if begins in self._fences:
                continue
            if begins not in self._made and _is_fence(self._storage.read(path, 0, _FENCE_BYTES), path):
                self._fences.add(begins)
                continue
            self._storage.delete(path)
            self._made.discard(begins)
