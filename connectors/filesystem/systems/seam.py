"""What the connector asks of a file system. Paths are texts: of this machine, or `scheme://place/..` of another one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Protocol, runtime_checkable

__all__ = ["FileStatus", "FileSystem", "Listed", "NoFileError", "Output", "RangedFile", "WritableFiles"]


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


class NoFileError(Exception):
    """What has the name of a file is none: a link, a folder, a pipe."""


class Output(Protocol):
    """A file that is being written; every call may raise OSError."""

    def write(self, data: bytes) -> object: ...

    def close(self) -> None:
        """It is there, whole, and survives a crash of its machine (its name does after `WritableFiles.sync`)."""
        ...

    def abandon(self) -> None:
        """Give back what is open; what is there of the file may stay."""
        ...


@runtime_checkable
class WritableFiles(FileSystem, Protocol):
    """Files that a sink writes: hidden ones, which are renamed when they are shown. Every call may raise OSError."""

    def check_root(self, root: str) -> None:
        """Raises ConnectorError E3110 when the folder of a table cannot be written; it is there or can be made."""
        ...

    def make_folder(self, folder: str) -> list[str]:
        """Make a folder and those above it; gives those that were made, the highest one first."""
        ...

    def remove_folder(self, folder: str) -> None:
        """Remove an empty folder."""
        ...

    def create(self, path: str) -> Output: ...

    def named(self, path: str, name: str) -> str:
        """A hidden file that is complete gets the name that tells its content, where that costs nothing. Gives where it is
        from then on."""
        ...

    def hidden(self, path: str) -> str:
        """Where a file is whose name tells its content (`named`)."""
        ...

    def rename(self, path: str, new: str) -> None:
        """Unless that is done, also by half. Raises FileNotFoundError when neither is there."""
        ...

    def remove(self, path: str) -> None:
        """A file that may be gone already."""
        ...

    def exists(self, path: str) -> bool: ...

    def sync(self, folder: str) -> None:
        """What was made and renamed in a folder survives a crash of its machine."""
        ...

    def below(self, folder: str) -> Iterator[str]:
        """The paths of all files below a folder, hidden ones, too."""
        ...

    def visible(self, folder: str) -> list[str]:
        """The paths of the files below a folder that a reader sees, by name; none when it is not there."""
        ...

    def in_folder(self, folder: str) -> list[str]:
        """The names of what stands in a folder."""
        ...

    def content(self, path: str) -> Iterator[bytes]:
        """Its bytes. Raises FileNotFoundError, NoFileError."""
        ...

    def make_once(self, path: str, data: bytes) -> bool:
        """A file that appears with all that it holds, unless it is there: then False."""
        ...

    def write_over(self, path: str, data: bytes) -> None:
        """Other content of the same length for a file. Raises FileNotFoundError when it is gone, where that can be told."""
        ...

    def mark(self, path: str) -> None:
        """An empty file, unless there is one of that name."""
        ...

    def refuse_links(self, root: str, folder: str) -> None:
        """Raises ConnectorError E3110 when a folder, relative to the root, is a link or in one."""
        ...

    def leads_out(self, root: str, path: str) -> str | None:
        """To where a path below a root leads by a link, when that is not below the root."""
        ...
