"""Rows on their way into a system, in files that tasks have written and that tasks will read, a part of each at a time.

    <folder>/<run>.here                                whoever sees it sees what others write into the folder
    <folder>/<run>-<lanes>-<SHA-256 of the head>.rows
        head    for each lane where its rows are: the first byte, how many, their SHA-256
        lanes   the rows of each, a compressed stream of Arrow; nothing of a lane without rows

A lane is a share of the keys, so that all rows of a key, and their order, are in one. A name says what is in the file, so
that who names one names its rows, and damage is told.
"""

from __future__ import annotations

import hashlib
import re
import struct
import uuid
from collections.abc import Iterable, Sequence

import pyarrow as pa

from runtime.checkpoint.storage import Damage, Storage
from runtime.checkpoint.store import storage_at
from runtime.core.errors import ConnectorError

__all__ = ["MOST_LANES", "LaneFiles", "lanes_of", "new_run"]

MOST_LANES = 256
_FILE = re.compile(r"[0-9a-f]{16}-([0-9]{1,3})-([0-9a-f]{64})\.rows")
_ENTRY = struct.Struct("<QQ32s")
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="zstd")
_HINT = "all machines must see the folder of checkpoints under the same name, and nobody else delete from it"


def lanes_of(name: str) -> int:
    """How many lanes a file has. Raises ConnectorError E3113 for what is no name of one."""
    found = _FILE.fullmatch(name)
    if found is None or not 0 < int(found[1]) <= MOST_LANES:
        raise ConnectorError(f"a checkpoint names {name[:120]!r}, which is no file of rows", code="E3113")
    return int(found[1])


class LaneFiles:
    """The files of a folder.

    Args:
        folder: a path, or a URI that pyarrow knows.
    Raises:
        CheckpointError: E3406 it cannot be reached.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        above, mark, options = folder.partition("?") if "://" in folder else (folder, "", "")
        above, _, last = above.rstrip("/").rpartition("/")
        self._storage: Storage = storage_at(f"{above or '/'}{mark}{options}", last)

    def mark(self, run: str) -> None:
        """Others may now find out whether they see the folder. Raises ConnectorError E3111."""
        self._publish(f"{run}.here", b"1")

    def seen(self, run: str) -> bool:
        """Whether this process sees the folder that another one has marked."""
        try:
            return bool(self._storage.read(f"{run}.here", 0, 1).size)
        except (FileNotFoundError, Damage):
            return False

    def put(self, run: str, lanes: Sequence[pa.RecordBatch]) -> str:
        """The rows of each lane as a file that survives a crash. Gives its name.

        Raises:
            ConnectorError: E3111 it cannot be written.
        """
        at = _ENTRY.size * len(lanes)
        head, parts = bytearray(), list[bytes]()
        for rows in lanes:
            data = _bytes(rows) if rows.num_rows else b""
            head += _ENTRY.pack(at, len(data), hashlib.sha256(data).digest())
            parts.append(data)
            at += len(data)
        name = f"{run}-{len(lanes)}-{hashlib.sha256(head).hexdigest()}.rows"
        self._publish(name, b"".join([bytes(head), *parts]))
        return name

    def read(self, name: str, lane: int) -> pa.RecordBatch | None:
        """The rows of a lane of a file; None when it has none.

        Raises:
            ConnectorError: E3113 it is gone, or holds something else.
        """
        size = _ENTRY.size * lanes_of(name)
        try:
            head = self._storage.read(name, 0, size).to_pybytes()
            if len(head) != size or hashlib.sha256(head).hexdigest() not in name:
                raise Damage("its head was changed")
            at, length, digest = _ENTRY.unpack_from(head, lane * _ENTRY.size)
            if not length:
                return None
            data = self._storage.read(name, at, length)
            if data.size != length or hashlib.sha256(data).digest() != digest:
                raise Damage("its rows were changed")
            with pa.ipc.open_stream(data) as stream:
                return stream.read_next_batch()
        except FileNotFoundError as error:
            raise ConnectorError(f"{name} is not in {self.folder}", code="E3113", hint=_HINT) from error
        except (Damage, pa.ArrowException, OSError) as error:
            raise ConnectorError(
                f"{name} in {self.folder} cannot be read: {error}", code="E3113", hint=_HINT
            ) from error

    def clear(self, but: Iterable[str] = ()) -> None:
        """Files and marks that nobody needs are gone."""
        needed = set(but)
        for name in self._storage.files():
            if name not in needed and (_FILE.fullmatch(name) or name.endswith(".here")):
                self._storage.delete(name)

    def clear_mark(self, run: str) -> None:
        """Nobody has to find out any more."""
        self._storage.delete(f"{run}.here")

    def delete(self, names: Iterable[str]) -> None:
        """Files are gone; they may have been before."""
        for name in names:
            lanes_of(name)
            self._storage.delete(name)

    def _publish(self, name: str, data: bytes) -> None:
        try:
            self._storage.publish(name, data)
        except OSError as error:
            raise ConnectorError(f"cannot write {self.folder}: {error.strerror or error}", code="E3111") from error


def _bytes(rows: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=_COMPRESSED) as stream:
        stream.write_batch(rows)
    return sink.getvalue().to_pybytes()


def new_run() -> str:
    """What the files of a run begin with."""
    return uuid.uuid4().hex[:16]
