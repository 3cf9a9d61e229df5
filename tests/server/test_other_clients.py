"""asyncpg, whose parameters and results are all binary, and SQLAlchemy, which reads the catalogue."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Callable, Coroutine
from decimal import Decimal
from typing import Any

import asyncpg
import pytest
import sqlalchemy

from tests.server.conftest import Address


def with_asyncpg(address: Address, use: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        connection = await asyncpg.connect(
            host=address.host,
            port=address.port,
            user="sqlengine",
            database="default_catalog",
            server_settings={"search_path": address.schema},
        )
        try:
            await use(connection)
        finally:
            await connection.close()

    asyncio.run(run())


def test_asyncpg(address: Address) -> None:
    row = (1, "ann", Decimal("12345.67"), dt.datetime(2024, 5, 6, 7, 8, 9), ["x", None], True, b"\x00", 1.5)

    async def use(connection: Any) -> None:
        await connection.execute(
            "CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED, name STRING, amount DECIMAL(10, 2), at TIMESTAMP(3), tags ARRAY<STRING>,"
            " ok BOOLEAN, raw BYTES, d DOUBLE)"
        )
        assert await connection.execute("INSERT INTO t VALUES ($1, $2, $3, $4, $5, $6, $7, $8)", *row) == "INSERT 0 1"
        assert tuple((await connection.fetch("SELECT * FROM t WHERE id = $1", 1))[0]) == row
        assert await connection.fetchval("SELECT COUNT(*) FROM t") == 1
        await connection.executemany("INSERT INTO t (id) VALUES ($1)", [(i,) for i in range(2, 30)])
        async with connection.transaction():
            found = [r["id"] async for r in connection.cursor("SELECT id FROM t ORDER BY id", prefetch=5)]
        assert found == list(range(1, 30))
        copied = await connection.copy_records_to_table("t", records=[(50, "c"), (51, None)], columns=["id", "name"])
        assert copied == "COPY 2"
        with pytest.raises(asyncpg.UndefinedColumnError):
            await connection.fetch("SELECT nope FROM t")
        await connection.reset()

    with_asyncpg(address, use)


def test_a_pool_of_asyncpg(address: Address) -> None:
    async def run() -> None:
        async with asyncpg.create_pool(
            host=address.host, port=address.port, user="sqlengine", database="default_catalog", min_size=2, max_size=4
        ) as pool:
            assert await asyncio.gather(*(pool.fetchval("SELECT CAST($1 AS INT)", i) for i in range(8))) == list(
                range(8)
            )

    asyncio.run(run())


def engine(address: Address, driver: str) -> sqlalchemy.Engine:
    return sqlalchemy.create_engine(
        f"postgresql+{driver}://sqlengine@{address.host}:{address.port}/default_catalog",
        connect_args={"options": f"-c search_path={address.schema}"},
    )


def test_sqlalchemy_reflects_tables_and_views(address: Address) -> None:
    with address.connect() as connection:
        connection.execute(
            "CREATE TABLE orders (id INT, line SMALLINT, name STRING COMMENT 'who', amount DECIMAL(10, 2),"
            " PRIMARY KEY (id, line) NOT ENFORCED) COMMENT 'all orders'"
        )
        connection.execute("CREATE VIEW names AS SELECT name FROM orders")
        connection.execute(
            "CREATE MATERIALIZED VIEW totals AS SELECT name, SUM(amount) AS total FROM orders GROUP BY name"
        )
    found = sqlalchemy.inspect(engine(address, "psycopg"))
    assert found.default_schema_name == address.schema
    assert address.schema in found.get_schema_names()
    assert found.get_table_names() == ["orders"]
    assert found.get_view_names() == ["names"]
    assert found.get_materialized_view_names() == ["totals"]
    columns = [(c["name"], str(c["type"]), c["nullable"], c["comment"]) for c in found.get_columns("orders")]
    assert columns == [
        ("id", "INTEGER", False, None),
        ("line", "SMALLINT", False, None),
        ("name", "TEXT", True, "who"),
        ("amount", "NUMERIC(10, 2)", True, None),
    ]
    assert found.get_pk_constraint("orders")["constrained_columns"] == ["id", "line"]
    assert (found.get_foreign_keys("orders"), found.get_indexes("orders"), found.get_unique_constraints("orders")) == (
        [],
        [],
        [],
    )
    assert found.get_table_comment("orders") == {"text": "all orders"}
    assert found.get_view_definition("names") == "SELECT name FROM orders"


def test_sqlalchemy_reads_and_writes(address: Address) -> None:
    with address.connect() as connection:
        connection.execute("CREATE TABLE item (id INT PRIMARY KEY NOT ENFORCED, name STRING)")
    made = engine(address, "psycopg")
    table = sqlalchemy.Table("item", sqlalchemy.MetaData(), autoload_with=made)
    with made.begin() as connection:
        connection.execute(table.insert(), [{"id": i, "name": f"n{i}"} for i in range(5)])
        connection.execute(table.update().where(table.c.id == 3).values(name="three"))
        connection.execute(table.delete().where(table.c.id > 3))
    with made.connect() as connection:
        rows = connection.execute(sqlalchemy.select(table).where(table.c.id >= 2).order_by(table.c.id)).fetchall()
    assert rows == [(2, "n2"), (3, "three")]
