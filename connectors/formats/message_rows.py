"""Messages to rows, whatever their format is, and back.

A format of messages decodes them as they are. One of lines gets them as the lines of a block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.formats.projecting import DecodesLines, DecodesPlain, projected_decoder
from connectors.formats.records import MalformedRecord, shown_bytes, shown_hex, too_long
from runtime.core.changelog import UPDATE_AFTER, ChangelogBatch
from runtime.core.schema import Schema
from runtime.spi.format import DecodedMessages, Decoder, Format, MessageFormat, PayloadDecoder, Payloads
from runtime.spi.reader import RejectedRow

__all__ = ["MessageRows", "TellsColumns", "check_format", "encoded_messages", "is_message_format"]

_NEWLINE = 10
_BEGINS_NO_LINE = (b"\n\n", b"\n#", b"\n ", b"\n\t", b"\n\f", b"\n\v")


@runtime_checkable
class TellsColumns(Protocol):
    """A format that knows the columns of its messages from elsewhere."""

    def infer_columns(self) -> Schema:
        """The columns; raises FormatError E3230 when they cannot be told."""
        ...


def is_message_format(format_: Format) -> bool:
    """Whether each message can be one record of the format, or several."""
    if isinstance(format_, MessageFormat):
        return True
    return getattr(format_, "line_based", False) and not getattr(getattr(format_, "dialect", None), "header", False)


def check_format(format_: Format, schema: Schema, time_zone: str, *, writes: bool = False) -> None:
    """Raises UnsupportedError for columns that messages of the format do not hold."""
    if isinstance(format_, MessageFormat):
        format_.message_encoder(schema, time_zone) if writes else format_.message_decoder(
            schema, schema.names, time_zone
        )
    else:
        format_.encoder(schema, time_zone) if writes else format_.decoder(schema, time_zone)


@dataclass(frozen=True)
class MessageRows:
    """Decodes messages of a format to some columns.

    Attributes:
        most: a message of more bytes is malformed.
    """

    _format: Format
    _decoder: Decoder | PayloadDecoder
    most: int

    @staticmethod
    def of(format_: Format, schema: Schema, wanted: Sequence[str], time_zone: str, most: int) -> MessageRows:
        """Of messages that hold the columns of `schema`, those that are wanted."""
        if isinstance(format_, MessageFormat):
            return MessageRows(format_, format_.message_decoder(schema, wanted, time_zone), most)
        return MessageRows(format_, projected_decoder(format_, schema, wanted, time_zone), most)

    def decode(self, payloads: Payloads) -> DecodedMessages:
        """The rows of messages, and those that are malformed."""
        short = payloads.ends - payloads.starts <= self.most
        if short.all():
            return self._decoded(payloads)
        kept = np.flatnonzero(short)
        found = self._decoded(payloads.take(kept))
        shown = shown_hex if isinstance(self._format, MessageFormat) else shown_bytes
        long_ones = [
            (i, MalformedRecord(too_long(self.most), shown(payloads.raw(i)))) for i in np.flatnonzero(~short).tolist()
        ]
        rejected = [*((int(kept[i]), row) for i, row in found.rejected), *long_ones]
        return DecodedMessages(found.batch, kept[found.message_of_row], tuple(sorted(rejected, key=lambda r: r[0])))

    def _decoded(self, payloads: Payloads) -> DecodedMessages:
        if isinstance(self._decoder, DecodesPlain):
            found = self._decoder.decode_plain(payloads.data, payloads.starts, payloads.ends)
            if found is not None:
                return self._with_others(payloads, *found)
        if isinstance(self._decoder, Decoder):
            return _rows_of_lines(self._decoder, payloads, "json" in self._format.name)
        return self._decoder.decode_messages(payloads)

    def _with_others(self, payloads: Payloads, batch: ChangelogBatch, left: np.ndarray) -> DecodedMessages:
        """The rows of plain messages, with those of the others."""
        made, others = np.flatnonzero(~left), np.flatnonzero(left)
        if not len(others):
            return DecodedMessages(batch, made, ())
        assert isinstance(self._decoder, Decoder)
        more = _rows_of_lines(self._decoder, payloads.take(others), "json" in self._format.name)
        of_row = np.concatenate([made, others[more.message_of_row]])
        order = np.argsort(of_row, kind="stable")
        rejected = tuple((int(others[i]), row) for i, row in more.rejected)
        return DecodedMessages(ChangelogBatch.concat([batch, more.batch]).take(order), of_row[order], rejected)


def _rows_of_lines(decoder: Decoder, payloads: Payloads, json: bool) -> DecodedMessages:
    """Values are decoded as lines of one block. Those that may give no record, or several, are decoded one by one: with line
    ends in them, empty, arrays of JSON, comments."""
    count = len(payloads)
    block = _block(payloads)
    values: list[bytes] = []
    if _are_lines(block, count, json):
        single = np.ones(count, bool)
    else:
        values = [payloads.raw(i) for i in range(count)]
        if json:
            # A line end in JSON is a blank: within texts it is written otherwise.
            values = [v.replace(b"\n", b" ") if b"\n" in v else v for v in values]
        single = np.array([_is_line(v, json) for v in values], dtype=bool)
    parts: list[tuple[ChangelogBatch, np.ndarray]] = []
    rejected: list[tuple[int, RejectedRow]] = []
    together, alone = np.flatnonzero(single), np.flatnonzero(~single)
    if len(together):
        if values:
            block = b"\n".join([values[i] for i in together.tolist()]) + b"\n"
        decoded = decoder.decode_lines(block) if isinstance(decoder, DecodesLines) else decoder.decode(block, True)
        bad = [(int(together[r.line]), r) for r in decoded.rejected if isinstance(r, MalformedRecord)]
        starts = decoded.batch.kinds_or_inserts() != UPDATE_AFTER
        good = together[~np.isin(together, [number for number, _ in bad])] if bad else together
        if decoded.lines is not None:
            parts.append((decoded.batch, together[decoded.lines]))
            rejected += bad
        elif len(good) == int(starts.sum()):
            parts.append((decoded.batch, good[np.cumsum(starts) - 1]))
            rejected += bad
        else:
            alone = np.arange(count)
    for number in alone.tolist():
        decoded = decoder.decode((values[number] if values else payloads.raw(number)) + b"\n", True)
        parts.append((decoded.batch, np.full(len(decoded.batch), number)))
        rejected += [(number, r) for r in decoded.rejected]
    if not parts:
        parts.append((decoder.decode(b"", True).batch, np.zeros(0, np.int64)))
    batch, of_row = ChangelogBatch.concat([b for b, _ in parts]), np.concatenate([n for _, n in parts])
    if len(parts) > 1 and (np.diff(of_row) < 0).any():
        order = np.argsort(of_row, kind="stable")
        batch, of_row = batch.take(order), of_row[order]
    rejected.sort(key=lambda pair: pair[0])
    return DecodedMessages(batch, of_row, tuple(rejected))


def _block(payloads: Payloads) -> bytes:
    """All messages, a line end behind each. Where they stand like that already, they are copied once."""
    data, starts, ends = payloads.data, payloads.starts, payloads.ends
    if not len(payloads):
        return b""
    if ends[-1] < len(data) and (data[ends] == _NEWLINE).all() and (starts[1:] == ends[:-1] + 1).all():
        return data[int(starts[0]) : int(ends[-1]) + 1].tobytes()
    whole = pc.binary_join_element_wise(
        payloads.array(), *(pa.scalar(part, pa.large_binary()) for part in (b"\n", b""))
    )
    packed = Payloads.of(whole)
    return packed.data[int(packed.starts[0]) : int(packed.ends[-1])].tobytes()


def _are_lines(block: bytes, count: int, json: bool) -> bool:
    """Whether all messages are what `_is_line` says, as nearly all are: seen in all of them at once."""
    if block.count(b"\n") != count:
        return False
    if json:
        return block.count(b"\n{") + block.startswith(b"{") == count
    starts_wrong = any(begin in block or block.startswith(begin[1:]) for begin in _BEGINS_NO_LINE)
    return b"\r" not in block and not starts_wrong


def _is_line(value: bytes, json: bool) -> bool:
    """Whether a value is one record, or malformed, if it is read as a line."""
    first = value.lstrip()[:1]
    return b"\n" not in value and first != b"" and (first != b"[" if json else first != b"#" and b"\r" not in value)


def encoded_messages(format_: Format, schema: Schema, batch: ChangelogBatch, time_zone: str) -> pa.Array:
    """Each row as a message, large_binary: of a format of lines, the lines of the encoded block, or, when a text has a line
    end, row by row."""
    if isinstance(format_, MessageFormat):
        return format_.message_encoder(schema, time_zone).encode_messages(batch)
    encoder = format_.encoder(schema, time_zone)
    octets = np.frombuffer(encoder.encode(batch), np.uint8)
    ends = np.flatnonzero(octets == _NEWLINE)
    if len(ends) == len(batch):
        return Payloads(octets, np.concatenate([np.zeros(1, np.int64), ends + 1])[: len(batch)], ends).array()
    return pa.array([encoder.encode(batch.slice(i, 1))[:-1] for i in range(len(batch))], pa.large_binary())
