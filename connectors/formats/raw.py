"""The format `raw`: one column, whose value is a line of a file, or a whole message. As in Flink 2.3, of texts and bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.formats.records import BadMask, MalformedRecord, cast_or_find, shown_bytes, too_long
from connectors.formats.row_kinds import require_append
from connectors.options import TableOptions
from runtime.core.changelog import APPEND, ChangelogBatch, ChangelogMode
from runtime.core.errors import FormatError, UnsupportedError
from runtime.core.options import bool_option, text_option
from runtime.core.schema import Schema
from runtime.core.types import DataType
from runtime.spi.format import Decoded, DecodedMessages, Payloads
from runtime.spi.reader import RejectedRow
from runtime.spi.registry import FormatFactory

__all__ = ["RAW", "RawFormat"]

CHARSET = text_option("charset", "UTF-8", "how texts are written", ("UTF-8", "US-ASCII", "ISO-8859-1"))
ENDIANNESS = text_option("endianness", "big-endian", "accepted for compatibility; numbers are not supported")
IGNORE = bool_option(
    "ignore-parse-errors",
    False,
    "true or false: what is no text in the charset is kept in system.rejected instead of failing the job",
)


class RawFormat:
    """See the module. Every line is a record, also an empty one; a carriage return before its end does not belong to it."""

    name = "raw"
    line_based = False

    def __init__(self, charset: str, ignore_parse_errors: bool) -> None:
        self._charset = charset
        self.ignore_parse_errors = ignore_parse_errors

    @property
    def changelog_mode(self) -> ChangelogMode:
        return APPEND

    def decoder(self, schema: Schema, time_zone: str) -> RawDecoder:
        return RawDecoder(_checked(schema), self._charset)

    def encoder(self, schema: Schema, time_zone: str) -> RawEncoder:
        return RawEncoder(_checked(schema), self._charset)

    def message_decoder(self, schema: Schema, wanted: Sequence[str], time_zone: str) -> RawDecoder:
        return self.decoder(schema, time_zone)

    def message_encoder(self, schema: Schema, time_zone: str) -> RawEncoder:
        return self.encoder(schema, time_zone)


def _checked(schema: Schema) -> Schema:
    if len(schema) != 1:
        raise UnsupportedError(
            f"format 'raw' holds one column, not {len(schema)}",
            code="E1616",
            hint="declare one column of STRING or BYTES, and take it apart in the query",
        )
    type_ = schema[0].type
    if not (type_.is_character or type_.is_binary):
        raise UnsupportedError(
            f"format 'raw' cannot hold column {schema[0].name} of type {type_}",
            code="E1616",
            hint="declare it as STRING, and CAST it in the query",
        )
    return schema


class RawDecoder:
    """Lines, or messages, as they are."""

    def __init__(self, schema: Schema, charset: str) -> None:
        self._schema = schema
        self._type: DataType = schema[0].type
        self._charset = charset
        self._most = 16 << 20

    def limit_records(self, most: int) -> None:
        """See `LimitsRecords`."""
        self._most = most

    def decode(self, data: bytes, final: bool) -> Decoded:
        consumed = len(data) if final else data.rfind(b"\n") + 1
        octets = np.frombuffer(data, np.uint8, consumed)
        ends = np.flatnonzero(octets == 10)
        if final and consumed and octets[-1] != 10:
            ends = np.append(ends, consumed)
        starts = np.concatenate([np.zeros(min(1, len(ends)), np.int64), ends[:-1] + 1])
        returns = (ends > starts) & (octets[np.maximum(ends - 1, 0)] == 13) if len(ends) else np.zeros(0, bool)
        cells, bad, payloads = self._cells(Payloads(octets, starts, ends - returns))
        if bad is None:
            return Decoded(ChangelogBatch.of([cells], self._schema), (), consumed, len(cells))
        rejected = tuple(
            MalformedRecord(self._why(payloads, i), shown_bytes(payloads.raw(i)), i)
            for i in np.flatnonzero(bad).tolist()
        )
        kept = cells.filter(pa.array(~bad))
        return Decoded(ChangelogBatch.of([kept], self._schema), rejected, consumed, int(np.argmax(bad)))

    def decode_messages(self, payloads: Payloads) -> DecodedMessages:
        cells, bad, payloads = self._cells(payloads)
        if bad is None:
            return DecodedMessages(ChangelogBatch.of([cells], self._schema), np.arange(len(cells)), ())
        rejected = tuple(
            (i, RejectedRow(self._why(payloads, i), shown_bytes(payloads.raw(i)))) for i in np.flatnonzero(bad).tolist()
        )
        batch = ChangelogBatch.of([cells.filter(pa.array(~bad))], self._schema)
        return DecodedMessages(batch, np.flatnonzero(~bad), rejected)

    def _cells(self, payloads: Payloads) -> tuple[pa.Array, BadMask | None, Payloads]:
        """The values, and which of them are none."""
        wanted = self._type.arrow
        raw: pa.Array = payloads.array().cast(pa.binary())
        long = payloads.ends - payloads.starts > self._most
        bad: BadMask | None = long if long.any() else None
        if not self._type.is_character:
            return raw.cast(wanted), bad, payloads
        if self._charset == "ISO-8859-1":
            text = b"".join(raw.to_pylist()).decode("latin-1")
            bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum(payloads.ends - payloads.starts)])
            characters = np.frombuffer(text.encode("latin-1"), np.uint8)
            # A character of the upper half takes two bytes in UTF-8.
            sizes = np.concatenate([np.zeros(1, np.int64), np.cumsum(1 + (characters > 127))])
            offsets = pa.py_buffer(sizes[bounds].astype(np.int32))
            made = pa.Array.from_buffers(pa.string(), len(raw), [None, offsets, pa.py_buffer(text.encode())])
            return made.cast(wanted), bad, payloads
        cells, wrong = cast_or_find(raw, lambda part: part.cast(pa.string()), pa.string())
        if self._charset == "US-ASCII":
            beyond = np.asarray(pc.invert(pc.string_is_ascii(pc.fill_null(cells, ""))))
            wrong = beyond if wrong is None else wrong | beyond
            wrong = wrong if wrong.any() else None
        bad = wrong if bad is None else bad if wrong is None else bad | wrong
        return cells.cast(wanted), bad, payloads

    def _why(self, payloads: Payloads, number: int) -> str:
        if payloads.ends[number] - payloads.starts[number] > self._most:
            return too_long(self._most)
        return f"not text in {self._charset}"


class RawEncoder:
    """Values as they are, each a line, or a message."""

    def __init__(self, schema: Schema, charset: str) -> None:
        self._name = schema[0].name
        self._charset = charset

    def encode(self, batch: ChangelogBatch) -> bytes:
        """Raises FormatError E3203 for NULL, and for a value with a line break in it, PlanningError E1720 for updates."""
        values = self.encode_messages(batch)
        if len(values) and pc.any(pc.match_substring_regex(values, b"\n|\r$")).as_py():
            raise FormatError(
                f"format 'raw' cannot write a line break, which column {self._name} has",
                code="E3203",
                hint="replace it in the query, or use the format 'json'",
            )
        return _joined(values)

    def encode_messages(self, batch: ChangelogBatch) -> pa.Array:
        """Raises FormatError E3203 for NULL, and for a text that the charset does not hold."""
        require_append(batch, "raw")
        column = batch.column(0)
        if column.null_count:
            raise FormatError(
                f"format 'raw' cannot write NULL, which column {self._name} has",
                code="E3203",
                hint="replace it in the query, or use the format 'json'",
            )
        if self._charset != "UTF-8" and not pa.types.is_binary(column.type):
            try:
                return pa.array([text.encode(self._charset) for text in column.to_pylist()], pa.large_binary())
            except UnicodeEncodeError as error:
                raise FormatError(
                    f"column {self._name} has a text that {self._charset} does not hold: {error}",
                    code="E3203",
                    hint="leave 'raw.charset' out",
                ) from error
        return column.cast(pa.binary()).cast(pa.large_binary())

    def finish(self) -> bytes:
        return b""


def _joined(lines: pa.Array) -> bytes:
    """All lines, each with its line end."""
    if not len(lines):
        return b""
    ended = pc.binary_join_element_wise(lines, pa.scalar(b"\n", pa.large_binary()), pa.scalar(b"", pa.large_binary()))
    _, offsets, data = ended.buffers()
    ends = memoryview(offsets).cast("q")
    return bytes(memoryview(data)[ends[ended.offset] : ends[ended.offset + len(ended)]])


def _create(options: Mapping[str, str]) -> RawFormat:
    read = TableOptions(options, "format 'raw'", (CHARSET, ENDIANNESS, IGNORE), under="raw.")
    return RawFormat(read.get(CHARSET).upper(), read.get(IGNORE))


RAW = FormatFactory(
    name="raw",
    document="one column: lines, or messages, as they are",
    create=_create,
    options=(CHARSET, ENDIANNESS, IGNORE),
)
