"""NATS JetStream against a real server: each message once whatever is killed, and messages that are gone."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pyarrow as pa
import pytest

from connectors.catalogue import standard_registry
from connectors.databases.options import Delivering
from connectors.nats.address import ADDRESS_OPTIONS, read_address
from connectors.nats.commits import NatsCommits, NatsMessages
from connectors.nats.table import NatsTable
from connectors.options import TableOptions
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import ConnectorError, FencedError, SqlEngineError
from runtime.core.schema import Schema
from runtime.core.types import INT, STRING
from sqlengine import TableEnvironment
from sqlengine.testing.connectors import SinkCase, SinkContract, SourceContract, rows_of, some_epochs
from sqlengine.testing.connectors.reading import Context
from tests.servers.nats import PASSWORD, NatsServer

SCHEMA = Schema.of(("id", INT), ("name", STRING))
TYPES = ("int", "bigint", "double", "boolean", "string", "date", "decimal", "timestamp")
_numbers = itertools.count(1)


def table_of(server: NatsServer, schema: Schema = SCHEMA, **more: Any) -> NatsTable:
    """A table of a subject of its own."""
    given = {"url": server.url, "username": "test", "password": PASSWORD}
    known: dict[str, Any] = {
        "primary_key": (), "value": schema, "metadata": (), "name": "t", "stream": server.stream,
        "subject": f"{server.stream}.{next(_numbers)}",
        "address": read_address(TableOptions(given, "connector 'nats'", ADDRESS_OPTIONS)), "starts": "earliest",
        "ends": "latest", "most": 1 << 20, "delivering": Delivering(True, 1 << 30), "time_zone": "UTC",
        "format": standard_registry().format("json", {}),
    }  # fmt: skip
    return NatsTable(**{"schema": schema, **known, **more})


def inserts(*rows: tuple[int, str | None]) -> ChangelogBatch:
    return ChangelogBatch.of([pa.array([r[0] for r in rows], pa.int32()), pa.array([r[1] for r in rows])], SCHEMA)


def filled(server: NatsServer, schema: Schema, rows: list[tuple[Any, ...]]) -> NatsTable:
    table = table_of(server, schema)
    columns = [pa.array([row[i] for row in rows], f.type.arrow) for i, f in enumerate(schema)]
    NatsMessages(table).write([ChangelogBatch.of(columns, schema)])
    return table


class TestStream(SourceContract):
    connectors = ("nats",)
    types = TYPES

    @pytest.fixture
    def table(self, nats: NatsServer) -> NatsTable:
        filled(nats, SCHEMA, [(9, "of another subject")])
        table = filled(nats, SCHEMA, [(i, None if i % 3 == 0 else f"n{i}") for i in range(20)])
        filled(nats, SCHEMA, [(9, "of another subject")])
        return table

    @pytest.fixture
    def holding(self, nats: NatsServer) -> Callable[[Schema, list[tuple[Any, ...]]], NatsTable]:
        return lambda schema, rows: filled(nats, schema, rows)

    @pytest.fixture
    def away(self, nats: NatsServer) -> Callable[[], AbstractContextManager[NatsTable]]:
        @contextmanager
        def nobody() -> Iterator[NatsTable]:
            with nats.away():
                yield table_of(nats)

        return nobody


class TestSink(SinkContract):
    connectors = ("nats",)
    steps = ((NatsCommits, "last"), (NatsCommits, "commit"), (NatsCommits, "_send_rows"), (NatsCommits, "_keep"))
    seeds = 2

    @pytest.fixture
    def make(self, nats: NatsServer) -> Callable[[random.Random], SinkCase]:
        def case(rng: random.Random) -> SinkCase:
            table = table_of(nats)
            return SinkCase(table, lambda: sorted(rows_of(table), key=repr), *some_epochs(rng, SCHEMA, 3))

        return case


def test_a_commit_that_was_cut_short_goes_on(nats: NatsServer) -> None:
    table = table_of(nats)
    rows = [inserts((1, "a"), (2, "b")), inserts((3, "c"), (4, None))]
    first = NatsCommits(table, "job")
    assert first.last() == 0
    first.commit(1, [inserts((0, "0"))])

    async def some(client: Any) -> None:
        await first._send(client, rows, f"{first._key};2", frozenset({1, 3}))

    from connectors.nats.address import at_server

    at_server(table.address, "t", some)
    second = NatsCommits(table, "job")
    assert second.last() == 1
    with pytest.raises(FencedError):
        first.commit(2, rows)
    second.commit(2, rows)
    assert sorted(rows_of(table)) == [(0, "0"), (1, "a"), (2, "b"), (3, "c"), (4, None)]
    assert NatsCommits(table, "job").last() == 2


def test_messages_that_are_gone_are_told(nats: NatsServer) -> None:
    table = filled(nats, SCHEMA, [(i, "x") for i in range(10)])
    nats.run(lambda stream: stream.purge_stream(nats.stream, keep=4))
    assert [row[0] for row in rows_of(table)] == [6, 7, 8, 9]
    [split] = table.splits()
    reader = table.open(split, Context())
    reader.seek({"at": {"after": 3, "end": 10}, "rows": 0})
    with pytest.raises(ConnectorError) as caught:
        while not reader.finished:
            reader.poll(100)
    reader.close()
    assert caught.value.code == "E3246"


def test_a_job_from_subject_to_subject(nats: NatsServer) -> None:
    subject = f"{nats.stream}.orders"
    nats.publish(f"{subject}.eu", b'{"item": 1, "pieces": 3}', b'{"item": 1, "pieces": 4}', b"no json")
    nats.publish(f"{subject}.us", b'{"item": 2, "pieces": 5}')
    with TableEnvironment.create() as env:
        env.execute_sql(
            f"CREATE TABLE orders (item INT, pieces INT, subject STRING METADATA VIRTUAL, `sequence` BIGINT METADATA VIRTUAL) "
            f"WITH ({nats.options}, 'stream' = '{nats.stream}', 'subject' = '{subject}.*', 'format' = 'json', "
            "'json.ignore-parse-errors' = 'true', 'scan.bounded.mode' = 'latest')"
        )
        env.execute_sql(
            f"CREATE TABLE large (item INT, place STRING) WITH ({nats.options}, 'stream' = '{nats.stream}', "
            f"'subject' = '{nats.stream}.large', 'format' = 'json', 'scan.bounded.mode' = 'latest')"
        )
        found = env.execute_sql("SELECT pieces, subject, `sequence` FROM orders").to_arrow().to_pylist()
        assert [tuple(row.values()) for row in found] == [
            (3, f"{subject}.eu", 1),
            (4, f"{subject}.eu", 2),
            (5, f"{subject}.us", 4),
        ]
        assert len(env.execute_sql("SELECT * FROM system.rejected").to_arrow()) == 1
        env.execute_sql("INSERT INTO large SELECT item, subject FROM orders WHERE pieces > 3").wait()
        assert sorted(env.execute_sql("SELECT item FROM large").to_arrow().column(0).to_pylist()) == [1, 2]

    async def newest(stream: Any) -> Any:
        return json.loads((await stream.get_last_msg(nats.stream, f"{nats.stream}.large")).data)

    assert nats.run(newest) == {"item": 2, "place": f"{subject}.us"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("'url' = 'http://h', 'stream' = 's', 'subject' = 'a'", "not the address"),
        ("'url' = 'nats://h,tls://i', 'stream' = 's', 'subject' = 'a'", "not the address"),
        ("'url' = 'nats://h', 'stream' = 'a.b', 'subject' = 'a'", "no name of a stream"),
        ("'url' = 'nats://h', 'stream' = 's', 'subject' = 'a.*'", "without wildcards"),
        ("'url' = 'nats://h', 'stream' = 's', 'subjects' = 'a'", "unknown option"),
    ],
)
def test_what_is_wrong(options: str, message: str) -> None:
    with TableEnvironment.create() as env, pytest.raises(SqlEngineError, match=message):
        env.execute_sql(f"CREATE TABLE t (id INT) WITH ('connector' = 'nats', 'format' = 'json', {options})")
        env.execute_sql("INSERT INTO t VALUES (1)").wait()


def test_who_may_not_is_told_without_the_password(nats: NatsServer) -> None:
    table = table_of(nats)
    assert PASSWORD not in f"{table!r} {table.describe()} {table.place()}"
    given = {"url": nats.url, "username": "test", "password": "not this one"}
    wrong = table_of(nats, address=read_address(TableOptions(given, "connector 'nats'", ADDRESS_OPTIONS)))
    with pytest.raises(ConnectorError) as caught:
        NatsMessages(wrong).write([inserts((1, "a"))])
    assert caught.value.code == "E3245" and "not this one" not in str(caught.value)
