"""Messages in files of a folder, in the order in which they came, durable before anybody is told so.

A file is named by the number of its first message. A record is its length and checksum, when it came, its key, and its bytes.
What a crash has cut off at the end was told to nobody, and is cut off when the folder is opened. Files go when all of their
messages are older than is wanted; until then any reader may come back to them.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import struct
import threading
import time
import uuid
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from runtime.core.errors import ConnectorError

__all__ = ["Journal", "Message", "Position", "opened_journal"]

_HEAD = struct.Struct("<II")
"""Length of what follows, and its checksum."""
_FACTS = struct.Struct("<qH")
"""Microseconds since 1970, and the length of the key."""
_FILE = 16 << 20
_READ = 1 << 20
_MOST_RECORD = 1 << 31
_PARTS = 8
"""A file is closed when its first message is so many parts of the wanted age old."""


@dataclass(frozen=True, slots=True)
class Message:
    """What came. `at`: microseconds since 1970; `key`: empty where it had none."""

    number: int
    at: int
    key: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Position:
    """Before the message `number`: a file, by its first number, and how many bytes of it."""

    number: int
    file: int
    offset: int

    def saved(self) -> list[int]:
        """As a JSON value."""
        return [self.number, self.file, self.offset]


@dataclass
class _File:
    """`newest`: when its last message came; `keys`: hashes."""

    first: int
    size: int = 0
    began: int = 0
    newest: int = 0
    keys: list[bytes] = field(default_factory=list[bytes])


class Journal:
    """One process has a folder open at a time; within it several threads may read, and one appends.

    Args:
        keep: seconds that a message is kept.
        most: bytes of all files; more are not taken.
        clock: seconds since 1970.

    Raises ConnectorError E3253 for a folder that another process has open, that cannot be written, or is damaged.
    """

    def __init__(self, folder: Path, keep: float, most: int, clock: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._keep = keep
        self._most = most
        self._clock = clock
        self._files: list[_File] = []
        self._keys: set[bytes] = set()
        self._grown = threading.Condition()
        self._out: BinaryIO | None = None
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise self._unusable(str(error)) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.id = self._named()
            self._recover()
        except OSError as error:
            os.close(self._lock)
            raise self._unusable("another process has it open, or it cannot be written: " + str(error)) from error
        except BaseException:
            os.close(self._lock)
            raise

    # --- what is written

    def knows(self, key: str) -> bool:
        """Whether a message of this key is kept."""
        return _hash(key) in self._keys

    def has_room(self, size: int) -> bool:
        """Whether so many bytes may be appended."""
        return sum(file.size for file in self._files) + size <= self._most

    def append(self, messages: Sequence[tuple[str, bytes]]) -> None:
        """Keys and bodies; they are durable when this returns. Raises OSError; then none of them is there."""
        self._roll()
        file, now = self._files[-1], int(self._clock() * 1e6)
        # A clock that goes back must not make the newest message older than those before it.
        now = max(now, file.newest)
        records = b"".join(_record(now, key, body) for key, body in messages)
        if self._out is None:
            self._out = open(self._path(file.first), "r+b", buffering=0)  # noqa: SIM115
        try:
            self._out.seek(file.size)
            _written(self._out, records)
            os.fdatasync(self._out.fileno())
        except OSError:
            # What is there of it, if anything, is overwritten, or cut off when the folder is opened.
            self._close_file()
            with open(self._path(file.first), "r+b") as damaged:
                damaged.truncate(file.size)
            raise
        hashes = [_hash(key) for key, _ in messages if key]
        with self._grown:
            file.size += len(records)
            file.began, file.newest = file.began or now, now
            file.keys += hashes
            self._keys.update(hashes)
            self._end = Position(self._end.number + len(messages), file.first, file.size)
            self._grown.notify_all()

    # --- what is read

    @property
    def end(self) -> Position:
        """Behind the newest message."""
        with self._grown:
            return self._end

    @property
    def begin(self) -> Position:
        """Before the oldest message."""
        with self._grown:
            return Position(self._files[0].first, self._files[0].first, 0)

    def files(self) -> list[Position]:
        """Where each file begins."""
        with self._grown:
            return [Position(file.first, file.first, 0) for file in self._files]

    def wait(self, position: Position, seconds: float) -> None:
        """Until there is something behind a position, or so long."""
        with self._grown:
            if self._end.number <= position.number:
                self._grown.wait(seconds)

    def read(self, position: Position) -> tuple[list[Message], Position]:
        """Some messages behind a position, a mebibyte or one, and the position behind them.

        Raises ConnectorError E3252 where messages behind it are gone, E3253 for damaged files."""
        with self._grown:
            files = {file.first: file.size for file in self._files}
            end, oldest = self._end, self._files[0].first
        if (
            position.number > end.number
            or (position.number < oldest)
            or (position.file not in files and position.number not in files)
        ):
            raise ConnectorError(
                f"messages behind number {position.number} are gone from {self._folder} before they were read",
                code="E3252",
                hint="the job stood still for longer than 'spool.keep-time', or the folder was made anew; begin anew",
            )
        at = position
        if at.file not in files or (at.offset == files[at.file] and at.number in files and at.number != at.file):
            at = Position(at.number, at.number, 0)
        try:
            with open(self._path(at.file), "rb") as file:
                file.seek(at.offset)
                data = file.read(min(_READ, files[at.file] - at.offset))
                if len(data) >= _HEAD.size:
                    needed = _HEAD.size + _HEAD.unpack_from(data)[0]
                    if at.offset + needed <= files[at.file] and needed > len(data):
                        data += file.read(needed - len(data))
        except OSError as error:
            raise self._unusable(str(error)) from error
        found: list[Message] = []
        used = 0
        for when, key, body, size in _records(data):
            found.append(Message(at.number + len(found), when, key, body))
            used += size
        if data and not found:
            raise self._unusable(f"the file {self._path(at.file).name} is damaged at byte {at.offset}")
        return found, Position(at.number + len(found), at.file, at.offset + used)

    def close(self) -> None:
        self._close_file()
        os.close(self._lock)

    # --- files

    def _named(self) -> str:
        """What tells this folder from another one that was made in its place."""
        named = os.pread(self._lock, 100, 0).decode("ascii", "replace")
        if not named:
            named = uuid.uuid4().hex
            os.pwrite(self._lock, named.encode(), 0)
            os.fsync(self._lock)
        return named

    def _recover(self) -> None:
        """Read what is there, and cut off what is not whole at the end."""
        names = sorted(int(path.stem) for path in self._folder.glob("*.log") if path.stem.isdigit())
        number = names[0] if names else 0
        for first in names:
            if first != number:
                raise self._unusable(f"messages {number} to {first - 1} are missing")
            file = _File(first)
            data = self._path(first).read_bytes()
            for when, key, _, size in _records(data):
                file.size += size
                file.began, file.newest = file.began or when, when
                number += 1
                if key:
                    file.keys.append(_hash(key))
            if file.size < len(data):
                if first != names[-1]:
                    raise self._unusable(f"the file {self._path(first).name} is damaged at byte {file.size}")
                with open(self._path(first), "r+b") as cut:
                    cut.truncate(file.size)
                    os.fsync(cut.fileno())
            self._files.append(file)
            self._keys.update(file.keys)
        if not self._files:
            self._begin_file(0)
        self._end = Position(number, self._files[-1].first, self._files[-1].size)
        self._forget()

    def _roll(self) -> None:
        """A new file where the newest one is large or old enough."""
        file = self._files[-1]
        old = file.size and self._clock() - file.began / 1e6 > self._keep / _PARTS
        if file.size >= _FILE or old:
            self._close_file()
            self._begin_file(self._end.number)
        self._forget()

    def _begin_file(self, first: int) -> None:
        with open(self._path(first), "xb") as made:
            os.fsync(made.fileno())
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        with self._grown:
            self._files.append(_File(first))

    def _forget(self) -> None:
        """Remove files whose messages are all too old."""
        limit = (self._clock() - self._keep) * 1e6
        while len(self._files) > 1 and self._files[0].newest < limit:
            with self._grown:
                gone = self._files.pop(0)
                self._keys.difference_update(gone.keys)
            self._path(gone.first).unlink(missing_ok=True)

    def _path(self, first: int) -> Path:
        return self._folder / f"{first:020}.log"

    def _close_file(self) -> None:
        if self._out is not None:
            self._out.close()
            self._out = None

    def _unusable(self, why: str) -> ConnectorError:
        return ConnectorError(
            f"the folder of messages {self._folder} cannot be used: {why}",
            code="E3253",
            hint="'spool.path' is a folder of this table alone, which one process at a time has open",
        )


def _hash(key: str) -> bytes:
    return hashlib.blake2b(key.encode(), digest_size=16).digest()


def _record(at: int, key: str, body: bytes) -> bytes:
    name = key.encode()
    facts = _FACTS.pack(at, len(name)) + name
    return _HEAD.pack(len(facts) + len(body), zlib.crc32(body, zlib.crc32(facts))) + facts + body


def _records(data: bytes) -> Iterator[tuple[int, str, bytes, int]]:
    """Time, key, body and size of whole records, one by one as they lie, up to the first that is not whole."""
    at, view = 0, memoryview(data)
    while at + _HEAD.size <= len(data):
        length, checksum = _HEAD.unpack_from(data, at)
        start = at + _HEAD.size
        if not _FACTS.size <= length <= _MOST_RECORD or start + length > len(data):
            return
        if zlib.crc32(view[start : start + length]) != checksum:
            return
        when, named = _FACTS.unpack_from(data, start)
        body = start + _FACTS.size + named
        if body > start + length:
            return
        key = data[start + _FACTS.size : body].decode("utf-8", "replace")
        yield when, key, data[body : start + length], _HEAD.size + length
        at = start + length


def _written(file: BinaryIO, data: bytes) -> None:
    view: Any = memoryview(data)
    while view:
        view = view[file.write(view) :]


_open: dict[Path, tuple[Journal, list[int]]] = {}
_opening = threading.Lock()


@contextmanager
def opened_journal(folder: Path, keep: float, most: int) -> Generator[Journal]:
    """The journal of a folder, shared by all of this process that have it open."""
    folder = Path(os.path.realpath(folder))
    with _opening:
        if folder not in _open:
            _open[folder] = (Journal(folder, keep, most), [0])
        journal, users = _open[folder]
        users[0] += 1
    try:
        yield journal
    finally:
        with _opening:
            users[0] -= 1
            if not users[0]:
                del _open[folder]
                journal.close()
