"""A broker to test with: the one that `KAFKA_BOOTSTRAP` names, or a stand-in that lives in a client of librdkafka."""

from __future__ import annotations

import itertools
import os
import uuid
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

__all__ = ["PARTITIONS", "Broker"]

PARTITIONS = 4
"""Of every topic: what the stand-in makes."""


class Broker:
    """Topics of a broker. `servers`: of a real one."""

    def __init__(self, servers: str = "") -> None:
        self.servers = servers or os.environ.get("KAFKA_BOOTSTRAP", "")
        self.real = bool(self.servers)
        self._keeps: Any = None
        if not self.servers:
            self._keeps = Producer({"bootstrap.servers": "none:1", "test.mock.num.brokers": 1})
            brokers = self._keeps.list_topics(timeout=20).brokers.values()
            self.servers = ",".join(f"{b.host}:{b.port}" for b in brokers)
        self._producer = Producer({"bootstrap.servers": self.servers, "linger.ms": 0})
        self._numbers = itertools.count()
        self._name = uuid.uuid4().hex[:8]

    def topic(self, partitions: int = PARTITIONS) -> str:
        """A new topic without messages."""
        name = f"t-{self._name}-{next(self._numbers)}"
        if self.real:
            admin = AdminClient({"bootstrap.servers": self.servers})
            admin.create_topics([NewTopic(name, partitions, 1)])[name].result(20)
        else:
            self._producer.list_topics(name, timeout=20)
        return name

    def send(self, topic: str, *values: str | bytes | None, partition: int = 0, **more: Any) -> None:
        """Messages, in order, to a partition."""
        for value in values:
            self._producer.produce(topic, value, partition=partition, **more)
        assert self._producer.flush(20) == 0

    def options(self, topic: str, **more: str) -> dict[str, str]:
        """The options of a table over a topic, read from its beginning to its end as it is now."""
        return {
            "topic": topic,
            "properties.bootstrap.servers": self.servers,
            "scan.startup.mode": "earliest-offset",
            "scan.bounded.mode": "latest-offset",
            **{key.replace("__", "-").replace("_", "."): value for key, value in more.items()},
        }
