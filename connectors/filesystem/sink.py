"""Files as a sink: rows are written to hidden files, which get their names when the job ends well."""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from io import BufferedWriter
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa

from connectors.formats.value_text import value_text
from runtime.core.changelog import APPEND, RETRACT, ChangelogBatch, ChangelogMode
from runtime.core.errors import ConnectorError
from runtime.core.schema import Schema
from runtime.kernels.hash_index import HashIndex
from runtime.kernels.key_encoding import KeyEncoder
from runtime.spi.format import Encoder, Format

__all__ = ["FileSink"]

_EXTENSION = {"csv": "csv", "parquet": "parquet"}


@dataclass(frozen=True)
class FileSink:
    """A folder into which rows are written. Append only, unless the format carries changes.

    Attributes:
        partitions: columns that become folders `column=value` instead of being stored.
        file_bytes: a file is closed and the next begun at this size.
    """

    name: str
    path: str
    schema: Schema
    primary_key: tuple[str, ...]
    partitions: tuple[str, ...]
    default_partition: str
    file_bytes: int
    time_zone: str
    format: Format = field(compare=False)

    def accepts(self, requested: ChangelogMode) -> ChangelogMode:
        if self.format.changelog_mode.is_append_only or requested.is_append_only:
            return APPEND
        return RETRACT

    def open_writer(self) -> FileWriter:
        """Raises ConnectorError E3110 when the folder cannot be written."""
        return FileWriter(self)

    def describe(self) -> dict[str, Any]:
        described: dict[str, Any] = {"connector": "filesystem", "path": self.path, "format": self.format.name}
        return {**described, "partitioned by": list(self.partitions)} if self.partitions else described


@dataclass
class _OpenFile:
    """A hidden file that is being written."""

    staged: str
    final: str
    file: BufferedWriter
    encoder: Encoder
    size: int = 0


class FileWriter:
    """Stages files; `commit` publishes all of them by renaming, `abort` takes them away."""

    def __init__(self, sink: FileSink) -> None:
        self._sink = sink
        self._run = uuid.uuid4().hex[:12]
        self._count = 0
        self._open: dict[str, _OpenFile] = {}
        self._staged: list[tuple[str, str]] = []
        self._made_folders: list[str] = []
        schema = sink.schema
        self._stored_positions = [i for i, f in enumerate(schema) if f.name not in sink.partitions]
        self._stored = schema.select(tuple(self._stored_positions))
        self._partition_positions = [schema.index_of(n) for n in sink.partitions]
        if os.path.exists(sink.path) and not os.path.isdir(sink.path):
            raise ConnectorError(
                f"cannot write to {sink.path}: it is a file",
                code="E3110",
                hint="the option 'path' of a sink names a folder",
            )
        self._make_folder(sink.path)
        if not os.access(sink.path, os.W_OK | os.X_OK):
            self.abort()
            raise ConnectorError(
                f"cannot write to {sink.path}: permission denied",
                code="E3110",
                hint="choose a folder that may be written",
            )

    def _make_folder(self, folder: str) -> None:
        missing: list[str] = []
        above = os.path.abspath(folder)
        while not os.path.exists(above):
            missing.append(above)
            above = os.path.dirname(above)
        try:
            for name in reversed(missing):
                os.mkdir(name)
                self._made_folders.append(name)
        except OSError as error:
            self.abort()
            raise ConnectorError(
                f"cannot write to {folder}: {error.strerror}", code="E3110", hint="choose a folder that may be written"
            ) from error

    def write(self, batch: ChangelogBatch) -> None:
        if not self._partition_positions:
            self._write_to("", batch)
            return
        for folder, rows in self._by_partition(batch):
            self._write_to(folder, rows)

    def _by_partition(self, batch: ChangelogBatch) -> list[tuple[str, ChangelogBatch]]:
        """The rows of each partition, in their order, under the name of its folder."""
        keys = [batch.column(i) for i in self._partition_positions]
        encoder = KeyEncoder([k.type for k in keys])
        words = encoder.encode(keys)
        index = HashIndex(encoder.width, max(16, len(words)))
        slots, first = index.insert(words)
        order = np.argsort(slots, kind="stable")
        firsts = np.flatnonzero(first)
        texts = [
            self._folder_names(k.take(pa.array(firsts)), i)
            for k, i in zip(keys, self._partition_positions, strict=True)
        ]
        parts: list[tuple[str, ChangelogBatch]] = []
        counts = np.bincount(slots, minlength=index.capacity)
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        for at, row in enumerate(firsts.tolist()):
            slot = int(slots[row])
            parts.append(
                (os.path.join(*(names[at] for names in texts)), batch.take(order[starts[slot] : starts[slot + 1]]))
            )
        return parts

    def _folder_names(self, values: pa.Array, position: int) -> Sequence[str]:
        """`column=value` of each distinct partition value."""
        column = self._sink.schema[position]
        texts = value_text(values, column.type, separator=" ").to_pylist()
        return [f"{column.name}={self._sink.default_partition if t is None else quote(t, safe=' :+,')}" for t in texts]

    def _write_to(self, folder: str, batch: ChangelogBatch) -> None:
        opened = self._open.get(folder)
        if opened is None:
            opened = self._open[folder] = self._begin(folder)
        rows = batch.select(self._stored_positions) if self._partition_positions else batch
        self._put(opened, opened.encoder.encode(rows))
        if opened.size >= self._sink.file_bytes:
            self._end(folder)

    def _begin(self, folder: str) -> _OpenFile:
        at = os.path.join(self._sink.path, folder) if folder else self._sink.path
        if folder:
            self._make_folder(at)
        extension = _EXTENSION.get(self._sink.format.name, "jsonl")
        final = os.path.join(at, f"part-{self._run}-{self._count}.{extension}")
        staged = os.path.join(at, f".staged-{self._run}-{self._count}")
        self._count += 1
        encoder = self._sink.format.encoder(self._stored, self._sink.time_zone)
        try:
            file = open(staged, "wb")  # noqa: SIM115
        except OSError as error:
            raise ConnectorError(
                f"cannot write to {at}: {error.strerror}", code="E3110", hint="choose a folder that may be written"
            ) from error
        return _OpenFile(staged, final, file, encoder)

    def _put(self, opened: _OpenFile, data: bytes) -> None:
        try:
            opened.file.write(data)
        except OSError as error:
            raise ConnectorError(f"cannot write {opened.final}: {error.strerror}", code="E3111") from error
        opened.size += len(data)

    def _end(self, folder: str) -> None:
        opened = self._open[folder]
        self._put(opened, opened.encoder.finish())
        try:
            opened.file.flush()
            os.fsync(opened.file.fileno())
            opened.file.close()
        except OSError as error:
            raise ConnectorError(f"cannot write {opened.final}: {error.strerror}", code="E3111") from error
        del self._open[folder]
        self._staged.append((opened.staged, opened.final))

    def flush(self, epoch: int) -> None:
        """Rows stay hidden until `commit`."""

    def commit(self) -> None:
        try:
            for folder in list(self._open):
                self._end(folder)
        except ConnectorError:
            self.abort()
            raise
        staged, self._staged = self._staged, []
        published: list[str] = []
        try:
            for hidden, final in staged:
                os.rename(hidden, final)
                published.append(final)
        except OSError as error:
            for name in [*published, *(hidden for hidden, _ in staged[len(published) :])]:
                _remove(name)
            raise ConnectorError(f"cannot publish {final}: {error.strerror}", code="E3112") from error
        self._made_folders = []

    def abort(self) -> None:
        for opened in self._open.values():
            opened.file.close()
            _remove(opened.staged)
        for hidden, _ in self._staged:
            _remove(hidden)
        self._open, self._staged = {}, []
        for folder in reversed(self._made_folders):
            try:
                os.rmdir(folder)
            except OSError:
                break
        self._made_folders = []

    def close(self) -> None:
        """After `commit` and `abort` nothing is open; a writer that ended with neither leaves nothing behind."""
        if self._open or self._staged:
            self.abort()


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
