"""Messages to rows: key and value through their formats, and what Kafka knows of a message as metadata columns.

The client gives messages one by one as Python objects, so each part of them that is needed is gathered in a loop over
messages; decoding is by block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.formats.projecting import DecodesLines, projected_decoder
from connectors.formats.records import MalformedRecord, shown_bytes, too_long
from runtime.core.changelog import DELETE, UPDATE_AFTER, ChangelogBatch
from runtime.core.errors import FormatError
from runtime.core.schema import Field, Schema
from runtime.core.types import BIGINT, BYTES, INT, STRING, DataType, map_of, timestamp_ltz
from runtime.spi.format import Decoder, Format
from runtime.spi.reader import ReadContext, RejectedRow

__all__ = ["METADATA", "MessageColumns", "MessageDecoder", "UpsertDecoder"]

METADATA: Mapping[str, DataType] = {
    "topic": STRING.not_null(),
    "partition": INT.not_null(),
    "headers": map_of(STRING.not_null(), BYTES).not_null(),
    "leader-epoch": INT,
    "offset": BIGINT.not_null(),
    "timestamp": timestamp_ltz(3).not_null(),
    "timestamp-type": STRING.not_null(),
}
_KINDS_OF_TIME = {1: "CreateTime", 2: "LogAppendTime"}
_SHOWN = 160


@dataclass(frozen=True)
class MessageColumns:
    """Where each column of a topic's table comes from.

    Attributes:
        schema: the columns to give, in order.
        value, key: all columns that values and keys hold; those of `key` under the names that they have in the table.
        prefix: what stands before these, and not in the key itself.
        metadata: (column, metadata key).
    """

    schema: Schema
    value: Schema
    key: Schema
    prefix: str
    metadata: tuple[tuple[str, str], ...]

    def select(self, names: Sequence[str]) -> MessageColumns:
        """Only these columns, in this order."""
        return replace(self, schema=Schema(tuple(self.schema[self.schema.index_of(n)] for n in names)))

    @property
    def wanted_of_value(self) -> tuple[str, ...]:
        """What is decoded of values; never nothing, so that rows can be counted."""
        return tuple(n for n in self.schema.names if self.value.index_of(n) >= 0) or self.value.names[:1]

    @property
    def wanted_of_key(self) -> tuple[str, ...]:
        """What is decoded of keys: what values do not hold."""
        return tuple(n for n in self.schema.names if self.key.index_of(n) >= 0 and self.value.index_of(n) < 0)

    @property
    def in_key(self) -> Schema:
        """The columns of the key as they are called in it."""
        return Schema(tuple(Field(f.name.removeprefix(self.prefix), f.type) for f in self.key))


class MessageDecoder:
    """Rows of the messages of one partition.

    Messages without a value are no rows. What is malformed is rejected where the format ignores errors, and ends the
    query otherwise.

    Args:
        most: a value or key of more bytes is malformed.
    """

    def __init__(
        self,
        columns: MessageColumns,
        value: Format,
        key: Format | None,
        time_zone: str,
        context: ReadContext,
        most: int,
    ) -> None:
        self._columns = columns
        self._time_zone = time_zone
        self._most = most
        self._format = value
        self._context = context
        self._value = projected_decoder(value, columns.value, columns.wanted_of_value, time_zone)
        self._key: Decoder | None = None
        self._key_format = key
        if key is not None and columns.wanted_of_key:
            names = [n.removeprefix(columns.prefix) for n in columns.wanted_of_key]
            self._key = projected_decoder(key, columns.in_key, names, time_zone)

    def decode(self, messages: Sequence[Any]) -> ChangelogBatch | None:
        """The rows of messages; None when there is none.

        Raises:
            FormatError: E3201 a malformed message.
        """
        values = [m.value() for m in messages]
        if None in values:
            messages = [m for m, value in zip(messages, values, strict=True) if value is not None]
            values = [value for value in values if value is not None]
        found = self.decoded(messages, values) if values else None
        return None if found is None else found[0]

    def decoded(self, kept: Sequence[Any], values: Sequence[bytes]) -> tuple[ChangelogBatch, np.ndarray] | None:
        """The rows of messages that have these values, and for each the number of its message; None when there is none."""
        batch, of_row, rejected = _rows(self._value, self._format, values, self._most)
        self._refuse(rejected, kept, self._format)
        if not len(batch):
            return None
        found = dict(zip(self._columns.wanted_of_value, batch.columns, strict=True))
        if self._key is not None:
            found.update(self._keys(self._key, kept, of_row))
        for name, key in self._columns.metadata:
            if self._columns.schema.index_of(name) >= 0:
                found[name] = _metadata(key, kept).take(pa.array(of_row))
        columns = [found[n] for n in self._columns.schema.names]
        return ChangelogBatch.of(columns, self._columns.schema, batch.kinds), of_row

    def _keys(self, decoder: Decoder, messages: Sequence[Any], of_row: np.ndarray) -> dict[str, pa.Array]:
        """The columns of keys; NULL where a message has none."""
        assert self._key_format is not None
        there = np.array([m.key() is not None for m in messages])
        with_key = [m for m in messages if m.key() is not None]
        keys, of_key, rejected = _rows(decoder, self._key_format, [m.key() for m in with_key], self._most)
        self._refuse(rejected, with_key, self._key_format)
        place = np.full(len(messages), -1, np.int64)
        place[np.flatnonzero(there)[of_key]] = np.arange(len(keys))
        index = place[of_row]
        take = pa.array(index, mask=index < 0)
        return {n: c.take(take) for n, c in zip(self._columns.wanted_of_key, keys.columns, strict=True)}

    def _refuse(self, rejected: Sequence[tuple[int, RejectedRow]], messages: Sequence[Any], format_: Format) -> None:
        if not rejected:
            return
        if getattr(format_, "ignore_parse_errors", False):
            self._context.reject([row for _, row in rejected])
            return
        number, row = rejected[0]
        message = messages[number]
        raw = row.raw if len(row.raw) <= _SHOWN else row.raw[: _SHOWN - 3] + "..."
        raise FormatError(
            f"{message.topic()}, partition {message.partition()}, offset {message.offset()}: {row.reason}: {raw}",
            code="E3201",
            hint=f"set '{format_.name}.ignore-parse-errors' = 'true' on the table to keep such records in "
            "system.rejected and go on",
        )


class UpsertDecoder(MessageDecoder):
    """A message with a value is the row of its key from then on. One without a value deletes it, and gives the columns of
    the key alone; without a key, too, it says nothing."""

    def decode(self, messages: Sequence[Any]) -> ChangelogBatch | None:
        numbers: list[np.ndarray] = []
        parts: list[ChangelogBatch] = []
        valued = [i for i, m in enumerate(messages) if m.value() is not None]
        deleting = [i for i, m in enumerate(messages) if m.value() is None and m.key() is not None]
        for at, decoded, kind in ((valued, self._valued, UPDATE_AFTER), (deleting, self._deleted, DELETE)):
            found = decoded([messages[i] for i in at]) if at else None
            if found is not None:
                rows, of_row = found
                parts.append(ChangelogBatch(rows.rows, np.full(len(rows), kind, np.int8)))
                numbers.append(np.array(at)[of_row])
        if not parts:
            return None
        return ChangelogBatch.concat(parts).take(np.argsort(np.concatenate(numbers), kind="stable"))

    def _valued(self, messages: Sequence[Any]) -> tuple[ChangelogBatch, np.ndarray] | None:
        return self.decoded(messages, [m.value() for m in messages])

    def _deleted(self, messages: Sequence[Any]) -> tuple[ChangelogBatch, np.ndarray] | None:
        columns, key = self._columns, self._key_format
        assert key is not None
        names = [n for n in columns.schema.names if columns.key.index_of(n) >= 0] or list(columns.key.names[:1])
        in_key = [n.removeprefix(columns.prefix) for n in names]
        decoder = projected_decoder(key, columns.in_key, in_key, self._time_zone)
        batch, of_row, rejected = _rows(decoder, key, [m.key() for m in messages], self._most)
        self._refuse(rejected, messages, key)
        if not len(batch):
            return None
        found: dict[str, pa.Array] = dict(zip(names, batch.columns, strict=True))
        for name, about in columns.metadata:
            found[name] = _metadata(about, messages).take(pa.array(of_row))
        cells = [found[f.name] if f.name in found else pa.nulls(len(batch), f.type.arrow) for f in columns.schema]
        return ChangelogBatch.of(cells, columns.schema), of_row


def _rows(
    decoder: Decoder, format_: Format, values: Sequence[bytes], most: int
) -> tuple[ChangelogBatch, np.ndarray, list[tuple[int, RejectedRow]]]:
    """The rows of values, for each the number of its value, and what is malformed with the number of its value.

    Values are decoded as lines of one block. Those that may give no record, or several, are decoded one by one: with line
    ends in them, empty, arrays of JSON, comments.
    """
    json = "json" in format_.name
    if _are_lines(values, json):
        single = np.ones(len(values), bool)
    else:
        if json:
            # A line end in JSON is a blank: within texts it is written otherwise.
            values = [v.replace(b"\n", b" ") if b"\n" in v else v for v in values]
        single = np.array([_is_line(v, json) for v in values], dtype=bool)
    short = np.fromiter(map(len, values), np.int64, len(values)) <= most
    parts: list[tuple[ChangelogBatch, np.ndarray]] = []
    rejected: list[tuple[int, RejectedRow]] = [
        (i, MalformedRecord(too_long(most), shown_bytes(values[i]))) for i in np.flatnonzero(~short).tolist()
    ]
    together, alone = np.flatnonzero(short & single), np.flatnonzero(short & ~single)
    if len(together):
        lines = values if len(together) == len(values) else [values[i] for i in together.tolist()]
        block = b"\n".join(lines) + b"\n"
        decoded = decoder.decode_lines(block) if isinstance(decoder, DecodesLines) else decoder.decode(block, True)
        bad = [(int(together[r.line]), r) for r in decoded.rejected if isinstance(r, MalformedRecord)]
        starts = decoded.batch.kinds_or_inserts() != UPDATE_AFTER
        good = together[~np.isin(together, [number for number, _ in bad])]
        if len(good) == int(starts.sum()):
            parts.append((decoded.batch, good[np.cumsum(starts) - 1]))
            rejected += bad
        else:
            alone = np.flatnonzero(short)
    for number in alone.tolist():
        decoded = decoder.decode(values[number] + b"\n", True)
        parts.append((decoded.batch, np.full(len(decoded.batch), number)))
        rejected += [(number, r) for r in decoded.rejected]
    if not parts:
        parts.append((decoder.decode(b"", True).batch, np.zeros(0, np.int64)))
    batch, of_row = ChangelogBatch.concat([b for b, _ in parts]), np.concatenate([n for _, n in parts])
    if len(parts) > 1 and (np.diff(of_row) < 0).any():
        order = np.argsort(of_row, kind="stable")
        batch, of_row = batch.take(order), of_row[order]
    rejected.sort(key=lambda pair: pair[0])
    return batch, of_row, rejected


_BEGINS_NO_LINE = (b"\n\n", b"\n#", b"\n ", b"\n\t", b"\n\f", b"\n\v")


def _are_lines(values: Sequence[bytes], json: bool) -> bool:
    """Whether all values are what `_is_line` says, as nearly all are: seen in all of them at once."""
    block = b"\n" + b"\n".join(values)
    if block.count(b"\n") != len(values):
        return False
    if json:
        return block.count(b"\n{") == len(values)
    return b"\r" not in block and not block.endswith(b"\n") and not any(begin in block for begin in _BEGINS_NO_LINE)


def _is_line(value: bytes, json: bool) -> bool:
    """Whether a value is one record, or malformed, if it is read as a line."""
    first = value.lstrip()[:1]
    return b"\n" not in value and first != b"" and (first != b"[" if json else first != b"#" and b"\r" not in value)


def _metadata(key: str, messages: Sequence[Any]) -> pa.Array:
    type_ = METADATA[key].arrow
    match key:
        case "topic":
            return pa.array([m.topic() for m in messages], type_)
        case "partition":
            return pa.array([m.partition() for m in messages], type_)
        case "offset":
            return pa.array([m.offset() for m in messages], type_)
        case "leader-epoch":
            return pa.array([m.leader_epoch() for m in messages], type_)
        case "timestamp":
            millis = pa.array([m.timestamp()[1] for m in messages], pa.int64())
            return pc.multiply(millis, 1000).cast(type_)
        case "timestamp-type":
            return pa.array([_KINDS_OF_TIME.get(m.timestamp()[0], "NoTimestampType") for m in messages], type_)
        case _:
            return pa.array([m.headers() or [] for m in messages], type_)
