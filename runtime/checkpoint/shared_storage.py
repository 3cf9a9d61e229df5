"""A place that several machines reach, and that decides between two of them: what is there is not written over.

An object store can refuse to make a file that is there; a file system can refuse to give a file a second name that is
taken. Neither needs locks, or clocks that agree. Who may write is told by `ObjectLease`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import pyarrow as pa

from runtime.checkpoint.storage import NewFile

__all__ = ["SharedStorage"]


class _Plain:
    """What most of them need not do."""

    @property
    def reached(self) -> str:
        """Nothing: see `Storage`."""
        return ""

    def claim(self) -> None:
        """Nothing: who owns it is told by `ObjectLease`."""

    def release(self) -> None:
        """Nothing: see `claim`."""

    def settle(self, folder: str) -> None:
        """All files of a folder that were closed survive a crash."""

    def delete_folder(self, path: str) -> None:
        """The folder, which has no files, is gone."""

    def clear(self) -> None:
        """Delete what processes have left that ended before a file had its name. Called by the owner."""


class SharedStorage(_Plain, ABC):
    """Files below a folder or a prefix; see `Storage`. Every call may raise OSError."""

    many = 500
    """So many small files are read in a few seconds."""

    @property
    @abstractmethod
    def place(self) -> str:
        """How a person would name it; without secrets."""

    @property
    def fast(self) -> bool:
        return False

    @abstractmethod
    def below(self, folder: str) -> SharedStorage:
        """A folder of this one."""

    @abstractmethod
    def files(self, folder: str = "") -> dict[str, int]:
        """All files in a folder and the folders below it with their sizes; none when there is no such folder."""

    @abstractmethod
    def names(self, folder: str = "") -> set[str]:
        """What stands directly in a folder."""

    @abstractmethod
    def create(self, path: str, *, large: bool = False) -> NewFile:
        """A new file."""

    @abstractmethod
    def publish(self, path: str, data: bytes) -> None:
        """A whole file that appears at once. Raises FileExistsError when there is another one with that name."""

    @abstractmethod
    def replace(self, path: str, data: bytes) -> None:
        """A whole file that appears at once in the place of one with that name, if there is one."""

    @abstractmethod
    def read(self, path: str, offset: int = 0, length: int | None = None) -> pa.Buffer:
        """A part of a file, up to its end when no length is given; shorter than asked for when the file is."""

    @abstractmethod
    def copy(self, path: str, new: str) -> None:
        """The same bytes in another file. Raises FileNotFoundError."""

    @abstractmethod
    def delete(self, path: str) -> None:
        """The file is gone; it may have been before."""
