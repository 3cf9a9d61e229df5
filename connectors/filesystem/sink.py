"""Files as a sink: rows are written to hidden files, which get their names when what they belong to is complete: a
checkpoint, or the job."""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from connectors.filesystem.packing import PackingEncoder, ending_of
from connectors.filesystem.partition_commit import PartitionCommit, WaitingPartitions
from connectors.filesystem.partition_names import partition_folder
from connectors.filesystem.saved_names import with_content
from connectors.filesystem.staged_files import RollingPolicy, StagedFiles
from connectors.filesystem.systems.seam import WritableFiles
from connectors.formats.row_kinds import written_mode
from connectors.formats.value_text import value_text
from runtime.core.changelog import ChangelogBatch, ChangelogMode
from runtime.core.errors import ConnectorError, UnsupportedError
from runtime.core.rooms import Room
from runtime.core.schema import Schema
from runtime.kernels.hash_index import HashIndex
from runtime.kernels.key_encoding import KeyEncoder
from runtime.spi.abilities import CompactedFiles
from runtime.spi.format import Encoder, Format
from runtime.spi.sink import Delivery

if TYPE_CHECKING:
    import connectors.filesystem.compaction as _compaction
else:
    _compaction = Room("connectors.filesystem.compaction")

__all__ = ["FileSink", "FileTaskWriter", "FileWriter"]

_EXTENSION = {"avro": "avro", "csv": "csv", "orc": "orc", "parquet": "parquet", "raw": "txt"}


@dataclass(frozen=True)
class FileSink:
    """A folder into which rows are written. Append only, unless the format carries changes.

    Attributes:
        partitions: columns that become folders `column=value` instead of being stored.
        rolling: when a file is closed and the next begun.
        commit: how complete partitions are marked; None when they are not.
        format_options: those that the format was made with.
        packing: how files of text are compressed; `auto` is not at all.
    """

    name: str
    system: WritableFiles
    path: str
    schema: Schema
    primary_key: tuple[str, ...]
    partitions: tuple[str, ...]
    default_partition: str
    rolling: RollingPolicy
    commit: PartitionCommit | None
    time_zone: str
    format: Format = field(compare=False)
    format_options: tuple[tuple[str, str], ...] = ()
    packing: str = "auto"

    @property
    def delivery(self) -> Delivery:
        """Rows after a checkpoint are in hidden files, which are removed when they are written anew."""
        return "exactly-once"

    def accepts(self, requested: ChangelogMode) -> ChangelogMode:
        return written_mode(self.format, requested)

    def open_writer(self, job: str) -> FileWriter:
        """Raises ConnectorError E3110 when the folder cannot be written."""
        return FileWriter(self, job)

    def compact(self, target: int) -> Sequence[CompactedFiles]:
        """See `SupportsCompaction`."""
        if not self.format.changelog_mode.is_append_only:
            raise UnsupportedError(
                f"the files of {self.name} hold changes, whose order is that of the files",
                code="E1604",
                hint="only tables whose format holds rows alone can be compacted",
            )
        if self.format.name == "avro" or ending_of(self.packing):
            raise UnsupportedError(
                f"the files of {self.name} are Avro, or compressed text, which are not compacted",
                code="E1604",
                hint="tables of csv, json, parquet and orc can be",
            )
        if not self.system.local:
            raise UnsupportedError(
                f"the files of {self.name} are in {self.path}, where none can be compacted",
                code="E1604",
                hint="only files of this machine can be",
            )
        return _compaction.compact_files(self.path, self.format, target)

    def describe(self) -> dict[str, Any]:
        described: dict[str, Any] = {"connector": "filesystem", "path": self.path, "format": self.format.name}
        if self.format_options:
            described["options"] = dict(self.format_options)
        return {**described, "partitioned by": list(self.partitions)} if self.partitions else described

    def folder_names(self, values: pa.Array, column: str) -> list[str]:
        """`column=value` of values of a partition column."""
        type_ = self.schema[self.schema.index_of(column)].type
        texts = value_text(values, type_, separator=" ").to_pylist()
        return [partition_folder(column, text, self.default_partition) for text in texts]

    @property
    def _stored(self) -> list[int]:
        """The positions of the columns that files hold."""
        return [i for i, f in enumerate(self.schema) if f.name not in self.partitions]

    def encoder(self) -> Encoder:
        """The encoder of a new file."""
        encoder = self.format.encoder(self.schema.select(tuple(self._stored)), self.time_zone)
        return PackingEncoder(encoder, self.packing) if ending_of(self.packing) else encoder

    def by_folder(self, batch: ChangelogBatch) -> list[tuple[str, ChangelogBatch]]:
        """What files hold of the rows, by folder relative to the root, where it is empty."""
        if not self.partitions:
            return [("", batch)]
        return [(folder, rows.select(self._stored)) for folder, rows in self._by_partition(batch)]

    def _by_partition(self, batch: ChangelogBatch) -> list[tuple[str, ChangelogBatch]]:
        """The rows of each partition, in their order, under the name of its folder."""
        keys = [batch.column(i) for i in map(self.schema.index_of, self.partitions)]
        encoder = KeyEncoder([k.type for k in keys])
        words = encoder.encode(keys)
        index = HashIndex(encoder.width, max(16, len(words)))
        slots, first = index.insert(words)
        order = np.argsort(slots, kind="stable")
        firsts = np.flatnonzero(first)
        texts = [
            self.folder_names(k.take(pa.array(firsts)), column) for k, column in zip(keys, self.partitions, strict=True)
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


class FileWriter:
    """Writes hidden files and names them when they are published.

    A committable is `{"files": [[hidden path, path], ...]}`, paths relative to the table's folder; with a policy for
    partitions also `commit` and `waiting` (`WaitingPartitions.due`).
    """

    def __init__(self, sink: FileSink, job: str) -> None:
        self._sink = sink
        extension = _EXTENSION.get(sink.format.name, "jsonl") + ending_of(sink.packing)
        self._files = StagedFiles(sink.path, job, sink.rolling, extension, sink.encoder, sink.system)
        self._partitions = None if sink.commit is None else WaitingPartitions(sink.commit, sink.path, sink.system)

    def advance_time(self, processing_time: int, watermark: int) -> None:
        self._files.advance(processing_time)
        if self._partitions is not None:
            self._partitions.advance(processing_time, watermark)

    def next_time(self) -> None:
        """Files are closed by what comes next: rows, a checkpoint, or the end."""

    def write(self, batch: ChangelogBatch) -> None:
        parts = self._sink.by_folder(batch)
        if self._partitions is not None:
            self._partitions.wrote(folder for folder, _ in parts)
        for folder, rows in parts:
            self._files.write(folder, rows)

    def task_writer(self) -> FileTaskWriter | None:
        """Partitions that are committed when they are complete need one who knows all of them."""
        return FileTaskWriter(self._sink, self._files.stem_of_tasks) if self._partitions is None else None

    def adopt(self, written: Any) -> None:
        files = [(folder, staged) for folder, staged in written]
        self._files.take_closed(files, in_order=not self._sink.format.changelog_mode.is_append_only)

    def flush(self, epoch: int) -> None:
        """Rows stay hidden until `publish`."""

    def prepare(self) -> Any:
        files = self._files.prepare()
        partitions = {} if self._partitions is None else self._partitions.due()
        return {"files": files, **partitions} if files or partitions else None

    def publish(self, committable: Any) -> None:
        """Files first, so that a partition is complete when it is said to be.

        Raises ConnectorError E3112 when something cannot be published now, E3113 when it is gone.
        """
        self._files.publish(committable["files"])
        if self._partitions is not None:
            self._partitions.commit(committable.get("commit", ()))

    def recover(self, committables: Sequence[Any]) -> None:
        """Raises CheckpointError E3402, before anything is done, when files are not as they were prepared."""
        for committable in committables:
            self._files.check(committable["files"])
        for committable in committables:
            self.publish(committable)
        if self._partitions is not None and committables:
            self._partitions.restore(committables[-1].get("waiting", {}))
        self._files.remove_leftovers()

    def claim(self, place: str, history: Any, take_over: bool) -> None:
        self._files.claim(place, history, take_over)

    def history(self) -> Any:
        return self._files.history()

    def revert(self, history: Any) -> int:
        return self._files.take_back(history)

    def discard(self, committable: Any) -> None:
        self._files.discard(committable["files"])

    def abort(self) -> None:
        self._files.abort()

    def close(self) -> None:
        self._files.close()


@dataclass(frozen=True)
class FileTaskWriter:
    """Writes files in a task, under hidden names that nobody else has (`runtime.spi.writer.TaskWriter`)."""

    sink: FileSink
    stem: str

    def write(self, batch: ChangelogBatch) -> list[list[str]]:
        """Raises ConnectorError E3110 when a folder is a link, E3111 when a file cannot be written."""
        written: list[list[str]] = []
        for folder, rows in self.sink.by_folder(batch):
            encoder = self.sink.encoder()
            data = encoder.encode(rows) + encoder.finish()
            name = with_content(f"{self.stem}{uuid.uuid4().hex}", len(data), hashlib.sha256(data).hexdigest())
            staged = os.path.join(folder, name)
            path = os.path.join(self.sink.path, staged)
            system = self.sink.system
            system.refuse_links(self.sink.path, folder)
            try:
                system.make_folder(os.path.dirname(path))
                file = system.create(system.hidden(path))
                file.write(data)
                file.close()
            except OSError as error:
                raise ConnectorError(f"cannot write {path}: {error.strerror}", code="E3111") from error
            written.append([folder, staged])
        return written
