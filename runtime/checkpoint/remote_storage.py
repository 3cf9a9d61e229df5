"""An object store that can refuse to write over what is there: S3, Google Cloud Storage, Azure, and what speaks as they do.

A file appears when it is closed, whole or not at all. `publish` makes a new one only (If-None-Match), so of two processes
that publish under one name one is told. Credentials come from the environment, as the store's own tools take them, and
never from a URI, which stands in logs and messages.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

import pyarrow as pa

from runtime.checkpoint.shared_storage import SharedStorage
from runtime.core.errors import CheckpointError
from runtime.core.likeness import did_you_mean
from runtime.core.rooms import Room

if TYPE_CHECKING:
    import obstore as _obstore
else:
    _obstore = Room("obstore")

__all__ = ["AwayError", "RemoteEntry", "RemoteStorage", "ReplacedError"]

_S3 = ("region", "endpoint_override", "scheme", "anonymous")
_AZURE = ("endpoint_override", "scheme", "anonymous")
_SCHEMES = {"s3": _S3, "gs": ("anonymous",), "az": _AZURE, "abfs": _AZURE, "abfss": _AZURE}
"""The options of each."""
_RETRIES = {"max_retries": 6, "retry_timeout": dt.timedelta(seconds=30)}
_PART_BYTES = 8 << 20
_AWAY = re.compile(
    r" retries, max_retries: |error sending request|response body|timed out|status code: (?:408|429|5\d\d)\b"
)
_REFUSED = re.compile(r"status code: 40[13]\b")
_MISSING = re.compile(r"status code: 404\b")
_COPIED_BYTES = 4 << 30
"""The largest object that S3 copies by itself is 5 GiB."""


@dataclass(frozen=True, slots=True)
class RemoteEntry:
    """A file that is there: its path, its size in bytes, the second since the epoch in which it was written, and its ETag,
    empty where the store has none."""

    path: str
    size: int
    modified: int
    tag: str


class ReplacedError(OSError):
    """A file is not the version that was asked for."""


class AwayError(ConnectionError):
    """The store does not answer, or is busy, however often it was asked: it may answer later."""


class RemoteStorage(SharedStorage):
    """Files below a prefix of an object store. Every call may raise OSError.

    Args:
        store: of `obstore.store`; it has the prefix.
        place: how a person would name it; without secrets.
        prefix: the folder below that of the store.
    """

    def __init__(self, store: _obstore.store.ObjectStore, place: str, prefix: str = "") -> None:
        self._store = store
        self._place = place
        self._prefix = f"{prefix}/" if prefix else ""

    def below(self, folder: str) -> RemoteStorage:
        """A folder of this one."""
        return RemoteStorage(self._store, f"{self._place}/{folder}", self._prefix + folder)

    @staticmethod
    def at(uri: str) -> RemoteStorage:
        """The folder that a URI names: `s3://bucket/path?region=eu-central-1`. Nothing is asked of the store yet.

        Options: `region` (S3); `endpoint_override` (host and port) and `scheme` (http or https) of a store that is not
        the provider's (S3, Azure); `anonymous` (true: without credentials).

        Raises:
            CheckpointError: E3406, it is no such URI, or the library obstore is not installed.
        """
        parts = urlsplit(uri)
        if parts.scheme not in _SCHEMES or not parts.hostname:
            raise CheckpointError(
                f"{_without_secrets(uri)} is no object store: {', '.join(f'{s}://' for s in _SCHEMES)} are known",
                code="E3406",
                hint="for example 's3://bucket/path?region=eu-central-1'",
            )
        if "@" in parts.netloc and parts.scheme not in ("abfs", "abfss"):
            raise CheckpointError(
                f"{_without_secrets(uri)} holds credentials, which would be shown in logs",
                code="E3406",
                hint="give them in the environment: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or as the store's own tools do",
            )
        options = _options(uri, parts.query, _SCHEMES[parts.scheme])
        config, client = _settings(options)
        place = f"{parts.scheme}://{parts.netloc}{parts.path}".rstrip("/")
        return RemoteStorage.of(place, config, client)

    @staticmethod
    def of(place: str, config: Mapping[str, Any], client: Mapping[str, Any]) -> RemoteStorage:
        """A folder of a store. Nothing is asked of the store yet.

        Args:
            place: its URI, without secrets.
            config: what the library is told of the store; what is missing, and credentials, are in the environment.
            client: what it is told of connections.
        Raises:
            CheckpointError: E3406, there is no such store, or the library obstore is not installed.
        """
        try:
            store = _obstore.store.from_url(place, config=config, client_options=client, retry_config=_RETRIES)  # type: ignore[arg-type]
        except ModuleNotFoundError as error:
            raise CheckpointError(
                "object stores need the library obstore, which is not installed",
                code="E3406",
                hint="pip install 'sqlengine[objectstore]'",
            ) from error
        except (_obstore.exceptions.BaseError, ValueError) as error:
            raise CheckpointError(
                f"{place} cannot be reached: {_first_line(error)}",
                code="E3406",
                hint="see to its URI, and the credentials in the environment",
            ) from error
        return RemoteStorage(store, place)

    @property
    def place(self) -> str:
        return self._place

    def files(self, folder: str = "") -> dict[str, int]:
        with _as_os_error(folder):
            listed = _obstore.list(self._store, self._path(folder).rstrip("/") or None)
            start = len(self._prefix)
            return {entry["path"][start:]: entry["size"] for entries in listed for entry in entries}

    def names(self, folder: str = "") -> set[str]:
        """What stands directly in a folder."""
        with _as_os_error(folder):
            found: Any = _obstore.list_with_delimiter(self._store, self._path(folder).rstrip("/") or None)
            paths = [*found["common_prefixes"], *(entry["path"] for entry in found["objects"])]
        return {path.rstrip("/").rpartition("/")[2] for path in paths}

    def found(self, folder: str = "") -> list[RemoteEntry]:
        """All files below a folder, with what is known of each."""
        with _as_os_error(folder):
            listed = _obstore.list(self._store, self._path(folder) or None)
            return [self._entry(entry) for entries in listed for entry in entries]

    def level(self, folder: str = "") -> tuple[list[str], list[RemoteEntry]]:
        """The paths of the folders in a folder, and the files in it."""
        with _as_os_error(folder):
            found: Any = _obstore.list_with_delimiter(self._store, self._path(folder) or None)
            folders = [path.rstrip("/")[len(self._prefix) :] for path in found["common_prefixes"]]
            return folders, [self._entry(entry) for entry in found["objects"]]

    def status(self, path: str) -> RemoteEntry:
        """What is known of a file. Raises FileNotFoundError."""
        with _as_os_error(path):
            return self._entry(_obstore.head(self._store, self._path(path)))

    def part(self, path: str, begin: int, end: int, tag: str = "") -> tuple[bytes, RemoteEntry]:
        """Bytes of a file, fewer where it ends, and what is known of it. Raises ReplacedError when it has another tag."""
        with _as_os_error(path):
            options: Any = {"range": (begin, end), **({"if_match": tag} if tag else {})}
            found = _obstore.get(self._store, self._path(path), options=options)
            return bytes(found.bytes()), self._entry(found.meta)

    def _entry(self, meta: Any) -> RemoteEntry:
        return RemoteEntry(
            meta["path"][len(self._prefix) :], meta["size"], int(meta["last_modified"].timestamp()), meta["e_tag"] or ""
        )

    def create(self, path: str, *, large: bool = False) -> _RemoteFile:
        return _RemoteFile(self._store, self._path(path))

    def publish(self, path: str, data: bytes) -> None:
        """A whole file that appears at once. Raises FileExistsError when there is another one with that name."""
        try:
            with _as_os_error(path):
                _obstore.put(self._store, self._path(path), data, mode="create", use_multipart=False)
        except FileExistsError:
            # The answer to an attempt of our own may have been lost, and the attempt after it is refused. Whoever has made
            # another one may have removed it by now.
            with suppress(FileNotFoundError):
                if self.read(path).to_pybytes() == data:
                    return
            raise

    def replace(self, path: str, data: bytes) -> None:
        """A whole file that appears at once in the place of one with that name, if there is one."""
        with _as_os_error(path):
            _obstore.put(self._store, self._path(path), data, use_multipart=False)

    def read(self, path: str, offset: int = 0, length: int | None = None) -> pa.Buffer:
        with _as_os_error(path):
            if offset == 0 and length is None:
                return pa.py_buffer(_obstore.get(self._store, self._path(path)).bytes())
            if length is None or length > _PART_BYTES:
                size = _obstore.head(self._store, self._path(path))["size"]
                length = min(size - offset, size if length is None else length)
            if length <= 0:
                return pa.py_buffer(b"")
            try:
                return pa.py_buffer(_obstore.get_range(self._store, self._path(path), start=offset, length=length))
            except _obstore.exceptions.GenericError:
                if offset < _obstore.head(self._store, self._path(path))["size"]:
                    raise
                return pa.py_buffer(b"")

    def copy(self, path: str, new: str) -> None:
        """The same bytes in another file. Raises FileNotFoundError."""
        with _as_os_error(path):
            size = _obstore.head(self._store, self._path(path))["size"]
            if size <= _COPIED_BYTES:
                _obstore.copy(self._store, self._path(path), self._path(new))
                return
        file = self.create(new)
        try:
            for offset in range(0, size, _PART_BYTES):
                file.write(self.read(path, offset, _PART_BYTES).to_pybytes())
        except OSError:
            file.abandon()
            raise
        file.close()

    def delete(self, path: str) -> None:
        with suppress(FileNotFoundError), _as_os_error(path):
            _obstore.delete(self._store, self._path(path))

    def _path(self, path: str) -> str:
        return self._prefix + path


class _RemoteFile:
    """Bytes are gathered. Up to a part's size they go in one request; of more, parts go while others are written."""

    def __init__(self, store: _obstore.store.ObjectStore, path: str) -> None:
        self._store = store
        self._path = path
        self._pieces: list[bytes] = []
        self._size = 0
        self._parts: Any = None

    def write(self, data: bytes) -> int:
        self._pieces.append(bytes(data))
        self._size += len(data)
        if self._size >= _PART_BYTES:
            with _as_os_error(self._path):
                if self._parts is None:
                    self._parts = _obstore.open_writer(self._store, self._path, buffer_size=_PART_BYTES)
                self._parts.write(b"".join(self._pieces))
            self._pieces, self._size = [], 0
        return len(data)

    def memory(self, size: int) -> None:
        return None

    def close(self) -> None:
        data, self._pieces = b"".join(self._pieces), []
        with _as_os_error(self._path):
            if self._parts is None:
                _obstore.put(self._store, self._path, data, use_multipart=False)
            else:
                if data:
                    self._parts.write(data)
                self._parts.close()

    def abandon(self) -> None:
        self._pieces = []
        if self._parts is None:
            return
        with _as_os_error(self._path):
            # Parts that are not completed are paid for: they become a file, and that goes.
            self._parts.close()
            _obstore.delete(self._store, self._path)


@contextmanager
def _as_os_error(path: str) -> Generator[None]:
    """Errors of the library as those of the system."""
    try:
        yield
    except _obstore.exceptions.AlreadyExistsError as error:
        raise FileExistsError(f"{path} is there already") from error
    except FileNotFoundError as error:
        raise FileNotFoundError(2, f"{path} is not there") from error
    except (_obstore.exceptions.PermissionDeniedError, _obstore.exceptions.UnauthenticatedError) as error:
        raise PermissionError(13, f"the object store refuses {path or 'to list'}: {_first_line(error)}") from error
    except _obstore.exceptions.PreconditionError as error:
        raise ReplacedError(5, f"{path} has been replaced") from error
    except _obstore.exceptions.BaseError as error:
        raise _of_text(path, _first_line(error)) from error


def _of_text(path: str, text: str) -> OSError:
    """Some errors are told by their text alone."""
    what = f"{path or 'the folder'}: {text}"
    if _AWAY.search(text):
        return AwayError(5, what)
    if _REFUSED.search(text):
        return PermissionError(13, f"the object store refuses {path or 'to list'}: {text}")
    return FileNotFoundError(2, f"{path or 'the bucket'} is not there") if _MISSING.search(text) else OSError(5, what)


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0][:300]


def _without_secrets(uri: str) -> str:
    scheme, mark, rest = uri.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{mark}{host.rpartition('@')[2]}{slash}{path.partition('?')[0]}"


def _options(uri: str, query: str, known: tuple[str, ...]) -> dict[str, str]:
    options = dict(parse_qsl(query, keep_blank_values=True))
    for name in options:
        if name not in known:
            raise CheckpointError(
                f"unknown option '{name}' of {_without_secrets(uri)}",
                code="E3406",
                hint=did_you_mean(name, known) or f"there are {', '.join(known)}",
            )
    return options


def _settings(options: dict[str, str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the library is told of the store, and of its connections."""
    config: dict[str, Any] = {}
    client: dict[str, Any] = {}
    scheme = options.get("scheme", "https")
    if "region" in options:
        config["region"] = options["region"]
    if "endpoint_override" in options:
        config["endpoint"] = f"{scheme}://{options['endpoint_override']}"
    if scheme == "http":
        client["allow_http"] = True
    if options.get("anonymous", "").lower() == "true":
        config["skip_signature"] = True
    return config, client
