"""The rows of a data file, as they are now: columns by field id, without rows that are deleted.

Row groups whose statistics say that no row passes are not read. Filters are applied to every row.
"""

from __future__ import annotations

import decimal
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyiceberg import expressions as ie
from pyiceberg.expressions.visitors import bind, extract_field_ids, translate_column_names
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import (
    _get_column_projection_values,  # pyright: ignore[reportPrivateUsage]
    _read_deletes,  # pyright: ignore[reportPrivateUsage]
    _to_requested_schema,  # pyright: ignore[reportPrivateUsage]
    expression_to_pyarrow,
    pyarrow_to_schema,
)
from pyiceberg.manifest import DataFile, FileFormat
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.schema import prune_columns
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import ListType, MapType

from connectors.filesystem.column_filters import ColumnFilter
from connectors.iceberg.planning import FilePart
from runtime.core.errors import UnsupportedError
from runtime.core.types import DataType

__all__ = ["Files", "as_condition"]

_made: Any = ie
"""Its classes are made in ways that type checkers do not follow."""
_BUFFER = 8 << 20
_COMPARED: dict[str, Any] = {
    "=": ie.EqualTo, "<>": ie.NotEqualTo, "<": ie.LessThan, "<=": ie.LessThanOrEqual, ">": ie.GreaterThan,
    ">=": ie.GreaterThanOrEqual,
}  # fmt: skip


def as_condition(filters: Sequence[ColumnFilter]) -> ie.BooleanExpression:
    """Filters as the library has them; NULL passes none but `is null`."""
    taken: ie.BooleanExpression = ie.AlwaysTrue()
    for one in filters:
        taken = ie.And(taken, _condition(one))
    return taken


def _condition(one: ColumnFilter) -> ie.BooleanExpression:
    match one.operator:
        case "is null":
            return _made.IsNull(one.column)
        case "is not null":
            return _made.NotNull(one.column)
        case "in":
            values = {_literal(v, one.type) for v in one.values}
            return _made.In(one.column, values) if values else ie.AlwaysFalse()
        case "<>":
            return _made.And(_made.NotEqualTo(one.column, _literal(one.values[0], one.type)), _made.NotNull(one.column))
        case _:
            return _COMPARED[one.operator](one.column, _literal(one.values[0], one.type))


def _literal(value: Any, type_: DataType) -> Any:
    """A value as the library takes it: what it has no literal for as its text."""
    if isinstance(value, decimal.Decimal):
        return value.quantize(decimal.Decimal(1).scaleb(-type_.scale))
    return value.isoformat() if hasattr(value, "isoformat") else value


class Files:
    """The files of one version of a table's metadata, read with the fields of `wanted`.

    Args:
        filters: what rows must be.
    """

    def __init__(
        self, metadata: TableMetadata, io: FileIO, wanted: IcebergSchema, filters: ie.BooleanExpression | None = None
    ) -> None:
        self._metadata = metadata
        self._io = io
        self._wanted = wanted
        self._schema = metadata.schema()
        self._filter = bind(self._schema, filters if filters is not None else ie.AlwaysTrue(), case_sensitive=True)
        self._deleted = lru_cache(maxsize=64)(self._read_deleted)
        self._keys = lru_cache(maxsize=64)(self._read_keys)

    def rows(self, part: FilePart) -> Iterator[pa.RecordBatch]:
        """The rows of a file that are not deleted."""
        for _, rows in self._batches(part.file, self.gone(part), part.keys):
            yield rows

    def lost_rows(self, old: FilePart, new: FilePart | None) -> Iterator[pa.RecordBatch]:
        """The rows of a file that were there and are not any more."""
        if new is None:
            yield from self.rows(old)
            return
        before, after = self.gone(old), self.gone(new)
        fresh = np.setdiff1d(after, before, assume_unique=True)
        if new.keys != old.keys:
            # Who is taken away by key is found by reading what stays.
            kept = np.concatenate([places for places, _ in self._batches(new.file, after, new.keys)] or [fresh[:0]])
            had = np.concatenate([places for places, _ in self._batches(old.file, before, old.keys)] or [fresh[:0]])
            fresh = np.setdiff1d(had, kept, assume_unique=True)
        if len(fresh):
            for _, rows in self._batches(old.file, fresh, old.keys, only=True):
                yield rows

    def gone(self, part: FilePart) -> np.ndarray:
        """The positions of the rows that are deleted by position, in order."""
        found = [self._deleted(file.file_path, file).get(part.path) for file in part.positions]
        arrays = [np.asarray(f.to_numpy() if isinstance(f, pa.ChunkedArray) else f) for f in found if f is not None]
        return np.unique(np.concatenate(arrays)).astype(np.int64) if arrays else np.zeros(0, np.int64)

    def _read_deleted(self, path: str, file: DataFile) -> dict[str, Any]:
        return dict(_read_deletes(self._io, file)) if file.record_count else {}

    # --- batches

    def _batches(
        self, file: DataFile, places: np.ndarray, keys: Sequence[DataFile], *, only: bool = False
    ) -> Iterator[tuple[np.ndarray, pa.RecordBatch]]:
        """Positions and rows. `places`: rows that are left out, or (`only`) the only ones."""
        wanted = self._with_keys(keys)
        with self._opened(file) as (fragment, physical):
            file_schema = pyarrow_to_schema(
                physical,
                self._metadata.name_mapping(),
                downcast_ns_timestamp_to_us=self._metadata.format_version <= 2,
                format_version=self._metadata.format_version,
            )
            missing = _get_column_projection_values(
                file, wanted, self._schema, self._metadata.specs().get(file.spec_id), file_schema.field_ids
            )
            condition = self._condition(file_schema, missing)
            read = prune_columns(
                file_schema, _leaf_ids(wanted) | extract_field_ids(self._filter), select_full_types=False
            )
            names = [column.name for column in read.columns]
            for begin, group in _groups(fragment, condition, physical):
                at = begin
                for batch in ds.Scanner.from_fragment(
                    group, schema=physical, columns=names, use_threads=False, fragment_scan_options=None
                ).to_batches():
                    own = np.arange(at, at + batch.num_rows, dtype=np.int64)
                    at += batch.num_rows
                    if len(places):
                        inside = np.isin(own, places, assume_unique=True)
                        mask = inside if only else ~inside
                        if not mask.all():
                            own, batch = own[mask], batch.filter(pa.array(mask))
                    if condition is not None and batch.num_rows:
                        own, batch = _passing(own, batch, condition)
                    if not batch.num_rows:
                        continue
                    rows = _to_requested_schema(
                        wanted,
                        read,
                        batch,
                        downcast_ns_timestamp_to_us=self._metadata.format_version <= 2,
                        projected_missing_fields=missing,
                        allow_timestamp_tz_mismatch=True,
                    )
                    if keys:
                        stay = self._not_deleted(rows, keys)
                        own, rows = own[stay], rows.filter(pa.array(stay))
                    if rows.num_rows:
                        yield own, rows.select(list(range(len(self._wanted.fields))))

    def _condition(self, file_schema: IcebergSchema, missing: dict[int, Any]) -> pc.Expression | None:
        if isinstance(self._filter, ie.AlwaysTrue):
            return None
        translated = translate_column_names(
            self._filter, file_schema, case_sensitive=True, projected_field_values=missing
        )
        return expression_to_pyarrow(bind(file_schema, translated, case_sensitive=True), file_schema)

    @contextmanager
    def _opened(self, file: DataFile) -> Generator[tuple[Any, pa.Schema]]:
        if file.file_format is FileFormat.PARQUET:
            form: Any = ds.ParquetFileFormat(pre_buffer=True, buffer_size=_BUFFER)
        elif file.file_format is FileFormat.ORC:
            form = ds.OrcFileFormat()
        else:
            raise UnsupportedError(
                f"{file.file_path} is an {file.file_format.name} file, which the library of Iceberg cannot read",
                code="E1616",
                hint="have the table rewritten as Parquet: 'write.format.default' = 'parquet'",
            )
        with self._io.new_input(file.file_path).open() as opened:
            fragment = form.make_fragment(opened)
            yield fragment, fragment.physical_schema

    # --- deletes by key

    def _with_keys(self, keys: Sequence[DataFile]) -> IcebergSchema:
        ids = {i for file in keys for i in file.equality_ids or ()}
        there = {f.field_id for f in self._wanted.fields}
        if ids <= there:
            return self._wanted
        more = [field for i in sorted(ids - there) if (field := self._field(i)) is not None]
        return IcebergSchema(*self._wanted.fields, *more, schema_id=self._wanted.schema_id)

    def _field(self, number: int) -> Any:
        """A field by its id, also one that was dropped since."""
        for schema in (self._schema, *self._metadata.schemas):
            for field in schema.fields:
                if field.field_id == number:
                    return field
        return None

    def _read_keys(self, path: str, file: DataFile) -> pa.Table:
        fields = [self._field(i) for i in file.equality_ids or ()]
        if any(f is None for f in fields):
            raise UnsupportedError(f"{path} deletes rows by a field within another one", code="E3194")
        inner = Files(self._metadata, self._io, IcebergSchema(*fields))
        batches = [rows for _, rows in inner._batches(file, np.zeros(0, np.int64), ())]
        return pa.Table.from_batches(batches) if batches else pa.table({})

    def _not_deleted(self, rows: pa.RecordBatch, keys: Sequence[DataFile]) -> np.ndarray:
        stay = np.ones(rows.num_rows, bool)
        for file in keys:
            deleted = self._keys(file.file_path, file)
            if deleted.num_rows:
                names = [self._field(i).name for i in file.equality_ids or ()]
                stay &= ~_are_in(pa.Table.from_batches([rows]).select(names), deleted.select(names))
        return stay


def _are_in(rows: pa.Table, keys: pa.Table) -> np.ndarray:
    """Which rows are among the keys; NULL is NULL."""
    if rows.num_columns == 1 and not rows.column(0).null_count:
        found = pc.is_in(rows.column(0), value_set=keys.column(0).combine_chunks().cast(rows.column(0).type))
        return np.asarray(found.to_numpy())
    keys = keys.cast(rows.schema)
    left, right = _without_nulls(rows, (rows, keys)), _without_nulls(keys, (rows, keys))
    names = left.column_names
    joined = left.append_column("place", pa.array(np.arange(rows.num_rows))).join(
        right.group_by(names).aggregate([]), names, join_type="left semi"
    )
    found = np.zeros(rows.num_rows, bool)
    found[joined.column("place").to_numpy()] = True
    return found


def _without_nulls(rows: pa.Table, sides: Sequence[pa.Table]) -> pa.Table:
    """Columns for a join to which NULL is a value."""
    columns: dict[str, Any] = {}
    for i, column in enumerate(rows.columns):
        values = [v for side in sides for v in pc.drop_null(side.column(i)).slice(0, 1)]
        columns[f"v{i}"] = pc.fill_null(column, values[0]) if values else pa.array(np.zeros(len(column), np.int8))
        columns[f"n{i}"] = pc.is_null(column)
    return pa.table(columns)


def _groups(fragment: Any, condition: pc.Expression | None, physical: pa.Schema) -> Iterator[tuple[int, Any]]:
    """The row groups of a file that may have rows that pass, with the positions of their first rows."""
    if not isinstance(fragment, ds.ParquetFileFragment):
        yield 0, fragment
        return
    begins = np.concatenate([[0], np.cumsum([g.num_rows for g in fragment.row_groups])])
    for group in fragment.split_by_row_group(condition, schema=physical):
        yield int(begins[group.row_groups[0].id]), group


def _passing(own: np.ndarray, batch: pa.RecordBatch, condition: pc.Expression) -> tuple[np.ndarray, pa.RecordBatch]:
    table = pa.Table.from_batches([batch]).append_column("", pa.array(np.arange(batch.num_rows)))
    kept = table.filter(condition).column("").to_numpy()
    return (own, batch) if len(kept) == batch.num_rows else (own[kept], batch.take(pa.array(kept)))


def _leaf_ids(schema: IcebergSchema) -> set[int]:
    return {i for i in schema.field_ids if not isinstance(schema.find_type(i), (MapType, ListType))}
