"""Files of a Delta table that no version has yet, and what names them in a checkpoint: what the log will say of them.

What nobody commits lies there until `CALL sys.remove_orphan_files`.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake.transaction import AddAction

from connectors.delta.library import files_at, told
from connectors.delta.options import Place
from connectors.delta.types import text_of
from connectors.kit.folding import LastChanges, named
from runtime.core.changelog import DELETE, ChangelogBatch
from runtime.core.errors import ConnectorError
from runtime.core.schema import Schema

__all__ = ["DELETED", "FileStaging", "Staged", "UpsertStaging"]

DELETED = "__deleted"
_FOLDER = "_sqlengine"
"""Folders with an underscore are hidden from readers of the table."""
_LONGEST = 32


@dataclass(frozen=True)
class Staged:
    """What a commit adds: files, or rows that are merged by key (with the column `DELETED`), and where these lie."""

    files: list[AddAction]
    changes: pa.Table | None = None
    leftover: str | None = None


class FileStaging:
    """A `Staging` of rows that are added.

    Args:
        stored: the columns of the table, as Arrow has them.
        partitions: names of the columns by which it is partitioned.
        target: rows of so many bytes go into files at once.
    """

    def __init__(self, place: Place, schema: Schema, stored: pa.Schema, partitions: Sequence[str], target: int) -> None:
        self._place = place
        self._schema = schema
        self._stored = stored
        self._partitions = list(partitions)
        self._target = target
        self._files: Any = files_at(place)
        self._rows: list[ChangelogBatch] = []
        self._bytes = 0
        self._added: list[AddAction] = []

    def add(self, batch: ChangelogBatch) -> None:
        if not len(batch):
            return
        self._rows.append(named(batch, self._schema.names))
        self._bytes += batch.nbytes
        if self._bytes >= self._target:
            self._write()

    def take(self) -> list[str]:
        self._write()
        added, self._added = self._added, []
        return [json.dumps({"files": [asdict(one) for one in added]})] if added else []

    def rows(self, texts: Sequence[str]) -> list[Staged]:
        with told(self._place):
            return [self._read(text) for text in texts]

    def drop(self) -> None:
        self._rows, self._bytes = [], 0
        added, self._added = self._added, []
        for one in added:
            with suppress(Exception):
                self._files.delete_file(one.path)

    @property
    def buffered(self) -> Sequence[ChangelogBatch]:
        return tuple(self._rows)

    def _write(self) -> None:
        if not self._rows:
            return
        gathered = ChangelogBatch.concat(self._rows)
        self._rows, self._bytes = [], 0
        with told(self._place):
            self._added += self._written(self._whole(pa.Table.from_batches([gathered.rows])))

    def _whole(self, rows: pa.Table) -> pa.Table:
        """Rows with all columns of the table, in its types."""
        return pa.Table.from_arrays(
            [
                rows.column(f.name).cast(f.type) if f.name in rows.column_names else pa.nulls(rows.num_rows, f.type)
                for f in self._stored
            ],
            schema=self._stored,
        )

    def _written(self, rows: pa.Table) -> list[AddAction]:
        if not self._partitions:
            return [self._file(rows, {})]
        values = rows.select(self._partitions).group_by(self._partitions).aggregate([])
        # A column of numbers tells in which partition a row is.
        numbers = _numbered(rows.select(self._partitions), values)
        kept = [f.name for f in self._stored if f.name not in self._partitions]
        return [
            self._file(rows.filter(pa.array(numbers == i)).select(kept), {k: text_of(v) for k, v in value.items()})
            for i, value in enumerate(values.to_pylist())
        ]

    def _file(self, rows: pa.Table, partition: Mapping[str, str | None]) -> AddAction:
        # Which partition it is in says the log, not the path.
        path = f"part-00000-{uuid.uuid4()}-c000.zstd.parquet"
        size = self._put(path, rows)
        return AddAction(path, size, dict(partition), int(time.time() * 1000), True, _statistics(rows))

    def _put(self, path: str, rows: pa.Table) -> int:
        sink = pa.BufferOutputStream()
        pq.write_table(rows, sink, compression="zstd", coerce_timestamps="us")
        written = sink.getvalue().to_pybytes()
        with self._files.open_output_stream(path) as output:
            output.write(written)
        return len(written)

    def _read(self, text: str) -> Staged:
        try:
            found = json.loads(text)
            if "changes" in found:
                with self._files.open_input_file(found["changes"]) as opened:
                    return Staged([], pq.read_table(pa.BufferReader(opened.read())), found["changes"])
            return Staged([AddAction(**one) for one in found["files"]])
        except (FileNotFoundError, KeyError, TypeError, json.JSONDecodeError) as error:
            raise ConnectorError(
                f"files of {self._place.path} that a checkpoint names are gone: {error}",
                code="E3113",
                hint="were they removed as orphans? Keep those that are younger than a job may stand still",
            ) from error


class UpsertStaging(FileStaging):
    """A `Staging` of changes by key. `most`: bytes of changes between two checkpoints."""

    def __init__(self, place: Place, schema: Schema, stored: pa.Schema, key: Sequence[str], most: int) -> None:
        super().__init__(place, schema, stored, (), most)
        self._changes = LastChanges(place.path, schema.names, key, most)

    def add(self, batch: ChangelogBatch) -> None:
        self._changes.add(batch)

    def take(self) -> list[str]:
        last = self._changes.take()
        if last is None:
            return []
        deleted = pa.array(last.kinds_or_inserts() == DELETE)
        path = f"{_FOLDER}/{uuid.uuid4()}.parquet"
        rows = pa.Table.from_batches([last.rows]).append_column(DELETED, deleted)
        with told(self._place):
            self._put(path, rows)
        return [json.dumps({"changes": path})]

    def drop(self) -> None:
        self._changes.clear()

    @property
    def buffered(self) -> Sequence[ChangelogBatch]:
        return self._changes.buffered


def _numbered(rows: pa.Table, values: pa.Table) -> np.ndarray:
    """Which of the values, which are different, each row has; NULL is a value."""
    numbers, wanted = np.zeros(rows.num_rows, np.int64), np.zeros(values.num_rows, np.int64)
    for name in rows.column_names:
        column, distinct = rows.column(name).combine_chunks(), values.column(name).combine_chunks()
        codes = pc.unique(distinct)
        numbers = numbers * len(codes) + pc.index_in(column, value_set=codes).to_numpy(zero_copy_only=False)
        wanted = wanted * len(codes) + pc.index_in(distinct, value_set=codes).to_numpy(zero_copy_only=False)
    order = np.argsort(wanted)
    return order[np.searchsorted(wanted[order], numbers)]


def _statistics(rows: pa.Table) -> str:
    """What the log says of a file: numbers, texts and days whose ends can be said exactly."""
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        if pa.types.is_nested(column.type):
            continue
        nulls[name] = column.null_count
        if pa.types.is_integer(column.type) or pa.types.is_string(column.type) or pa.types.is_date(column.type):
            ends = pc.min_max(column).as_py()
            low, high = ends["min"], ends["max"]
            if low is None or (isinstance(low, str) and max(len(low), len(high)) > _LONGEST):
                continue
            least[name], most[name] = (v.isoformat() if isinstance(v, dt.date) else v for v in (low, high))
        elif pa.types.is_floating(column.type):
            ends = pc.min_max(column).as_py()
            if not pc.any(pc.is_nan(column)).as_py() and all(v is not None and math.isfinite(v) for v in ends.values()):
                least[name], most[name] = ends["min"], ends["max"]
    return json.dumps({"numRecords": rows.num_rows, "minValues": least, "maxValues": most, "nullCount": nulls})
