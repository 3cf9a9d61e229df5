"""Files in S3, Google Cloud Storage and Azure, through `RemoteStorage`."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, BinaryIO, cast

from connectors.filesystem.opening import shown_path
from connectors.filesystem.saved_names import without_content
from connectors.filesystem.systems.fetched_file import PART, FetchedFile
from connectors.filesystem.systems.patterns import find_files, visible_below
from connectors.filesystem.systems.seam import FileStatus, Listed, Output
from runtime.checkpoint.remote_storage import AwayError, RemoteEntry, RemoteStorage, ReplacedError
from runtime.core.errors import CheckpointError, ConnectorError, OptionError, UnavailableError
from runtime.core.secrets import Secret

__all__ = ["ObjectStoreFiles"]

_ENVIRONMENT = ("AWS_", "AZURE_", "GOOGLE_")
"""What variables begin with that stores are reached by."""
_CREDENTIALS = "check the credentials, in the table's options or in the environment, and what they allow"
_NANOSECONDS = 1_000_000_000


@dataclass(frozen=True)
class ObjectStoreFiles:
    """See `FileSystem`.

    Args:
        place: `s3://bucket`, `gs://bucket`, `abfs://container@account.dfs.core.windows.net`, .. .
        config: what the library is told of the store, besides what the environment says.
        http: whether connections may be without TLS.
    """

    place: str
    config: tuple[tuple[str, Secret | str], ...] = field(default=(), repr=False)
    http: bool = False

    @property
    def local(self) -> bool:
        return False

    def group(self, path: str) -> object:
        return self.place

    @property
    def storage(self) -> RemoteStorage:
        """Raises OptionError E1505 when there cannot be such a store, or the library is missing."""
        return _storage(self, tuple(sorted((k, v) for k, v in os.environ.items() if k.startswith(_ENVIRONMENT))))

    def key(self, path: str) -> str:
        """What a path is in the bucket."""
        return path.removeprefix(self.place).strip("/")

    def find(self, path: str, tolerant: bool) -> list[Listed] | None:
        del tolerant
        with _away(path):
            found = find_files(self.key(path), self._level, self._below)
        return None if found is None else [Listed(f"{self.place}/{f.path}", f.size, f.modified) for f in found]

    def _level(self, folder: str) -> tuple[list[str], list[Listed]]:
        folders, files = self.storage.level(folder)
        return [name.rpartition("/")[2] for name in folders], [_listed(entry) for entry in files]

    def _below(self, folder: str) -> list[Listed]:
        return [_listed(entry) for entry in self.storage.found(folder)]

    def names(self, path: str) -> object:
        """It takes as long as `find`."""
        del path
        return None

    def is_folder(self, path: str) -> bool:
        with _away(path):
            return any(self.storage.level(self.key(path)))

    def hint(self, path: str) -> str:
        return f"check the option 'path': nothing in {self.place} begins so"

    def status(self, path: str) -> FileStatus:
        with _reading(path):
            return _status(self.storage.status(self.key(path)))

    def open(self, path: str, in_order: bool = True) -> tuple[BinaryIO, FileStatus]:
        storage, key = self.storage, self.key(path)
        first, entry = b"", None
        with _reading(path):
            if in_order:
                try:
                    first, entry = storage.part(key, 0, PART)
                except (AwayError, FileNotFoundError, PermissionError):
                    raise
                except OSError:
                    entry = None  # no range of an empty file can be asked for
            if entry is None:
                entry = storage.status(key)
        status, tag = _status(entry), entry.tag

        def fetch(begin: int, end: int) -> bytes:
            with _reading(path):
                data, _ = storage.part(key, begin, end, tag)
            if len(data) < end - begin:
                raise _changed(path)
            return data

        return cast(BinaryIO, FetchedFile(status.size, fetch, in_order, first)), status

    # --- what sinks do

    def check_root(self, root: str) -> None:
        try:
            if self.key(root) and self.exists(root):
                raise ConnectorError(
                    f"cannot write to {root}: it is a file",
                    code="E3110",
                    hint="the option 'path' of a sink names a folder",
                )
        except OSError as error:
            raise ConnectorError(
                f"cannot write to {root}: {error.strerror}", code="E3110", hint=_CREDENTIALS
            ) from error

    def make_folder(self, folder: str) -> list[str]:
        """Nothing: a folder is only the beginning of names."""
        del folder
        return []

    def remove_folder(self, folder: str) -> None:
        """Nothing: see `make_folder`."""

    def create(self, path: str) -> Output:
        return self.storage.create(self.key(path))

    def named(self, path: str, name: str) -> str:
        """It stays where it is: to rename is to copy."""
        del name
        return path

    def hidden(self, path: str) -> str:
        return without_content(path)

    def rename(self, path: str, new: str) -> None:
        old, name = self.key(path), self.key(new)
        try:
            self.storage.copy(old, name)
        except FileNotFoundError:
            if not self.exists(new):
                raise
            return
        self.storage.delete(old)

    def remove(self, path: str) -> None:
        self.storage.delete(self.key(path))

    def exists(self, path: str) -> bool:
        try:
            self.storage.status(self.key(path))
        except FileNotFoundError:
            return False
        return True

    def sync(self, folder: str) -> None:
        """Nothing: what is there stays."""

    def below(self, folder: str) -> Iterator[str]:
        return (f"{self.place}/{f.path}" for f in self.storage.found(self.key(folder)))

    def visible(self, folder: str) -> list[str]:
        found = visible_below(self.key(folder), self._below)
        return sorted(f"{self.place}/{f.path}" for f in found)

    def in_folder(self, folder: str) -> list[str]:
        return sorted(self.storage.names(self.key(folder)))

    def content(self, path: str) -> Iterator[bytes]:
        entry = self.storage.status(self.key(path))
        return self._pieces(entry)

    def _pieces(self, entry: RemoteEntry) -> Iterator[bytes]:
        for begin in range(0, entry.size, PART):
            yield self.storage.part(entry.path, begin, min(begin + PART, entry.size), entry.tag)[0]

    def make_once(self, path: str, data: bytes) -> bool:
        try:
            self.storage.publish(self.key(path), data)
        except FileExistsError:
            return False
        return True

    def write_over(self, path: str, data: bytes) -> None:
        self.storage.replace(self.key(path), data)

    def mark(self, path: str) -> None:
        self.storage.replace(self.key(path), b"")

    def refuse_links(self, root: str, folder: str) -> None:
        """Nothing: there are none."""

    def leads_out(self, root: str, path: str) -> str | None:
        del root, path
        return None


@lru_cache(maxsize=64)
def _storage(files: ObjectStoreFiles, environment: tuple[tuple[str, str], ...]) -> RemoteStorage:
    config = {key: value.reveal() if isinstance(value, Secret) else value for key, value in files.config}
    # Whoever sets the environment may leave out TLS.
    http = files.http or any("ENDPOINT" in k and v.startswith("http://") for k, v in environment)
    client: dict[str, Any] = {"allow_http": True} if http else {}
    try:
        return RemoteStorage.of(files.place, config, client)
    except CheckpointError as error:
        raise OptionError(error.message, code="E1505", hint=error.hint) from error


def _listed(entry: RemoteEntry) -> Listed:
    return Listed(entry.path, entry.size, entry.modified * 1000)


def _status(entry: RemoteEntry) -> FileStatus:
    return FileStatus(entry.size, entry.modified * _NANOSECONDS, entry.tag)


@contextmanager
def _away(path: str) -> Generator[None]:
    try:
        yield
    except AwayError as error:
        raise UnavailableError(
            f"{shown_path(path)} does not answer: {error.strerror}", hint="is the store there, and reachable from here?"
        ) from error


@contextmanager
def _reading(path: str) -> Generator[None]:
    """What reading a file may end in."""
    try:
        with _away(path):
            yield
    except ReplacedError as error:
        raise _changed(path) from error
    except FileNotFoundError as error:
        raise ConnectorError(
            f"cannot read {shown_path(path)}: it is not there", code="E3104", hint="check that the file exists"
        ) from error
    except OSError as error:
        raise ConnectorError(
            f"cannot read {shown_path(path)}: {error.strerror}",
            code="E3104",
            hint=_CREDENTIALS,
        ) from error


def _changed(path: str) -> ConnectorError:
    return ConnectorError(
        f"{shown_path(path)} has been replaced while it was read",
        code="E3105",
        hint="files of a table must not change once they are there",
    )
