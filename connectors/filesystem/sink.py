"""Files as a sink: rows are written to hidden files, which get their names when what they belong to is complete: a
checkpoint, or the job."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa

from connectors.filesystem.partition_commit import PartitionCommit, WaitingPartitions
from connectors.filesystem.staged_files import RollingPolicy, StagedFiles
from connectors.formats.value_text import value_text
from runtime.core.changelog import APPEND, RETRACT, ChangelogBatch, ChangelogMode
from runtime.core.schema import Schema
from runtime.kernels.hash_index import HashIndex
from runtime.kernels.key_encoding import KeyEncoder
from runtime.spi.format import Format
from runtime.spi.table import Delivery

__all__ = ["FileSink", "FileWriter"]

_EXTENSION = {"csv": "csv", "parquet": "parquet"}


@dataclass(frozen=True)
class FileSink:
    """A folder into which rows are written. Append only, unless the format carries changes.

    Attributes:
        partitions: columns that become folders `column=value` instead of being stored.
        rolling: when a file is closed and the next begun.
        commit: how complete partitions are marked; None when they are not.
        format_options: those that the format was made with.
    """

    name: str
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

    @property
    def delivery(self) -> Delivery:
        """Rows after a checkpoint are in hidden files, which are removed when they are written anew."""
        return "exactly-once"

    def accepts(self, requested: ChangelogMode) -> ChangelogMode:
        if self.format.changelog_mode.is_append_only or requested.is_append_only:
            return APPEND
        return RETRACT

    def open_writer(self, job: str) -> FileWriter:
        """Raises ConnectorError E3110 when the folder cannot be written."""
        return FileWriter(self, job)

    def describe(self) -> dict[str, Any]:
        described: dict[str, Any] = {"connector": "filesystem", "path": self.path, "format": self.format.name}
        if self.format_options:
            described["options"] = dict(self.format_options)
        return {**described, "partitioned by": list(self.partitions)} if self.partitions else described

    def folder_names(self, values: pa.Array, column: str) -> list[str]:
        """`column=value` of values of a partition column."""
        type_ = self.schema[self.schema.index_of(column)].type
        texts = value_text(values, type_, separator=" ").to_pylist()
        return [f"{column}={self.default_partition if t is None else quote(t, safe=' :+,')}" for t in texts]


class FileWriter:
    """Writes hidden files and names them when they are published.

    A committable is `{"files": [[hidden path, path], ...]}`, paths relative to the table's folder; with a policy for
    partitions also `commit` and `waiting` (`WaitingPartitions.due`).
    """

    def __init__(self, sink: FileSink, job: str) -> None:
        self._sink = sink
        schema = sink.schema
        self._stored_positions = [i for i, f in enumerate(schema) if f.name not in sink.partitions]
        stored = schema.select(tuple(self._stored_positions))
        self._partition_positions = [schema.index_of(n) for n in sink.partitions]
        self._files = StagedFiles(
            sink.path,
            job,
            sink.rolling,
            _EXTENSION.get(sink.format.name, "jsonl"),
            lambda: sink.format.encoder(stored, sink.time_zone),
        )
        self._partitions = None if sink.commit is None else WaitingPartitions(sink.commit, sink.path)

    def advance(self, processing_time: int, watermark: int) -> None:
        self._files.advance(processing_time)
        if self._partitions is not None:
            self._partitions.advance(processing_time, watermark)

    def write(self, batch: ChangelogBatch) -> None:
        if not self._partition_positions:
            parts = [("", batch)]
        else:
            parts = [(folder, rows.select(self._stored_positions)) for folder, rows in self._by_partition(batch)]
        if self._partitions is not None:
            self._partitions.wrote(folder for folder, _ in parts)
        for folder, rows in parts:
            self._files.write(folder, rows)

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
            self._sink.folder_names(k.take(pa.array(firsts)), column)
            for k, column in zip(keys, self._sink.partitions, strict=True)
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
        for committable in committables:
            self.publish(committable)
        if self._partitions is not None and committables:
            self._partitions.restore(committables[-1].get("waiting", {}))
        self._files.remove_leftovers()

    def history(self) -> Any:
        return self._files.history()

    def take_back(self, history: Any) -> int:
        return self._files.take_back(history)

    def discard(self, committable: Any) -> None:
        self._files.discard(committable["files"])

    def abort(self) -> None:
        self._files.abort()

    def close(self) -> None:
        self._files.close()
