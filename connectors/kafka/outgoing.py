"""Rows to messages: values and keys through their formats, in columns that a checkpoint can hold, and to the client."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.kafka import client
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import ConnectorError
from runtime.spi.format import Encoder

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
        self._partitions = 0
        self._made = 0
        self._most = int(dict(sink.properties).get("message.max.bytes", 1_000_000))

    def encode(self, batch: ChangelogBatch) -> pa.RecordBatch:
        """Messages in columns (`COLUMNS`).

        Raises:
            ConnectorError: E3131 a message is longer than the client sends.
        """
        sink = self._sink
        values = self.values(batch)
        keys: Sequence[bytes | None] = [None] * len(batch)
        if sink.key_format is not None:
            encoder = sink.key_format.encoder(sink.columns.in_key, sink.time_zone)
            names = sink.columns.key.names
            keys = _encoded(encoder, ChangelogBatch(batch.select([sink.schema.index_of(n) for n in names]).rows))
        self._check(values, keys)
        given = {key: batch.column(sink.schema.index_of(name)) for name, key in sink.columns.metadata}
        at = pa.array(np.zeros(len(batch), np.int64))
        if "timestamp" in given:
            micros = pc.fill_null(given["timestamp"].cast(pa.timestamp("us")).cast(pa.int64()), 0)
            at = pa.array(np.maximum(micros.to_numpy() // 1000, 0))
        headers = given["headers"].cast(_HEADERS) if "headers" in given else pa.nulls(len(batch), _HEADERS)
        targets = pa.array(self._targets(len(batch)), pa.int32())
        self._made += len(batch)
        binary = pa.large_binary()
        columns = [pa.array(values, binary), pa.array(keys, binary), at, headers, targets]
        return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)

    def values(self, batch: ChangelogBatch) -> Sequence[bytes | None]:
        """The values of the messages; None is a message without one."""
        sink = self._sink
        return _encoded(sink.format.encoder(sink.columns.value, sink.time_zone), self._part(batch))

    def _part(self, batch: ChangelogBatch) -> ChangelogBatch:
        return batch.select([self._sink.schema.index_of(n) for n in self._sink.columns.value.names])

    def _check(self, values: Sequence[bytes | None], keys: Sequence[bytes | None]) -> None:
        longest = max((len(v or b"") + len(k or b"") for v, k in zip(values, keys, strict=True)), default=0)
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


def _encoded(encoder: Encoder, batch: ChangelogBatch) -> list[bytes]:
    """Each row as a message: the lines of the encoded block, or, when a text has a line end, row by row."""
    block = encoder.encode(batch)
    lines = block.split(b"\n")
    if len(lines) == len(batch) + 1:
        return lines[:-1]
    return [encoder.encode(batch.slice(i, 1))[:-1] for i in range(len(batch))]
