"""Reads one Parquet file, row group by row group."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from connectors.filesystem.column_filters import ColumnFilter, may_hold, passing
from connectors.filesystem.text_file import FileStamp
from connectors.formats.parquet import fit_columns
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import ConnectorError, FormatError, SqlEngineError
from runtime.core.schema import Schema

__all__ = ["ParquetFileReader", "open_parquet", "parquet_rows"]

_BATCH_ROWS = 1 << 17
_BYTES_PER_CODE = 12
"""A text column that takes no more bytes than this for each value, and has a dictionary, has few values."""


def open_parquet(path: str, **options: Any) -> pq.ParquetFile:
    """The file with its footer read; raises ConnectorError or FormatError with the path."""
    try:
        return pq.ParquetFile(path, **options)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConnectorError(
            f"cannot read {path}: {reason}", code="E3104", hint="check that the file exists and may be read"
        ) from error
    except pa.ArrowException as error:
        raise FormatError(
            f"{path} is not a Parquet file: {error}", code="E3204", hint="check the option 'format'"
        ) from error


def parquet_rows(path: str) -> int:
    """The number of rows, from the footer."""
    with open_parquet(path) as file:
        rows: int = file.metadata.num_rows
        return rows


class ParquetFileReader:
    """Rows of one file in order, without the row groups that cannot hold a row that passes the filters.

    A position is `{"group": row group, "rows": rows of it already given}`, with the stamp of the file.

    Args:
        schema: the columns to give.
        wanted: all columns that are read: those of `schema` and those that only filters need.
    """

    def __init__(self, path: str, schema: Schema, wanted: Schema, filters: Sequence[ColumnFilter]) -> None:
        self._path = path
        self._schema = schema
        self._wanted = wanted
        self._filters = filters
        self._file = open_parquet(path)
        self._stamp = FileStamp(path, os.stat(path))
        names = set(self._file.schema_arrow.names)
        self._stored = [f.name for f in wanted if f.name in names]
        self._groups = self._useful_groups()
        self._at = 0
        self._given = 0
        self._skip = 0
        self._left_in_group = 0
        self._batches: Iterator[pa.RecordBatch] | None = None
        self._pending: ChangelogBatch | None = None
        self._taken = 0

    def give_codes(self) -> None:
        """Texts of few values come as they are stored: as Arrow dictionaries."""
        coded = self._coded_columns()
        if coded:
            metadata = self._file.metadata
            self._file.close()
            self._file = open_parquet(self._path, read_dictionary=coded, metadata=metadata)

    def _coded_columns(self) -> list[str]:
        texts = {f.name for f in self._wanted if f.type.arrow == pa.string()}
        texts &= {f.name for f in self._file.schema_arrow if f.type == pa.string()}
        metadata = self._file.metadata
        leaves = [i for i in range(metadata.num_columns) if metadata.schema.column(i).path in texts]
        found: list[str] = []
        for leaf in leaves:
            chunks = [metadata.row_group(g).column(leaf) for g in self._groups]
            size, values = sum(c.total_uncompressed_size for c in chunks), sum(c.num_values for c in chunks)
            if all(c.has_dictionary_page for c in chunks) and size <= _BYTES_PER_CODE * values:
                found.append(metadata.schema.column(leaf).path)
        return found

    def _useful_groups(self) -> list[int]:
        metadata = self._file.metadata
        leaf_of = {metadata.schema.column(i).path: i for i in range(metadata.num_columns)}
        types = {f.name: f.type for f in self._file.schema_arrow}
        return [
            g
            for g in range(metadata.num_row_groups)
            if metadata.row_group(g).num_rows and may_hold(self._filters, metadata.row_group(g), leaf_of, types)
        ]

    def poll(self, max_rows: int) -> ChangelogBatch | None:
        if max_rows <= 0:
            return None
        while self._pending is None:
            if not self._advance():
                return None
        whole = self._pending
        end = min(self._taken + max_rows, len(whole))
        part = whole if self._taken == 0 and end == len(whole) else whole.slice(self._taken, end - self._taken)
        self._given += end - self._taken
        self._taken = end
        if end == len(whole):
            self._pending = None
            self._close_group_when_read()
        return part

    def _advance(self) -> bool:
        """Read the next batch; false when there is none."""
        if self._at >= len(self._groups):
            return False
        try:
            if self._batches is None:
                group = self._groups[self._at]
                self._left_in_group = self._file.metadata.row_group(group).num_rows
                self._batches = self._file.iter_batches(_BATCH_ROWS, row_groups=[group], columns=self._stored)
            rows = next(self._batches) if self._stored else self._uncolumned()
        except (OSError, pa.ArrowException) as error:
            raise FormatError(f"{self._path} is damaged: {error}", code="E3206") from error
        self._left_in_group -= rows.num_rows
        self._take(rows)
        if self._pending is None:
            self._close_group_when_read()
        return True

    def _uncolumned(self) -> pa.RecordBatch:
        """As many rows as are left, of a file that has none of the columns."""
        return pa.RecordBatch.from_arrays([pa.nulls(min(self._left_in_group, _BATCH_ROWS))], names=["\0"])

    def _take(self, rows: pa.RecordBatch) -> None:
        try:
            columns = fit_columns(rows, self._wanted)
        except SqlEngineError as error:
            raise FormatError(f"{self._path}: {error.message}", code=error.code, hint=error.hint) from error
        by_name = dict(zip(self._wanted.names, columns, strict=True))
        batch = ChangelogBatch.of([by_name[n] for n in self._schema.names], self._schema)
        mask = passing(self._filters, by_name)
        if mask is not None:
            batch = ChangelogBatch(batch.rows.filter(mask))
        skipped = min(self._skip, len(batch))
        self._skip -= skipped
        if len(batch) > skipped:
            self._pending, self._taken = batch, skipped

    def _close_group_when_read(self) -> None:
        if self._left_in_group <= 0:
            self._at += 1
            self._given = self._skip = 0
            self._batches = None

    @property
    def finished(self) -> bool:
        return self._pending is None and self._at >= len(self._groups)

    def position(self) -> dict[str, int]:
        groups = self._file.metadata.num_row_groups
        group = self._groups[self._at] if self._at < len(self._groups) else groups
        return self._stamp.position(group=group, rows=self._given)

    def seek(self, position: Any) -> None:
        """Raises ConnectorError E3105 when the file is not what it was."""
        self._stamp.check(position)
        group, rows = int(position["group"]), int(position["rows"])
        self._groups = [g for g in self._useful_groups() if g >= group]
        self._at = 0
        self._skip = self._given = rows if self._groups and self._groups[0] == group else 0
        self._batches, self._pending, self._taken = None, None, 0

    def close(self) -> None:
        self._file.close()
        self._batches = self._pending = None
        self._at = len(self._groups)
