"""The rows that others replace: found by key, and named by position in delete files.

The files whose statistics say that they may have one of the keys are asked: their key columns are read, once, and kept for
the next commits (`KeyColumns`). No data file is written again, so an upsert costs what changes, and a look at the keys.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg import expressions as ie
from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.typedef import Record
from pyiceberg.types import StringType

from connectors.iceberg.planning import FilePart, files_of
from connectors.iceberg.reading import Files

__all__ = ["KeyColumns", "delete_files", "replaced_rows"]

_PATH, _POSITION = 2147483546, 2147483545
"""The ids of the fields of a file of position deletes."""
_FEW = 200
_made: Any = ie


class KeyColumns:
    """The key columns of data files, for as long as they are among those used last. `most`: bytes."""

    def __init__(self, most: int = 256 << 20) -> None:
        self._most = most
        self._bytes = 0
        self._kept: OrderedDict[tuple[str, tuple[str, ...]], pa.Table] = OrderedDict()

    def of(self, files: Files, part: FilePart, names: tuple[str, ...]) -> pa.Table:
        """Those of all rows of a file, deleted ones too, in order."""
        found = self._kept.pop((part.path, names), None)
        if found is None:
            batches = list(files.rows(FilePart(part.file, part.sequence)))
            found = pa.Table.from_batches(batches).combine_chunks()
            self._bytes += found.nbytes
        self._kept[part.path, names] = found
        while self._bytes > self._most and len(self._kept) > 1:
            self._bytes -= self._kept.popitem(last=False)[1].nbytes
        return found


def replaced_rows(
    table: Table, snapshot: Snapshot | None, keys: pa.Table, known: KeyColumns
) -> list[tuple[FilePart, np.ndarray]]:
    """The files of a snapshot that have rows with one of the keys, and the positions of these rows."""
    names = tuple(keys.column_names)
    fields = [table.schema().find_field(name) for name in names]
    files = Files(table.metadata, table.io, IcebergSchema(*fields))
    found: list[tuple[FilePart, np.ndarray]] = []
    for part in files_of(table.metadata, table.io, snapshot, _near(keys)):
        there = known.of(files, part, names)
        places = _places(there, keys)
        if len(places) and part.positions:
            places = np.setdiff1d(places, files.gone(part), assume_unique=True)
        if len(places):
            found.append((part, places))
    return found


def _near(keys: pa.Table) -> ie.BooleanExpression:
    """What a file must be able to hold for one of the keys to be in it: by its first column, or all."""
    taken: ie.BooleanExpression = ie.AlwaysTrue()
    for name in keys.column_names:
        column = keys.column(name)
        if not (pa.types.is_integer(column.type) or pa.types.is_string(column.type) or pa.types.is_date(column.type)):
            continue
        ends = pc.min_max(column)
        low, high = (_literal(ends[end].as_py()) for end in ("min", "max"))
        taken = ie.And(taken, _made.GreaterThanOrEqual(name, low), _made.LessThanOrEqual(name, high))
        if len(column) <= _FEW:
            taken = ie.And(taken, _made.In(name, {_literal(v) for v in column.to_pylist()}))
    return taken


def _literal(value: Any) -> Any:
    return value.isoformat() if hasattr(value, "isoformat") else value


def _places(there: pa.Table, keys: pa.Table) -> np.ndarray:
    keys = keys.cast(there.schema)
    if keys.num_columns == 1:
        mask = pc.is_in(there.column(0), value_set=keys.column(0).combine_chunks())
        return np.flatnonzero(mask.to_numpy())
    names = keys.column_names
    at = there.append_column("", pa.array(np.arange(there.num_rows)))
    return np.sort(at.join(keys, names, join_type="left semi").column("").to_numpy())


def delete_files(table: Table, rows: Iterable[tuple[FilePart, np.ndarray]]) -> list[DataFile]:
    """Files of position deletes for these rows: one for each partition that has any."""
    by_partition: dict[tuple[int, Record], list[tuple[FilePart, np.ndarray]]] = {}
    for part, places in rows:
        by_partition.setdefault((part.file.spec_id, part.file.partition), []).append((part, places))
    return [_delete_file(table, spec, partition, found) for (spec, partition), found in by_partition.items()]


def _delete_file(table: Table, spec: int, partition: Record, found: Sequence[tuple[FilePart, np.ndarray]]) -> DataFile:
    found = sorted(found, key=lambda one: one[0].path)
    paths = [part.path for part, _ in found]
    index = np.repeat(np.arange(len(found)), [len(places) for _, places in found])
    schema = pa.schema(
        [
            pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": str(_PATH)}),
            pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": str(_POSITION)}),
        ]
    )
    rows = pa.Table.from_arrays(
        [
            pa.array(paths, pa.string()).take(pa.array(index)),
            pa.array(np.concatenate([p for _, p in found]), pa.int64()),
        ],
        schema=schema,
    )
    where = table.location_provider().new_data_location(f"{uuid.uuid4()}-deletes.parquet")
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, compression="zstd")
    written = sink.getvalue()
    with table.io.new_output(where).create() as output:
        output.write(written.to_pybytes())
    bounds = [to_bytes(StringType(), path) for path in (paths[0], paths[-1])]
    made = DataFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=where,
        file_format=FileFormat.PARQUET,
        partition=partition,
        record_count=rows.num_rows,
        file_size_in_bytes=written.size,
        column_sizes={},
        value_counts={_PATH: rows.num_rows, _POSITION: rows.num_rows},
        null_value_counts={_PATH: 0, _POSITION: 0},
        nan_value_counts={},
        lower_bounds={_PATH: bounds[0]},
        upper_bounds={_PATH: bounds[1]},
        key_metadata=None,
        split_offsets=[4],
        equality_ids=None,
        sort_order_id=None,
    )
    made.spec_id = spec
    return made
