"""The functions of `os` with faults: an operation that fails, a disk that is full, a process that is killed, a machine
that loses power and with it all that was not synced."""

from __future__ import annotations

import errno
import os
import random
import shutil
from typing import Any

_COUNTED = {"open", "write", "fsync", "close", "rename", "unlink", "rmdir", "mkdir", "scandir", "preadv"}
_TAKING_SPACE = {"write", "mkdir", "rename", "fsync"}


class Killed(BaseException):
    """The process is dead: no code of it runs any more, so that nothing catches this."""


class FaultyDisk:
    """Stands in for the module `os`. Operations are counted from 0; syncs are only noted.

    Args:
        mode: `fails`: the operation `at` fails; `full`: from then on whatever needs space fails; `broken`: from then on
            everything fails; `killed`: from then on nothing happens; `power`: the same, and `lose` takes back what was
            not synced. A write that fails or is cut short writes a half.
    """

    path = os.path

    def __init__(self, mode: str, at: int, seed: int = 0) -> None:
        self._mode = mode
        self._at = at
        self._random = random.Random(seed)
        self.count = 0
        self._paths: dict[int, str] = {}
        # Not synced: of files how many bytes, of folders what was put in.
        self._unsynced: dict[str, int] = {}
        self._entries: dict[str, list[tuple[str, str | None]]] = {}

    def __getattr__(self, name: str) -> Any:
        function = getattr(os, name)
        if name not in _COUNTED:
            return function

        def run(*args: Any, **options: Any) -> Any:
            number = self.count
            self.count += 1
            if self._strikes(name, args, number):
                self._half(name, args)
                if self._mode in ("killed", "power"):
                    raise Killed
                code = errno.ENOSPC if self._mode == "full" else errno.EIO
                raise OSError(code, os.strerror(code))
            result = None if name == "fsync" else function(*args, **options)
            self._note(name, args, result)
            return result

        return run

    def _strikes(self, name: str, args: tuple[Any, ...], number: int) -> bool:
        if self._mode == "fails":
            return number == self._at
        creates = name in _TAKING_SPACE or (name == "open" and args[1] & os.O_CREAT)
        return number >= self._at and (self._mode != "full" or bool(creates))

    def _half(self, name: str, args: tuple[Any, ...]) -> None:
        """A write is cut short, and a file is closed although that fails."""
        if name == "write" and not (self._mode in ("killed", "power") and self.count - 1 > self._at):
            os.write(args[0], bytes(args[1])[: len(args[1]) // 2])
        if name == "close":
            os.close(args[0])

    def _note(self, name: str, args: tuple[Any, ...], result: Any) -> None:
        if name == "open":
            self._paths[result] = os.path.abspath(args[0])
            if args[1] & os.O_EXCL:
                self._enter(args[0], None)
        elif name == "mkdir":
            self._enter(args[0], None)
        elif name == "write":
            path = self._paths[args[0]]
            self._unsynced[path] = self._unsynced.get(path, 0) + result
        elif name == "rename":
            self._enter(args[1], os.path.abspath(args[0]))
            self._unsynced[os.path.abspath(args[1])] = self._unsynced.pop(os.path.abspath(args[0]), 0)
        elif name == "fsync":
            path = self._paths[args[0]]
            self._unsynced.pop(path, None)
            self._entries.pop(path, None)

    def _enter(self, path: str, before: str | None) -> None:
        path = os.path.abspath(path)
        self._entries.setdefault(os.path.dirname(path), []).append((path, before))

    def lose(self) -> None:
        """After the power has gone: of what was not synced some is there, some is not."""
        for path, count in self._unsynced.items():
            if os.path.exists(path):
                os.truncate(path, os.path.getsize(path) - self._random.randint(0, count))
        for folder in sorted(self._entries, reverse=True):
            for path, before in reversed(self._entries[folder]):
                if not os.path.exists(path) or self._random.random() < 0.3:
                    continue
                if before is not None:
                    os.rename(path, before)
                elif os.path.isdir(path):
                    shutil.rmtree(path)
                else:
                    os.unlink(path)
