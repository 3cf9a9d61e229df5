"""The systems that are read and written exactly once, each as a table of two columns that a job fills or reads."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.servers.s3 import Bucket

__all__ = ["CONNECTORS", "SYSTEMS", "PairTable", "fresh_names"]

_numbers = itertools.count(1)
_COLUMNS = "(id INT, n INT)"


@dataclass(frozen=True)
class PairTable:
    """A table that is empty at first.

    Args:
        name: in statements.
        declared: what each session says that uses it.
        made: what is said once, when it is declared for the first time.
    """

    name: str
    declared: str
    made: str = ""


def _with(name: str, options: str) -> PairTable:
    return PairTable(name, f"CREATE TABLE {name} {_COLUMNS} WITH ({options});")


def _files(request: pytest.FixtureRequest, folder: Path, name: str) -> PairTable:
    return _with(name, f"'connector' = 'filesystem', 'path' = '{folder}/{name}', 'format' = 'json'")


def _parquet(request: pytest.FixtureRequest, folder: Path, name: str) -> PairTable:
    return _with(name, f"'connector' = 'filesystem', 'path' = '{folder}/{name}', 'format' = 'parquet'")


def _s3(request: pytest.FixtureRequest, folder: Path, name: str) -> PairTable:
    bucket = Bucket.made(request.getfixturevalue("s3_endpoint"), name.replace("_", "-"))
    more = ", ".join(f"'{key}' = '{value}'" for key, value in bucket.options.items())
    return _with(name, f"'connector' = 'filesystem', 'path' = 's3://{bucket.name}/rows', 'format' = 'json', {more}")


def _kafka(request: pytest.FixtureRequest, folder: Path, name: str) -> PairTable:
    servers = request.getfixturevalue("kafka_servers")
    admin = AdminClient({"bootstrap.servers": servers})
    (made,) = admin.create_topics([NewTopic(name, 2, 1)]).values()
    made.result(60)
    return _with(
        name,
        f"'connector' = 'kafka', 'topic' = '{name}', 'format' = 'json', 'properties.bootstrap.servers' = '{servers}', "
        "'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset', "
        f"'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = '{name}', "
        "'properties.fetch.wait.max.ms' = '10'",
    )


def _postgres(request: pytest.FixtureRequest, folder: Path, name: str) -> PairTable:
    postgres = request.getfixturevalue("postgres")
    postgres.run(f"CREATE TABLE {name} {_COLUMNS}")
    return _with(name, f"'connector' = 'postgres', 'table-name' = '{name}', {postgres.options}")


def _mysql(request: pytest.FixtureRequest, folder: Path, name: str) -> PairTable:
    mariadb = request.getfixturevalue("mariadb")
    mariadb.run(f"CREATE TABLE {name} (id INT PRIMARY KEY, n INT)")
    return _with(name, f"'connector' = 'mysql', 'table-name' = '{name}', {mariadb.options}")


def _sqlite(request: pytest.FixtureRequest, folder: Path, name: str) -> PairTable:
    path = folder / f"{name}.db"
    with closing(sqlite3.connect(path)) as made:
        made.execute(f"CREATE TABLE {name} {_COLUMNS}")
        made.commit()
    return _with(name, f"'connector' = 'sqlite', 'path' = '{path}', 'table-name' = '{name}'")


def _redis(request: pytest.FixtureRequest, folder: Path, name: str) -> PairTable:
    return _with(
        name, f"{request.getfixturevalue('redis').options}, 'stream' = '{name}', 'scan.bounded.mode' = 'latest'"
    )


def _nats(request: pytest.FixtureRequest, folder: Path, name: str) -> PairTable:
    server = request.getfixturevalue("nats")
    server.make_stream(name)
    return _with(
        name,
        f"{server.options}, 'stream' = '{name}', 'subject' = '{name}.rows', 'format' = 'json', "
        "'scan.bounded.mode' = 'latest'",
    )


def _mongodb(request: pytest.FixtureRequest, folder: Path, name: str) -> PairTable:
    return _with(name, f"{request.getfixturevalue('mongodb').options}, 'collection' = '{name}'")


def _clickhouse(request: pytest.FixtureRequest, folder: Path, name: str) -> PairTable:
    there = request.getfixturevalue("clickhouse")
    there.run(
        f"DROP TABLE IF EXISTS {name}",
        f"CREATE TABLE {name} (id Int32, n Int32) ENGINE = MergeTree ORDER BY id SETTINGS non_replicated_deduplication_window = 1000",
    )
    return _with(name, f"'connector' = 'clickhouse', 'url' = '{there.url}', 'table-name' = '{name}'")


def _iceberg(request: pytest.FixtureRequest, folder: Path, name: str) -> PairTable:
    return _in_catalog(
        name, f"'type' = 'iceberg', 'catalog-type' = 'hadoop', 'warehouse' = '{folder}/{name}_warehouse'"
    )


def _delta(request: pytest.FixtureRequest, folder: Path, name: str) -> PairTable:
    return _in_catalog(name, f"'type' = 'delta', 'path' = '{folder}/{name}_delta'")


def _in_catalog(name: str, options: str) -> PairTable:
    catalog = f"{name}_lake"
    return PairTable(
        f"{catalog}.db.rows_of",
        f"CREATE CATALOG {catalog} WITH ({options});",
        f"CREATE DATABASE {catalog}.db; CREATE TABLE {catalog}.db.rows_of {_COLUMNS};",
    )


SYSTEMS: dict[str, Callable[[pytest.FixtureRequest, Path, str], PairTable]] = {
    "files": _files,
    "parquet": _parquet,
    "s3": _s3,
    "kafka": _kafka,
    "postgres": _postgres,
    "mysql": _mysql,
    "sqlite": _sqlite,
    "redis": _redis,
    "nats": _nats,
    "mongodb": _mongodb,
    "clickhouse": _clickhouse,
    "iceberg": _iceberg,
    "delta": _delta,
}


CONNECTORS = {"files": "filesystem", "parquet": "filesystem", "s3": "filesystem"}
"""Of systems that are called otherwise than their connector."""


def fresh_names() -> Iterator[str]:
    """Names that no other table of this run has."""
    return (f"pair_{number}" for number in _numbers)
