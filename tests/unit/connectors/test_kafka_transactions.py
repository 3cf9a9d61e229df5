"""What only a real broker of Kafka shows: exactly once, and topics and partitions that come while a job runs."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from connector_tables import rows_of, sink, source
from kafka_broker import Broker

from connectors.kafka import client
from connectors.kafka.transactions import KafkaCommits
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import ConnectorError, FencedError, OptionError
from runtime.core.schema import Schema
from runtime.core.types import INT, STRING
from sqlengine import TableEnvironment
from sqlengine.testing.connectors import SinkCase, SinkContract, some_epochs

SCHEMA = Schema.of(("id", INT), ("name", STRING))


@pytest.fixture(scope="module")
def broker(kafka_servers: str) -> Broker:
    return Broker(kafka_servers)


def options(broker: Broker, topic: str, **more: str) -> dict[str, str]:
    return broker.options(topic, format="json") | {
        "sink.delivery-guarantee": "exactly-once",
        "sink.transactional-id-prefix": topic,
        "properties.fetch.wait.max.ms": "10",
        **more,
    }


def read(broker: Broker, topic: str) -> list[Any]:
    """The messages of transactions that have ended, as soon as the broker has written where they end: it does so behind
    its answer."""
    known = {"bootstrap.servers": broker.servers, "group.id": "any"}
    ends = [client.consumer(known, isolation=level) for level in ("read_committed", "read_uncommitted")]
    while len({client.offsets_there(asked, topic, 0)[1] for asked in ends}) > 1:
        pass
    for asked in ends:
        asked.close()
    return sorted(rows_of(source("kafka", SCHEMA, options(broker, topic))), key=repr)


class TestExactlyOnce(SinkContract):
    connectors = ("kafka",)
    # Nothing that happens between these is seen from outside.
    steps = ((KafkaCommits, "_begin"), (KafkaCommits, "_end"))
    seeds = 2

    @pytest.fixture
    def make(self, broker: Broker) -> Callable[[random.Random], SinkCase]:
        def case(rng: random.Random) -> SinkCase:
            topic = broker.topic(1)
            epochs, expected = some_epochs(rng, SCHEMA, 3)
            return SinkCase(
                sink("kafka", SCHEMA, options(broker, topic)), lambda: read(broker, topic), epochs, expected
            )

        return case


def rows(*ids: int) -> ChangelogBatch:
    return ChangelogBatch.of([pa.array(ids, pa.int32()), pa.nulls(len(ids), pa.string())], SCHEMA)


def test_an_earlier_run_can_send_nothing_any_more(broker: Broker) -> None:
    topic = broker.topic(1)
    table = sink("kafka", SCHEMA, options(broker, topic))
    first = table.open_writer("job")
    first.write(rows(1))
    named = first.prepare()
    first.publish(named)
    first.write(rows(2))
    late = first.prepare()
    second = table.open_writer("job")
    second.recover([named])
    second.write(rows(3))
    second.publish(second.prepare())
    with pytest.raises(FencedError, match="E3413 Kafka at .*fenced"):
        first.publish(late)
    assert [row[0] for row in read(broker, topic)] == [1, 3]
    for writer in (first, second):
        writer.close()


def test_what_is_open_is_not_read(broker: Broker) -> None:
    topic = broker.topic(1)
    table = sink("kafka", SCHEMA, options(broker, topic))
    commits = KafkaCommits(table, "job")  # type: ignore[arg-type]
    assert commits.last() == 0
    commits._begin()
    commits._producer.produce(topic, '{"id": 9}')
    commits._producer.flush(20)
    assert rows_of(source("kafka", SCHEMA, options(broker, topic))) == []
    uncommitted = options(broker, topic) | {"properties.isolation.level": "read_uncommitted"}
    assert rows_of(source("kafka", SCHEMA, uncommitted)) == [(9, None)]
    commits.close()


def test_a_topic_that_was_made_anew_is_told(broker: Broker) -> None:
    writer = sink("kafka", SCHEMA, options(broker, broker.topic(1))).open_writer("job")
    for number in (1, 2):
        writer.write(rows(number))
        named = writer.prepare()
        writer.publish(named)
    other = sink("kafka", SCHEMA, options(broker, broker.topic(1))).open_writer("job")
    with pytest.raises(ConnectorError, match="E3152 t has none of the 1 commits"):
        other.recover([named])
    for one in (writer, other):
        one.close()


def test_mistakes(broker: Broker) -> None:
    given = options(broker, "t")
    del given["sink.transactional-id-prefix"]
    with pytest.raises(OptionError, match="E1504 .* needs the option 'sink.transactional-id-prefix'"):
        sink("kafka", SCHEMA, given)
    writer = sink("kafka", SCHEMA, options(broker, "t")).open_writer("job")
    long = ChangelogBatch.of([pa.array([1], pa.int32()), pa.array(["x" * 1_000_000])], SCHEMA)
    with pytest.raises(ConnectorError, match="E3131 a message for t has 10000.. bytes"):
        writer.write(long)
    writer.close()


def test_topics_and_partitions_that_come_while_a_view_follows(broker: Broker) -> None:
    name = broker.topic(1)
    given = {
        "connector": "kafka",
        "topic-pattern": f"{name}.*",
        "properties.bootstrap.servers": broker.servers,
        "properties.fetch.wait.max.ms": "10",
        "format": "json",
        "scan.startup.mode": "latest-offset",
    }
    admin = AdminClient({"bootstrap.servers": broker.servers})
    with TableEnvironment.create() as t_env:
        written = ", ".join(f"'{k}' = '{v}'" for k, v in given.items())
        columns = "id INT, topic STRING METADATA, `partition` INT METADATA"
        t_env.execute_sql(f"CREATE TABLE followed ({columns}) WITH ({written})")
        t_env.execute_sql("CREATE MATERIALIZED VIEW v AS SELECT id, topic, `partition` AS p FROM followed")

        def seen() -> list[tuple[int, str, int]]:
            t_env.execute_sql("FLUSH").wait()
            rows = t_env.execute_sql("SELECT * FROM v").to_arrow().to_pylist()
            return sorted((row["id"], row["topic"].removeprefix(name), row["p"]) for row in rows)

        assert seen() == []
        broker.send(name, '{"id": 1}')
        assert seen() == [(1, "", 0)]
        admin.create_partitions([NewPartitions(name, 2)])[name].result(20)
        admin.create_topics([NewTopic(f"{name}-more", 1, 1)])[f"{name}-more"].result(20)
        broker.send(f"{name}-more", '{"id": 3}')
        producer = Producer({"bootstrap.servers": broker.servers})  # The other one does not know of the partition yet.
        producer.produce(name, '{"id": 2}', partition=1)
        assert producer.flush(20) == 0
        assert seen() == [(1, "", 0), (2, "", 1), (3, "-more", 0)], "what comes is read from its beginning"
