"""Files of a Delta table that no version has yet, and what names them in a checkpoint: what the log will say of them."""

from __future__ import annotations

import datetime as dt
import json
import math
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake.transaction import AddAction

import connectors.lakes.staging as lakes
from connectors.delta.library import files_at, told
from connectors.delta.options import Place
from connectors.delta.types import text_of
from runtime.core.changelog import DELETE, ChangelogBatch
from runtime.core.schema import Schema
from runtime.spi.writer import TaskWriter

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


class FileStaging(lakes.FileStaging[Staged, AddAction]):
    """A `Staging` of rows that are added.

    Args:
        stored: the columns of the table, as Arrow has them.
        partitions: names of the columns by which it is partitioned.
        target: rows of so many bytes go into files at once.
    """

    def __init__(
        self,
        place: Place,
        schema: Schema,
        stored: pa.Schema,
        partitions: Sequence[str],
        target: int,
        writer: TaskWriter | None = None,
    ) -> None:
        super().__init__(place.path, schema.names, target, writer)
        self._place = place
        self._stored = stored
        self._partitions = list(partitions)
        self._files: Any = files_at(place)

    def telling(self) -> AbstractContextManager[None]:
        return told(self._place)

    def text_of(self, files: list[AddAction]) -> str:
        return json.dumps({"files": [asdict(one) for one in files]})

    def read(self, found: dict[str, Any]) -> Staged:
        return Staged([AddAction(**one) for one in found["files"]])

    def files_of(self, staged: Staged) -> list[AddAction]:
        return staged.files

    def remove(self, file: AddAction) -> None:
        self._files.delete_file(file.path)

    def written(self, rows: pa.Table) -> list[AddAction]:
        rows = self._whole(rows)
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

    def _whole(self, rows: pa.Table) -> pa.Table:
        """Rows with all columns of the table, in its types."""
        return pa.Table.from_arrays(
            [
                rows.column(f.name).cast(f.type) if f.name in rows.column_names else pa.nulls(rows.num_rows, f.type)
                for f in self._stored
            ],
            schema=self._stored,
        )

    def _file(self, rows: pa.Table, partition: Mapping[str, str | None]) -> AddAction:
        # Which partition it is in says the log, not the path.
        path = f"part-00000-{uuid.uuid4()}-c000.zstd.parquet"
        size = _put(self._files, path, rows)
        return AddAction(path, size, dict(partition), int(time.time() * 1000), True, _statistics(rows))


class UpsertStaging(lakes.KeyedStaging[Staged]):
    """A `Staging` of changes by key. `most`: bytes of changes between two checkpoints."""

    def __init__(self, place: Place, schema: Schema, key: Sequence[str], most: int) -> None:
        super().__init__(place.path, schema.names, key, most)
        self._place = place
        self._files: Any = files_at(place)

    def telling(self) -> AbstractContextManager[None]:
        return told(self._place)

    def text_of(self, changes: ChangelogBatch) -> str:
        deleted = pa.array(changes.kinds_or_inserts() == DELETE)
        path = f"{_FOLDER}/{uuid.uuid4()}.parquet"
        _put(self._files, path, pa.Table.from_batches([changes.rows]).append_column(DELETED, deleted))
        return json.dumps({"changes": path})

    def read(self, found: dict[str, Any]) -> Staged:
        with self._files.open_input_file(found["changes"]) as opened:
            return Staged([], pq.read_table(pa.BufferReader(opened.read())), found["changes"])


def _put(files: Any, path: str, rows: pa.Table) -> int:
    """Write a file; gives its size in bytes."""
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, compression="zstd", coerce_timestamps="us")
    written = sink.getvalue().to_pybytes()
    with files.open_output_stream(path) as output:
        output.write(written)
    return len(written)


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
