"""A folder that several machines reach, such as one of NFS, as a place where nothing is written over.

A file is made under a name of its own, synced, and then given the name that it is to have by a hard link, which fails when
that is taken: so it appears whole, and of two machines that make it one is told. Locks are not used. A machine that stood
still can finish what it has begun, but under no name that another one has taken.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager, suppress

import pyarrow as pa

from runtime.checkpoint.local_storage import LocalStorage
from runtime.checkpoint.shared_storage import SharedStorage
from runtime.checkpoint.storage import NewFile

__all__ = ["SharedFolder"]

_NEW = ".new"
"""Where files are before they have their name."""
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


class SharedFolder(SharedStorage):
    """Files below a folder, which is made with the first one.

    Args:
        root: the folder of the database.
        prefix: the folder of this storage below it.
    """

    many = 10_000

    def __init__(self, root: str, prefix: str = "") -> None:
        self._root = os.path.abspath(os.path.expanduser(root))
        self._prefix = prefix
        self._files = LocalStorage(os.path.join(self._root, *prefix.split("/")) if prefix else self._root, self._root)
        self._new = LocalStorage(self._root)

    @property
    def place(self) -> str:
        return self._files.place

    @property
    def fast(self) -> bool:
        return self._files.fast

    def below(self, folder: str) -> SharedFolder:
        return SharedFolder(self._root, f"{self._prefix}/{folder}" if self._prefix else folder)

    def files(self, folder: str = "") -> dict[str, int]:
        found = self._files.files(folder)
        return {path: size for path, size in found.items() if not path.startswith(f"{_NEW}/")}

    def names(self, folder: str = "") -> set[str]:
        with suppress(FileNotFoundError):
            return set(os.listdir(self._path(folder)))
        return set()

    def create(self, path: str, *, large: bool = False) -> NewFile:
        return self._files.create(path, large=large)

    def publish(self, path: str, data: bytes) -> None:
        with self._made(path, data) as made:
            try:
                os.link(made, self._path(path))
            except FileExistsError:
                # The answer to a link of our own may have been lost, and the attempt after it is refused.
                if self.read(path).to_pybytes() != data:
                    raise
            except OSError as error:
                if error.errno in _NO_LINKS:
                    raise OSError(
                        error.errno, "its file system has no hard links, by which one of two machines is refused"
                    ) from error
                raise
            self._files.settle(os.path.dirname(path))

    def replace(self, path: str, data: bytes) -> None:
        with self._made(path, data) as made:
            os.rename(made, self._path(path))
            self._files.settle(os.path.dirname(path))

    def settle(self, folder: str) -> None:
        self._files.settle(folder)

    def read(self, path: str, offset: int = 0, length: int | None = None) -> pa.Buffer:
        return self._files.read(path, offset, length)

    def copy(self, path: str, new: str) -> None:
        """A second name of the file: what stands under a name is never changed."""
        self._files.make_folder_of(new)
        with suppress(FileNotFoundError):
            os.unlink(self._path(new))
        os.link(self._path(path), self._path(new))
        self._files.settle(os.path.dirname(new))

    def delete(self, path: str) -> None:
        self._files.delete(path)

    def delete_folder(self, path: str) -> None:
        # Another machine may be about to make a file there.
        with suppress(OSError):
            self._files.delete_folder(path)

    def clear(self) -> None:
        """See `SharedStorage.clear`. A former owner that is still about to name a file fails."""
        for path in self._new.files(_NEW):
            self._new.delete(path)

    @contextmanager
    def _made(self, path: str, data: bytes) -> Generator[str]:
        """A file that is synced and has no name yet, beside the folder in which it is to have one."""
        self._files.make_folder_of(path)
        name = f"{_NEW}/{secrets.token_hex(12)}"
        file = self._new.create(name)
        full = os.path.join(self._root, name)
        try:
            try:
                file.write(data)
            except OSError:
                file.abandon()
                raise
            file.close()
            yield full
        finally:
            with suppress(FileNotFoundError):
                os.unlink(full)

    def _path(self, path: str) -> str:
        return self._files.path_of(path)
