"""Columns that are the same for all rows of a file: partition columns, from its folders, and metadata of the file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from connectors.filesystem.files import FileEntry
from connectors.filesystem.opening import shown_path
from connectors.filesystem.partition_names import value_of_folder
from connectors.formats.text_values import TextRules, parse_text
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import ConnectorError, OptionError, did_you_mean
from runtime.core.schema import Field, Schema
from runtime.core.types import BIGINT, STRING, DataType, timestamp_ltz
from runtime.spi.reader import AvailabilityReader, EndOffsetReader, SourceReader
from runtime.spi.registry import TableRequest

__all__ = ["METADATA", "FileColumns"]

METADATA: Mapping[str, DataType] = {
    "file.path": STRING.not_null(),
    "file.name": STRING.not_null(),
    "file.size": BIGINT.not_null(),
    "file.modification-time": timestamp_ltz(3).not_null(),
}


@dataclass(frozen=True)
class FileColumns:
    """Where each column of a source comes from.

    Attributes:
        schema: the columns to give, in order.
        read: columns to decode from the file; never empty, so that rows can be counted.
        partitions: all partition columns of the table.
        metadata: (column, metadata key) of the table.
        default_partition: the folder value that means NULL.
    """

    schema: Schema
    read: tuple[str, ...]
    partitions: tuple[str, ...]
    metadata: tuple[tuple[str, str], ...]
    default_partition: str
    time_zone: str
    first: str

    @staticmethod
    def of(request: TableRequest, data: Schema, default_partition: str) -> FileColumns:
        for _, key in request.metadata:
            if key not in METADATA:
                raise OptionError(f"connector 'filesystem' has no metadata '{key}'", hint=did_you_mean(key, METADATA))
        if not len(data):
            raise OptionError(f"{request.name} has no column that is stored in its files")
        return FileColumns(
            request.schema,
            data.names,
            request.partitioned_by,
            request.metadata,
            default_partition,
            request.time_zone,
            data.names[0],
        )

    def select(self, names: Sequence[str]) -> FileColumns:
        """Only these columns, in this order."""
        schema = Schema(tuple(self.schema[self.schema.index_of(n)] for n in names))
        constant = {*self.partitions, *(name for name, _ in self.metadata)}
        read = tuple(n for n in names if n not in constant)
        return FileColumns(
            schema,
            read or (self.first,),
            self.partitions,
            self.metadata,
            self.default_partition,
            self.time_zone,
            self.first,
        )

    def complete(self, reader: SourceReader, entry: FileEntry) -> SourceReader:
        """A reader that adds the constant columns of a file to the decoded ones."""
        if self.schema.names == self.read:
            return reader
        values = {f.name: self._value(f, entry) for f in self.schema if f.name not in self.read}
        return _Completed(reader, self.schema, values)

    def _value(self, field: Field, entry: FileEntry) -> pa.Scalar:
        if field.name in self.partitions:
            return self._partition_value(field, entry, dict(entry.partition)[field.name])
        key = dict(self.metadata)[field.name]
        found: dict[str, Any] = {
            "file.path": shown_path(entry.path),
            "file.name": shown_path(os.path.basename(entry.path)),
            "file.size": entry.size,
        }
        if key in found:
            return pa.scalar(found[key]).cast(field.type.arrow)
        return pa.scalar(entry.modified * 1000, pa.int64()).cast(pa.timestamp("us", tz="UTC")).cast(field.type.arrow)

    def _partition_value(self, field: Field, entry: FileEntry, written: str) -> pa.Scalar:
        try:
            text = value_of_folder(written, self.default_partition)
        except UnicodeDecodeError:
            text, cells, bad = written, None, True
        else:
            cells, bad = parse_text(pa.array([text], pa.string()), field.type, TextRules(self.time_zone))
        if cells is None or bad is not None:
            raise ConnectorError(
                f"{shown_path(entry.path)}: '{shown_path(text or '')}' is no value of partition column {field.name} "
                f"{field.type}",
                code="E3106",
            )
        return cells[0]


class _Completed:
    """Decoded columns and constant ones in the order of a schema."""

    def __init__(self, reader: SourceReader, schema: Schema, values: Mapping[str, pa.Scalar]) -> None:
        self._reader = reader
        self._schema = schema
        self._values = values

    def poll(self, max_rows: int) -> ChangelogBatch | None:
        batch = self._reader.poll(max_rows)
        if batch is None:
            return None
        columns = [
            pa.repeat(self._values[f.name], len(batch)) if f.name in self._values else batch.rows.column(f.name)
            for f in self._schema
        ]
        return ChangelogBatch.of(columns, self._schema, batch.kinds)

    def available_in(self) -> float | None:
        """See `AvailabilityReader`."""
        return self._reader.available_in() if isinstance(self._reader, AvailabilityReader) else 0.0

    def fetch_end_offset(self) -> None:
        """See `EndOffsetReader`."""
        if isinstance(self._reader, EndOffsetReader):
            self._reader.fetch_end_offset()

    @property
    def finished(self) -> bool:
        return self._reader.finished

    def position(self) -> Any:
        return self._reader.position()

    def seek(self, position: Any) -> None:
        self._reader.seek(position)

    def close(self) -> None:
        self._reader.close()
