"""Records between processes of one machine: what is large lies in a file that whoever gets it maps into memory.

The files are in the folder of the job, which no other user can open, and which is in memory (`/dev/shm`) where that has
room. Whoever reads a payload reads the very pages that were written, so an Arrow stream is not copied.
"""

from __future__ import annotations

import io
import os
import uuid
from typing import Any, NamedTuple

import pyarrow as pa

from runtime.tasks.task import Record

__all__ = ["Maps", "Shelf", "Shelved", "clear"]

LEAST_BYTES = 16_384
"""Less than this travels with the message."""
_ALIGNED = 64
_NAME = "rows-"


class Shelved(NamedTuple):
    """Where a payload lies: a file's path, and bytes of it."""

    path: str
    offset: int
    size: int


class Shelf:
    """Puts payloads into a new file of a folder, made with the first of them."""

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, f"{_NAME}{uuid.uuid4().hex}")
        self._file: io.FileIO | None = None
        self._known: dict[int, tuple[object, Shelved]] = {}

    def put(self, fields: tuple[Any, ...]) -> tuple[Any, ...]:
        """The fields of a record as they are sent. Raises OSError when there is no room."""
        *facts, payload = fields
        if isinstance(payload, Shelved):
            return fields
        size = len(payload) if isinstance(payload, bytes) else payload.size
        if size < LEAST_BYTES:
            return (*facts, payload if isinstance(payload, bytes) else payload.to_pybytes())
        # What goes to several tasks is the same object each time; held, so that no other gets its id.
        known = self._known.get(id(payload))
        if known is None:
            known = self._known[id(payload)] = payload, self._write(payload, size)
        return (*facts, known[1])

    def _write(self, payload: Any, size: int) -> Shelved:
        if self._file is None:
            self._file = io.FileIO(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
        offset = self._file.tell()
        written = memoryview(payload)
        while written:
            written = written[self._file.write(written) :]
        self._file.seek(-size % _ALIGNED, os.SEEK_CUR)
        return Shelved(self._path, offset, size)

    def close(self) -> None:
        """All is put."""
        self._known.clear()
        if self._file is not None:
            self._file.close()


class Maps:
    """The files of one message, mapped when something of them is asked for."""

    def __init__(self) -> None:
        self._files: dict[str, pa.MemoryMappedFile] = {}

    def record(self, fields: tuple[Any, ...]) -> Record:
        """A record with its payload at hand: bytes, or memory of the file."""
        kind, number, partition, payload = fields
        if isinstance(payload, Shelved):
            file = self._files.get(payload.path)
            if file is None:
                file = self._files[payload.path] = pa.memory_map(payload.path)
            payload = file.read_at(payload.size, payload.offset)
        return Record(kind, number, partition, payload)


def clear(folder: str) -> None:
    """Nobody will ask for a file of the folder any more; memory that is mapped stays until nobody uses it."""
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        if name.startswith(_NAME):
            os.unlink(os.path.join(folder, name))
