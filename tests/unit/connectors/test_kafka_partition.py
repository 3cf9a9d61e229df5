"""Messages in C and as objects of Python are the same, against librdkafka's stand-in for a broker."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import confluent_kafka
import numpy as np
import pytest
from connector_tables import read_all, source
from kafka_broker import Broker

from connectors.kafka import librdkafka as native
from connectors.kafka import native_consumer, partition
from connectors.kafka.native_consumer import NativeConsumer
from connectors.kafka.partition import PartitionConsumer, open_partition
from connectors.kafka.received import Received
from runtime.core.errors import OptionError
from runtime.core.schema import Schema
from runtime.core.types import BIGINT, BYTES, INT, STRING, map_of, timestamp_ltz


@pytest.fixture(scope="module")
def broker() -> Broker:
    return Broker()


def opened(broker: Broker, topic: str, number: int = 0, **more: str) -> PartitionConsumer:
    properties = {
        "bootstrap.servers": broker.servers,
        "group.id": "g",
        **{k.replace("_", "."): v for k, v in more.items()},
    }
    return open_partition(properties, topic, number)


def received(consumer: PartitionConsumer, count: int, headers: bool = True) -> list[Any]:
    """So many messages as plain values, and the end that was told."""
    found: list[Any] = []
    ends: list[int] = []
    while len(found) < count or not ends:
        given, failures = consumer.receive(1000, 0.2, headers)
        assert all(code == confluent_kafka.KafkaError._PARTITION_EOF for code, _, _ in failures)
        ends += [offset for _, offset, _ in failures]
        found += shown(given)
    return [*found, ends[-1]]


def shown(given: Received) -> list[Any]:
    headers = [None] * len(given) if given.headers is None else given.headers.to_pylist()
    return [
        (
            given.values.raw(i) if given.has_value[i] else None,
            given.keys.raw(i) if given.has_key[i] else None,
            int(given.offsets[i]),
            int(given.times[i]),
            int(given.kinds_of_time[i]),
            headers[i],
        )
        for i in range(len(given))
    ]


def test_the_ways_are_the_same(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = broker.topic()
    broker.send(topic, b"a", b"", None, "é\n", b"x" * 5000, key=b"k", timestamp=1_700_000_000_123)
    broker.send(topic, b"1", headers=[("n", b"v"), ("n", None), ("é", b"")], timestamp=7)
    broker.send(topic, b"2", key=b"", headers=[("", b"\x00\xff")], timestamp=8)
    consumer = opened(broker, topic)
    assert isinstance(consumer, NativeConsumer)
    assert consumer.known_end() == -1
    assert consumer.offsets_there(10.0) == (0, 7)
    consumer.assign(0)
    in_c = received(consumer, 7)
    consumer.assign(5)
    assert received(consumer, 2) == in_c[5:]
    assert consumer.known_end() == 7
    consumer.commit(5)
    consumer.assign(5)
    assert [row[5] for row in received(consumer, 2, headers=False)[:-1]] == [None, None]
    consumer.close()
    consumer.close()
    monkeypatch.setattr(partition, "librdkafka", lambda: None)
    objects = opened(broker, topic)
    assert not isinstance(objects, NativeConsumer)
    assert objects.offsets_there(10.0) == (0, 7)
    objects.assign(0)
    assert received(objects, 7) == in_c
    objects.close()
    assert [row[:2] for row in in_c[:3]] == [(b"a", b"k"), (b"", b"k"), (None, b"k")]
    assert in_c[5][5] == [("n", b"v"), ("n", None), ("é", b"")] and in_c[6][1] == b""


def test_rows_are_the_same_by_objects(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = broker.topic()
    for i in range(20):
        broker.send(
            topic, f'{{"id": {i}}}', key=str(i), headers=[("h", str(i).encode())], timestamp=i + 1, partition=i % 3
        )
    schema = Schema.of(
        ("id", INT), ("o", BIGINT), ("at", timestamp_ltz(3)), ("h", map_of(STRING.not_null(), BYTES)), ("kind", STRING)
    )
    metadata = (("o", "offset"), ("at", "timestamp"), ("h", "headers"), ("kind", "timestamp-type"))
    table = source("kafka", schema, broker.options(topic, format="json"), metadata=metadata)
    in_c = read_all(table)
    monkeypatch.setattr(partition, "librdkafka", lambda: None)
    assert read_all(table) == in_c and len(in_c) == 20


def test_many_messages_in_small_parts(broker: Broker) -> None:
    topic = broker.topic()
    broker.send(topic, *(str(i) * (i % 7) for i in range(3000)))
    consumer = opened(broker, topic)
    consumer.assign(0)
    found: list[bytes] = []
    while len(found) < 3000:
        given, _ = consumer.receive(137, 0.1, False)
        found += [given.values.raw(i) for i in range(len(given))]
        assert len(given) <= 137 and (given.values.data[given.values.ends] == ord("\n")).all()
        assert (np.diff(given.offsets) == 1).all()
    consumer.close()
    assert found == [(str(i) * (i % 7)).encode() for i in range(3000)]


def test_partitions_share_a_client(broker: Broker) -> None:
    topic = broker.topic()
    for number in range(3):
        broker.send(topic, *(f"{number}-{i}" for i in range(50)), partition=number)
    consumers = [opened(broker, topic, number, group_id="shared") for number in range(3)]
    again = opened(broker, topic, 0, group_id="shared")
    clients = [c._client for c in (*consumers, again)]  # type: ignore[attr-defined]
    assert clients[0] is clients[1] is clients[2] and clients[3] is not clients[0]
    for number, consumer in enumerate(consumers):
        consumer.assign(10 * number)
    again.assign(49)
    for number, consumer in enumerate(consumers):
        assert [row[0] for row in received(consumer, 50 - 10 * number, False)[:-1]] == [
            f"{number}-{i}".encode() for i in range(10 * number, 50)
        ]
    consumers[1].assign(48)
    consumers[0].close()
    assert received(consumers[1], 2, False)[-1] == 50 and received(again, 1, False)[0][0] == b"0-49"
    for consumer in (*consumers, again):
        consumer.close()
    assert not [key for key in native_consumer._CLIENTS._open if ("group.id", "shared") in key]


def test_what_somebody_holds_stays_as_it_is(broker: Broker) -> None:
    topic = broker.topic()
    broker.send(topic, *(str(i) for i in range(400)))
    consumer = opened(broker, topic)
    consumer.assign(0)
    held: list[Received] = []
    while sum(map(len, held)) < 400:
        held.append(consumer.receive(100, 0.1, False)[0])
    consumer.close()
    assert [row[0] for given in held for row in shown(given)] == [str(i).encode() for i in range(400)]


def test_errors_of_a_client_are_told_to_each_partition(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = broker.topic()
    consumers = [opened(broker, topic, number) for number in range(2)]
    client = consumers[0]._client  # type: ignore[attr-defined]
    none, _ = consumers[0].receive(1, 0.0, False)
    with monkeypatch.context() as patched:
        patched.setattr(client._batch, "receive", lambda *_: (none, [(30, -1, "not allowed")]))
        assert consumers[0].receive(1, 0.0, False)[1] == [(30, -1, "not allowed")]
    assert consumers[1].receive(1, 0.0, False)[1] == [(30, -1, "not allowed")]
    assert consumers[0].receive(1, 0.0, False)[1] == []
    for consumer in consumers:
        consumer.close()


def test_properties_that_are_wrong(broker: Broker) -> None:
    with pytest.raises(OptionError, match='No such configuration property: "no.such"'):
        opened(broker, "t", no_such="1")
    with pytest.raises(OptionError, match="does not take these properties"):
        opened(broker, "t", security_protocol="never")


def test_a_library_that_is_not_known_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    find = native.librdkafka.__wrapped__
    assert find() is not None
    for version in (0x01050000, 0x03000000, confluent_kafka.libversion()[1] + 256):
        with monkeypatch.context() as patched:
            patched.setattr(confluent_kafka, "libversion", lambda version=version: ("x", version))
            assert find() is None
    with monkeypatch.context() as patched:
        patched.setattr(ctypes, "CDLL", lambda path: (_ for _ in ()).throw(OSError(path)))
        assert find() is None
    with monkeypatch.context() as patched:
        patched.setattr(native, "_ADDRESSES", (*native._ADDRESSES, "no_such_function"))
        assert find() is None
    with monkeypatch.context() as patched:
        patched.setattr(confluent_kafka, "__file__", str(Path("/nowhere/confluent_kafka/__init__.py")))
        assert find() is None
