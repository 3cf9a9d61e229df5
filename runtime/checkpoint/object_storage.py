"""Any file system of pyarrow as a store of checkpoints: S3, Google Cloud Storage, Azure, HDFS, others through Python.

A file appears there when it is closed. A store that shows a file before shows a damaged one: checksums tell.

Such a file system has no locks. Where the folder is a URI of a store that `RemoteStorage` knows, a lease tells two processes
of each other.
"""

from __future__ import annotations

import importlib.util
from contextlib import suppress

import pyarrow as pa
from pyarrow import fs

from runtime.checkpoint.object_lease import ObjectLease, Taken
from runtime.checkpoint.remote_storage import RemoteStorage
from runtime.core.errors import CheckpointError
from runtime.core.logs import Log

__all__ = ["ObjectStorage"]

_log = Log("checkpoint")

_WITHOUT_FOLDERS = {"s3", "gcs", "abfs"}
"""Stores in which a folder is only the beginning of names."""


_claims: dict[str, tuple[ObjectLease, int]] = {}
"""By folder, for this process: the lease, and how many claims there are."""


class ObjectStorage:
    """Files below a path of a pyarrow file system.

    Args:
        uri: that of the folder; empty where there is none, and nobody can tell who writes there.
    """

    def __init__(self, system: fs.FileSystem, root: str, place: str, uri: str = "") -> None:
        self._claimed = False
        self._uri = uri
        self._fs = system
        self._root = root.strip("/") if system.type_name in _WITHOUT_FOLDERS else root.rstrip("/")
        self._place = place.rstrip("/")
        self._folders = system.type_name not in _WITHOUT_FOLDERS

    @property
    def place(self) -> str:
        return self._place

    @property
    def reached(self) -> str:
        return self._uri

    def claim(self) -> None:
        if self._claimed or not self._uri:
            return
        lease, count = _claims.get(self._place, (None, 0))
        if lease is None:
            storage = self._for_lease()
            if storage is None:
                return
            try:
                lease = ObjectLease.take(storage)
            except Taken as owner:
                raise CheckpointError(
                    f"{owner} writes checkpoints to {self._place}",
                    code="E3405",
                    hint="stop it, or give this job another name or execution.checkpointing.dir",
                ) from owner
        _claims[self._place] = lease, count + 1
        self._claimed = True

    def release(self) -> None:
        if not self._claimed:
            return
        self._claimed = False
        lease, count = _claims.pop(self._place)
        if count > 1:
            _claims[self._place] = lease, count - 1
        else:
            lease.release()

    def __del__(self) -> None:
        with suppress(OSError):
            self.release()

    def _for_lease(self) -> RemoteStorage | None:
        """The folder as what can have a lease; None where it cannot be known who writes there."""
        if importlib.util.find_spec("obstore") is None:
            _log.warning("%s may have two writers: to tell, pip install 'sqlengine[objectstore]'", self._place)
            return None
        try:
            return RemoteStorage.at(self._uri)
        except CheckpointError as error:
            _log.warning("%s may have two writers: %s", self._place, error.message)
            return None

    def files(self, folder: str = "") -> dict[str, int]:
        base = self._path(folder)
        found = self._fs.get_file_info(fs.FileSelector(base, allow_not_found=True, recursive=True))
        prefix = f"{self._root}/" if self._root else ""
        return {i.path.removeprefix(prefix): i.size or 0 for i in found if i.type == fs.FileType.File}

    @property
    def fast(self) -> bool:
        return False

    def create(self, path: str, *, large: bool = False) -> _ObjectFile:
        del large
        full = self._path(path)
        if self._folders:
            self._fs.create_dir(full.rpartition("/")[0], recursive=True)
        return _ObjectFile(self._fs.open_output_stream(full, compression=None))

    def publish(self, path: str, data: bytes) -> None:
        file = self.create(path)
        try:
            file.write(data)
        except OSError:
            file.abandon()
            raise
        file.close()

    def settle(self, folder: str) -> None:
        """Nothing: a file is there once it is closed."""

    def read(self, path: str, offset: int = 0, length: int | None = None) -> pa.Buffer:
        with self._fs.open_input_file(self._path(path)) as file:
            size = file.size()
            end = size if length is None else min(size, offset + length)
            file.seek(min(offset, size))
            return file.read_buffer(max(0, end - offset))

    def delete(self, path: str) -> None:
        try:
            self._fs.delete_file(self._path(path))
        except FileNotFoundError:
            return

    def delete_folder(self, path: str) -> None:
        if self._folders:
            try:
                self._fs.delete_dir(self._path(path))
            except FileNotFoundError:
                return

    def _path(self, path: str) -> str:
        return "/".join(part for part in (self._root, path) if part)


class _ObjectFile:
    def __init__(self, stream: pa.NativeFile) -> None:
        self._stream = stream

    def write(self, data: bytes) -> int:
        self._stream.write(data)
        return len(data)

    def memory(self, size: int) -> None:
        return None

    def close(self) -> None:
        self._stream.close()

    def abandon(self) -> None:
        try:
            self._stream.close()
        except OSError:
            return
