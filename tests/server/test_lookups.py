"""Point lookups: rows by key, answered as they arrive, always as of the last statement."""

from __future__ import annotations

import asyncio
import datetime as dt
import random
from decimal import Decimal

import asyncpg
import psycopg
import pyarrow as pa
import pytest

from sqlengine.server.postgres.encoding import encoded
from sqlengine.server.postgres.one_by_one import messages_of
from sqlengine.server.postgres.types import ARRAYS, TYPES, Described
from tests.server.conftest import Address
from tests.server.wire_client import WireClient, message

BY_ID = "SELECT name, n FROM t WHERE id = %s"


@pytest.fixture
def table(client: psycopg.Connection) -> psycopg.Connection:
    client.execute("CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED, name STRING, n DECIMAL(8, 2))")
    client.execute("INSERT INTO t VALUES (1, 'a', 1.5), (2, 'b', NULL), (3, NULL, 3)")
    client.execute("CREATE MATERIALIZED VIEW v AS SELECT name, COUNT(*) AS n FROM t GROUP BY name")
    return client


def _warm(client: psycopg.Connection, query: str, *values: object) -> None:
    """So often that the next time is a lookup."""
    for _ in range(5):
        client.execute(query, values, prepare=True).fetchall()


def test_sees_every_change(table: psycopg.Connection, address: Address) -> None:
    _warm(table, BY_ID, 1)
    _warm(table, "SELECT * FROM v WHERE name = %s", "a")
    with address.connect() as other:
        for i in range(30):
            (other if i % 2 else table).execute("INSERT INTO t VALUES (%s, 'a', %s)", (i, i))
            assert table.execute(BY_ID, (i,)).fetchall() == [("a", Decimal(i))]
            count = table.execute("SELECT COUNT(*) FROM t WHERE name = 'a'").fetchone()
            assert table.execute("SELECT * FROM v WHERE name = %s", ("a",)).fetchall() == [("a", *(count or ()))]
        other.execute("DELETE FROM t WHERE id = 4")
    assert table.execute(BY_ID, (4,)).fetchall() == []
    assert table.execute(BY_ID, (None,)).fetchall() == []
    assert table.execute("SELECT * FROM v WHERE name = %s", ("c",)).fetchall() == []


def test_many_in_a_pipeline(table: psycopg.Connection) -> None:
    _warm(table, BY_ID, 1)
    with table.pipeline():
        for i in range(10, 40):
            table.execute("INSERT INTO t VALUES (%s, 'x', %s)", (i, i))
        asked = [table.execute(BY_ID, (i,), prepare=True) for i in range(10, 400)]
    assert [c.fetchall() for c in asked] == [[("x", Decimal(i))] if i < 40 else [] for i in range(10, 400)]


def test_rows_of_a_column_that_is_no_key(table: psycopg.Connection) -> None:
    query = "SELECT id, id FROM t WHERE name = %s AND n = 1.5 AND id = %s"
    _warm(table, query, "a", 1)
    assert table.execute(query, ("a", 1)).fetchall() == [(1, 1)]
    by_name = "SELECT id FROM t WHERE name = %s"
    _warm(table, by_name, "b")
    table.execute("INSERT INTO t VALUES (7, 'b', 1), (8, 'b', 1)")
    assert sorted(table.execute(by_name, ("b",)).fetchall()) == [(2,), (7,), (8,)]
    table.execute("CREATE TABLE bag (k INT, x STRING)")
    table.execute("INSERT INTO bag VALUES (1, 'p'), (1, 'p'), (2, 'q')")
    _warm(table, "SELECT x FROM bag WHERE k = %s", 1)
    assert table.execute("SELECT x FROM bag WHERE k = %s", (1,)).fetchall() == [("p",), ("p",)]


def test_values_that_are_none_of_the_column(table: psycopg.Connection) -> None:
    _warm(table, BY_ID, 1)
    assert table.execute(BY_ID, (1 << 40,)).fetchall() == []
    with pytest.raises(psycopg.errors.InvalidTextRepresentation):
        table.execute(BY_ID, ("x",))
    assert table.execute(BY_ID, (1,)).fetchall() == [("a", Decimal("1.5"))]


def test_in_transactions(table: psycopg.Connection, address: Address) -> None:
    _warm(table, BY_ID, 1)
    with table.transaction():
        table.execute("UPDATE t SET name = 'z' WHERE id = 1")
        assert table.execute(BY_ID, (1,)).fetchall() == [("z", Decimal("1.5"))]
        with address.connect() as other:
            assert other.execute(BY_ID, (1,)).fetchall() == [("a", Decimal("1.5"))]
    assert table.execute(BY_ID, (1,)).fetchall() == [("z", Decimal("1.5"))]
    with pytest.raises(psycopg.errors.InFailedSqlTransaction), table.transaction():
        with pytest.raises(psycopg.errors.UndefinedTable):
            table.execute("SELECT * FROM nope")
        table.execute(BY_ID, (1,))


def test_follows_definitions(table: psycopg.Connection, address: Address) -> None:
    with address.connect(prepare_threshold=None) as reader:
        for _ in range(5):
            reader.execute(BY_ID, (1,))
        table.execute("DROP MATERIALIZED VIEW v")
        table.execute("DROP TABLE t")
        with pytest.raises(psycopg.errors.UndefinedTable):
            reader.execute(BY_ID, (1,))
        table.execute("CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED, n BIGINT, name STRING)")
        table.execute("INSERT INTO t VALUES (1, 5, 'new')")
        for _ in range(5):
            assert reader.execute(BY_ID, (1,)).fetchall() == [("new", 5)]
        reader.execute("CREATE TEMPORARY TABLE t (id INT PRIMARY KEY NOT ENFORCED, n BIGINT, name STRING)")
        reader.execute("INSERT INTO t VALUES (1, 6, 'mine')")
        for _ in range(5):
            assert reader.execute(BY_ID, (1,)).fetchall() == [("mine", 6)]
        assert table.execute(BY_ID, (1,)).fetchall() == [("new", 5)]


def test_many_clients_at_once(table: psycopg.Connection, address: Address) -> None:
    async def client(number: int) -> None:
        connection = await asyncpg.connect(
            host=address.host, port=address.port, user="sqlengine", database="default_catalog",
            server_settings={"search_path": address.schema},
        )  # fmt: skip
        lookup = await connection.prepare("SELECT id, name FROM t WHERE id = $1")
        for i in range(30):
            key = (number * 7 + i) % 5
            assert await lookup.fetch(key) == ([(key, {1: "a", 2: "b", 3: None}[key])] if 1 <= key <= 3 else [])
            assert (await lookup.fetchrow(1)) == (1, "a")
        await connection.close()

    async def all_() -> None:
        await asyncio.gather(*map(client, range(8)))

    asyncio.run(all_())


def test_arrives_in_pieces_and_in_error(table: psycopg.Connection, address: Address) -> None:
    wire = WireClient(address.host, address.port, start=False)
    wire.start(database="default_catalog", options=f"-c search_path={address.schema}")
    sync, execute = message(b"S"), message(b"E", b"\0\0\0\0\0")
    parse = message(b"P", b"s\0SELECT name FROM t WHERE id = $1\0\0\0")

    def bind(value: bytes) -> bytes:
        return message(b"B", b"\0s\0\0\0\0\1" + len(value).to_bytes(4, "big") + value + b"\0\0")

    wire.send(parse, sync)
    wire.until(b"Z")
    for _ in range(5):
        wire.send(bind(b"1"), execute, sync)
        assert [type_ for type_, _ in wire.until(b"Z")] == [b"2", b"D", b"C", b"Z"]
    whole = bind(b"2") + execute + sync
    for cut in range(1, len(whole)):
        wire.send(whole[:cut])
        wire.send(whole[cut:])
        answer = wire.until(b"Z")
        assert [type_ for type_, _ in answer] == [b"2", b"D", b"C", b"Z"]
        assert answer[1][1] == b"\0\1\0\0\0\1b"
    # What follows an error is passed over until Sync.
    wire.send(bind(b"1") + execute + bind(b"x") + execute + bind(b"1") + execute + sync + whole)
    assert [type_ for type_, _ in wire.until(b"Z")] == [b"2", b"D", b"C", b"E", b"Z"]
    assert [type_ for type_, _ in wire.until(b"Z")] == [b"2", b"D", b"C", b"Z"]
    wire.close()


def test_messages_are_those_of_columns() -> None:
    chance = random.Random(5)
    moments = [dt.datetime(2024, 2, 29, 1, 2, 3, 450_000), dt.datetime(1969, 1, 1), None]
    columns = {
        Described("b", TYPES["bool"]): pa.array([True, False, None]),
        Described("s", TYPES["int2"]): pa.array([1, -5, None], pa.int16()),
        Described("i", TYPES["int4"]): pa.array([1, -(1 << 31), None], pa.int32()),
        Described("l", TYPES["int8"]): pa.array([1 << 62, -5, None], pa.int64()),
        Described("f", TYPES["float8"]): pa.array([1e300, -0.0, None]),
        Described("g", TYPES["float4"]): pa.array([1.5, float("nan"), None], pa.float32()),
        Described("n", TYPES["numeric"]): pa.array([Decimal("0.00"), Decimal("-12.30"), None], pa.decimal128(10, 2)),
        Described("w", TYPES["numeric"]): pa.array([Decimal("1E-10"), Decimal("2"), None], pa.decimal128(38, 10)),
        Described("t", TYPES["text"]): pa.array(["", "é\u4e2d", None]),
        Described("y", TYPES["bytea"]): pa.array([b"", b"\0\xff", None]),
        Described("d", TYPES["date"]): pa.array([dt.date(1, 1, 1), dt.date(9999, 12, 31), None]),
        Described("m", TYPES["timestamp"]): pa.array(moments, pa.timestamp("ms")),
        Described("z", TYPES["timestamptz"]): pa.array(moments, pa.timestamp("us", "UTC")),
        Described("a", ARRAYS[TYPES["int4"].array]): pa.array([[1, None], [], None], pa.list_(pa.int32())),
    }
    for _ in range(20):
        formats = [chance.randrange(2) for _ in columns]
        described, arrays = list(columns), list(columns.values())
        made = messages_of(arrays, described, formats, "Europe/Berlin")
        assert b"".join(made) == bytes(encoded(arrays, described, formats, "Europe/Berlin"))
