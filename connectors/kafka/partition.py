"""Receives the messages of one partition: by the library in C, or, where that cannot be used, as objects of Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from connectors.kafka import client
from connectors.kafka.librdkafka import librdkafka
from connectors.kafka.native_consumer import NativeConsumer
from connectors.kafka.received import Received, received_objects
from connectors.kafka.received_in_c import is_in_c

__all__ = ["PartitionConsumer", "open_partition"]

Failures = list[tuple[int, int, str]]
"""Code, offset and text of errors that came among messages."""


class PartitionConsumer(Protocol):
    """A consumer of one partition, within `client.told`."""

    def assign(self, offset: int) -> None:
        """From now on the partition is read, from an offset on."""
        ...

    def receive(self, most: int, seconds: float, headers: bool) -> tuple[Received, Failures]:
        """Messages in order, with their headers or without: as many as there are; where there is none, it waits a time for
        the first. And errors."""
        ...

    def offsets_there(self, seconds: float) -> tuple[int, int]:
        """The offset of the first message that is there, and the one behind the last, as the brokers say."""
        ...

    def known_end(self) -> int:
        """The offset behind the last message as the last answer of the broker told it, -1 before the first."""
        ...

    def commit(self, offset: int) -> None:
        """Note in the group how far reading is; nobody waits for it, and nothing depends on it."""
        ...

    def close(self) -> None: ...


def open_partition(properties: Mapping[str, str], topic: str, partition: int) -> PartitionConsumer:
    """A consumer of a partition; raises ConnectorError E3130 without the client, OptionError for properties that it does not
    take."""
    settings = client.consumer_settings(properties)
    client.library()
    lib = librdkafka() if is_in_c() else None
    if lib is None:
        return _ObjectConsumer(client.consumer(properties), topic, partition)
    return NativeConsumer(lib, settings, topic, partition, refused=client.refused_properties, failed=client.failure)


class _ObjectConsumer:
    def __init__(self, consumer: Any, topic: str, partition: int) -> None:
        self._consumer = consumer
        self._topic, self._partition = topic, partition

    def assign(self, offset: int) -> None:
        client.assigned(self._consumer, self._topic, self._partition, offset)

    def receive(self, most: int, seconds: float, headers: bool) -> tuple[Received, Failures]:
        given = self._consumer.consume(most, 0.0)
        if not given and seconds:
            given = self._consumer.consume(1, seconds)
            given += self._consumer.consume(most - 1, 0.0) if given and most > 1 else []
        messages = [m for m in given if m.error() is None]
        failures = [(m.error().code(), m.offset(), m.error().str()) for m in given if m.error() is not None]
        return received_objects(self._topic, self._partition, messages, headers), failures

    def offsets_there(self, seconds: float) -> tuple[int, int]:
        return client.offsets_there(self._consumer, self._topic, self._partition)

    def known_end(self) -> int:
        return client.known_end(self._consumer, self._topic, self._partition)

    def commit(self, offset: int) -> None:
        client.commit(self._consumer, self._topic, self._partition, offset)

    def close(self) -> None:
        self._consumer.close()
