"""ClickHouse against a stand-in for its interface, or the server that `CLICKHOUSE_URL` names: rows once, whatever is killed."""

from __future__ import annotations

import datetime
import itertools
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from connector_tables import REGISTRY

from connectors.clickhouse.columns import spelled
from connectors.clickhouse.commits import ClickHouseCommits, ClickHouseRows
from connectors.clickhouse.described import COMMITS
from connectors.clickhouse.server import Server
from connectors.clickhouse.table import ClickHouseTable
from runtime.core.changelog import APPEND, DELETE, INSERT, RETRACT, UPDATE_AFTER, UPDATE_BEFORE, ChangelogBatch
from runtime.core.errors import ConnectorError, FencedError, SqlEngineError
from runtime.core.options import Options
from runtime.core.schema import Schema
from runtime.core.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    INT,
    SMALLINT,
    STRING,
    DataType,
    array,
    decimal,
    timestamp,
    timestamp_ltz,
)
from runtime.expr.nodes import Call, InputRef, Literal
from runtime.spi.abilities import AskedAggregate
from runtime.spi.registry import TableRequest
from sqlengine import TableEnvironment
from sqlengine.testing.connectors import SinkCase, SinkContract, SourceContract, read_all, rows_of, some_epochs
from sqlengine.testing.connectors.sources import check_resumes_from_every_position
from tests.servers.clickhouse import ClickHouse
from tests.servers.web import Reply
from tests.unit.connectors.database_sinks import SCHEMA, changes, inserts, some_upserts

TYPES = (
    "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal", "long_decimal", "string", "bytes",
    "timestamp_ltz",
)  # fmt: skip
_numbers = itertools.count(1)
_KEYED = "ReplacingMergeTree(version, is_deleted) ORDER BY id"
_ADDED = "MergeTree ORDER BY tuple() SETTINGS non_replicated_deduplication_window = 100"


def made(
    there: ClickHouse,
    schema: Schema = SCHEMA,
    key: tuple[str, ...] = (),
    engine: str = "",
    columns: str = "",
    more: str = "",
    **options: str,
) -> ClickHouseTable:
    """A new table, and what is declared of it. `columns`: there, in place of those of the schema; `more`: beside them."""
    name = f"t{next(_numbers)}"
    own = columns or ", ".join(f"{f.name} {spelled(f.type.with_nullable(f.name not in (*key, 'id')))}" for f in schema)
    if key and not engine:
        more += ", version UInt64, is_deleted UInt8"
    there.run(f"DROP TABLE IF EXISTS {name}", f"DROP TABLE IF EXISTS {COMMITS}")
    there.run(f"CREATE TABLE {name} ({own}{more}) ENGINE = {engine or (_KEYED if key else _ADDED)}")
    return declared(there, name, schema, key, **options)


def declared(
    there: ClickHouse, name: str, schema: Schema, key: tuple[str, ...] = (), **options: str
) -> ClickHouseTable:
    factory = REGISTRY.connectors.get("clickhouse").sink
    assert factory is not None
    given = {"url": there.url, "table-name": name, **options}
    table = factory(TableRequest("t", schema, key, given, Options({}), registry=REGISTRY))
    assert isinstance(table, ClickHouseTable)
    return table


def batch_of(schema: Schema, rows: list[tuple[Any, ...]]) -> ChangelogBatch:
    return ChangelogBatch.of([pa.array([row[i] for row in rows], f.type.arrow) for i, f in enumerate(schema)], schema)


def filled(
    there: ClickHouse, schema: Schema, rows: list[tuple[Any, ...]], engine: str = "MergeTree ORDER BY id"
) -> ClickHouseTable:
    table = made(there, schema, engine=engine)
    ClickHouseRows(table).write([batch_of(schema, rows)])
    return table


class TestSource(SourceContract):
    connectors = ("clickhouse",)
    types = TYPES

    @pytest.fixture
    def table(self, clickhouse: ClickHouse) -> ClickHouseTable:
        rows = [(i, None if i % 3 == 0 else ("it's", "b\\c", "")[i % 3] * (i % 4)) for i in range(8)]
        return filled(clickhouse, SCHEMA, rows)

    @pytest.fixture
    def holding(self, clickhouse: ClickHouse) -> Callable[[Schema, list[tuple[Any, ...]]], ClickHouseTable]:
        return lambda schema, rows: filled(clickhouse, schema, rows)

    @pytest.fixture
    def away(self, clickhouse: ClickHouse) -> Callable[[], AbstractContextManager[ClickHouseTable]]:
        @contextmanager
        def nobody() -> Iterator[ClickHouseTable]:
            table = declared(clickhouse, "t", SCHEMA)
            gone = Server("http://127.0.0.1:9", "default", table.server.way)
            yield ClickHouseTable(**{**vars(table), "server": gone})

        return nobody


def test_rows_in_no_order(clickhouse: ClickHouse) -> None:
    """Without a sorting key that rows can be gone on with: they are counted."""
    schema = Schema.of(("id", BIGINT), ("d", DATE), ("t", timestamp(6)))
    days = [datetime.date(2024, 2, 20 + i) if i < 3 else None for i in range(5)]
    times = [datetime.datetime(1950, 1, 1, 0, 0, 0, i) if i < 4 else None for i in range(5)]
    rows = list(zip((4, 3, 2, 1, 0), days, times, strict=True))
    table = filled(clickhouse, schema, rows, "MergeTree ORDER BY tuple()")
    assert rows_of(table) == rows[::-1]
    check_resumes_from_every_position(table)
    time = Literal(times[1], timestamp(6).not_null())
    filtered, left = table.with_filters([Call(">", (InputRef(2, timestamp(6)), time), BOOLEAN)])
    assert not left and rows_of(filtered) == [rows[3], rows[2]]


class TestSink(SinkContract):
    connectors = ("clickhouse",)
    steps = ((ClickHouseCommits, "last"), (ClickHouseCommits, "_insert"), (ClickHouseCommits, "_keep"))
    seeds = 1

    @pytest.fixture
    def make(self, clickhouse: ClickHouse) -> Callable[[random.Random], SinkCase]:
        def case(rng: random.Random) -> SinkCase:
            table = made(clickhouse, **{"sink.batch-size": "3"})
            query = f"SELECT id, name FROM {table.table}"
            return SinkCase(table, lambda: sorted(clickhouse.rows(query), key=repr), *some_epochs(rng, SCHEMA, 2))

        return case


class TestUpserts(SinkContract):
    """Keys come again, change and go."""

    connectors = ("clickhouse",)
    steps = ((ClickHouseCommits, "_insert"),)
    seeds = 1

    @pytest.fixture
    def make(self, clickhouse: ClickHouse) -> Callable[[random.Random], SinkCase]:
        def case(rng: random.Random) -> SinkCase:
            table = made(clickhouse, key=("id",))
            query = f"SELECT id, name FROM {table.table} FINAL"
            epochs, expected = some_upserts(rng)
            return SinkCase(table, lambda: sorted(clickhouse.rows(query), key=repr), epochs[:2], expected)

        return case


def test_signs(clickhouse: ClickHouse) -> None:
    """Changes of rows without a key, and a sum over them."""
    engine = "CollapsingMergeTree(sign) ORDER BY id SETTINGS non_replicated_deduplication_window = 100"
    table = made(clickhouse, engine=engine, more=", sign Int8", **{"sink.sign-column": "sign"})
    assert table.accepts(RETRACT) == RETRACT and table.accepts(APPEND) == APPEND
    commits = ClickHouseCommits(table, "job")
    assert commits.last() == 0
    commits.commit(1, [changes((INSERT, 1, "a"), (INSERT, 2, "b")), changes((DELETE, 2, "b"))])
    commits.commit(2, [changes((UPDATE_BEFORE, 1, "a"), (UPDATE_AFTER, 1, "A"))])
    assert clickhouse.rows(
        f"SELECT id, name, sum(sign) AS n FROM {table.table} GROUP BY id, name HAVING n > 0 ORDER BY id"
    ) == [(1, "A", 1)]
    assert rows_of(table) == [(1, "A")]


def test_a_commit_that_was_cut_short_is_written_again(clickhouse: ClickHouse) -> None:
    table = made(clickhouse, **{"sink.batch-size": "2"})
    rows = [inserts((1, "a"), (1, "a"), (2, None)), inserts((3, "c"), (4, "d"))]
    first = ClickHouseCommits(table, "job")
    assert first.last() == 0
    with pytest.raises(ConnectorError, match=r"E3162.*more than 1 inserts"):
        first._write(rows, f"{first._id}-1", 0, 1)
    assert len(clickhouse.rows(f"SELECT id FROM {table.table}")) == 2
    second = ClickHouseCommits(table, "job")
    assert second.last() == 0
    with pytest.raises(FencedError):
        first.commit(1, [inserts((8, "late"))])
    second.commit(1, rows)
    second._write_rows(1, rows)
    assert sorted(rows_of(table), key=repr) == sorted([(1, "a"), (1, "a"), (2, None), (3, "c"), (4, "d")], key=repr)
    # The same rows in another commit are other rows.
    second.commit(2, rows)
    assert len(rows_of(table)) == 10
    assert ClickHouseCommits(table, "job").last() == 2


def test_another_sink_of_a_key_is_newer(clickhouse: ClickHouse) -> None:
    table = made(clickhouse, key=("id",))
    one, other = ClickHouseCommits(table, "one"), ClickHouseCommits(table, "other")
    assert one.last() == 0
    for number in (1, 2):
        one.commit(number, [inserts((1, f"one {number}"))])
    assert other.last() == 0
    other.commit(1, [inserts((1, "other")), changes((DELETE, 7, None))])
    assert rows_of(table) == [(1, "other")]
    ClickHouseRows(table).write([inserts((1, "now"))])
    assert rows_of(table) == [(1, "now")]


def test_rows_of_keys(clickhouse: ClickHouse) -> None:
    schema = Schema.of(("id", INT), ("s", STRING), ("n", BIGINT))
    table = filled(clickhouse, schema, [(1, "x", 10), (1, "y'", 11), (2, "x", 12), (1, "x", 13)])
    keys = pa.record_batch({"id": pa.array([2, 1, 1, 3, 1], pa.int32()), "s": ["x", "x", None, "x", "y'"]})
    places, rows = table.lookup(["id", "s"], keys)
    found = sorted(zip(places.to_pylist(), rows.column(2).to_pylist(), strict=True))
    assert found == [(0, 12), (1, 10), (1, 13), (4, 11)]
    with pytest.raises(ConnectorError, match="E3164"):
        made(clickhouse, Schema.of(("id", INT), ("x", decimal(5, 2)))).lookup(
            ["x"], pa.record_batch({"x": [Decimal("1.00")]})
        )


def test_reading_goes_on_behind_the_same_key(clickhouse: ClickHouse) -> None:
    """Of rows with one key, and while others are added before and behind."""
    schema = Schema.of(("id", INT), ("n", INT))
    rows = [(i // 5, i) for i in range(20)]
    table = filled(clickhouse, schema, rows)
    found = list(table.fetched([[b"1".hex()], 3, 8], threading.Event()))
    assert [row for fetched in found for row in fetched.rows.to_pylist()] == [
        {"id": i // 5, "n": i} for i in range(8, 20)
    ]
    assert found[-1].after == [[b"3".hex()], 5, 20]


_TIME = datetime.datetime(2024, 1, 1, 12, 30, 1, 250000)


@pytest.mark.parametrize(
    ("there", "type_", "values"),
    [
        ("UInt64", decimal(20, 0), [Decimal(2**64 - 1), Decimal(0)]),
        ("UInt8", SMALLINT, [255, 0]),
        ("LowCardinality(Nullable(String))", STRING, ["a", None]),
        ("Enum8('a' = 1, 'it''s' = 2)", STRING, ["a", "a"]),
        ("UUID", STRING, ["61f0c404-5cb3-11e7-907b-a6006ad3dba0"]),
        ("FixedString(2)", STRING, ["ab"]),
        ("Date", DATE, [datetime.date(1970, 1, 1), datetime.date(2149, 6, 6)]),
        ("Date32", DATE, [datetime.date(1900, 1, 1), datetime.date(2299, 12, 31)]),
        ("DateTime", timestamp(0), [datetime.datetime(2024, 1, 1, 12)]),
        ("DateTime64(3, 'Europe/Berlin')", timestamp(3), [_TIME]),
        ("DateTime64(6)", timestamp_ltz(6), [_TIME.replace(tzinfo=datetime.UTC)]),
        ("DateTime64(9)", timestamp(6), [_TIME]),
        ("Array(Nullable(Int32))", array(INT).not_null(), [[1, None], []]),
        ("Array(String)", array(STRING.not_null()).not_null(), [["x", ""]]),
        ("Array(UInt64)", array(decimal(20, 0)).not_null(), [[Decimal(2**64 - 1)]]),
    ],
)  # fmt: skip
def test_types_there(clickhouse: ClickHouse, there: str, type_: DataType, values: list[Any]) -> None:
    schema = Schema.of(("id", INT), ("v", type_))
    table = made(clickhouse, schema, columns=f"id Int32, v {there}", engine="MergeTree ORDER BY id")
    rows = list(enumerate(values))
    ClickHouseRows(table).write([batch_of(schema, rows)])
    assert rows_of(table) == rows
    assert (
        table.lookup(["id"], pa.record_batch({"id": pa.array([0], pa.int32())}))[1].column(1).to_pylist() == values[:1]
    )


@pytest.mark.parametrize(
    ("there", "type_", "value"),
    [
        ("Int8", INT, 1000), ("UInt64", BIGINT, -1), ("Int32", INT, None), ("Decimal(4, 2)", decimal(10, 2), Decimal("123.45")),
        ("Date", DATE, datetime.date(1969, 12, 31)), ("Date32", DATE, datetime.date(1899, 12, 31)),
        ("DateTime64(6)", timestamp(6), datetime.datetime(2300, 1, 1)), ("DateTime", timestamp(0), datetime.datetime(1950, 1, 1)),
        ("Array(Int32)", array(INT), None), ("Array(Int32)", array(INT).not_null(), [None]), ("FixedString(2)", STRING, "a"),
    ],
)  # fmt: skip
def test_values_that_do_not_fit(clickhouse: ClickHouse, there: str, type_: DataType, value: Any) -> None:
    """ClickHouse would make other ones of them."""
    schema = Schema.of(("id", INT), ("v", type_))
    table = made(clickhouse, schema, columns=f"id Int32, v {there}", engine="MergeTree ORDER BY id")
    with pytest.raises(ConnectorError, match="E3162 column v of"):
        ClickHouseRows(table).write([batch_of(schema, [(1, value)])])
    assert clickhouse.rows(f"SELECT id FROM {table.table}") == []


def test_values_that_cannot_be_read(clickhouse: ClickHouse) -> None:
    table = made(clickhouse, columns="id Int64, name Nullable(String)", engine="MergeTree ORDER BY id")
    clickhouse.run(f"INSERT INTO {table.table} SELECT 5000000000, 'x'")
    with pytest.raises(SqlEngineError, match="E3164 column id of"):
        rows_of(table)
    summed = table.with_aggregates((), (AskedAggregate("SUM", "id", INT),))
    assert summed is not None
    with pytest.raises(SqlEngineError, match="E3164 column id of"):
        read_all(summed)


@pytest.mark.parametrize(
    ("key", "engine", "more", "told"),
    [
        (("id",), _ADDED, "", "do not replace each other"),
        (("name",), "ReplacingMergeTree(version) ORDER BY id", ", version UInt64", r"by \(id\) there"),
        (("id",), "ReplacingMergeTree(version) ORDER BY id", ", version UInt32", "is the engine's"),
        ((), "MergeTree ORDER BY id", "", "deduplication window is 0"),
        (
            (),
            "MergeTree ORDER BY id PARTITION BY id SETTINGS non_replicated_deduplication_window = 99",
            "",
            "window is 99",
        ),
        ((), "CollapsingMergeTree(sign) ORDER BY id", ", sign Int8", "wants a sign"),
    ],
)
def test_tables_that_cannot_be_written(clickhouse: ClickHouse, key: Any, engine: str, more: str, told: str) -> None:
    table = made(clickhouse, SCHEMA, key, engine, more=more)
    with pytest.raises(ConnectorError, match=f"E3163.*{told}"):
        ClickHouseCommits(table, "job").last()


def test_deletes_that_the_engine_does_not_know(clickhouse: ClickHouse) -> None:
    table = made(clickhouse, SCHEMA, ("id",), "ReplacingMergeTree(version) ORDER BY id", more=", version UInt64")
    rows = ClickHouseRows(table)
    rows.write([inserts((1, "a"))])
    rows.write([inserts((1, "b"))])
    with pytest.raises(ConnectorError, match="E3162.*knows no deletes"):
        rows.write([changes((DELETE, 1, None))])
    assert rows_of(table) == [(1, "b")]
    with pytest.raises(ConnectorError, match="E3162.*added alone"):
        ClickHouseRows(made(clickhouse)).write([changes((DELETE, 1, None))])


def test_versions_of_the_query(clickhouse: ClickHouse) -> None:
    """Of a column of versions that is declared the greatest counts; a row that is deleted has none."""
    schema = Schema.of(("id", INT), ("v", decimal(20, 0)))
    table = made(
        clickhouse, schema, ("id",), "ReplacingMergeTree(v, gone) ORDER BY id", "id Int32, v UInt64, gone UInt8"
    )
    rows = ClickHouseRows(table)
    rows.write([batch_of(schema, [(1, Decimal(9))])])
    rows.write([batch_of(schema, [(1, Decimal(8))])])
    with pytest.raises(ConnectorError, match="E3162.*not of which version"):
        rows.write([ChangelogBatch(batch_of(schema, [(1, Decimal(9))]).rows, np.array([DELETE], np.int8))])
    assert rows_of(table) == [(1, Decimal(9))]


def test_times_in_the_key(clickhouse: ClickHouse) -> None:
    """An hour that comes twice, in autumn, is two hours."""
    schema = Schema.of(("t", timestamp_ltz(0)), ("id", INT))
    table = made(
        clickhouse, schema, columns="t DateTime('Europe/Berlin'), id Int32", engine="MergeTree ORDER BY (t, id)"
    )
    hours = [
        datetime.datetime(2024, 10, 26, 22 + i, tzinfo=datetime.UTC)
        if i < 2
        else datetime.datetime(2024, 10, 27, i - 2, tzinfo=datetime.UTC)
        for i in range(5)
    ]
    ClickHouseRows(table).write([batch_of(schema, [(hour, i) for i, hour in enumerate(hours)])])
    check_resumes_from_every_position(table)


def test_columns_that_are_others(clickhouse: ClickHouse) -> None:
    made_there = made(clickhouse)
    for schema, told in (
        (Schema.of(("id", INT), ("nam", STRING)), "did you mean"),
        (Schema.of(("id", DATE)), "is Int32 there, which cannot be read as DATE"),
    ):
        with pytest.raises(ConnectorError, match=f"E3163.*{told}"):
            rows_of(declared(clickhouse, made_there.table, schema))
    with pytest.raises(ConnectorError, match='E3163 there is no table "nobody"'):
        rows_of(declared(clickhouse, "nobody", SCHEMA))


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (500, b"Code: 202. DB::Exception: Too many simultaneous queries. (TOO_MANY)", "E3150"),
        (503, b"", "E3150"),
        (500, b"Code: 516. DB::Exception: me: Authentication failed (AUTHENTICATION_FAILED) (version 25.8)", "E3161"),
        (404, b"nothing is here", "E3161"),
        (200, b"\xff\xff\xff\xff", "E3150"),
        (200, b"Code: 241. DB::Exception: Memory limit exceeded", "E3150"),
        (200, b"Code: 307. DB::Exception: Limit for bytes to read exceeded", "E3161"),
    ],
)
def test_what_a_server_says(status: int, body: bytes, code: str, clickhouse: ClickHouse) -> None:
    if clickhouse.web is None:
        return
    clickhouse.web.answer = lambda request: Reply(status, body)
    with pytest.raises(ConnectorError) as caught:
        declared(clickhouse, "t", SCHEMA).server.asked("SELECT 1")
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"url": "postgresql://h/"}, "not the address of a database of ClickHouse"),
        ({"url": "http://h/?query=x"}, "parameter 'query'"),
        ({"password": "a\nb", "username": "u"}, "cannot be sent"),
        ({"sink.batch-size": "0"}, "from 1 to"),
        ({"sink.sign-column": "id"}, "do not declare it"),
        ({"tabel-name": "x"}, 'did you mean "table-name"'),
    ],
)
def test_options(options: dict[str, str], told: str) -> None:
    with pytest.raises(SqlEngineError) as caught:
        declared(ClickHouse("http://h", None), "t", SCHEMA, **options)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    "url", ["clickhouse://h/shop", "jdbc:clickhouse://h:8123/shop", "jdbc:ch:https://h/shop", "https://h"]
)
def test_addresses(url: str) -> None:
    table = declared(ClickHouse("http://h", None), "t", SCHEMA, url=url, username="me", password="zq9Secret")
    assert table.server.url == ("https://h:8443" if "https" in url else "http://h:8123")
    assert table.names == ("shop" if "shop" in url else "default", "t")
    assert "zq9Secret" not in f"{table!r} {table.describe()} {table.place()}"


def test_a_job_of_all(clickhouse: ClickHouse) -> None:
    """A catalog: tables that are made, written by key, read with conditions and groups, looked up, and described."""
    clickhouse.run("DROP DATABASE IF EXISTS shop", "CREATE DATABASE shop")
    with TableEnvironment.create() as env:
        env.execute_script(
            f"CREATE CATALOG ch WITH ('type' = 'clickhouse', 'url' = '{clickhouse.url}'); "
            "CREATE TABLE ch.shop.items (id INT, name STRING COMMENT 'a name', n BIGINT, PRIMARY KEY (id) NOT ENFORCED); "
            "CREATE TABLE ch.shop.seen (id INT, d DATE); "
            "CREATE TABLE orders (id INT, at AS PROCTIME()) WITH ('changelog-mode' = 'append');"
            "INSERT INTO orders VALUES (1), (3), (9);"
        )
        assert [tuple(r) for r in env.execute_sql("SHOW TABLES IN ch.shop")] == [("items",), ("seen",)]
        env.execute_sql("INSERT INTO ch.shop.items VALUES (1, 'a', 5), (2, 'b', 6), (3, 'c', NULL), (1, 'A', 7)").wait()
        env.execute_sql(
            "INSERT INTO ch.shop.seen VALUES (1, DATE '2024-01-01'), (1, DATE '2024-01-02'), (2, NULL)"
        ).wait()
        assert sorted(tuple(r) for r in env.execute_sql("SELECT id, n FROM ch.shop.items WHERE n > 5 OR n IS NULL")) == [
            (1, 7), (2, 6), (3, None),
        ]  # fmt: skip
        grouped = "SELECT id, COUNT(*), MAX(d) FROM ch.shop.seen WHERE d >= DATE '2024-01-01' GROUP BY id"
        assert "aggregates=" in str(env.explain_sql(grouped))
        assert [tuple(r) for r in env.execute_sql(grouped)] == [(1, 2, datetime.date(2024, 1, 2))]
        joined = env.execute_sql(
            "SELECT o.id, i.name FROM orders AS o LEFT JOIN ch.shop.items FOR SYSTEM_TIME AS OF o.at AS i ON i.id = o.id"
        )
        assert sorted(tuple(r) for r in joined) == [(1, "A"), (3, "c"), (9, None)]
        env.execute_sql(
            f"CREATE TABLE found WITH ('connector' = 'clickhouse', 'url' = '{clickhouse.url}', 'table-name' = 'shop.items')"
        )
        assert [tuple(r)[:2] for r in env.execute_sql("DESCRIBE found")] == [
            ("id", "INT"),
            ("name", "STRING"),
            ("n", "BIGINT"),
        ]
        with pytest.raises(SqlEngineError, match="E1627"):
            env.execute_sql("CREATE TABLE ch.shop.timed (t TIME)")
        env.execute_sql("DROP TABLE ch.shop.seen")
        assert [tuple(r) for r in env.execute_sql("SHOW TABLES IN ch.shop")] == [("items",)]
