"""An object store that can refuse to write over what is there: S3, Google Cloud Storage, Azure, and what speaks as they do.

A file appears when it is closed, whole or not at all. `publish` makes a new one only (If-None-Match), so of two processes
that publish under one name one is told. Credentials come from the environment, as the store's own tools take them, and
never from a URI, which stands in logs and messages.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

import pyarrow as pa

from runtime.core.errors import CheckpointError
from runtime.core.likeness import did_you_mean
from runtime.core.rooms import Room

if TYPE_CHECKING:
    import obstore as _obstore
else:
    _obstore = Room("obstore")

__all__ = ["RemoteStorage"]

_S3 = ("region", "endpoint_override", "scheme", "anonymous")
_AZURE = ("endpoint_override", "scheme", "anonymous")
_SCHEMES = {"s3": _S3, "gs": ("anonymous",), "az": _AZURE, "abfs": _AZURE, "abfss": _AZURE}
"""The options of each."""
_RETRIES = {"max_retries": 6, "retry_timeout": dt.timedelta(seconds=30)}
_PART_BYTES = 8 << 20
_COPIED_BYTES = 4 << 30
"""The largest object that S3 copies by itself is 5 GiB."""


class RemoteStorage:
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

    def claim(self) -> None:
        """Nothing: who owns a folder of an object store is told by `ObjectLease`."""

    def release(self) -> None:
        """Nothing: see `claim`."""

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

    @property
    def fast(self) -> bool:
        return False

    def create(self, path: str, *, large: bool = False) -> _RemoteFile:
        return _RemoteFile(self._store, self._path(path))

    def publish(self, path: str, data: bytes) -> None:
        """A whole file that appears at once. Raises FileExistsError when there is another one with that name."""
        try:
            with _as_os_error(path):
                _obstore.put(self._store, self._path(path), data, mode="create", use_multipart=False)
        except FileExistsError:
            # The answer to an attempt of our own may have been lost, and the attempt after it is refused.
            if self.read(path).to_pybytes() != data:
                raise

    def replace(self, path: str, data: bytes) -> None:
        """A whole file that appears at once in the place of one with that name, if there is one."""
        with _as_os_error(path):
            _obstore.put(self._store, self._path(path), data, use_multipart=False)

    def settle(self, folder: str) -> None:
        """Nothing: a file is there once it is closed."""

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

    def delete_folder(self, path: str) -> None:
        """Nothing: a folder is only the beginning of names."""

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
    except _obstore.exceptions.BaseError as error:
        raise OSError(5, f"{path or 'the folder'}: {_first_line(error)}") from error


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
