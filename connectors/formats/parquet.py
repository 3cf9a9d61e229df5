"""The format `parquet`. Files are read by `filesystem/parquet_reader.py`, row group by row group; writing is here."""

from __future__ import annotations

import io
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.parquet as pq

from connectors.formats.column_files import ColumnFileDecoder, ColumnFileEncoder
from connectors.formats.held import check_held
from connectors.options import TableOptions
from runtime.core.changelog import APPEND, ChangelogMode
from runtime.core.options import bool_option, text_option
from runtime.core.schema import Schema
from runtime.spi.registry import FormatFactory

__all__ = ["PARQUET", "ParquetFormat"]

COMPRESSION = text_option(
    "compression", "SNAPPY", "how pages are compressed", ("SNAPPY", "ZSTD", "GZIP", "LZ4", "NONE", "UNCOMPRESSED")
)
UTC = bool_option("utc-timezone", True, "accepted for compatibility; timestamps are in UTC")


class ParquetFormat:
    """Parquet, append only."""

    name = "parquet"
    line_based = False

    def __init__(self, compression: str) -> None:
        self._compression = compression

    @property
    def changelog_mode(self) -> ChangelogMode:
        return APPEND

    def decoder(self, schema: Schema, time_zone: str) -> ColumnFileDecoder:
        check_held("format 'parquet'", schema)
        return ColumnFileDecoder(schema, pq.read_table, "a Parquet")

    def encoder(self, schema: Schema, time_zone: str) -> ParquetEncoder:
        check_held("format 'parquet'", schema)
        return ParquetEncoder(schema, self._compression)


class ParquetEncoder(ColumnFileEncoder):
    """Row groups are those that rows are collected to."""

    name = "parquet"
    group_rows = 1 << 17

    def __init__(self, schema: Schema, compression: str) -> None:
        self._compression = compression
        super().__init__(schema)

    def _open(self, buffer: io.BytesIO, schema: pa.Schema) -> pq.ParquetWriter:
        return pq.ParquetWriter(buffer, schema, compression=self._compression, write_page_checksum=True)

    def _write(self, rows: pa.Table) -> None:
        if rows.num_rows:
            self._writer.write_table(rows, row_group_size=1 << 20)


def _create(options: Mapping[str, str]) -> ParquetFormat:
    read = TableOptions(options, "format 'parquet'", (COMPRESSION, UTC), under="parquet.")
    compression = read.get(COMPRESSION).lower()
    return ParquetFormat("none" if compression == "uncompressed" else compression)


PARQUET = FormatFactory(name="parquet", document="Parquet files", create=_create, options=(COMPRESSION, UTC))
