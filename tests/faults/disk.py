"""A disk with faults, between the engine and the system's: operations fail, there is no space, the process is killed.

It stands in for `os` and `open` in the modules that store checkpoints and the state of tasks, write and read files.
Operations are numbered in the order in which they come; which of them fail is drawn from a seed.
"""

from __future__ import annotations

import errno
import io
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from connectors.filesystem import opening, overwrite
from connectors.filesystem.systems import local
from runtime.checkpoint import local_storage
from runtime.tasks import versions

__all__ = ["Disk", "Fault", "Killed", "fault_from", "takes_space"]

_MODULES = (local_storage, local, overwrite, opening, versions)
_OPERATIONS = {
    "open", "write", "fsync", "close", "rename", "replace", "unlink", "rmdir", "mkdir", "scandir", "preadv", "fstat", "stat",
    "walk",
}  # fmt: skip
_TAKING_SPACE = {"write", "fsync", "rename", "replace", "mkdir", "create"}
_CODES = (errno.EIO, errno.ENOSPC, errno.EACCES, errno.EMFILE)

Fault = Callable[[int, str, str], int]
"""Of the number, the kind and the path of an operation the error with which it fails, 0 when it does not."""


class Killed(BaseException):
    """The process is dead: nothing that it does from now on reaches the disk."""


class Disk:
    """Counts operations and has some fail.

    Args:
        fault: which fail.
        killed_at: the operation at which the process is killed; none when negative.
    """

    path = os.path

    def __init__(self, fault: Fault | None = None, killed_at: int = -1) -> None:
        self._fault = fault
        self._killed_at = killed_at
        self.count = 0
        self.dead = False
        self.failed: list[str] = []
        # Descriptors by what they were opened for, and for which path.
        self._descriptors: dict[int, tuple[str, str]] = {}
        self._files: list[_File] = []

    # --- what stands in for `os`

    def __getattr__(self, name: str) -> Any:
        function = getattr(os, name)
        if name not in _OPERATIONS:
            return function

        def run(*args: Any, **options: Any) -> Any:
            return self._run(name, function, args, options)

        return run

    def _run(self, name: str, function: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        kind = "create" if name == "open" and args[1] & os.O_CREAT else name
        if name == "walk":
            return self._walk(*args, **options)
        held, path = self._descriptors.get(args[0], ("", "")) if isinstance(args[0], int) else ("", str(args[0]))
        if name != "close" or held == "create":
            try:
                self.strike(kind, path)
            except BaseException:
                if name == "write" and not self.dead:
                    os.write(args[0], bytes(args[1])[: len(args[1]) // 2])
                if name == "close":
                    self._close(args[0])
                raise
        if name == "fsync":
            return None
        if name == "close":
            return self._close(args[0])
        result = function(*args, **options)
        if name == "open":
            self._descriptors[result] = ("lock" if path.endswith(".lock") else kind), path
        return result

    def _walk(self, top: str, onerror: Callable[[OSError], None] | None = None) -> Any:
        """A folder that cannot be listed has nothing in it, as far as one can tell who does not look at errors."""
        try:
            self.strike("walk", top)
        except OSError as error:
            if onerror is not None:
                onerror(error)
            return iter(())
        return os.walk(top, onerror=onerror)

    def _close(self, descriptor: int) -> None:
        if self._descriptors.pop(descriptor, None) is not None:
            os.close(descriptor)

    # --- what stands in for `open`

    def open_file(self, path: str, mode: str = "r", opener: object = None) -> Any:
        """`open` of a file of bytes."""
        writes = mode != "rb"
        self.strike("create" if writes else "open", path)
        raw = open(path, mode, buffering=0)  # noqa: SIM115
        self._files.append(made := _File(self, raw, path))
        return io.BufferedWriter(made) if writes else io.BufferedReader(made)

    # --- faults

    def strike(self, kind: str, path: str) -> None:
        """An operation is to be done: raises when it fails."""
        number, self.count = self.count, self.count + 1
        if self.dead or number == self._killed_at:
            self.dead = True
            raise Killed
        code = self._fault(number, kind, path) if self._fault is not None else 0
        if code:
            self.failed.append(f"{number} {kind}")
            raise OSError(code, os.strerror(code))

    def release(self) -> None:
        """What the system does when a process is gone: files are closed, locks end."""
        self.dead = True
        for file in self._files:
            file.abandon()
        for descriptor in self._descriptors:
            with suppress(OSError):
                os.close(descriptor)
        self._descriptors.clear()
        if self._killed_at >= 0:
            local_storage._claims.clear()

    @contextmanager
    def installed(self) -> Iterator[Disk]:
        """The engine works on this disk."""
        with pytest.MonkeyPatch.context() as patch:
            for module in _MODULES:
                patch.setattr(module, "os", self)
                patch.setattr(module, "open", self.open_file, raising=False)
            try:
                yield self
            finally:
                self.release()


class _File(io.RawIOBase):
    """A file of which every operation counts. A write that fails has written a half."""

    def __init__(self, disk: Disk, raw: io.FileIO, path: str) -> None:
        self._disk = disk
        self._raw = raw
        self._path = path

    def readable(self) -> bool:
        return self._raw.readable()

    def writable(self) -> bool:
        return self._raw.writable()

    def seekable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._raw.fileno()

    def readinto(self, buffer: Any) -> int:
        self._disk.strike("read", self._path)
        return self._raw.readinto(buffer)

    def write(self, data: Any) -> int:
        try:
            self._disk.strike("write", self._path)
        except OSError:
            if not self._disk.dead:
                self._raw.write(bytes(data)[: len(data) // 2])
            raise
        return self._raw.write(data)

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._raw.seek(offset, whence)

    def tell(self) -> int:
        return self._raw.tell()

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._raw.close()

    def abandon(self) -> None:
        """Closed without a word: what was not written is lost."""
        self._raw.close()


def takes_space(number: int, kind: str, start: int, end: int) -> bool:
    """Whether an operation fails on a disk that is full from one operation to another."""
    return start <= number < end and kind in _TAKING_SPACE


def fault_from(rng: random.Random, operations: int) -> tuple[str, Fault]:
    """A way in which a disk fails during a run of about so many operations, and its name.

    One operation fails; a disk is full for a while; every operation may fail.
    """
    code = rng.choice(_CODES)
    at = rng.randrange(operations)
    way = rng.choice(("once", "once", "full", "flaky"))
    if way == "once":
        return f"operation {at} fails", lambda number, kind, path: code * (number == at)
    if way == "full":
        end = at + rng.choice((5, 50, 500, 1 << 30))
        return f"full from {at} to {end}", lambda n, kind, path: errno.ENOSPC * takes_space(n, kind, at, end)
    often = rng.choice((0.002, 0.01, 0.05))
    chance = random.Random(rng.random())
    return f"every operation fails with {often}", lambda number, kind, path: code * (chance.random() < often)
