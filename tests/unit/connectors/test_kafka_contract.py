"""Topics of a real broker, taken through the contract of sources."""

from __future__ import annotations

import itertools
import json

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from connector_tables import source

from runtime.core.schema import Schema
from runtime.core.types import INT, STRING
from runtime.spi.source import SourceTable
from sqlengine.testing.connectors import SourceContract

SCHEMA = Schema.of(("id", INT.not_null()), ("name", STRING))
_topics = itertools.count(1)


def filled(servers: str) -> dict[str, str]:
    """The options of a topic of one partition with 20 messages, of which keys come once."""
    topic = f"contract{next(_topics)}"
    admin = AdminClient({"bootstrap.servers": servers})
    (made,) = admin.create_topics([NewTopic(topic, 1, 1)]).values()
    made.result(60)
    producer = Producer({"bootstrap.servers": servers})
    for number in range(20):
        name = None if number % 3 == 0 else f"n{number}"
        producer.produce(topic, json.dumps({"id": number, "name": name}), json.dumps({"id": number}))
    assert producer.flush(60) == 0
    return {
        "topic": topic,
        "properties.bootstrap.servers": servers,
        "properties.fetch.wait.max.ms": "10",
        "scan.bounded.mode": "latest-offset",
    }


class TestTopic(SourceContract):
    connectors = ("kafka",)

    @pytest.fixture
    def table(self, kafka_servers: str) -> SourceTable:
        options = {**filled(kafka_servers), "format": "json", "scan.startup.mode": "earliest-offset"}
        return source("kafka", SCHEMA, options)


class TestKeys(SourceContract):
    connectors = ("upsert-kafka",)

    @pytest.fixture
    def table(self, kafka_servers: str) -> SourceTable:
        options = {**filled(kafka_servers), "key.format": "json", "value.format": "json"}
        return source("upsert-kafka", SCHEMA, options, primary_key=("id",))
