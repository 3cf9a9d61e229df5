"""A local folder as a store of checkpoints: files and folders are synced, and what is published is renamed into place.

So after a crash of the process, and of the machine, a published file is there entirely or not at all, and with it all
files of its folder that were closed before.

Only this user can read what is made here, whatever the umask says, and nothing outside of the folder is touched: a link
that leads out of it is not followed, and what is no plain file (a FIFO, a device) is never waited for.
"""

from __future__ import annotations

import errno
import mmap
import os
import stat
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa

from runtime.checkpoint.storage import Damage
from runtime.core.errors import CheckpointError

if sys.platform != "win32":
    import fcntl

__all__ = ["LocalStorage"]

_LOCK = ".lock"
_FILE_MODE = 0o600
_FOLDER_MODE = 0o700
# Windows has neither; nothing there waits when it is opened.
_SAFE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""A link at the end of a path is not followed, and a FIFO that nobody writes to is not waited for."""
_OURS = ("chk-", "copy-", "state-", "manifest.", "_manifest.", _LOCK)
"""What the names begin with of what is made here."""
_BUFFER_BYTES = 8 << 20
_BLOCK_BYTES = 4096
_FADING = 0.9
_KNOWN_BYTES = 24 << 20
_FAST = 250e6
"""Bytes a second from which compression costs more than it saves: lz4 takes 800 MB/s of a processor."""
_claims: dict[str, tuple[int, int]] = {}
"""By folder, for this process: the descriptor that holds the lock, and how many claims there are. (A lock belongs to the
process, and ends when any descriptor of its file is closed: so there is one descriptor for all.)"""


class LocalStorage:
    """Files below a folder of the machine; the folder is made with the first file.

    Args:
        root: the folder. It may be a link.
        top: the folder at or above it that belongs to checkpoints alone: what is made from there on down is private.
    """

    def __init__(self, root: str, top: str | None = None) -> None:
        self._claimed = False
        self._speed = _Speed()
        self._spare: list[mmap.mmap] = []
        self._root = os.path.abspath(os.path.expanduser(root))
        self._top = self._root if top is None else os.path.abspath(os.path.expanduser(top))

    @property
    def place(self) -> str:
        return self._root

    @property
    def reached(self) -> str:
        return self._root

    def claim(self) -> None:
        if self._claimed or sys.platform == "win32":
            return
        descriptor, count = _claims.get(self._root, (-1, 0))
        if count == 0:
            self._make_folder(self._root)
            descriptor = os.open(os.path.join(self._root, _LOCK), os.O_RDWR | os.O_CREAT | _SAFE, _FILE_MODE)
            try:
                fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                os.close(descriptor)
                raise CheckpointError(
                    f"another process writes checkpoints to {self._root}",
                    code="E3405",
                    hint="stop it, or give this job another name or execution.checkpointing.dir",
                ) from error
            except OSError:
                # A file system without locks: then nobody can tell.
                pass
            self._tighten()
        _claims[self._root] = (descriptor, count + 1)
        self._claimed = True

    def release(self) -> None:
        if not self._claimed:
            return
        self._claimed = False
        descriptor, count = _claims.pop(self._root)
        if count > 1:
            _claims[self._root] = (descriptor, count - 1)
        else:
            os.close(descriptor)

    def __del__(self) -> None:
        with suppress(OSError):
            self.release()

    def files(self, folder: str = "") -> dict[str, int]:
        found: dict[str, int] = {}
        waiting = [folder]
        while waiting:
            here = waiting.pop()
            try:
                with os.scandir(self._path(here)) as entries:
                    for entry in entries:
                        path = f"{here}/{entry.name}" if here else entry.name
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append(path)
                        elif path != _LOCK:
                            found[path] = entry.stat(follow_symlinks=False).st_size
            except FileNotFoundError:
                continue
        return found

    @property
    def fast(self) -> bool:
        return self._speed.fast

    def create(self, path: str, *, large: bool = False) -> _LocalFile:
        full = self._inside(path)
        self._make_folder(os.path.dirname(full))
        return _LargeFile(full, self._speed, self._spare) if large else _LocalFile(full)

    def append(self, path: str, size: int) -> _LocalFile:
        """A file that is there, to be gone on with behind its first `size` bytes; what stands behind them is cut off."""
        return _LocalFile(self._inside(path), size)

    def publish(self, path: str, data: bytes) -> None:
        folder, name = os.path.split(self._inside(path))
        waiting = os.path.join(folder, "_" + name)
        self._make_folder(folder)
        with suppress(FileNotFoundError):
            os.unlink(waiting)  # A crash has left it.
        file = _LocalFile(waiting)
        try:
            file.write(data)
        except OSError:
            file.abandon()
            raise
        file.close()
        _sync_folder(folder)
        os.rename(waiting, os.path.join(folder, name))
        _sync_folder(folder)

    def settle(self, folder: str) -> None:
        _sync_folder(self._path(folder))

    def read(self, path: str, offset: int = 0, length: int | None = None) -> pa.Buffer:
        try:
            descriptor = os.open(self._inside(path), os.O_RDONLY | _SAFE)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise Damage(f"{path} is a link, which is not followed") from error
            if error.errno in (errno.ENXIO, errno.ENOTDIR):
                raise Damage(f"{path} is no file") from error
            raise
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise Damage(f"{path} is no file")
            size = status.st_size
            end = size if length is None else min(size, offset + length)
            buffer = pa.allocate_buffer(max(0, end - offset))
            view = memoryview(buffer).cast("B")
            done = 0
            while done < len(view):
                got = os.preadv(descriptor, [view[done:]], offset + done)
                if got == 0:
                    return buffer.slice(0, done)
                done += got
            return buffer
        finally:
            os.close(descriptor)

    def delete(self, path: str) -> None:
        try:
            os.unlink(self._path(path))
        except FileNotFoundError:
            return

    def delete_folder(self, path: str) -> None:
        try:
            os.rmdir(self._path(path))
        except FileNotFoundError:
            return

    def path_of(self, path: str) -> str:
        """Where a file or folder is. Raises Damage when it would lie elsewhere."""
        return self._inside(path) if path else self._root

    def make_folder_of(self, path: str) -> None:
        """Makes the folder of a file."""
        self._make_folder(os.path.dirname(self._inside(path)))

    def _path(self, path: str) -> str:
        return os.path.join(self._root, *path.split("/")) if path else self._root

    def _inside(self, path: str) -> str:
        """The path of a file. Raises Damage when its folder lies elsewhere: somebody has put a link there."""
        full = self._path(path)
        folder, root = os.path.realpath(os.path.dirname(full)), os.path.realpath(self._root)
        if folder != root and not folder.startswith(root.rstrip(os.sep) + os.sep):
            raise Damage(f"{path} is not in {self._root}: a link leads to {folder}")
        return full

    def _make_folder(self, path: str) -> None:
        """Makes a folder and those above it, each for good."""
        if Path(path).is_dir():
            return
        above = os.path.dirname(path)
        if above != path:
            self._make_folder(above)
        private = path == self._top or path.startswith(self._top.rstrip(os.sep) + os.sep)
        try:
            os.mkdir(path, _FOLDER_MODE if private else 0o777)
        except FileExistsError:
            return
        if private:
            os.chmod(path, _FOLDER_MODE)
        _sync_folder(above)

    def _tighten(self) -> None:
        """What an older version made for others to read is private from now on. The folder that the user gave stays as
        it is, if it is not the job's own."""
        waiting = [self._root]
        while waiting:
            here = waiting.pop()
            with suppress(OSError):
                if here != self._top and os.lstat(here).st_mode & 0o077:
                    os.chmod(here, _FOLDER_MODE)
                for entry in os.listdir(here):
                    if not entry.startswith(_OURS):
                        continue
                    path = os.path.join(here, entry)
                    mode = os.lstat(path).st_mode
                    if stat.S_ISDIR(mode):
                        waiting.append(path)
                    elif stat.S_ISREG(mode) and mode & 0o077:
                        os.chmod(path, _FILE_MODE)


class _LocalFile:
    """A file that is synced when it is closed."""

    def __init__(self, path: str, size: int | None = None) -> None:
        self._path = path
        if size is not None:
            self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | _SAFE)
            os.ftruncate(self._descriptor, size)
            return
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE_MODE)
        if sys.platform != "win32":
            # A umask can take bits away from what is asked for.
            os.fchmod(self._descriptor, _FILE_MODE)

    def write(self, data: bytes) -> int:
        self._write(memoryview(data).cast("B"))
        return len(data)

    def memory(self, size: int) -> pa.Buffer | None:
        return None

    def _write(self, view: memoryview) -> None:
        while len(view):
            view = view[os.write(self._descriptor, view) :]

    def sync(self) -> None:
        """What was written so far survives a crash of the machine."""
        os.fsync(self._descriptor)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def abandon(self) -> None:
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)


class _Speed:
    """How fast a disk has taken bytes of late."""

    def __init__(self) -> None:
        self._bytes = 0.0
        self._seconds = 0.0

    def note(self, count: int, seconds: float) -> None:
        self._bytes = _FADING * self._bytes + count
        self._seconds = _FADING * self._seconds + seconds

    @property
    def fast(self) -> bool:
        return self._bytes >= _KNOWN_BYTES and self._bytes > _FAST * self._seconds


class _LargeFile(_LocalFile):
    """Written past the system's file cache where the system lets it: the disk reads from memory of our own, so that no
    processor copies, and no memory is taken from the job for bytes that nobody reads soon. (Measured: 0.04 s of the
    processor a GiB instead of 0.2, and 2.4 where the memory for it was not used before.)

    Args:
        spare: memory that earlier files have left; this one leaves its own there.
    """

    def __init__(self, path: str, speed: _Speed, spare: list[mmap.mmap]) -> None:
        super().__init__(path)
        self._speed = speed
        self._spare = spare
        self._direct = _set_direct(self._descriptor, True)
        self._use(spare.pop() if spare else mmap.mmap(-1, _BUFFER_BYTES))
        self._filled = 0

    def _use(self, memory: mmap.mmap) -> None:
        self._memory = memory
        # An assignment of numpy does not hold the interpreter's lock.
        self._buffer = np.frombuffer(memory, np.uint8)

    def memory(self, size: int) -> pa.Buffer:
        if self._filled + size > len(self._buffer):
            self._flush()
        if self._filled + size > len(self._buffer):
            rest = self._buffer[: self._filled]
            self._use(mmap.mmap(-1, _whole_blocks(self._filled + size + _BLOCK_BYTES)))
            self._buffer[: self._filled] = rest
        return pa.py_buffer(memoryview(self._memory)[self._filled : self._filled + size])

    def write(self, data: bytes | pa.Buffer) -> int:
        given = np.frombuffer(data, np.uint8)
        if len(given) and given.ctypes.data == self._buffer.ctypes.data + self._filled:
            self._filled += len(given)
            return len(given)
        done = 0
        while done < len(given):
            if self._filled == len(self._buffer):
                self._flush()
            count = min(len(given) - done, len(self._buffer) - self._filled)
            self._buffer[self._filled : self._filled + count] = given[done : done + count]
            self._filled += count
            done += count
        return len(given)

    def close(self) -> None:
        try:
            self._flush()
            # The last part is no whole block.
            self._write_plainly()
            self._put(self._filled)
        except OSError:
            self.abandon()
            raise
        self._leave_memory()
        super().close()

    def abandon(self) -> None:
        self._leave_memory()
        super().abandon()

    def _leave_memory(self) -> None:
        if self._descriptor >= 0 and not self._spare:
            self._spare.append(self._memory)

    def _flush(self) -> None:
        """Writes all whole blocks; what is left is put to the front."""
        whole = self._filled // _BLOCK_BYTES * _BLOCK_BYTES
        self._put(whole)
        rest = self._filled - whole
        self._buffer[:rest] = self._buffer[whole : self._filled]
        self._filled = rest

    def _put(self, end: int) -> None:
        view = memoryview(self._memory)[:end]
        while len(view):
            started = time.perf_counter()
            try:
                count = os.write(self._descriptor, view)
            except OSError as error:
                if not self._direct or error.errno != errno.EINVAL:
                    raise
                # It lets one ask for it, but does not do it.
                self._write_plainly()
                continue
            if self._direct:
                self._speed.note(count, time.perf_counter() - started)
            view = view[count:]
            if len(view) % _BLOCK_BYTES:
                self._write_plainly()

    def _write_plainly(self) -> None:
        if self._direct:
            self._direct = _set_direct(self._descriptor, False)


def _whole_blocks(size: int) -> int:
    return -(-size // _BLOCK_BYTES) * _BLOCK_BYTES


def _set_direct(descriptor: int, direct: bool) -> bool:
    """Whether what is written to a file from now on goes past the cache."""
    if sys.platform != "linux":
        return False
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | os.O_DIRECT if direct else flags & ~os.O_DIRECT)
    except OSError:
        return False
    return direct


def _sync_folder(path: str) -> None:
    if sys.platform == "win32":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
