"""Messages to rows: key and value through their formats, and what Kafka knows of a message as metadata columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.formats.message_rows import MessageRows
from connectors.kafka.received import Received
from runtime.core.changelog import DELETE, UPDATE_AFTER, ChangelogBatch
from runtime.core.errors import FormatError
from runtime.core.schema import Field, Schema
from runtime.core.types import BIGINT, BYTES, INT, STRING, DataType, map_of, timestamp_ltz
from runtime.spi.format import DecodedMessages, Format
from runtime.spi.reader import ReadContext

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
_KINDS_OF_TIME = pa.array(["NoTimestampType", "CreateTime", "LogAppendTime"])
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
        self._value = MessageRows.of(value, columns.value, columns.wanted_of_value, time_zone, most)
        self._key: MessageRows | None = None
        self._key_format = key
        if key is not None and columns.wanted_of_key:
            names = [n.removeprefix(columns.prefix) for n in columns.wanted_of_key]
            self._key = MessageRows.of(key, columns.in_key, names, time_zone, most)

    @property
    def wants_headers(self) -> bool:
        """Whether a column is made of the headers."""
        return any(key == "headers" and self._columns.schema.index_of(n) >= 0 for n, key in self._columns.metadata)

    def decode(self, messages: Received) -> ChangelogBatch | None:
        """The rows of messages; None when there is none.

        Raises:
            FormatError: E3201 a malformed message.
        """
        found = self.decoded(messages.take(np.flatnonzero(messages.has_value)))
        return None if found is None else found[0]

    def decoded(self, messages: Received) -> tuple[ChangelogBatch, np.ndarray] | None:
        """The rows of messages that have values, and for each the number of its message; None when there is none."""
        if not len(messages):
            return None
        values = self._value.decode(messages.values)
        self._refuse(values, messages, self._format)
        batch, of_row = values.batch, values.message_of_row
        if not len(batch):
            return None
        found = dict(zip(self._columns.wanted_of_value, batch.columns, strict=True))
        if self._key is not None:
            found.update(self._keys(self._key, messages, of_row))
        for name, key in self._columns.metadata:
            if self._columns.schema.index_of(name) >= 0:
                found[name] = _metadata(key, messages.take(of_row))
        columns = [found[n] for n in self._columns.schema.names]
        return ChangelogBatch.of(columns, self._columns.schema, batch.kinds), of_row

    def _keys(self, decoder: MessageRows, messages: Received, of_row: np.ndarray) -> dict[str, pa.Array]:
        """The columns of keys; NULL where a message has none."""
        assert self._key_format is not None
        there = np.flatnonzero(messages.has_key)
        with_key = messages.take(there)
        keys = decoder.decode(with_key.keys)
        self._refuse(keys, with_key, self._key_format)
        place = np.full(len(messages), -1, np.int64)
        place[there[keys.message_of_row]] = np.arange(len(keys.batch))
        index = place[of_row]
        take = pa.array(index, mask=index < 0)
        return {n: c.take(take) for n, c in zip(self._columns.wanted_of_key, keys.batch.columns, strict=True)}

    def _refuse(self, decoded: DecodedMessages, messages: Received, format_: Format) -> None:
        if not decoded.rejected:
            return
        if getattr(format_, "ignore_parse_errors", False):
            self._context.reject([row for _, row in decoded.rejected])
            return
        number, row = decoded.rejected[0]
        raw = row.raw if len(row.raw) <= _SHOWN else row.raw[: _SHOWN - 3] + "..."
        raise FormatError(
            f"{messages.topic}, partition {messages.partition}, offset {messages.offsets[number]}: {row.reason}: {raw}",
            code="E3201",
            hint=f"set '{format_.name}.ignore-parse-errors' = 'true' on the table to keep such records in "
            "system.rejected and go on",
        )


class UpsertDecoder(MessageDecoder):
    """A message with a value is the row of its key from then on. One without a value deletes it, and gives the columns of
    the key alone; without a key, too, it says nothing."""

    def decode(self, messages: Received) -> ChangelogBatch | None:
        numbers: list[np.ndarray] = []
        parts: list[ChangelogBatch] = []
        valued = np.flatnonzero(messages.has_value)
        deleting = np.flatnonzero(~messages.has_value & messages.has_key)
        for at, decoded, kind in ((valued, self.decoded, UPDATE_AFTER), (deleting, self._deleted, DELETE)):
            found = decoded(messages.take(at)) if len(at) else None
            if found is not None:
                rows, of_row = found
                parts.append(ChangelogBatch(rows.rows, np.full(len(rows), kind, np.int8)))
                numbers.append(at[of_row])
        if not parts:
            return None
        return ChangelogBatch.concat(parts).take(np.argsort(np.concatenate(numbers), kind="stable"))

    def _deleted(self, messages: Received) -> tuple[ChangelogBatch, np.ndarray] | None:
        columns, key = self._columns, self._key_format
        assert key is not None
        names = [n for n in columns.schema.names if columns.key.index_of(n) >= 0] or list(columns.key.names[:1])
        in_key = [n.removeprefix(columns.prefix) for n in names]
        keys = MessageRows.of(key, columns.in_key, in_key, self._time_zone, self._most).decode(messages.keys)
        self._refuse(keys, messages, key)
        batch, of_row = keys.batch, keys.message_of_row
        if not len(batch):
            return None
        found: dict[str, pa.Array] = dict(zip(names, batch.columns, strict=True))
        for name, about in columns.metadata:
            found[name] = _metadata(about, messages.take(of_row))
        cells = [found[f.name] if f.name in found else pa.nulls(len(batch), f.type.arrow) for f in columns.schema]
        return ChangelogBatch.of(cells, columns.schema), of_row


def _metadata(key: str, messages: Received) -> pa.Array:
    type_, count = METADATA[key].arrow, len(messages)
    match key:
        case "topic":
            return pa.repeat(pa.scalar(messages.topic, type_), count)
        case "partition":
            return pa.repeat(pa.scalar(messages.partition, type_), count)
        case "offset":
            return pa.array(messages.offsets, type_)
        case "leader-epoch":
            return pa.array(messages.leader_epochs.astype(np.int32), type_, mask=messages.leader_epochs < 0)
        case "timestamp":
            return pc.multiply(pa.array(messages.times), 1000).cast(type_)
        case "timestamp-type":
            return _KINDS_OF_TIME.take(pa.array(messages.kinds_of_time)).cast(type_)
        case _:
            return pa.nulls(count, type_) if messages.headers is None else messages.headers.cast(type_)
