"""Objects in memory as a pyarrow file system: a file appears when it is closed; operations fail when told to."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyarrow import fs


class MemoryObjects(fs.FileSystemHandler):
    """A file system without folders. Reading, writing and listing are operations, counted from 0.

    Args:
        partial: an object that could not be written whole is there in part; otherwise it is not there.

    Attributes:
        objects: content by path.
        count: operations so far.
        failing: which operations fail, by number.
    """

    def __init__(self, *, partial: bool = True) -> None:
        self.partial = partial
        self.objects: dict[str, bytes] = {}
        self.count = 0
        self.failing: range | None = None

    def operation(self) -> None:
        number = self.count
        self.count += 1
        if self.failing is not None and number in self.failing:
            raise OSError(f"operation {number} of the store failed")

    def get_type_name(self) -> str:
        return "memory"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> list[fs.FileInfo]:
        return [self._info(path) for path in paths]

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        self.operation()
        return [self._info(path) for path in sorted(self.objects) if path.startswith(selector.base_dir + "/")]

    def _info(self, path: str) -> fs.FileInfo:
        if path in self.objects:
            return fs.FileInfo(path, fs.FileType.File, size=len(self.objects[path]))
        return fs.FileInfo(path, fs.FileType.NotFound)

    def create_dir(self, path: str, recursive: bool) -> None: ...

    def delete_dir(self, path: str) -> None:
        assert not [p for p in self.objects if p.startswith(path + "/")]

    def delete_dir_contents(self, path: str, missing_dir_ok: bool) -> None:
        raise NotImplementedError

    def delete_root_dir_contents(self) -> None:
        raise NotImplementedError

    def delete_file(self, path: str) -> None:
        self.operation()
        if self.objects.pop(path, None) is None:
            raise FileNotFoundError(path)

    def move(self, src: str, dest: str) -> None:
        raise NotImplementedError

    def copy_file(self, src: str, dest: str) -> None:
        raise NotImplementedError

    def open_input_stream(self, path: str) -> Any:
        raise NotImplementedError

    def open_input_file(self, path: str) -> Any:
        self.operation()
        if path not in self.objects:
            raise FileNotFoundError(path)
        return pa.PythonFile(pa.BufferReader(self.objects[path]), mode="r")

    def open_output_stream(self, path: str, metadata: Any) -> Any:
        self.operation()
        assert path not in self.objects, f"{path} is written a second time"
        return pa.PythonFile(_Upload(self, path), mode="w")

    def open_append_stream(self, path: str, metadata: Any) -> Any:
        raise NotImplementedError


class _Upload:
    """What is written becomes an object when it is closed; when writing has failed, a part of one."""

    def __init__(self, store: MemoryObjects, path: str) -> None:
        self._store = store
        self._path = path
        self._parts: list[bytes] = []
        self._whole = True
        self.closed = False

    def write(self, data: bytes) -> int:
        try:
            self._store.operation()
        except OSError:
            self._whole = False
            self._parts.append(bytes(data[: len(data) // 2]))
            raise
        self._parts.append(bytes(data))
        return len(data)

    def flush(self) -> None: ...

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            if self._whole or self._store.partial:
                self._store.objects[self._path] = b"".join(self._parts)
            self._store.operation()
