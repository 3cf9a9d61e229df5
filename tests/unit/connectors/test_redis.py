"""Redis against a real server: hashes and streams, exactly once whatever is killed, lookups, and entries that are gone."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from connectors.databases.options import Delivering
from connectors.options import TableOptions
from connectors.redis.address import ADDRESS_OPTIONS, read_address
from connectors.redis.commits import RedisCommits, RedisTransactions
from connectors.redis.table import RedisTable
from runtime.core.changelog import INSERT, ChangelogBatch
from runtime.core.errors import ConnectorError, FencedError, SqlEngineError
from runtime.core.schema import Schema
from runtime.core.types import INT, STRING
from sqlengine import TableEnvironment
from sqlengine.testing.connectors import SinkCase, SinkContract, SourceContract, every_value, rows_of, some_epochs
from tests.servers.redis import PASSWORD, RedisServer, hashes
from tests.unit.connectors.database_sinks import SCHEMA, changes, some_upserts

TYPES = (
    "tinyint", "smallint", "int", "bigint", "float", "double", "boolean", "string", "bytes", "date", "decimal", "timestamp",
    "timestamp_ltz",
)  # fmt: skip
_numbers = itertools.count()


def table_of(server: RedisServer, schema: Schema = SCHEMA, **more: Any) -> RedisTable:
    address = read_address(
        TableOptions({"url": server.url, "password": PASSWORD}, "connector 'redis'", ADDRESS_OPTIONS)
    )
    known: dict[str, Any] = {
        "primary_key": ("id",), "name": "t", "address": address, "prefix": f"{server.prefix}{next(_numbers)}:", "stream": "",
        "id_column": None, "starts": "earliest", "ends": "latest", "ttl": 0, "most": 0,
        "delivering": Delivering(True, 1 << 30), "time_zone": "UTC",
    }  # fmt: skip
    return RedisTable(schema, **{**known, **more})


def stream_of(server: RedisServer, schema: Schema = SCHEMA, **more: Any) -> RedisTable:
    return table_of(server, schema, stream=f"{server.prefix}s{next(_numbers)}", primary_key=(), **more)


def written(table: RedisTable, *batches: ChangelogBatch) -> RedisTable:
    transactions = RedisTransactions(table)
    transactions.write(batches)
    transactions.close()
    return table


def filled(server: RedisServer, schema: Schema, rows: list[tuple[Any, ...]]) -> RedisTable:
    columns = [pa.array([row[i] for row in rows], f.type.arrow) for i, f in enumerate(schema)]
    return written(stream_of(server, schema), ChangelogBatch.of(columns, schema))


class TestStream(SourceContract):
    connectors = ("redis",)
    types = TYPES

    @pytest.fixture
    def table(self, redis: RedisServer) -> RedisTable:
        return filled(redis, SCHEMA, [(i, None if i % 3 == 0 else f"n{i}") for i in range(40)])

    @pytest.fixture
    def holding(self, redis: RedisServer) -> Callable[[Schema, list[tuple[Any, ...]]], RedisTable]:
        return lambda schema, rows: filled(redis, schema, rows)

    @pytest.fixture
    def away(self, redis: RedisServer) -> Callable[[], AbstractContextManager[RedisTable]]:
        @contextmanager
        def nobody() -> Iterator[RedisTable]:
            with redis.away():
                yield stream_of(redis)

        return nobody


class TestEntries(SinkContract):
    connectors = ("redis",)
    steps = ((RedisCommits, "last"), (RedisCommits, "commit"), (RedisTransactions, "_transaction"))
    seeds = 2

    @pytest.fixture
    def make(self, redis: RedisServer) -> Callable[[random.Random], SinkCase]:
        def case(rng: random.Random) -> SinkCase:
            table = stream_of(redis)
            return SinkCase(table, lambda: sorted(rows_of(table), key=repr), *some_epochs(rng, SCHEMA, 3))

        return case


class TestHashes(SinkContract):
    """Keys come again, change and go."""

    connectors = ("redis",)
    steps = ((RedisTransactions, "_changes"),)
    seeds = 2

    @pytest.fixture
    def make(self, redis: RedisServer) -> Callable[[random.Random], SinkCase]:
        def case(rng: random.Random) -> SinkCase:
            table = table_of(redis)

            def shown() -> list[Any]:
                found = hashes(redis, table.prefix)
                assert all(key == row["id"] for key, row in found.items())
                return sorted(((int(key), row.get("name")) for key, row in found.items()), key=repr)

            return SinkCase(table, shown, *some_upserts(rng, (None, "")))

        return case


def test_every_type_is_looked_up_as_it_was_written(redis: RedisServer) -> None:
    schema, rows = every_value(TYPES)
    columns = [pa.array([row[i] for row in rows], f.type.arrow) for i, f in enumerate(schema)]
    table = written(table_of(redis, schema, primary_key=(schema.names[0],)), ChangelogBatch.of(columns, schema))
    places, found = table.lookup([schema.names[0]], pa.RecordBatch.from_arrays([columns[0]], names=["k"]))
    assert places.to_pylist() == list(range(len(rows)))
    assert found.to_pylist() == pa.RecordBatch.from_arrays(columns, names=list(schema.names)).to_pylist()


def test_keys_of_several_columns(redis: RedisServer) -> None:
    schema = Schema.of(("a", STRING), ("b", STRING), ("n", INT))
    given = [("x:y", "z", 1), ("x", "y:z", 2), ("100%", "", 3), ("100%3A", "", 4)]
    columns = [pa.array(column, f.type.arrow) for column, f in zip(zip(*given, strict=True), schema, strict=True)]
    table = written(table_of(redis, schema, primary_key=("a", "b")), ChangelogBatch.of(columns, schema))
    assert set(hashes(redis, table.prefix)) == {"x%3Ay:z", "x:y%3Az", "100%25:", "100%253A:"}
    keys = pa.record_batch({"b": ["z", None, "y:z", "nowhere"], "a": ["x:y", "x", "x", "x"]})
    places, found = table.lookup(["b", "a"], keys)
    assert places.to_pylist() == [0, 2] and found.column("n").to_pylist() == [1, 2]
    with pytest.raises(SqlEngineError, match="by its whole key"):
        table.lookup(["a"], keys.select(["a"]))


def test_a_job_from_stream_to_hashes_and_a_lookup(redis: RedisServer) -> None:
    with TableEnvironment.create() as env, redis.connect() as there:
        for i in range(6):
            there.xadd(
                f"{redis.prefix}orders", {"item": i % 3, "pieces": i} if i != 4 else {"item": "none", "pieces": 1}
            )
        env.execute_sql(
            f"CREATE TABLE orders (item INT, pieces INT, id STRING METADATA VIRTUAL) WITH ({redis.options}, "
            f"'stream' = '{redis.prefix}orders', 'scan.bounded.mode' = 'latest')"
        )
        env.execute_sql(
            f"CREATE TABLE totals (item INT PRIMARY KEY NOT ENFORCED, total INT) WITH ({redis.options}, "
            f"'key-prefix' = '{redis.prefix}totals:', 'sink.ttl' = '1 h')"
        )
        env.execute_sql("INSERT INTO totals SELECT item, SUM(pieces) FROM orders GROUP BY item").wait()
        assert hashes(redis, f"{redis.prefix}totals:") == {
            "0": {"item": "0", "total": "3"},
            "1": {"item": "1", "total": "1"},
            "2": {"item": "2", "total": "7"},
        }
        assert 0 < there.pttl(f"{redis.prefix}totals:0") <= 3_600_000
        [rejected] = env.execute_sql("SELECT reason FROM system.rejected").to_arrow().column(0).to_pylist()
        assert "field item is no INT" in rejected
        env.execute_sql("CREATE VIEW asked AS SELECT item, PROCTIME() AS at FROM (VALUES (2), (9)) AS v (item)")
        joined = (
            "SELECT a.item, t.total FROM asked AS a LEFT JOIN totals FOR SYSTEM_TIME AS OF a.at AS t ON t.item = a.item"
        )
        assert sorted(env.execute_sql(joined).to_arrow().to_pylist(), key=str) == [
            {"item": 2, "total": 7},
            {"item": 9, "total": None},
        ]
        with pytest.raises(SqlEngineError, match="not read as a whole"):
            env.execute_sql("SELECT * FROM totals").to_arrow()


def test_an_older_run_is_kept_out(redis: RedisServer) -> None:
    table = stream_of(redis)
    old, new = RedisCommits(table, "job"), RedisCommits(table, "job")
    assert old.last() == 0
    old.commit(1, [changes((INSERT, 1, "a"))])
    assert new.last() == 1
    with pytest.raises(FencedError):
        old.commit(2, [changes((INSERT, 2, "b"))])
    new.commit(2, [changes((INSERT, 3, "c"))])
    assert sorted(rows_of(table)) == [(1, "a"), (3, "c")]
    old.close()
    new.close()


def test_entries_that_are_gone_are_told(redis: RedisServer) -> None:
    table = filled(redis, SCHEMA, [(i, "x") for i in range(10)])
    [split] = table.splits()
    with redis.connect() as there:
        first = there.xrange(table.stream)[3][0]
        there.xtrim(table.stream, maxlen=6, approximate=False)
        position = {"at": {"after": first, "end": there.xrevrange(table.stream)[0][0], "next": 4}, "rows": 0}
        assert len(rows_of(replace(table))) == 6
        from sqlengine.testing.connectors.reading import Context

        reader = table.open(split, Context())
        reader.seek(position)
        there.xtrim(table.stream, maxlen=5, approximate=False)
        with pytest.raises(ConnectorError) as caught:
            while not reader.finished:
                reader.poll(100)
        reader.close()
        assert caught.value.code == "E3243"


def test_a_key_of_another_kind_loses_nothing(redis: RedisServer) -> None:
    table = stream_of(redis)
    with redis.connect() as there:
        there.set(table.stream, "a text")
        with pytest.raises(ConnectorError, match="is a string, and not a stream"):
            written(table, changes((INSERT, 1, "a")))
        assert there.get(table.stream) == "a text"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("'url' = 'redis://h:1?x=y'", "not the address"),
        ("'url' = 'http://h:1'", "not the address"),
        ("'url' = 'redis://h', 'stream' = 's', 'key-prefix' = 'k'", "'key-prefix' is for hashes"),
        ("'url' = 'redis://h', 'sink.max-length' = '3'", "'sink.max-length' is for a stream"),
        ("'url' = 'redis://h', 'steam' = 's'", "unknown option"),
    ],
)
def test_what_is_wrong(options: str, message: str) -> None:
    with TableEnvironment.create() as env, pytest.raises(SqlEngineError, match=message):
        env.execute_sql(f"CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED) WITH ('connector' = 'redis', {options})")
        env.execute_sql("INSERT INTO t VALUES (1)").wait()


def test_no_text_has_the_password(redis: RedisServer) -> None:
    table = table_of(redis)
    assert PASSWORD not in f"{table!r} {table.describe()} {table.place()}"
    wrong = replace(table, address=replace(table.address, password=type(table.address.password)("not this one")))
    with pytest.raises(ConnectorError) as caught:
        written(wrong, changes((INSERT, 1, "a")))
    assert caught.value.code == "E3241" and "not this one" not in str(caught.value)
