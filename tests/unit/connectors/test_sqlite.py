"""Tables of SQLite: the contract, statements, types that SQLite does not keep, and files that others hold."""

from __future__ import annotations

import random
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from connectors.databases.options import Delivering
from connectors.sqlite.commits import SqliteCommits, SqliteTransactions
from connectors.sqlite.table import SqliteTable
from runtime.core.changelog import DELETE, INSERT, UPDATE_AFTER, ChangelogBatch
from runtime.core.errors import ConnectorError, FencedError, FormatError, SqlEngineError
from runtime.core.schema import Schema
from runtime.core.types import DOUBLE, INT, STRING, DataType, TypeRoot, decimal, timestamp
from sqlengine import TableEnvironment
from sqlengine.testing.connectors import SinkCase, SinkContract, SourceContract, end, every_value, rows_of, some_epochs

SCHEMA = Schema.of(("id", INT), ("name", STRING))
TYPES = (
    "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal", "long_decimal", "string", "bytes",
    "date", "time", "timestamp", "timestamp_ltz",
)  # fmt: skip


def declared(type_: DataType) -> str:
    if type_.root is TypeRoot.DECIMAL and type_.precision > 15:
        return "TEXT"
    return {TypeRoot.VARCHAR: "TEXT", TypeRoot.VARBINARY: "BLOB", TypeRoot.TIMESTAMP_LTZ: "TIMESTAMPTZ"}.get(
        type_.root, str(type_)
    )


def created(folder: Path, schema: Schema, key: tuple[str, ...] = (), **more: Any) -> SqliteTable:
    path = str(folder / f"{len(list(folder.iterdir()))}.db")
    columns = [f'"{f.name}" {declared(f.type)}' for f in schema] + ([f"PRIMARY KEY ({', '.join(key)})"] if key else [])
    run(path, f"CREATE TABLE t ({', '.join(columns)})")
    plain: dict[str, Any] = {
        "primary_key": key, "name": "t", "table": "t", "partition": None, "parallel": 1, "delivering": Delivering(True, 1 << 30),
        "path": path,
    }  # fmt: skip
    return SqliteTable(**{"schema": schema, **plain, **more})


def filled(folder: Path, schema: Schema, rows: list[tuple[Any, ...]], key: tuple[str, ...] = ()) -> SqliteTable:
    table = created(folder, schema, key)
    SqliteTransactions(table).write([batch_of(schema, rows)])
    return table


def batch_of(schema: Schema, rows: list[tuple[Any, ...]], kinds: list[int] | None = None) -> ChangelogBatch:
    columns = [pa.array([r[i] for r in rows], f.type.arrow) for i, f in enumerate(schema)]
    return ChangelogBatch.of(columns, schema, None if kinds is None else np.array(kinds, np.int8))


def run(path: str, *statements: str) -> list[Any]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        return [row for statement in statements for row in connection.execute(statement)]


class TestSource(SourceContract):
    connectors = ("sqlite",)
    types = TYPES

    @pytest.fixture
    def table(self, tmp_path: Path) -> SqliteTable:
        return filled(tmp_path, SCHEMA, [(i, None if i % 3 == 0 else f"n{i}") for i in range(20)])

    @pytest.fixture
    def holding(self, tmp_path: Path) -> Callable[[Schema, list[tuple[Any, ...]]], SqliteTable]:
        return lambda schema, rows: filled(tmp_path, schema, rows)

    @pytest.fixture
    def away(self, tmp_path: Path) -> Callable[[], AbstractContextManager[SqliteTable]]:
        @contextmanager
        def locked() -> Iterator[SqliteTable]:
            table = filled(tmp_path, SCHEMA, [(1, "a")])
            with closing(sqlite3.connect(table.path)) as connection:
                connection.execute("BEGIN EXCLUSIVE")
                yield table

        return locked


class TestSink(SinkContract):
    connectors = ("sqlite",)
    steps = ((SqliteCommits, "commit"), (SqliteTransactions, "_put"))
    seeds = 2

    @pytest.fixture(params=[(), ("id",)], ids=["inserts", "upserts"])
    def make(self, tmp_path: Path, request: pytest.FixtureRequest) -> Callable[[random.Random], SinkCase]:
        def case(rng: random.Random) -> SinkCase:
            table = created(tmp_path, SCHEMA, request.param)
            return SinkCase(
                table, lambda: sorted(run(table.path, "SELECT id, name FROM t"), key=repr), *some_epochs(rng, SCHEMA, 3)
            )

        return case


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    schema, rows = every_value(TYPES)
    for key in ((), ("id",)):
        table = created(tmp_path, schema, key)
        writer = table.open_writer("job")
        writer.recover([])
        writer.write(batch_of(schema, rows))
        end(writer)
        writer.close()
        assert sorted(rows_of(table)) == sorted(rows)


def test_changes_by_key(tmp_path: Path) -> None:
    table = filled(tmp_path, SCHEMA, [(1, "a"), (2, "b")], ("id",))
    kinds = [DELETE, UPDATE_AFTER, INSERT, UPDATE_AFTER]
    SqliteTransactions(table).write([batch_of(SCHEMA, [(1, None), (2, "c"), (3, "d"), (3, "e")], kinds)])
    assert rows_of(table) == [(2, "c"), (3, "e")]


def test_another_run_takes_over(tmp_path: Path) -> None:
    table = created(tmp_path, SCHEMA)
    old, new = table.open_writer("job"), table.open_writer("job")
    old.recover([])
    old.write(batch_of(SCHEMA, [(1, "old")]))
    prepared = old.prepare()
    new.recover([])
    with pytest.raises(FencedError, match="E3413 another run"):
        old.publish(prepared)
    assert rows_of(table) == []


def test_a_row_that_violates_a_constraint(tmp_path: Path) -> None:
    table = created(tmp_path, SCHEMA)
    run(table.path, "CREATE UNIQUE INDEX u ON t (name)")
    writer = table.open_writer("job")
    writer.recover([])
    writer.write(batch_of(SCHEMA, [(1, "same"), (2, "same")]))
    prepared = writer.prepare()
    with pytest.raises(ConnectorError, match=r"E3162 .*UNIQUE constraint failed: t.name"):
        writer.publish(prepared)
    assert rows_of(table) == []
    run(table.path, "DROP INDEX u")
    again = table.open_writer("job")
    again.recover([prepared])
    assert rows_of(table) == [(1, "same"), (2, "same")]


def test_a_file_that_has_changed(tmp_path: Path) -> None:
    table = filled(tmp_path, SCHEMA, [(i, "x") for i in range(10)])
    position = next(iter(table.fetched(None, threading.Event()))).after
    assert len([*table.fetched(position, threading.Event())]) == 2
    run(table.path, "INSERT INTO t VALUES (11, 'y')")
    with pytest.raises(ConnectorError, match="E3105 .* is not as it was"):
        list(table.fetched(position, threading.Event()))


OF_ANOTHER_KIND = (
    ("INT", "'text'"), ("INT", "3000000000"), ("INT", "1.5"), ("DOUBLE", "'text'"), ("BOOLEAN", "2"), ("DATE", "20200101"),
    ("TIMESTAMP", "'yesterday'"), ("DECIMAL(5, 2)", "12345.6"), ("DECIMAL(5, 2)", "0.123"), ("TEXT", "x'ff'"), ("BLOB", "'text'"),
)  # fmt: skip


def test_values_of_another_kind(tmp_path: Path) -> None:
    """SQLite keeps anything in any column."""
    path = str(tmp_path / "x.db")
    columns = [f"strange{i} {type_}" for i, (type_, _) in enumerate(OF_ANOTHER_KIND)]
    values = ", ".join(value for _, value in OF_ANOTHER_KIND)
    run(path, f"CREATE TABLE t (id INT, {', '.join(columns)})", f"INSERT INTO t VALUES (1, {values})")
    with TableEnvironment.create() as t_env:
        t_env.execute_sql(f"CREATE CATALOG s WITH ('type' = 'sqlite', 'path' = '{path}')")
        for i in range(len(columns)):
            with pytest.raises(SqlEngineError, match=f"E3164 .*strange{i}|E3164 .*UTF-8"):
                t_env.execute_sql(f"SELECT strange{i} FROM s.main.t").to_arrow()
        assert t_env.execute_sql("SELECT id FROM s.main.t").to_arrow().to_pylist() == [{"id": 1}]


@pytest.mark.parametrize(
    ("there", "type_", "value", "code"),
    [
        ("DECIMAL(20, 2)", decimal(20, 2), None, "E3163"),
        ("TEXT", INT, 1, "E3163"),
        ("DATE", timestamp(3), None, "E3163"),
        ("DOUBLE", DOUBLE, float("nan"), "E3164"),
    ],
)
def test_what_would_not_be_kept(tmp_path: Path, there: str, type_: DataType, value: Any, code: str) -> None:
    path = str(tmp_path / "x.db")
    run(path, f"CREATE TABLE t (a {there})")
    schema = Schema.of(("a", type_))
    table = SqliteTable(schema, (), "t", "t", None, 1, Delivering(False, 0), path=path)
    with pytest.raises((ConnectorError, FormatError), match=f"{code} column a of "):
        SqliteTransactions(table).write([batch_of(schema, [(value,)])])


@pytest.fixture
def shop(tmp_path: Path) -> str:
    path = str(tmp_path / "shop.db")
    run(
        path,
        "CREATE TABLE items (id INTEGER PRIMARY KEY, name VARCHAR(20) COLLATE NOCASE NOT NULL, price DECIMAL(8, 2), made DATE, any_)",
        "INSERT INTO items VALUES (1, 'Pen', 1.5, '2020-01-01', 7), (2, 'book', 12, NULL, 'x'), (3, 'lamp', 30, '2021-01-01', NULL)",
        "CREATE VIEW dear AS SELECT id, name FROM items WHERE price > 10",
    )
    return path


def rows(t_env: TableEnvironment, query: str) -> list[tuple[Any, ...]]:
    return [tuple(r.values()) for r in t_env.execute_sql(query).to_arrow().to_pylist()]


def test_statements(shop: str) -> None:
    with TableEnvironment.create() as t_env:
        t_env.execute_sql(f"CREATE CATALOG shop WITH ('type' = 'sqlite', 'path' = '{shop}')")
        assert rows(t_env, "SHOW TABLES IN shop.main") == [("dear",), ("items",)]
        assert [r[:2] for r in rows(t_env, "DESCRIBE shop.main.items")] == [
            ("id", "BIGINT"), ("name", "VARCHAR(20)"), ("price", "DECIMAL(8, 2)"), ("made", "DATE"), ("any_", "STRING"),
        ]  # fmt: skip
        assert rows(t_env, "SELECT any_ FROM shop.main.items WHERE any_ = '7'") == [("7",)]
        assert rows(t_env, "SELECT id FROM shop.main.items WHERE name = 'pen'") == []
        assert rows(t_env, "SELECT name FROM shop.main.dear ORDER BY id") == [("book",), ("lamp",)]
        with_ = f"'connector' = 'jdbc', 'url' = 'jdbc:sqlite:{shop}', 'table-name' = 'items'"
        t_env.execute_sql(f"CREATE TABLE items WITH ({with_})")
        t_env.execute_sql("INSERT INTO items (id, name, price) VALUES (2, 'atlas', 20.25), (4, 'cup', 3)").wait()
        assert (
            rows(t_env, "SELECT id, name, price FROM shop.main.items WHERE id IN (2, 4) ORDER BY id")[0][1] == "atlas"
        )
        t_env.execute_sql(
            "CREATE TABLE asked (n STRING, i INT, d DATE, p AS PROCTIME()) WITH ('changelog-mode' = 'append')"
        )
        t_env.execute_sql(
            "INSERT INTO asked VALUES ('Pen', 1, DATE '2020-01-01'), ('pen', 9, DATE '1999-01-01'), (NULL, NULL, NULL)"
        )
        for left, right in (("n", "name"), ("i", "id"), ("d", "made")):
            query = f"SELECT r.id FROM asked AS a JOIN items FOR SYSTEM_TIME AS OF a.p AS r ON a.{left} = r.{right}"
            assert rows(t_env, query) == [(1,)], right


@pytest.mark.parametrize(
    "url", ["jdbc:sqlite::memory:", "jdbc:sqlite:file:x?mode=rw", "jdbc:sqlite://host/x", "jdbc:sqlite:"]
)
def test_urls_that_are_no_files(url: str) -> None:
    with TableEnvironment.create() as t_env, pytest.raises(SqlEngineError, match="E1500"):
        t_env.execute_sql(f"CREATE TABLE t (a INT) WITH ('connector' = 'jdbc', 'url' = '{url}', 'table-name' = 't')")


def test_paths_that_a_server_allows(tmp_path: Path, shop: str) -> None:
    from sqlengine.roles.outside import Outside

    with TableEnvironment.create() as t_env:
        t_env.session.database.outside = Outside((str(tmp_path / "in"),), None)
        for options in (
            f"'connector' = 'jdbc', 'url' = 'jdbc:sqlite:{shop}'",
            f"'connector' = 'sqlite', 'path' = '{shop}'",
        ):
            with pytest.raises(SqlEngineError, match="E1801"):
                t_env.execute_sql(f"CREATE TABLE t (id INT) WITH ({options}, 'table-name' = 'items')")
                t_env.execute_sql("SELECT * FROM t").to_arrow()


def test_tables_that_are_made_there(shop: str) -> None:
    with TableEnvironment.create() as t_env:
        t_env.execute_sql(f"CREATE CATALOG shop WITH ('type' = 'sqlite', 'path' = '{shop}')")
        t_env.execute_sql("CREATE TABLE shop.main.made AS SELECT id, name, price, made FROM shop.main.items").wait()
        assert rows(t_env, "SELECT * FROM shop.main.made") == rows(
            t_env, "SELECT id, name, price, made FROM shop.main.items"
        )
        with pytest.raises(SqlEngineError, match="E1627 a table of SQLite cannot have the type DECIMAL"):
            t_env.execute_sql("CREATE TABLE shop.main.bad (a DECIMAL(20, 2))")
