"""The format `avro`: each message is a record of Avro, whose schema follows from the columns, as in Flink 2.3. Files are
containers with their schema; `filesystem/avro_reader.py` reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from connectors.formats.avro_container import CODECS, ContainerDecoder, ContainerEncoder
from connectors.formats.avro_reading import reading_program
from connectors.formats.avro_schema import AvroType
from connectors.formats.avro_types import avro_of, check_avro
from connectors.formats.avro_writing import Unwritable, check_writable, encode_records
from connectors.formats.records import shown_hex
from connectors.formats.row_kinds import require_append
from connectors.options import TableOptions
from runtime.core.changelog import APPEND, ChangelogBatch, ChangelogMode
from runtime.core.errors import UnsupportedError
from runtime.core.options import bool_option, text_option
from runtime.core.schema import Schema
from runtime.kernels.avro_read import read_records, reason_of
from runtime.kernels.programs import Program
from runtime.spi.format import DecodedMessages, Payloads
from runtime.spi.reader import RejectedRow
from runtime.spi.registry import FormatFactory

__all__ = ["AVRO", "IGNORE", "LEGACY", "AvroDecoder", "AvroEncoder", "AvroFormat", "decoded_records"]

IGNORE = bool_option(
    "ignore-parse-errors",
    False,
    "true or false: malformed records are kept in system.rejected instead of failing the job",
)
LEGACY = bool_option(
    "timestamp_mapping.legacy",
    True,
    "true or false: TIMESTAMP is a point in time in Avro, as TIMESTAMP_LTZ is; false: a timestamp without time zone",
)
CODEC = text_option("codec", "SNAPPY", "how the blocks of a file are compressed", CODECS)
ENCODING = text_option("encoding", "binary", "how records are written; 'json' is not supported", ("binary", "json"))


class AvroFormat:
    """Records of Avro without their schema."""

    name = "avro"
    line_based = False

    def __init__(self, legacy: bool, ignore_parse_errors: bool, codec: str = "SNAPPY") -> None:
        self.legacy = legacy
        self.codec = codec
        self.ignore_parse_errors = ignore_parse_errors

    @property
    def changelog_mode(self) -> ChangelogMode:
        return APPEND

    def message_decoder(self, schema: Schema, wanted: Sequence[str], time_zone: str) -> AvroDecoder:
        check_avro(schema)
        chosen = Schema(tuple(schema[schema.index_of(n)] for n in wanted))
        return AvroDecoder(chosen, avro_of(schema, self.legacy))

    def message_encoder(self, schema: Schema, time_zone: str) -> AvroEncoder:
        check_avro(schema)
        return AvroEncoder(schema, avro_of(schema, self.legacy))

    def decoder(self, schema: Schema, time_zone: str) -> ContainerDecoder:
        check_avro(schema)
        return ContainerDecoder(schema)

    def encoder(self, schema: Schema, time_zone: str) -> ContainerEncoder:
        check_avro(schema)
        written = avro_of(schema, self.legacy)
        return ContainerEncoder(schema, written, self.codec)


class AvroDecoder:
    """Records of one schema to columns. `schema`: of the columns to give; `reader`: what they mean. Raises Unresolved."""

    def __init__(self, schema: Schema, written: AvroType, reader: AvroType | None = None) -> None:
        self._schema = schema
        self._program = reading_program(written, schema, reader)

    def decode_messages(self, payloads: Payloads) -> DecodedMessages:
        columns, rejected, kept = decoded_records(self._program, payloads)
        return DecodedMessages(ChangelogBatch.of(columns, self._schema), kept, rejected)


def decoded_records(
    program: Program, payloads: Payloads
) -> tuple[list[pa.Array], tuple[tuple[int, RejectedRow], ...], np.ndarray]:
    """The columns of records; those that are malformed, by number; and the numbers of the others."""
    columns, state = read_records(program, payloads.data, payloads.starts, payloads.ends)
    rejected = tuple(
        (i, RejectedRow(reason_of(program, int(state[i])), shown_hex(payloads.raw(i))))
        for i in np.flatnonzero(state).tolist()
    )
    return columns, rejected, np.flatnonzero(state == 0)


class AvroEncoder:
    """Rows to records of one schema. Raises UnsupportedError E1616 where it does not hold the columns."""

    def __init__(self, schema: Schema, written: AvroType) -> None:
        self._schema = schema
        self._written = written
        try:
            check_writable(schema, written)
        except Unwritable as error:
            raise UnsupportedError(f"the schema of Avro does not hold the columns: {error}", code="E1616") from error

    def encode_messages(self, batch: ChangelogBatch) -> pa.Array:
        """Raises FormatError E3203 for a value that the schema does not hold, PlanningError E1720 for updates."""
        require_append(batch, "avro")
        return encode_records(self._schema, batch.columns, self._written, len(batch))


def _create(options: Mapping[str, str]) -> AvroFormat:
    read = TableOptions(options, "format 'avro'", _OPTIONS, under="avro.")
    if read.get(ENCODING).lower() != "binary":
        raise UnsupportedError(
            "format 'avro' does not write records as JSON",
            code="E1643",
            hint="leave 'avro.encoding' out, or use the format 'json'",
        )
    return AvroFormat(read.get(LEGACY), read.get(IGNORE), read.get(CODEC).upper())


_OPTIONS = (IGNORE, LEGACY, ENCODING, CODEC)
AVRO = FormatFactory(
    name="avro",
    document="records of Avro, whose schema follows from the columns; files with their schema",
    create=_create,
    options=_OPTIONS,
)
