"""Rows as messages of a topic, at least once: a checkpoint waits until the brokers have all that was written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from connectors.formats.row_kinds import written_mode
from connectors.kafka import client
from connectors.kafka.messages import MessageColumns
from connectors.kit.direct import DirectWriter
from runtime.core.changelog import ChangelogBatch, ChangelogMode
from runtime.core.errors import ConnectorError
from runtime.core.schema import Schema
from runtime.spi.format import Encoder, Format
from runtime.spi.sink import Delivery

__all__ = ["WRITABLE", "KafkaSink", "KafkaWriter"]

WRITABLE = ("headers", "timestamp")
"""Metadata that a message can be given."""
_FULL_SECONDS = 0.5


@dataclass(frozen=True)
class KafkaSink:
    """A topic to write to. Append only, unless the format carries changes.

    `partitioner`: see the option.
    """

    name: str
    topic: str
    properties: tuple[tuple[str, str], ...] = field(repr=False)
    columns: MessageColumns
    primary_key: tuple[str, ...]
    partitioner: str
    time_zone: str
    format_options: tuple[tuple[str, str], ...]
    format: Format = field(compare=False)
    key_format: Format | None = field(compare=False)

    @property
    def schema(self) -> Schema:
        return self.columns.schema

    @property
    def delivery(self) -> Delivery:
        """What is sent after a checkpoint is sent again by a job that goes on from it."""
        return "at-least-once"

    def accepts(self, requested: ChangelogMode) -> ChangelogMode:
        return written_mode(self.format, requested)

    def open_writer(self, job: str) -> KafkaWriter:
        """Raises ConnectorError E3130 without the client."""
        return KafkaWriter(self)

    def describe(self) -> dict[str, Any]:
        described: dict[str, Any] = {
            "connector": "kafka",
            "topic": self.topic,
            "brokers": dict(self.properties)["bootstrap.servers"],
            "format": self.format.name,
        }
        return {**described, "options": dict(self.format_options)} if self.format_options else described


class KafkaWriter(DirectWriter):
    """Sends rows as they come. The client takes messages one by one, so the last step is a loop over rows."""

    def __init__(self, sink: KafkaSink) -> None:
        self._sink = sink
        self._errors: list[str] = []
        self._producer: Any = client.producer(dict(sink.properties), errors=self._errors)
        self._partitions = 0
        self._sent = 0

    def write(self, batch: ChangelogBatch) -> None:
        sink = self._sink
        values = _messages(
            sink.format.encoder(sink.columns.value, sink.time_zone), self._part(batch, sink.columns.value)
        )
        keys: Sequence[bytes | None] = [None] * len(batch)
        if sink.key_format is not None:
            encoder = sink.key_format.encoder(sink.columns.in_key, sink.time_zone)
            keys = _messages(encoder, ChangelogBatch(self._part(batch, sink.columns.key).rows))
        given = {key: batch.column(sink.schema.index_of(name)) for name, key in sink.columns.metadata}
        times: Sequence[int] = [0] * len(batch)
        if "timestamp" in given:
            times = [
                max(0, (t or 0) // 1000)
                for t in given["timestamp"].cast(pa.timestamp("us")).cast(pa.int64()).to_pylist()
            ]
        headers: Sequence[Any] = given["headers"].to_pylist() if "headers" in given else [None] * len(batch)
        targets = self._targets(len(batch))
        with client.told(dict(sink.properties)["bootstrap.servers"]):
            for value, key, at, head, target in zip(values, keys, times, headers, targets, strict=True):
                self._send(value, key, target, at, head)
            self._producer.poll(0)
        self._sent += len(batch)
        self._raise()

    def _part(self, batch: ChangelogBatch, schema: Schema) -> ChangelogBatch:
        return batch.select([self._sink.schema.index_of(n) for n in schema.names])

    def _targets(self, count: int) -> Sequence[int]:
        """Partitions of messages; -1 leaves it to the client."""
        if self._sink.partitioner == "fixed":
            return [0] * count
        if self._sink.partitioner == "default":
            return [-1] * count
        if not self._partitions:
            properties, topic = dict(self._sink.properties), self._sink.topic
            self._partitions = max(1, len(client.list_partitions(properties, lambda name: name == topic)))
        return [(self._sent + i) % self._partitions for i in range(count)]

    def _send(self, value: bytes, key: bytes | None, target: int, at: int, headers: Any) -> None:
        while True:
            try:
                self._producer.produce(
                    self._sink.topic, value, key, target, timestamp=at, **({"headers": headers} if headers else {})
                )
                return
            except BufferError:
                self._producer.poll(_FULL_SECONDS)
                self._raise()

    def flush(self, epoch: int) -> None:
        """The client sends by itself, within milliseconds."""
        self._producer.poll(0)
        self._raise()

    def settle(self) -> None:
        """Waits until the brokers have everything; raises ConnectorError E3131 when they do not take it."""
        self._producer.flush(client.ANSWER_SECONDS * 3)
        if len(self._producer):
            self._errors.append(f"{len(self._producer)} messages could not be delivered in time")
        self._raise()

    def _raise(self) -> None:
        if self._errors:
            servers = dict(self._sink.properties)["bootstrap.servers"]
            raise ConnectorError(
                f"cannot write to {self._sink.topic} at {servers}: {self._errors[0]}",
                code="E3131",
                hint="are the brokers there, and may this user write to the topic?",
            )

    def abort(self) -> None:
        """What is not sent yet is dropped."""
        self._producer.purge()
        self._producer.flush(1)

    def close(self) -> None:
        if len(self._producer):
            self.abort()


def _messages(encoder: Encoder, batch: ChangelogBatch) -> list[bytes]:
    """Each row as a message: the lines of the encoded block, or, when a text has a line end, row by row."""
    block = encoder.encode(batch)
    lines = block.split(b"\n")
    if len(lines) == len(batch) + 1:
        return lines[:-1]
    return [encoder.encode(batch.slice(i, 1))[:-1] for i in range(len(batch))]
