"""A topic as a sink. At least once: a checkpoint waits until the brokers have all that was written. Exactly once:
`transactions.py`."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import Any

from connectors.formats.row_kinds import written_mode
from connectors.kafka import client
from connectors.kafka.messages import MessageColumns
from connectors.kafka.outgoing import MessageEncoder, produce
from connectors.kafka.transactions import TransactionalWriter
from connectors.kit.direct import DirectWriter
from runtime.checkpoint.storage import below
from runtime.core.changelog import ChangelogBatch, ChangelogMode
from runtime.core.errors import ConnectorError
from runtime.core.schema import Schema
from runtime.spi.format import Format
from runtime.spi.sink import Delivery
from runtime.spi.writer import SinkWriter

__all__ = ["WRITABLE", "KafkaSink", "KafkaWriter"]

WRITABLE = ("headers", "timestamp")
"""Metadata that a message can be given."""


@dataclass(frozen=True)
class KafkaSink:
    """A topic to write to. Append only, unless the format carries changes.

    Attributes:
        partitioner, guarantee, transactional_prefix: see the options.
        spool: the most bytes of messages that a checkpoint holds.
    """

    name: str
    topic: str
    properties: tuple[tuple[str, str], ...] = field(repr=False)
    columns: MessageColumns
    primary_key: tuple[str, ...]
    partitioner: str
    guarantee: str
    transactional_prefix: str
    spool: int
    time_zone: str
    format_options: tuple[tuple[str, str], ...]
    format: Format = field(compare=False)
    key_format: Format | None = field(compare=False)
    checkpoints: str = field(default="", compare=False, repr=False)
    """The folder of checkpoints, for messages that tasks have written; "": there is none that lasts."""
    partitions: int = 0
    """Of the topic; 0: to be asked for."""

    @property
    def schema(self) -> Schema:
        return self.columns.schema

    @property
    def delivery(self) -> Delivery:
        """What is sent after a checkpoint is sent again by a job that goes on from it, unless it waits for the checkpoint."""
        return "exactly-once" if self.guarantee == "exactly-once" else "at-least-once"

    def accepts(self, requested: ChangelogMode) -> ChangelogMode:
        return written_mode(self.format, requested)

    def encoder(self) -> MessageEncoder:
        """What makes messages of rows."""
        return MessageEncoder(self)

    def open_writer(self, job: str) -> SinkWriter:
        """Raises ConnectorError E3130 without the client."""
        if self.guarantee == "exactly-once":
            return TransactionalWriter(self, job)
        return KafkaWriter(self, waits=self.guarantee != "none")

    @property
    def has_lanes(self) -> bool:
        """Whether messages may be sent side by side: not all of them in one order."""
        if self.partitioner == "fixed":
            return False
        return self.key_format is not None or self.format.changelog_mode.is_append_only

    @property
    def encoded_anywhere(self) -> bool:
        """Whether tasks can make messages: not those that need a registry, and its passwords."""
        formats = [self.format.name, "" if self.key_format is None else self.key_format.name]
        return not any(name.endswith("-confluent") for name in formats)

    def staged_for(self, job: str) -> str:
        """The folder for messages that tasks have written for a job; "" where there is none."""
        if not self.checkpoints:
            return ""
        name = hashlib.blake2b(f"{job} {self.topic}".encode(), digest_size=8).hexdigest()
        return below(self.checkpoints, f".staged/for-{name}")

    def without_address(self) -> KafkaSink:
        """What a task needs to make messages: no address and no password."""
        properties = dict(self.properties)
        known = {k: v for k, v in properties.items() if k == "message.max.bytes"}
        partitions = self.partitions
        if self.partitioner == "round-robin" and not partitions:
            partitions = max(1, len(client.list_partitions(properties, lambda name: name == self.topic)))
        return replace(self, properties=tuple(known.items()), partitions=partitions, checkpoints="")

    def describe(self) -> dict[str, Any]:
        described: dict[str, Any] = {
            "connector": "kafka",
            "topic": self.topic,
            "brokers": dict(self.properties)["bootstrap.servers"],
            "format": self.format.name,
        }
        return {**described, "options": dict(self.format_options)} if self.format_options else described


class KafkaWriter(DirectWriter):
    """Sends rows as they come. `waits`: a checkpoint waits until the brokers have them."""

    def __init__(self, sink: KafkaSink, *, waits: bool) -> None:
        self._sink = sink
        self._waits = waits
        self._errors: list[str] = []
        self._encoder = sink.encoder()
        self._producer: Any = client.producer(dict(sink.properties), errors=self._errors)

    def write(self, batch: ChangelogBatch) -> None:
        with client.told(dict(self._sink.properties)["bootstrap.servers"]):
            produce(self._producer, self._sink.topic, self._encoder.encode(batch), self._raise)
        self._raise()

    def flush(self, epoch: int) -> None:
        """The client sends by itself, within milliseconds."""
        self._producer.poll(0)
        self._raise()

    def settle(self) -> None:
        """Waits until the brokers have everything; raises ConnectorError E3131 when they do not take it."""
        if not self._waits:
            return
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
            self._producer.flush(client.ANSWER_SECONDS) if not self._waits else self.abort()
