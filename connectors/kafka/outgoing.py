"""Rows to messages: values and keys through their formats, in columns that a checkpoint can hold, and to the client."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.formats.message_rows import encoded_messages
from connectors.kafka import client
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import ConnectorError

if TYPE_CHECKING:
    from connectors.kafka.sink import KafkaSink

__all__ = ["COLUMNS", "MessageEncoder", "produce"]

_HEADERS = pa.map_(pa.string(), pa.binary())
_SCHEMA = pa.schema(
    [
        pa.field("value", pa.large_binary()),
        pa.field("key", pa.large_binary()),
        pa.field("at", pa.int64()),
        pa.field("headers", _HEADERS),
        pa.field("target", pa.int32()),
    ]
)
COLUMNS: tuple[str, ...] = tuple(_SCHEMA.names)
"""Of a batch of messages. `at`: milliseconds, 0 is now; `target`: a partition, -1 leaves it to the client."""
_FULL_SECONDS = 0.5
_OVERHEAD = 128
"""More bytes than a message has beside its key and value, without headers."""


class MessageEncoder:
    """The messages of a sink's rows."""

    def __init__(self, sink: KafkaSink) -> None:
        self._sink = sink
        self._partitions = sink.partitions
        self._made = 0
        self._most = int(dict(sink.properties).get("message.max.bytes", 1_000_000))

    def encode(self, batch: ChangelogBatch) -> pa.RecordBatch:
        """Messages in columns (`COLUMNS`).

        Raises:
            ConnectorError: E3131 a message is longer than the client sends.
        """
        sink = self._sink
        values = self.values(batch)
        keys = pa.nulls(len(batch), pa.large_binary())
        if sink.key_format is not None:
            names = sink.columns.key.names
            part = ChangelogBatch(batch.select([sink.schema.index_of(n) for n in names]).rows)
            keys = encoded_messages(sink.key_format, sink.columns.in_key, part, sink.time_zone)
        self._check(values, keys)
        given = {key: batch.column(sink.schema.index_of(name)) for name, key in sink.columns.metadata}
        at = pa.array(np.zeros(len(batch), np.int64))
        if "timestamp" in given:
            micros = pc.fill_null(given["timestamp"].cast(pa.timestamp("us")).cast(pa.int64()), 0)
            at = pa.array(np.maximum(micros.to_numpy() // 1000, 0))
        headers = given["headers"].cast(_HEADERS) if "headers" in given else pa.nulls(len(batch), _HEADERS)
        targets = pa.array(self._targets(len(batch)), pa.int32())
        self._made += len(batch)
        columns = [values, keys, at, headers, targets]
        return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)

    def values(self, batch: ChangelogBatch) -> pa.Array:
        """The values of the messages, large_binary; NULL is a message without one."""
        sink = self._sink
        return encoded_messages(sink.format, sink.columns.value, self._part(batch), sink.time_zone)

    def _part(self, batch: ChangelogBatch) -> ChangelogBatch:
        return batch.select([self._sink.schema.index_of(n) for n in self._sink.columns.value.names])

    def _check(self, values: pa.Array, keys: pa.Array) -> None:
        lengths = [pc.fill_null(pc.binary_length(part), 0) for part in (values, keys)]
        longest = pc.max(pc.add(*lengths)).as_py() or 0
        if longest + _OVERHEAD > self._most:
            raise ConnectorError(
                f"a message for {self._sink.topic} has {longest} bytes, {self._most - _OVERHEAD} is the most",
                code="E3131",
                hint="raise 'properties.message.max.bytes', and 'max.message.bytes' of the topic",
            )

    def _targets(self, count: int) -> Sequence[int]:
        if self._sink.partitioner == "fixed":
            return [0] * count
        if self._sink.partitioner == "default":
            return [-1] * count
        if not self._partitions:
            properties, topic = dict(self._sink.properties), self._sink.topic
            self._partitions = max(1, len(client.list_partitions(properties, lambda name: name == topic)))
        return [(self._made + i) % self._partitions for i in range(count)]


def produce(producer: Any, topic: str, messages: pa.RecordBatch, full: Callable[[], object]) -> None:
    """Hand messages to the client, which takes them one by one, so this is a loop over messages. `full`: called while the
    client can take no more; it may raise."""
    values, keys, times, headers, targets = (column.to_pylist() for column in messages.columns)
    for value, key, at, head, target in zip(values, keys, times, headers, targets, strict=True):
        more = {"headers": head} if head else {}
        while True:
            try:
                producer.produce(topic, value, key, target, timestamp=at, **more)
                break
            except BufferError:
                producer.poll(_FULL_SECONDS)
                full()
    producer.poll(0)
