"""The format `orc`. Files are read by `filesystem/orc_reader.py`, stripe by stripe; writing is here."""

from __future__ import annotations

import io
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc as orc

from connectors.formats.fitting import fit_columns
from connectors.formats.lines_out import require_append
from connectors.options import TableOptions
from runtime.core.changelog import APPEND, ChangelogBatch, ChangelogMode
from runtime.core.errors import FormatError, UnsupportedError
from runtime.core.options import int_option, text_option
from runtime.core.schema import Schema
from runtime.core.types import DataType, TypeRoot
from runtime.spi.format import Decoded
from runtime.spi.registry import FormatFactory

__all__ = ["ORC", "OrcFormat"]

COMPRESS = text_option("compress", "ZLIB", "how streams are compressed", ("ZLIB", "ZSTD", "SNAPPY", "LZ4", "NONE"))
STRIPE = int_option("stripe.size", 64 << 20, "the bytes of a stripe")

_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_WAITING_ROWS = 1 << 16
"""Rows that are given to the writer at a time: it takes each call for some batches of its own."""


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

    def decoder(self, schema: Schema, time_zone: str) -> OrcDecoder:
        _check(schema)
        return OrcDecoder(schema)

    def encoder(self, schema: Schema, time_zone: str) -> OrcEncoder:
        _check(schema)
        return OrcEncoder(schema, self._compress, self._stripe_bytes)


class OrcDecoder:
    """A whole file in memory; nothing is decoded before the last byte has come."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    def decode(self, data: bytes, final: bool) -> Decoded:
        if not final:
            return Decoded(ChangelogBatch.empty(self._schema), (), 0)
        try:
            table = orc.ORCFile(pa.BufferReader(data)).read()
        except pa.ArrowException as error:
            raise FormatError(f"not an ORC file: {error}", code="E3204") from error
        columns = fit_columns(table.combine_chunks(), self._schema)
        return Decoded(ChangelogBatch.of(columns, self._schema), (), len(data))


class OrcEncoder:
    """Collects rows; `finish` gives the rest and the footer."""

    def __init__(self, schema: Schema, compress: str, stripe_bytes: int) -> None:
        self._schema = pa.schema([pa.field(f.name, f.type.arrow) for f in schema])
        self._buffer = io.BytesIO()
        self._writer = orc.ORCWriter(self._buffer, compression=compress, stripe_size=stripe_bytes)
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0
        self._given = 0

    def encode(self, batch: ChangelogBatch) -> bytes:
        require_append(batch, "orc")
        for name, column in zip(self._schema.names, batch.columns, strict=True):
            if pa.types.is_timestamp(column.type) and _has_old_fractions(column):
                raise FormatError(
                    f"format 'orc' cannot hold fractions of seconds before 1970, which column {name} has",
                    code="E3203",
                    hint="use the format 'parquet', or cut them off",
                )
        self._waiting.append(pa.RecordBatch.from_arrays(batch.columns, schema=self._schema))
        self._rows += len(batch)
        if self._rows >= _WAITING_ROWS:
            self._write()
        return self._drain()

    def finish(self) -> bytes:
        # A file without rows has its columns, too.
        self._write()
        self._writer.close()
        return self._drain()

    def _write(self) -> None:
        self._writer.write(pa.Table.from_batches(self._waiting, self._schema))
        self._waiting, self._rows = [], 0

    def _drain(self) -> bytes:
        # The writer asks the buffer where it is, so the buffer may not shrink: it is handed out from where it was last.
        view = self._buffer.getbuffer()
        written = bytes(view[self._given :])
        self._given += len(written)
        del view
        return written


def _has_old_fractions(times: pa.Array) -> bool:
    least = pc.min(times).value
    if least is None or least >= 0:
        return False
    ticks = pc.drop_null(times).cast(pa.int64()).to_numpy()
    return bool(((ticks < 0) & (ticks % _SECOND[times.type.unit] != 0)).any())


def _check(schema: Schema) -> None:
    for field in schema:
        _check_type(field.name, field.type)


def _check_type(name: str, type_: DataType) -> None:
    if type_.root is TypeRoot.TIME:
        raise UnsupportedError(
            f"format 'orc' cannot hold column {name} of type {type_}",
            code="E1616",
            hint="use the format 'parquet' for such columns",
        )
    for child in (*type_.children, *(f.type for f in type_.fields)):
        _check_type(name, child)


def _create(options: Mapping[str, str]) -> OrcFormat:
    read = TableOptions(options, "format 'orc'", (COMPRESS, STRIPE), under="orc.")
    compress = read.get(COMPRESS).lower()
    return OrcFormat("uncompressed" if compress == "none" else compress, read.get(STRIPE))


ORC = FormatFactory(name="orc", document="ORC files", create=_create, options=(COMPRESS, STRIPE))
