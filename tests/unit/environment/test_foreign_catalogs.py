"""Catalogs of other systems: a DuckDB file by its type, and one that a package adds by entry point."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from connectors.duckdb_file.table import DuckdbTable
from runtime.core.errors import render
from runtime.core.schema import Schema
from runtime.core.types import INT
from sqlengine import SqlEngineError, TableEnvironment


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("shop") / "shop.duckdb")
    with duckdb.connect(path) as connection:
        connection.execute("""
            CREATE SCHEMA stock;
            CREATE TYPE mood AS ENUM ('good', 'bad');
            CREATE TABLE customers (id INTEGER PRIMARY KEY, name VARCHAR NOT NULL, mood mood);
            CREATE TABLE stock."odd types" (
              a UTINYINT, b UBIGINT, c HUGEINT, d UUID, e INTERVAL, f INTEGER[], g STRUCT(x INT, y VARCHAR),
              h MAP(VARCHAR, INT), i TIMESTAMPTZ, j TIMESTAMP_NS, k TIME, l DECIMAL(9, 2), m BLOB, n FLOAT, o TIMESTAMP_S);
            CREATE TABLE stock.items AS SELECT i AS id, i % 3 AS kind FROM range(100000) AS r (i);
            CREATE VIEW stock.few AS SELECT * FROM stock.items WHERE id < 4;
            COMMENT ON TABLE customers IS 'who buys';
            COMMENT ON COLUMN customers.name IS 'in full';
            INSERT INTO customers VALUES (1, 'ann', 'good'), (2, 'bob', NULL);
            INSERT INTO stock."odd types" VALUES (255, 18446744073709551615, 5, 'c0ffee00-0000-0000-0000-000000000000',
              INTERVAL 3 DAY, [1, NULL], {x: 1, y: 'z'}, MAP {'k': 1}, '2024-01-01 01:02:03+02',
              '2024-01-01 01:02:03.123456', '01:02:03', 1.25, '\\xAA', 0.5, '2024-01-01 01:02:03');
            INSERT INTO stock."odd types" (a) VALUES (NULL);
        """)
    return path


@pytest.fixture
def t_env(database: str) -> Iterator[TableEnvironment]:
    with TableEnvironment.create() as made:
        made.create_catalog("shop", {"type": "duckdb", "path": database})
        yield made


def rows(t_env: TableEnvironment, query: str) -> list[tuple[object, ...]]:
    return [tuple(r.values()) for r in t_env.execute_sql(query).to_arrow().to_pylist()]


def test_its_schemas_and_tables_are_known(t_env: TableEnvironment) -> None:
    assert rows(t_env, "SHOW DATABASES IN shop") == [("main",), ("stock",)]
    t_env.use_catalog("shop")
    assert t_env.get_current_database() == "main"
    assert t_env.list_tables() == ["customers"]
    assert rows(t_env, "SHOW TABLES IN stock") == [("few",), ("items",), ("odd types",)]
    assert rows(t_env, "DESCRIBE customers") == [
        ("id", "INT", False, "PRI(id)", None, None, None),
        ("name", "STRING", False, None, None, None, "in full"),
        ("mood", "STRING", True, None, None, None, None),
    ]
    assert rows(t_env, "SELECT table_name, comment FROM information_schema.tables WHERE table_schema = 'main'") == [
        ("customers", "who buys")
    ]


def test_its_rows_are_read_and_looked_up(t_env: TableEnvironment) -> None:
    assert rows(t_env, "SELECT * FROM shop.main.customers") == [(1, "ann", "good"), (2, "bob", None)]
    assert rows(t_env, "SELECT * FROM shop.stock.few") == [(0, 0), (1, 1), (2, 2), (3, 0)]
    assert rows(t_env, "SELECT kind, COUNT(*), SUM(id) FROM shop.stock.items GROUP BY kind ORDER BY kind") == [
        (0, 33334, 1666683333),
        (1, 33333, 1666616667),
        (2, 33333, 1666650000),
    ]
    assert len(rows(t_env, "SELECT * FROM shop.stock.items LIMIT 7")) == 7
    assert rows(t_env, "SELECT COUNT(*) FROM shop.stock.items WHERE kind = 1")[-1] == (33333,)
    t_env.execute_script(
        "CREATE TABLE o (n INT, c INT, p AS PROCTIME()); INSERT INTO o VALUES (1, 2), (2, 9), (3, NULL), (4, 2)"
    )
    joined = "SELECT o.n, c.name FROM o LEFT JOIN shop.main.customers FOR SYSTEM_TIME AS OF o.p AS c ON c.id = o.c"
    assert sorted(rows(t_env, joined)) == [(1, "bob"), (2, None), (3, None), (4, "bob")]
    assert "LookupJoin" in t_env.explain_sql(joined)


def test_types_that_are_not_there_become_the_next_larger(t_env: TableEnvironment) -> None:
    described = {r[0]: r[1] for r in rows(t_env, "DESCRIBE shop.stock.`odd types`")}
    assert list(described.values()) == [
        *("SMALLINT", "DECIMAL(20, 0)", "DECIMAL(38, 0)", "STRING", "STRING", "ARRAY<INT>", "ROW<`x` INT, `y` STRING>"),
        *("MAP<STRING, INT>", "TIMESTAMP_LTZ(6)", "TIMESTAMP(6)", "TIME(0)", "DECIMAL(9, 2)", "BYTES", "FLOAT"),
        "TIMESTAMP(6)",
    ]
    casts = ", ".join(f"CAST({c} AS STRING)" for c in described if c not in "m")
    first, second = rows(t_env, f"SELECT {casts}, m FROM shop.stock.`odd types`")
    assert first == (
        *("255", "18446744073709551615", "5", "c0ffee00-0000-0000-0000-000000000000", "3 days", "[1, NULL]", "(1, z)"),
        *("{k=1}", "2023-12-31 23:02:03.000000", "2024-01-01 01:02:03.123456", "01:02:03", "1.25", "0.5"),
        *("2024-01-01 01:02:03.000000", b"\xaa"),
    )
    assert second == (None,) * 15


def test_what_is_made_there_is_there_at_once(t_env: TableEnvironment, database: str) -> None:
    with duckdb.connect(database) as connection:
        connection.execute("CREATE TABLE late AS SELECT 1 AS a")
        # While this process writes, too.
        assert rows(t_env, "SELECT * FROM shop.main.late") == [(1,)]
        connection.execute("DROP TABLE late")
    with pytest.raises(SqlEngineError, match="unknown table"):
        t_env.execute_sql("SELECT * FROM shop.main.late")


def test_a_job_does_not_go_on_with_another_state_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS a")
    table = DuckdbTable(Schema.of(("a", INT)), str(path), "main", "t")
    first = table.open(table.splits()[0], Context())
    assert first.poll(10) is not None
    position = first.position()
    first.close()
    with duckdb.connect(str(path)) as connection:
        connection.execute("INSERT INTO t SELECT * FROM range(10000)")
    again = table.open(table.splits()[0], Context())
    with pytest.raises(SqlEngineError, match="E3105"):
        again.seek(position)


class Context:
    time_zone = "UTC"

    def reject(self, rows: object) -> None:
        raise AssertionError(rows)

    def wake(self) -> None: ...


MISTAKES = {
    "CREATE TABLE shop.main.x (a INT)": "E1627 the catalog \"shop\" of type 'duckdb' is read only here\n"
    "  hint: make and change its tables there",
    "CREATE CATALOG e WITH ('type' = 'duckbd')": "E1507 unknown catalog type 'duckbd'\n  at 1:16\n"
    "  1 | CREATE CATALOG e WITH ('type' = 'duckbd')\n                     ^\n  hint: did you mean \"duckdb\"?",
    "CREATE CATALOG e WITH ('type' = 'duckdb')": "E1504 catalog type 'duckdb' needs the option 'path'\n  at 1:16\n"
    "  1 | CREATE CATALOG e WITH ('type' = 'duckdb')\n                     ^\n"
    "  hint: set it to the file of the DuckDB database",
    "CREATE CATALOG e WITH ('type' = 'duckdb', 'path' = '/none')": "E3101 there is no DuckDB database at /none\n  at 1:16\n"
    "  1 | CREATE CATALOG e WITH ('type' = 'duckdb', 'path' = '/none')\n                     ^\n"
    "  hint: check the option 'path'",
    "SELECT * FROM shop.stok.items": 'E1202 unknown table "shop.stok.items"\n  at 1:15\n'
    "  1 | SELECT * FROM shop.stok.items\n                    ^^^^^^^^^^^^^^^\n"
    '  hint: there is no database "stok"; did you mean "stock"?',
    "INSERT INTO shop.main.customers VALUES (3, 'eve', 'bad')": "E1601 connector 'duckdb' of customers cannot be written\n"
    "  at 1:13\n  1 | INSERT INTO shop.main.customers VALUES (3, 'eve', 'bad')\n                  ^^^^^^^^^^^^^^^^^^^\n"
    "  hint: INSERT into a table with another connector, for example 'filesystem' or 'print'",
}


@pytest.mark.parametrize("statement", MISTAKES)
def test_a_mistake_is_told(t_env: TableEnvironment, statement: str) -> None:
    with pytest.raises(SqlEngineError) as caught:
        t_env.execute_sql(statement)
    assert render(caught.value) == MISTAKES[statement]


PLUGIN = """
from sqlengine.spi import INT, STRING, CatalogFactory, ForeignTable, Schema


class Letters:
    default_database = "all"

    def databases(self):
        return ["more", "all"]

    def tables(self, database):
        return ["letters"]

    def table(self, database, name):
        data = '{"n": 1, "letter": "' + database[0] + '"}'
        return ForeignTable(Schema.of(("n", INT), ("letter", STRING)), {"connector": "values", "data": data})


LETTERS = CatalogFactory(name="letters", document="letters", open=lambda request: Letters())
"""


def test_a_package_adds_a_type_of_catalog_by_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "letters_plugin.py").write_text(PLUGIN)
    info = tmp_path / "letters_plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: letters-plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[sqlengine.catalogs]\nletters = letters_plugin:LETTERS\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "letters_plugin", raising=False)
    with TableEnvironment.create() as t_env:
        t_env.execute_sql("CREATE CATALOG abc COMMENT 'of letters' WITH ('type' = 'letters', 'any' = 'option')")
        t_env.use_catalog("abc")
        assert t_env.get_current_database() == "all"
        assert rows(t_env, "SELECT * FROM letters") == [(1, "a")]
        assert rows(t_env, "SELECT * FROM more.letters") == [(1, "m")]
        with pytest.raises(SqlEngineError, match='there is: .*"duckdb", "file", "generic_in_memory", .*"letters"'):
            t_env.execute_sql("CREATE CATALOG x WITH ('type' = 'zzz')")
