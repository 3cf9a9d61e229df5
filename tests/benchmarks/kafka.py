"""How fast topics are read: bids of Nexmark from a broker of this machine, as JSON and as Avro.

    python -m tests.benchmarks.kafka [--messages 2000000] [--only json]

A broker is started for it, or `KAFKA_BOOTSTRAP` names one. Each topic has four partitions and is read by an INSERT of all of its
columns into `blackhole`, several times; the best time counts. `objects` is the way of the Python client, which makes an object
of each message. Beside the messages in a second stands how many a second of one core's time is enough for, of this process
alone, which depends less on what else the machine does.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import uuid
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


def filled(env: TableEnvironment, servers: str, format_: str, messages: int) -> str:
    """A table over a new topic that has so many bids."""
    topic = f"bids-{format_}-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
    name = f"bids_{format_}"
    table(env, name, servers, topic, format_)
    began = time.perf_counter()
    env.execute_sql(f"INSERT INTO {name} SELECT * FROM bid").wait()
    print(f"{format_:8} written  {messages / (time.perf_counter() - began):12,.0f} messages/s", flush=True)
    return name


def read(env: TableEnvironment, name: str, messages: int, repeat: int) -> tuple[float, float]:
    """The best rate of reading a table, in messages a second, and in messages a second of a core's time."""
    best = of_core = 0.0
    for _ in range(repeat):
        began, used = time.perf_counter(), time.process_time()
        env.execute_sql(f"INSERT INTO nowhere SELECT * FROM {name}").wait()
        best = max(best, messages / (time.perf_counter() - began))
        of_core = max(of_core, messages / (time.process_time() - used))
    return best, of_core


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
            name = filled(env, servers, format_, given.messages)
            for way, lib in (("in C", native), ("objects", lambda: None)):
                partition.librdkafka = lib  # type: ignore[assignment]
                rate, of_core = read(env, name, given.messages, given.repeat if way == "in C" else 1)
                print(f"{format_:8} {way:8} {rate:12,.0f} messages/s {of_core:12,.0f} for a core", flush=True)


if __name__ == "__main__":
    main()
