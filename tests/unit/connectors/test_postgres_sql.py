"""PostgreSQL in statements: tables, catalogs, lookups, inferred columns and Flink's `jdbc`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from runtime.core.errors import SqlEngineError
from sqlengine import TableEnvironment
from tests.servers.postgres import PASSWORD, PostgresDatabase


@pytest.fixture
def t_env() -> Iterator[TableEnvironment]:
    with TableEnvironment.create() as made:
        yield made


@pytest.fixture
def shop(postgres: PostgresDatabase) -> PostgresDatabase:
    postgres.run(
        "CREATE TABLE items (id INT PRIMARY KEY, name VARCHAR(20) NOT NULL, price NUMERIC(10, 2), tags TEXT[])",
        "INSERT INTO items SELECT g, 'item ' || g, g * 1.5, ARRAY['a', g::text] FROM generate_series(1, 5) AS g",
        "COMMENT ON TABLE items IS 'what is sold'; COMMENT ON COLUMN items.price IS 'in euros'",
    )
    return postgres


def rows(t_env: TableEnvironment, query: str) -> list[tuple[Any, ...]]:
    return [tuple(r.values()) for r in t_env.execute_sql(query).to_arrow().to_pylist()]


def run(t_env: TableEnvironment, statement: str) -> None:
    t_env.execute_sql(statement).wait()


def connected(t_env: TableEnvironment, database: PostgresDatabase, name: str = "pg") -> None:
    run(t_env, f"CREATE CATALOG {name} WITH ('type' = 'postgres', {database.options})")


def test_a_catalog(t_env: TableEnvironment, shop: PostgresDatabase) -> None:
    connected(t_env, shop)
    assert rows(t_env, "SHOW DATABASES IN pg") == [("public",)]
    assert rows(t_env, "SHOW TABLES IN pg.public") == [("items",)]
    assert [r[:2] for r in rows(t_env, "DESCRIBE pg.public.items")] == [
        ("id", "INT"), ("name", "VARCHAR(20)"), ("price", "DECIMAL(10, 2)"), ("tags", "ARRAY<STRING>"),
    ]  # fmt: skip
    assert rows(t_env, "SELECT id, price, tags FROM pg.public.items WHERE id > 3 ORDER BY id")[0][2] == ["a", "4"]
    shown = rows(t_env, "SHOW CREATE TABLE pg.public.items")[0][0] + rows(t_env, "SHOW CREATE CATALOG pg")[0][0]
    assert f"'password' = '{PASSWORD}'" not in shown and "'password' = '******'" in shown
    assert "what is sold" in shown and "in euros" in shown


def test_what_is_written(t_env: TableEnvironment, shop: PostgresDatabase) -> None:
    connected(t_env, shop)
    run(t_env, "INSERT INTO pg.public.items VALUES (1, 'new', 9.99, ARRAY['z']), (7, 'seven', NULL, NULL)")
    assert shop.rows("SELECT id, name, price::text, tags FROM items WHERE id IN (1, 7) ORDER BY id") == [
        (1, "new", "9.99", ["z"]),
        (7, "seven", None, None),
    ]
    run(t_env, "INSERT INTO pg.public.items (id, name) SELECT id + 10, name FROM pg.public.items")
    assert shop.rows("SELECT count(*) FROM items") == [(12,)]
    # The record of commits is no table of the user's.
    assert rows(t_env, "SHOW TABLES IN pg.public") == [("items",)]


def test_an_aggregate_is_kept_there(t_env: TableEnvironment, shop: PostgresDatabase) -> None:
    connected(t_env, shop)
    shop.run("CREATE TABLE totals (kind INT PRIMARY KEY, n BIGINT)")
    run(t_env, "CREATE TABLE orders (id INT, kind INT)")
    run(t_env, "INSERT INTO orders VALUES (1, 1), (2, 1), (3, 2)")
    run(t_env, "INSERT INTO pg.public.totals SELECT kind, COUNT(*) FROM orders GROUP BY kind")
    assert shop.rows("SELECT * FROM totals ORDER BY 1") == [(1, 2), (2, 1)]


def test_flinks_jdbc(t_env: TableEnvironment, shop: PostgresDatabase) -> None:
    where = f"'connector' = 'jdbc', 'url' = 'jdbc:{shop.url}', 'username' = 'postgres', 'password' = '{PASSWORD}'"
    run(
        t_env,
        "CREATE TABLE items (id BIGINT, name STRING, PRIMARY KEY (id) NOT ENFORCED) WITH "
        f"({where}, 'table-name' = 'items', 'scan.partition.column' = 'id', 'scan.partition.num' = '3', "
        "'scan.partition.lower-bound' = '2', 'scan.partition.upper-bound' = '4', 'driver' = 'org.postgresql.Driver')",
    )
    assert rows(t_env, "SELECT id FROM items ORDER BY id") == [(2,), (3,), (4,)]
    # Without columns, the table is as the database describes it.
    run(t_env, f"CREATE TABLE found WITH ({where}, 'table-name' = 'public.items')")
    assert [r[0] for r in rows(t_env, "DESCRIBE found")] == ["id", "name", "price", "tags"]
    run(t_env, "INSERT INTO found (id, name) VALUES (2, 'two')")
    assert shop.rows("SELECT name FROM items WHERE id = 2") == [("two",)]


def test_lookups(t_env: TableEnvironment, shop: PostgresDatabase) -> None:
    connected(t_env, shop)
    run(t_env, "CREATE TABLE orders (id INT, item INT, p AS PROCTIME()) WITH ('changelog-mode' = 'append')")
    run(t_env, "INSERT INTO orders VALUES (1, 2), (2, 9), (3, NULL), (4, 2)")
    query = (
        "SELECT o.id, i.name FROM orders AS o LEFT JOIN pg.public.items FOR SYSTEM_TIME AS OF o.p AS i "
        "ON o.item = i.id ORDER BY o.id"
    )
    assert rows(t_env, query) == [(1, "item 2"), (2, None), (3, None), (4, "item 2")]
    assert rows(t_env, query.replace("o.item = i.id", "o.item = i.id AND i.name = 'item 3'"))[0] == (1, None)


def test_lookups_by_every_kind_of_key(t_env: TableEnvironment, postgres: PostgresDatabase) -> None:
    """Equal is what the engine calls equal."""
    postgres.run(
        "CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
        "CREATE TYPE mood AS ENUM ('sad', 'glad')",
        "CREATE TABLE keys (n NUMERIC, u UUID, t TEXT COLLATE nocase, c CHAR(3), d DATE, s TIMESTAMP, m mood, f FLOAT4, b BYTEA, j JSON)",
        "INSERT INTO keys VALUES (1.50, '00000000-0000-0000-0000-00000000000a', 'Ab', 'x', '2020-01-01', "
        "'2020-01-01 00:00:00.5', 'sad', 0.1, '\\x00ff', '{}')",
    )
    connected(t_env, postgres)
    for column, hit, miss in (
        ("n", "CAST(1.5 AS DECIMAL(38, 18))", "CAST(1.51 AS DECIMAL(38, 18))"),
        ("u", "'00000000-0000-0000-0000-00000000000a'", "'no uuid'"),
        ("t", "'Ab'", "'ab'"),
        ("d", "DATE '2020-01-01'", "DATE '2020-01-02'"),
        ("s", "TIMESTAMP '2020-01-01 00:00:00.5'", "TIMESTAMP '2020-01-01 00:00:00'"),
        ("m", "'sad'", "'furious'"),
        ("f", "CAST(0.1 AS FLOAT)", "CAST(0.2 AS FLOAT)"),
        ("j", "'{}'", "'{ }'"),
    ):
        for value, found in ((hit, 1), (miss, 0)):
            run(t_env, f"CREATE OR REPLACE TEMPORARY VIEW asked AS SELECT {value} AS k, PROCTIME() AS p")
            query = f"SELECT a.k FROM asked AS a JOIN pg.public.keys FOR SYSTEM_TIME AS OF a.p AS r ON a.k = r.{column}"
            assert len(rows(t_env, query)) == found, (column, value)


def test_types_of_postgresql(t_env: TableEnvironment, postgres: PostgresDatabase) -> None:
    """What has no equal here comes as PostgreSQL's own text."""
    postgres.run(
        "CREATE TYPE mood AS ENUM ('sad', 'glad')",
        "CREATE DOMAIN small AS NUMERIC(4, 1) CHECK (value < 100)",
        "CREATE TYPE pair AS (a INT, b TEXT)",
        "CREATE TABLE odd (a UUID, b JSONB, c mood, d small, e pair, f INTERVAL, g INT4RANGE, h INET, i TIMETZ, j NUMERIC, "
        "k CHAR(3), l NUMERIC(5, -2), m mood[], n NUMERIC(6, 2)[], o TIMESTAMPTZ(0), p OID, q NAME, "
        " r MONEY, s TIMESTAMP[], t XML, u TIME(6))",
        "INSERT INTO odd VALUES ('00000000-0000-0000-0000-00000000000a', '{\"x\": [1, null]}', 'glad', 1.5, (1, 'x'), "
        "'1 mon 2 days 3.5 s', '[1,5)', '10.0.0.1', '12:00:00+02', 1e-18, 'x', 12345, '{sad,NULL}', '{1.5,NULL}', "
        "'2020-01-01 12:00:00+02', 1, 'n', 1.5, '{2020-01-01 00:00:00}', '<a/>', '12:00:00.123456')",
        "INSERT INTO odd (p) VALUES (NULL)",
    )
    connected(t_env, postgres)
    types = {r[0]: r[1] for r in rows(t_env, "DESCRIBE pg.public.odd")}
    assert [types[c] for c in "djklmnopu"] == [
        "DECIMAL(4, 1)", "DECIMAL(38, 18)", "CHAR(3)", "DECIMAL(7, 0)", "ARRAY<STRING>", "ARRAY<DECIMAL(6, 2)>",
        "TIMESTAMP_LTZ(0)", "BIGINT", "TIME(3)",
    ]  # fmt: skip
    full, empty = rows(t_env, "SELECT * FROM pg.public.odd")
    assert list(map(str, full)) == [
        "00000000-0000-0000-0000-00000000000a", '{"x": [1, null]}', "glad", "1.5", "(1,x)", "P1M2DT3.5S", "[1,5)", "10.0.0.1/32",
        "12:00:00+02", "1E-18", "x  ", "12300", "['sad', None]", "[Decimal('1.50'), None]", "2020-01-01 10:00:00+00:00", "1", "n",
        "$1.50", "[datetime.datetime(2020, 1, 1, 0, 0)]", "<a/>", "12:00:00.123000",
    ]  # fmt: skip
    assert set(empty) == {None}


WITHOUT_AN_EQUAL = (
    ("NUMERIC", "'NaN'"), ("NUMERIC", "'Infinity'"), ("NUMERIC", "1e30"), ("NUMERIC", "1e-19"), ("NUMERIC[]", "'{NaN}'"),
    ("DATE", "'infinity'"), ("TIMESTAMP", "'-infinity'"), ("TIMESTAMPTZ", "'infinity'"), ("TIMESTAMP", "'0044-03-15 BC'"),
    ("TIMESTAMP[]", "'{infinity}'"), ("INT[]", "'{{1,2},{3,4}}'"),
)  # fmt: skip


def test_values_without_an_equal(t_env: TableEnvironment, postgres: PostgresDatabase) -> None:
    columns = [f"strange{i} {type_}" for i, (type_, _) in enumerate(WITHOUT_AN_EQUAL)]
    postgres.run(
        f"CREATE TABLE odd (id INT, {', '.join(columns)})",
        f"INSERT INTO odd VALUES (1, {', '.join(value for _, value in WITHOUT_AN_EQUAL)})",
    )
    connected(t_env, postgres)
    for i in range(len(columns)):
        with pytest.raises(SqlEngineError, match=f"E3164 .*column strange{i} "):
            rows(t_env, f"SELECT strange{i} FROM pg.public.odd")
    assert rows(t_env, "SELECT id FROM pg.public.odd") == [(1,)]


def test_what_is_pushed_down(t_env: TableEnvironment, shop: PostgresDatabase) -> None:
    connected(t_env, shop)
    plan = rows(t_env, "EXPLAIN SELECT name FROM pg.public.items WHERE id > 2 AND price < 6.5 LIMIT 1")[0][0]
    assert '"id" > 2' in plan and '"price" < 6.5' in plan
    assert PASSWORD + "'" not in plan
    assert rows(t_env, "SELECT name FROM pg.public.items WHERE id > 2 AND price < 6.5") == [("item 3",), ("item 4",)]
    assert rows(t_env, "SELECT COUNT(*) FROM pg.public.items WHERE name = 'item 3' OR name IN ('item 1')") == [(2,)]
    assert rows(t_env, "SELECT COUNT(*) FROM pg.public.items") == [(5,)]


def test_mistakes(t_env: TableEnvironment, shop: PostgresDatabase) -> None:
    connected(t_env, shop)
    with_ = f"WITH ('connector' = 'postgres', {shop.options}, 'table-name' = 'items')"
    run(t_env, f"CREATE TABLE wrong (name INT) {with_}")
    run(t_env, f"CREATE TABLE gone (nam STRING) {with_}")
    run(t_env, f"CREATE TABLE nowhere (a INT) {with_.replace('items', 'item')}")
    for statement, message in (
        ("SELECT * FROM pg.public.item", "E1205|unknown table"),
        ("SELECT * FROM wrong", "E3163 column name of .* is character varying.20. there, which cannot be read as INT"),
        ("SELECT * FROM gone", 'E3163 public.items has no column nam; did you mean "?name'),
        ("SELECT * FROM nowhere", 'E3163 .*no table "item" in the schema "public"; did you mean'),
    ):
        with pytest.raises(SqlEngineError, match=message):
            rows(t_env, statement)


def test_mistakes_in_options(t_env: TableEnvironment) -> None:
    for options, message in (
        ("'connector' = 'postgres', 'urll' = 'x'", "E1503 unknown option 'urll'.*did you mean \"url\""),
        ("'connector' = 'postgres', 'url' = 'postgresql://h/x', 'username' = 'u'", "E1504 .*'table-name'"),
        ("'connector' = 'jdbc', 'url' = 'jdbc:postgres://h/x'", "E1500 .*did you mean .jdbc:postgresql:."),
    ):
        with pytest.raises(SqlEngineError, match=message):
            run(t_env, f"CREATE TABLE t (a INT) WITH ({options})")


def test_partitions_heirs_and_views(t_env: TableEnvironment, postgres: PostgresDatabase) -> None:
    postgres.run(
        "CREATE TABLE parted (k INT, v INT) PARTITION BY RANGE (k)",
        "CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE parted_2 (v INT, k INT); ALTER TABLE parted ATTACH PARTITION parted_2 FOR VALUES FROM (10) TO (20)",
        "INSERT INTO parted SELECT g, g FROM generate_series(0, 19) AS g",
        "CREATE TABLE parent (k INT); CREATE TABLE child (extra INT) INHERITS (parent)",
        "INSERT INTO parent VALUES (1); INSERT INTO child VALUES (2, 3)",
        "CREATE VIEW seen AS SELECT k * 2 AS k FROM parted",
        "CREATE MATERIALIZED VIEW kept AS SELECT k FROM parent",
    )
    connected(t_env, postgres)
    assert rows(t_env, "SHOW TABLES IN pg.public") == [("child",), ("kept",), ("parent",), ("parted",), ("seen",)]
    for table, found in (("parted", (20, 190)), ("parent", (2, 3)), ("seen", (20, 380)), ("kept", (2, 3))):
        assert rows(t_env, f"SELECT COUNT(*), SUM(k) FROM pg.public.{table}") == [found]


def test_tables_that_are_made_there(t_env: TableEnvironment, shop: PostgresDatabase) -> None:
    connected(t_env, shop)
    run(
        t_env,
        "CREATE TABLE pg.public.made (id INT NOT NULL, name VARCHAR(5) COMMENT 'it''s', at TIMESTAMP(3), n ARRAY<INT>, "
        "PRIMARY KEY (id) NOT ENFORCED) COMMENT 'made here'",
    )
    run(t_env, "INSERT INTO pg.public.made VALUES (1, 'a', TIMESTAMP '2020-01-01 00:00:00.123', ARRAY[1])")
    shown = rows(t_env, "SHOW CREATE TABLE pg.public.made")[0][0]
    assert "VARCHAR(5)" in shown and "TIMESTAMP(3)" in shown and "PRIMARY KEY (`id`)" in shown and "it''s" in shown
    run(t_env, "CREATE TABLE pg.public.dear AS SELECT name, price FROM pg.public.items WHERE price > 4")
    assert shop.rows("SELECT * FROM dear ORDER BY 1") == [("item 3", 4.5), ("item 4", 6), ("item 5", 7.5)]
    for statement, message in (
        ("CREATE TABLE pg.public.bad (a MAP<INT, INT>)", "E1627 a table of PostgreSQL cannot have the type MAP"),
        ("CREATE TABLE pg.public.bad (a INT) WITH ('x' = 'y')", "E1627 .*the option 'x'"),
        ("CREATE TABLE pg.public.bad (a INT, b AS a + 1)", "E1627 .*computed"),
        ("ALTER TABLE pg.public.items ADD (b INT)", "E1627 columns of tables of PostgreSQL"),
        ("CREATE TABLE pg.public.items (a INT)", "E14"),
        ("CREATE TABLE pg.public.bad AS SELECT name, 1 / (id - id) AS x FROM pg.public.items", "E"),
    ):
        with pytest.raises(SqlEngineError, match=message):
            run(t_env, statement)
    assert ("bad",) not in rows(t_env, "SHOW TABLES IN pg.public")
    run(t_env, "DROP TABLE pg.public.dear")
    run(t_env, "CREATE DATABASE pg.fresh")
    run(t_env, "CREATE TABLE pg.fresh.t (a INT)")
    run(t_env, "INSERT INTO pg.fresh.t VALUES (1)")
    assert shop.rows("SELECT a FROM fresh.t") == [(1,)]
    assert rows(t_env, "SHOW TABLES IN pg.public") == [("items",), ("made",)]


def test_flinks_catalog(t_env: TableEnvironment, shop: PostgresDatabase) -> None:
    shop.run("CREATE SCHEMA stock", "CREATE TABLE stock.places (id INT)", "INSERT INTO stock.places VALUES (7)")
    base = shop.url.rpartition("/")[0]
    run(
        t_env,
        f"CREATE CATALOG pg WITH ('type' = 'jdbc', 'base-url' = 'jdbc:{base}', 'default-database' = '{shop.name}', "
        f"'username' = 'postgres', 'password' = '{PASSWORD}')",
    )
    run(t_env, "USE CATALOG pg")
    assert (shop.name,) in rows(t_env, "SHOW DATABASES")
    assert rows(t_env, "SHOW TABLES") == [("items",), ("stock.places",)]
    assert rows(t_env, "SELECT * FROM `stock.places`") == [(7,)]
    for name in ("items", "`public.items`"):
        assert rows(t_env, f"SELECT COUNT(*) FROM {name}") == [(5,)]
    run(t_env, "INSERT INTO `stock.places` VALUES (8)")
    assert rows(t_env, f"SELECT SUM(id) FROM pg.{shop.name}.`stock.places`") == [(15,)]
