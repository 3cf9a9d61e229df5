"""asyncpg, whose parameters and results are all binary, and SQLAlchemy, which reads the catalogue."""

from __future__ import annotations

import asyncio
import datetime as dt
import uuid
from collections.abc import Callable, Coroutine
from decimal import Decimal
from typing import Any

import asyncpg
import pytest
import sqlalchemy
import sqlalchemy.orm
from sqlalchemy.dialects import postgresql

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


def test_asyncpg_asks_for_types(address: Address) -> None:
    row = (1, '{"a": 1}', uuid.UUID(int=1), [1, None], dt.timedelta(days=1))

    async def use(connection: Any) -> None:
        await connection.execute("CREATE TABLE t (id INT PRIMARY KEY, j JSONB, u UUID, a INT[], i INTERVAL)")
        await connection.execute("INSERT INTO t VALUES ($1, $2, $3, $4, $5)", *row)
        assert tuple(await connection.fetchrow("SELECT * FROM t WHERE id = ANY($1)", [1, 2])) == row
        columns = ["id", "j", "a"]
        assert await connection.copy_records_to_table("t", records=[(5, '{"b": 2}', [1])], columns=columns) == "COPY 1"
        assert await connection.fetchval("SELECT j ->> 'b' FROM t WHERE id = 5") == "2"
        async with connection.transaction():
            cursor = await connection.cursor("SELECT i FROM generate_series(1, 5) AS g (i)")
            assert [r["i"] for r in await cursor.fetch(2)] == [1, 2]
            await cursor.forward(1)
            assert (await cursor.fetchrow())["i"] == 4

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


def test_sqlalchemy_orm(address: Address) -> None:
    """Many rows in one INSERT, whose generated keys belong to them; savepoints, limits, and indexes that are reflected."""
    base = sqlalchemy.orm.declarative_base()

    class User(base):  # type: ignore[misc, valid-type]
        __tablename__ = "users"
        id = sqlalchemy.Column(sqlalchemy.Integer, primary_key=True)
        name = sqlalchemy.Column(sqlalchemy.String(30), index=True)
        data = sqlalchemy.Column(sqlalchemy.JSON().with_variant(postgresql.JSONB(), "postgresql"))
        __table_args__ = (sqlalchemy.UniqueConstraint("name", "id", name="both"),)

    made = engine(address, "psycopg")
    base.metadata.create_all(made)
    base.metadata.create_all(made)
    with sqlalchemy.orm.Session(made) as session:
        users = [User(name=f"n{i}", data={"a": i}) for i in range(4)]
        session.add_all(users)
        session.flush()
        assert [u.id for u in users] == [1, 2, 3, 4]
        with session.begin_nested() as savepoint:
            session.add(User(name="forgotten"))
            session.flush()
            savepoint.rollback()
        session.commit()
        limited = (
            sqlalchemy.select(User.name).where(User.data["a"].as_integer() > 0).order_by(User.id).limit(2).offset(1)
        )
        assert session.scalars(limited).all() == ["n2", "n3"]
    found = sqlalchemy.inspect(made)
    assert [(i["name"], i["column_names"]) for i in found.get_indexes("users")] == [("both", ["name", "id"])]
    reflected = sqlalchemy.MetaData()
    reflected.reflect(made)
    assert list(reflected.tables) == ["users"]
