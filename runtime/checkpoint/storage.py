"""Where checkpoints are kept: what a store of files must be able to do.

Two kinds of store fit: a local folder, where files are synced and renamed, and any file system of `pyarrow.fs`, where a
file appears when it is closed. Nothing is ever changed: files are made, read and deleted.
"""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa

__all__ = ["Damage", "NewFile", "Storage", "below"]


class Damage(Exception):
    """Files do not hold what was written: missing, shortened, with other bytes, or no files at all. Never leaves the
    room; its message is a part of a sentence."""


class NewFile(Protocol):
    """A file that is being written."""

    def write(self, data: bytes) -> int:
        """Adds bytes; returns how many, always all."""
        ...

    def memory(self, size: int) -> pa.Buffer | None:
        """So many bytes in which the next ones may be made, and then given to `write`, which need not copy them; None:
        make them anywhere. Valid until anything is written."""
        ...

    def close(self) -> None:
        """The file is complete, and survives a crash as far as the store can promise."""
        ...

    def abandon(self) -> None:
        """The file is not wanted; what there is of it may be deleted."""
        ...


class Storage(Protocol):
    """A folder with files. Paths are relative to it, with `/` between names. Every call may raise OSError.

    Nobody but this user can read what is made here, where the store has permissions: folders are 0700, files 0600.
    """

    @property
    def place(self) -> str:
        """The folder, as a person would name it."""
        ...

    @property
    def reached(self) -> str:
        """The folder as `storage_at` takes it in another process, on another machine if it is there; "": it cannot be
        told."""
        ...

    def claim(self) -> None:
        """This process is going to write here. Held until the process ends or `release`.

        Raises:
            CheckpointError: another process does (only where the store can tell).
        """
        ...

    def release(self) -> None:
        """Nothing more will be written."""
        ...

    def files(self, folder: str = "") -> dict[str, int]:
        """All files in a folder and the folders below it with their sizes; none when there is no such folder."""
        ...

    @property
    def fast(self) -> bool:
        """Whether it takes bytes sooner than they would be compressed, as far as that is known by now."""
        ...

    def create(self, path: str, *, large: bool = False) -> NewFile:
        """A new file; folders on the way to it are made. `large`: more than a megabyte is to come."""
        ...

    def publish(self, path: str, data: bytes) -> None:
        """A whole file that appears at once, after all files of its folder that were closed before it."""
        ...

    def settle(self, folder: str) -> None:
        """All files of a folder that were closed survive a crash; `publish` does so for the folder of its file."""
        ...

    def read(self, path: str, offset: int = 0, length: int | None = None) -> pa.Buffer:
        """A part of a file, up to its end when no length is given; shorter than asked for when the file is.

        Raises:
            Damage: there is no file at the path, but something else, or what leads out of the store.
        """
        ...

    def delete(self, path: str) -> None:
        """The file is gone; it may have been before."""
        ...

    def delete_folder(self, path: str) -> None:
        """The folder, which has no files, is gone."""
        ...


def below(folder: str, name: str) -> str:
    """A folder in a folder, which may be a URI with options behind a question mark."""
    head, mark, options = folder.partition("?") if "://" in folder else (folder, "", "")
    return f"{head.rstrip('/')}/{name}{mark}{options}"
