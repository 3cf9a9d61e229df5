"""What the connector asks of a file system. Paths are texts: of this machine, or `scheme://place/..` of another one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO, Protocol, runtime_checkable

__all__ = ["FileStatus", "FileSystem", "Listed", "RangedFile"]


@dataclass(frozen=True, slots=True)
class FileStatus:
    """A version of a file: its size in bytes, when it was modified (nanoseconds since the epoch), and where the system
    has one a name of the version, else the number of the file."""

    size: int
    modified: int
    version: str = ""


@dataclass(frozen=True, slots=True)
class Listed:
    """A file that was found: its path, size in bytes, time of modification in milliseconds since the epoch."""

    path: str
    size: int
    modified: int


@runtime_checkable
class RangedFile(Protocol):
    """An open file of which every read is a request: it is told before what will be read."""

    def load(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Bytes from each begin to its end are held until the next call: fetched side by side."""
        ...


class FileSystem(Protocol):
    """Files as they are read. Two that mean the same are equal; it can be pickled, for tasks in other processes."""

    @property
    def local(self) -> bool:
        """Whether the files are there for every library by their path, and reading them does not wait for anybody."""
        ...

    def group(self, path: str) -> object:
        """What may hang together with a path: places of one group are looked at by one thread."""
        ...

    def find(self, path: str, tolerant: bool) -> list[Listed] | None:
        """All files of a path: itself, those below it where it is a folder, or those that a pattern matches (`*`, `?`,
        `[..]`, and `**` for any folders). Names that begin with `.` or `_` are hidden, but `_x=1`. None when there is nothing.

        Args:
            tolerant: what cannot be looked at below the path stands for itself.
        Raises:
            OSError: it cannot be listed.
            UnavailableError: it cannot be listed now.
        """
        ...

    def names(self, path: str) -> object:
        """What is the same as long as `find` finds the same files, whatever is in them; None: ask `find`. Raises OSError."""
        ...

    def is_folder(self, path: str) -> bool:
        """Whether files are below the path, which is no pattern."""
        ...

    def hint(self, path: str) -> str:
        """What to do when nothing is there."""
        ...

    def status(self, path: str) -> FileStatus:
        """Raises ConnectorError E3104 when it cannot be read, UnavailableError when it cannot be now."""
        ...

    def open(self, path: str, in_order: bool = True) -> tuple[BinaryIO, FileStatus]:
        """A file to be read, and the version that is read; raises as `status` does. `read(n)` gives n bytes unless the file
        ends. What is not local is a `RangedFile`. `in_order`: from the front to its end, so that it may be read ahead."""
        ...
