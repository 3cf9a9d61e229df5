"""The format `orc`. Files are read by `filesystem/orc_reader.py`, stripe by stripe; writing is here."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc as orc

from connectors.formats.column_files import ColumnFileDecoder, ColumnFileEncoder
from connectors.formats.held import check_held
from connectors.options import TableOptions
from runtime.core.changelog import APPEND, ChangelogBatch, ChangelogMode
from runtime.core.errors import FormatError
from runtime.core.options import int_option, text_option
from runtime.core.schema import Schema
from runtime.core.types import TypeRoot
from runtime.spi.registry import FormatFactory

__all__ = ["ORC", "OrcFormat", "check_times"]

COMPRESS = text_option("compress", "ZLIB", "how streams are compressed", ("ZLIB", "ZSTD", "SNAPPY", "LZ4", "NONE"))
STRIPE = int_option("stripe.size", 64 << 20, "the size of a stripe in bytes")

_LACKING = {TypeRoot.TIME: "use the format 'parquet' for such columns"}
_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


class OrcFormat:
    """ORC, append only. TIMESTAMP_LTZ is a timestamp with local time zone (an instant). Columns of TIME cannot be held:
    ORC has no such type. Nor can fractions of seconds before 1970: Arrow writes those so that it alone reads them."""

    name = "orc"
    line_based = False

    def __init__(self, compress: str, stripe_bytes: int) -> None:
        self._compress = compress
        self._stripe_bytes = stripe_bytes

    @property
    def changelog_mode(self) -> ChangelogMode:
        return APPEND

    def decoder(self, schema: Schema, time_zone: str) -> ColumnFileDecoder:
        check_held("format 'orc'", schema, _LACKING)
        return ColumnFileDecoder(schema, _read, "an ORC")

    def encoder(self, schema: Schema, time_zone: str) -> OrcEncoder:
        check_held("format 'orc'", schema, _LACKING)
        return OrcEncoder(schema, self._compress, self._stripe_bytes)


class OrcEncoder(ColumnFileEncoder):
    """Stripes end where the library sees fit: it takes each call for some batches of its own."""

    name = "orc"
    group_rows = 1 << 16

    def __init__(self, schema: Schema, compress: str, stripe_bytes: int) -> None:
        self._compress = compress
        self._stripe_bytes = stripe_bytes
        super().__init__(schema)

    def _open(self, buffer: io.BytesIO, schema: pa.Schema) -> orc.ORCWriter:
        return orc.ORCWriter(buffer, compression=self._compress, stripe_size=self._stripe_bytes)

    def encode(self, batch: ChangelogBatch) -> bytes:
        """Also raises FormatError E3203 for fractions of seconds before 1970."""
        check_times(self._schema.names, batch.columns)
        return super().encode(batch)

    def _write(self, rows: pa.Table) -> None:
        self._writer.write(rows)


def _read(file: pa.BufferReader) -> pa.Table:
    return orc.ORCFile(file).read()


def check_times(names: Sequence[str], columns: Sequence[pa.Array]) -> None:
    """Raises FormatError E3203 for fractions of seconds before 1970."""
    for name, column in zip(names, columns, strict=True):
        if pa.types.is_timestamp(column.type) and _has_old_fractions(column):
            raise FormatError(
                f"format 'orc' cannot hold fractions of seconds before 1970, which column {name} has",
                code="E3203",
                hint="use the format 'parquet', or cut them off",
            )


def _has_old_fractions(times: pa.Array) -> bool:
    least = pc.min(times).value
    if least is None or least >= 0:
        return False
    ticks = pc.drop_null(times).cast(pa.int64()).to_numpy()
    return bool(((ticks < 0) & (ticks % _SECOND[times.type.unit] != 0)).any())


def _create(options: Mapping[str, str]) -> OrcFormat:
    read = TableOptions(options, "format 'orc'", (COMPRESS, STRIPE), under="orc.")
    compress = read.get(COMPRESS).lower()
    return OrcFormat("uncompressed" if compress == "none" else compress, read.get(STRIPE))


ORC = FormatFactory(name="orc", document="ORC files", create=_create, options=(COMPRESS, STRIPE))
