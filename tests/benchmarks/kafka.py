"""How fast topics are read: bids of Nexmark from a broker of this machine, as JSON and as Avro.

    python -m tests.benchmarks.kafka [--messages 2000000] [--only json]

A broker is started for it, or `KAFKA_BOOTSTRAP` names one. Each topic has four partitions and is read by an INSERT of all of its
columns into `blackhole`, several times; the best time counts. `objects` is the way of the Python client, which makes an object
of each message. `received` is the most that there can be: the messages come and nothing is made of them. Beside the messages in
a second stands how many a second of one core's time is enough for, of this process alone, which depends less on what else the
machine does.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from connectors.kafka import partition
from sqlengine import TableEnvironment
from tests.benchmarks.nexmark_events import COLUMNS
from tests.servers.kafka import kafka

PARTITIONS = 4


def table(env: TableEnvironment, name: str, servers: str, topic: str, format_: str) -> None:
    """A table over a topic."""
    env.execute_sql(f"""
        CREATE TABLE {name} ({COLUMNS["bid"]}) WITH ('connector' = 'kafka', 'topic' = '{topic}', 'format' = '{format_}',
          'properties.bootstrap.servers' = '{servers}', 'scan.startup.mode' = 'earliest-offset',
          'scan.bounded.mode' = 'latest-offset', 'sink.partitioner' = 'round-robin')""")


def filled(env: TableEnvironment, servers: str, format_: str, messages: int) -> tuple[str, str]:
    """A table over a new topic that has so many bids, and the topic."""
    topic = f"bids-{format_}-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
    name = f"bids_{format_}"
    table(env, name, servers, topic, format_)
    began = time.perf_counter()
    env.execute_sql(f"INSERT INTO {name} SELECT * FROM bid").wait()
    print(f"{format_:8} written  {messages / (time.perf_counter() - began):12,.0f} messages/s", flush=True)
    return name, topic


def measure(way: Callable[[], object], messages: int, repeat: int) -> tuple[float, float]:
    """The best rate of a way to read, in messages a second, and in messages a second of a core's time."""
    best = of_core = 0.0
    for _ in range(repeat):
        began, used = time.perf_counter(), time.process_time()
        way()
        best = max(best, messages / (time.perf_counter() - began))
        of_core = max(of_core, messages / (time.process_time() - used))
    return best, of_core


def receive(servers: str, topic: str) -> None:
    """Read a topic up to its end and make nothing of its messages."""
    properties = {"bootstrap.servers": servers, "group.id": "nobody"}
    consumers = [partition.open_partition(properties, topic, number) for number in range(PARTITIONS)]
    left = {}
    for consumer in consumers:
        left[consumer] = consumer.offsets_there(30.0)[1]
        consumer.assign(0)
    while left:
        for consumer in list(left):
            given, _ = consumer.receive(100_000, 0.05, False)
            left[consumer] -= len(given)
            if not left[consumer]:
                del left[consumer]
    for consumer in consumers:
        consumer.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=2_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", choices=("json", "avro"))
    given = parser.parse_args()
    formats = (given.only,) if given.only else ("json", "avro")
    native = partition.librdkafka
    with tempfile.TemporaryDirectory() as folder, kafka(Path(folder)) as servers, TableEnvironment.create() as env:
        env.execute_sql("SET 'execution.runtime-mode' = 'streaming'")
        events = given.messages * 50 // 46
        env.execute_sql(f"""
            CREATE TABLE bid ({COLUMNS["bid"]}) WITH ('connector' = 'nexmark', 'nexmark.table' = 'bid', 'events.num' = '{events}')""")
        env.execute_sql(f"CREATE TABLE nowhere ({COLUMNS['bid']}) WITH ('connector' = 'blackhole')")
        for format_ in formats:
            name, topic = filled(env, servers, format_, given.messages)
            insert = f"INSERT INTO nowhere SELECT * FROM {name}"
            ways: list[tuple[str, Callable[[], object]]] = [
                ("received", partial(receive, servers, topic)),
                ("in C", lambda insert=insert: env.execute_sql(insert).wait()),
                ("objects", lambda insert=insert: env.execute_sql(insert).wait()),
            ]
            for way, reads in ways:
                partition.librdkafka = (lambda: None) if way == "objects" else native  # type: ignore[assignment]
                rate, of_core = measure(reads, given.messages, 1 if way == "objects" else given.repeat)
                print(f"{format_:8} {way:8} {rate:12,.0f} messages/s {of_core:12,.0f} for a core", flush=True)


if __name__ == "__main__":
    main()
