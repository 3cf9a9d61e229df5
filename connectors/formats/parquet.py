"""The format `parquet`. Files are read by `filesystem/parquet_reader.py`, row group by row group; writing is here."""

from __future__ import annotations

import io
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.parquet as pq

from connectors.formats.fitting import fit_columns
from connectors.formats.lines_out import require_append
from connectors.options import TableOptions
from runtime.core.changelog import APPEND, ChangelogBatch, ChangelogMode
from runtime.core.errors import FormatError
from runtime.core.options import bool_option, text_option
from runtime.core.schema import Schema
from runtime.spi.format import Decoded
from runtime.spi.registry import FormatFactory

__all__ = ["PARQUET", "ParquetFormat"]

COMPRESSION = text_option(
    "compression", "SNAPPY", "how pages are compressed", ("SNAPPY", "ZSTD", "GZIP", "LZ4", "NONE", "UNCOMPRESSED")
)
UTC = bool_option("utc-timezone", True, "accepted for compatibility; timestamps are in UTC")

_GROUP_ROWS = 1 << 17
"""Rows of a row group that is written."""


class ParquetFormat:
    """Parquet, append only."""

    name = "parquet"
    line_based = False

    def __init__(self, compression: str) -> None:
        self._compression = compression

    @property
    def changelog_mode(self) -> ChangelogMode:
        return APPEND

    def decoder(self, schema: Schema, time_zone: str) -> ParquetDecoder:
        return ParquetDecoder(schema)

    def encoder(self, schema: Schema, time_zone: str) -> ParquetEncoder:
        return ParquetEncoder(schema, self._compression)


class ParquetDecoder:
    """A whole file in memory; nothing is decoded before the last byte has come."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    def decode(self, data: bytes, final: bool) -> Decoded:
        if not final:
            return Decoded(ChangelogBatch.empty(self._schema), (), 0)
        try:
            table = pq.read_table(pa.BufferReader(data))
        except pa.ArrowException as error:
            raise FormatError(f"not a Parquet file: {error}", code="E3204") from error
        columns = fit_columns(table.combine_chunks(), self._schema)
        return Decoded(ChangelogBatch.of(columns, self._schema), (), len(data))


class ParquetEncoder:
    """Collects rows to row groups of useful size; `finish` gives the rest and the footer."""

    def __init__(self, schema: Schema, compression: str) -> None:
        self._schema = pa.schema([pa.field(f.name, f.type.arrow) for f in schema])
        self._buffer = io.BytesIO()
        self._writer = pq.ParquetWriter(self._buffer, self._schema, compression=compression)
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0

    def encode(self, batch: ChangelogBatch) -> bytes:
        require_append(batch, "parquet")
        self._waiting.append(pa.RecordBatch.from_arrays(batch.columns, schema=self._schema))
        self._rows += len(batch)
        if self._rows >= _GROUP_ROWS:
            self._write()
        return self._drain()

    def finish(self) -> bytes:
        self._write()
        self._writer.close()
        return self._drain()

    def _write(self) -> None:
        if self._rows:
            self._writer.write_table(pa.Table.from_batches(self._waiting, self._schema), row_group_size=1 << 20)
        self._waiting, self._rows = [], 0

    def _drain(self) -> bytes:
        # The writer asks the buffer where it is, so the buffer may not shrink: it is handed out from where it was last.
        view = self._buffer.getbuffer()
        written = bytes(view[self._given :])
        self._given += len(written)
        del view
        return written

    _given = 0


def _create(options: Mapping[str, str]) -> ParquetFormat:
    read = TableOptions(options, "format 'parquet'", (COMPRESSION, UTC), under="parquet.")
    compression = read.get(COMPRESSION).lower()
    return ParquetFormat("none" if compression == "uncompressed" else compression)


PARQUET = FormatFactory(name="parquet", document="Parquet files", create=_create, options=(COMPRESSION, UTC))
