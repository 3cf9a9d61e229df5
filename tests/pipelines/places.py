"""What the pipelines of sql_examples/pipelines read and write: servers that are filled, and somebody who changes things."""

from __future__ import annotations

import datetime
import io
import json
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fastavro
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.servers.kafka import kafka
from tests.servers.postgres import PASSWORD, PostgresDatabase, running
from tests.servers.registry import Registry, registry
from tests.servers.s3 import Bucket, s3_server

__all__ = ["PIPELINES", "Pipeline", "Servers", "script_of"]

_FOLDER = Path(__file__).parents[2] / "sql_examples" / "pipelines"
_SHOPS = ("Bern", "Graz", "Ulm")


def script_of(name: str) -> Path:
    """The file of a pipeline."""
    return _FOLDER / f"{name}.sql"


class Servers:
    """Servers that are started when one is asked for, and end with a stack. A test gives those that it has."""

    def __init__(self, stack: ExitStack, folder: Path, **there: Any) -> None:
        self._stack = stack
        self._folder = folder
        self._there = there

    def _server(self, name: str, start: Callable[[], Any]) -> Any:
        if name not in self._there:
            self._there[name] = start()
        return self._there[name]

    @property
    def kafka(self) -> str:
        """`host:port` of a broker."""
        return self._server("kafka", lambda: self._stack.enter_context(kafka(self._folder)))

    @property
    def postgres(self) -> PostgresDatabase:
        return self._server("postgres", lambda: PostgresDatabase(self._stack.enter_context(running()), "postgres"))

    @property
    def s3(self) -> str:
        """Its address."""
        return self._server("s3", lambda: self._stack.enter_context(s3_server()))

    @property
    def registry(self) -> Registry:
        return self._server("registry", lambda: self._stack.enter_context(registry()))


@dataclass(frozen=True)
class Pipeline:
    """A pipeline whose servers are there.

    Attributes:
        variables: of the environment, which its file names.
        changes: somebody changes something outside each time that it is asked for the next; gives what the answer is then.
        shown: a query for the answer, in a session that has run `declared`.
        serves: the answer is a view of the pipeline's own session.
    """

    variables: dict[str, str]
    changes: Iterator[list[tuple[Any, ...]]]
    shown: str
    declared: str = ""
    serves: bool = False


def _postgres_to_iceberg(servers: Servers) -> Pipeline:
    postgres = servers.postgres
    postgres.run(
        "CREATE TABLE orders (id BIGINT PRIMARY KEY, customer TEXT, amount NUMERIC(10, 2))",
        "ALTER TABLE orders REPLICA IDENTITY FULL",
        "INSERT INTO orders SELECT i, 'c' || i % 3, i * 1.5 FROM generate_series(1, 20) AS i",
    )

    def changes() -> Iterator[list[tuple[Any, ...]]]:
        for number in range(21, 1_000_000):
            yield postgres.rows("SELECT id, customer, amount FROM orders ORDER BY id")
            postgres.run(
                f"INSERT INTO orders VALUES ({number}, 'c{number % 3}', {number})",
                f"UPDATE orders SET amount = amount + 1 WHERE id = {number - 10}",
                f"DELETE FROM orders WHERE id = {number - 20}",
            )

    return Pipeline(
        {"SHOP_URL": postgres.url, "SHOP_PASSWORD": PASSWORD},
        changes(),
        "SELECT id, customer, amount FROM lake.shop.orders ORDER BY id",
        "CREATE CATALOG lake WITH ('type' = 'iceberg', 'catalog-type' = 'hadoop', 'warehouse' = 'lake')",
    )


def _kafka_to_dashboard(servers: Servers) -> Pipeline:
    _topic(servers.kafka, "payments")
    producer = Producer({"bootstrap.servers": servers.kafka})
    fields = [
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "shop", "type": "string"},
        {"name": "cents", "type": "long"},
    ]
    schema = {"type": "record", "name": "payment", "fields": fields}
    number = servers.registry.add("payments-value", json.dumps(schema))
    parsed = fastavro.parse_schema(schema)
    begin = datetime.datetime(2026, 11, 26, 9, tzinfo=datetime.UTC)

    def changes() -> Iterator[list[tuple[Any, ...]]]:
        answer: dict[str, tuple[int, int, datetime.datetime]] = {}
        for payment in range(1_000_000):
            shop, cents, at = _SHOPS[payment % 3], 100 + payment * 7 % 900, begin + datetime.timedelta(seconds=payment)
            out = io.BytesIO(struct.pack(">bI", 0, number))
            out.seek(0, io.SEEK_END)
            fastavro.schemaless_writer(out, parsed, {"at": at, "shop": shop, "cents": cents})
            producer.produce("payments", out.getvalue())
            producer.flush(60)
            count, total, _ = answer.get(shop, (0, 0, at))
            answer[shop] = (count + 1, total + cents, at.replace(tzinfo=None))
            yield sorted((shop, *known) for shop, known in answer.items())

    return Pipeline(
        {"KAFKA": servers.kafka, "REGISTRY": servers.registry.url},
        changes(),
        "SELECT shop, payments, cents, newest FROM dashboard ORDER BY shop",
        serves=True,
    )


def _s3_to_kafka(servers: Servers) -> Pipeline:
    _topic(servers.kafka, "warm")
    bucket = Bucket.made(servers.s3, "readings")

    def changes() -> Iterator[list[tuple[Any, ...]]]:
        warm: list[tuple[str, float]] = []
        for number in range(1_000_000):
            rows = [(f"s{sensor}", 15.0 + (number + sensor) * 3 % 11) for sensor in range(4)]
            lines = [json.dumps({"sensor": sensor, "degrees": degrees}) + "\n" for sensor, degrees in rows]
            bucket.put({f"in/{number:06}.jsonl": "".join(lines)})
            warm += [row for row in rows if row[1] > 20]
            yield sorted(warm)

    return Pipeline(
        {"KAFKA": servers.kafka, "S3": servers.s3, "S3_KEY": "anybody", "S3_SECRET": "of the pipelines alone"},
        changes(),
        "SELECT sensor, degrees FROM warm ORDER BY sensor, degrees",
        "CREATE TABLE warm (sensor STRING, degrees DOUBLE) WITH ('connector' = 'kafka', 'topic' = 'warm', 'format' = 'json', "
        f"'properties.bootstrap.servers' = '{servers.kafka}', 'scan.startup.mode' = 'earliest-offset', "
        "'scan.bounded.mode' = 'latest-offset')",
    )


def _topic(servers: str, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    (made,) = admin.create_topics([NewTopic(name, 2, 1)]).values()
    made.result(60)


PIPELINES: dict[str, Callable[[Servers], Pipeline]] = {
    "postgres_to_iceberg": _postgres_to_iceberg,
    "kafka_to_dashboard": _kafka_to_dashboard,
    "s3_to_kafka": _s3_to_kafka,
}
