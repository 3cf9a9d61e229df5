"""Iceberg in SQL: catalogs, CREATE and ALTER TABLE, time travel, CALL; and what the other side sees of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.core.errors import SqlEngineError
from sqlengine import TableEnvironment


@pytest.fixture
def t_env(tmp_path: Path) -> Iterator[TableEnvironment]:
    made = TableEnvironment.create()
    made.execute_sql(
        f"CREATE CATALOG lake WITH ('type' = 'iceberg', 'catalog-type' = 'hadoop', 'warehouse' = '{tmp_path}')"
    )
    made.execute_sql("CREATE DATABASE lake.shop")
    made.execute_sql("USE lake.shop")
    yield made
    made.close()


def rows(t_env: TableEnvironment, sql: str) -> list[Any]:
    return [tuple(r.values()) for r in t_env.execute_sql(sql).to_arrow().to_pylist()]


def test_tables_are_made_and_changed(t_env: TableEnvironment) -> None:
    t_env.execute_sql(
        "CREATE TABLE orders (id BIGINT, city STRING COMMENT 'where', PRIMARY KEY (id) NOT ENFORCED) COMMENT 'all' "
        "PARTITIONED BY (city) WITH ('partitioning' = 'bucket(4, id)')"
    )
    t_env.execute_sql("INSERT INTO orders VALUES (1, 'Ulm'), (2, 'Bonn')")
    t_env.execute_sql("INSERT INTO orders VALUES (1, 'Jena')")
    assert rows(t_env, "SELECT * FROM orders ORDER BY id") == [(1, "Jena"), (2, "Bonn")]
    shown = rows(t_env, "SHOW CREATE TABLE orders")[0][0]
    assert "PRIMARY KEY (`id`)" in shown and "COMMENT 'all'" in shown and "COMMENT 'where'" in shown
    assert "PARTITIONED BY (`city`)" in shown
    for change in ("ADD (price DECIMAL(10, 2))", "RENAME city TO town", "ADD `order` INT FIRST", "DROP `order`"):
        t_env.execute_sql(f"ALTER TABLE orders {change}")
    t_env.execute_sql("INSERT INTO orders VALUES (3, 'Köln', 1.5)")
    assert rows(t_env, "SELECT id, price, town FROM orders WHERE id > 1 ORDER BY id")[1][2] == "Köln"
    t_env.execute_sql("ALTER TABLE orders MODIFY (price DECIMAL(12, 2))")
    t_env.execute_sql("CREATE TABLE `copy` AS SELECT * FROM orders")
    assert rows(t_env, "SELECT COUNT(*) FROM `copy`") == [(3,)]
    t_env.execute_sql("DROP TABLE orders")
    assert rows(t_env, "SHOW TABLES") == [("copy",)]


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("CREATE TABLE t (a INT) WITH ('formt-version' = '2')", "E1503"),
        ("CREATE TABLE t (a INT, b AS a + 1)", "E1627"),
        ("CREATE TABLE t (a TIMESTAMP(9))", "E1616"),
        ("CREATE VIEW v AS SELECT 1", "E1627"),
        ("ALTER TABLE kept ADD (b INT NOT NULL)", "E1627"),
        ("ALTER TABLE kept RENAME TO other", "E1627"),
        ("ALTER TABLE kept SET ('x' = 'y')", "E1503"),
        ("SELECT * FROM kept FOR SYSTEM_TIME AS OF TIMESTAMP '1990-01-01 00:00:00'", "E3192"),
        ("DROP DATABASE lake.shop", "E1405"),
        ("CREATE CATALOG c WITH ('type' = 'iceberg', 'catalog-type' = 'hadop', 'warehouse' = 'x')", "E1500"),
        ("CREATE CATALOG c WITH ('type' = 'iceberg', 'catalog-type' = 'rest')", "E1504"),
        ("CREATE CATALOG c WITH ('type' = 'iceberg', 'catalog-type' = 'hadoop', 'warehouse' = 's3://b/x')", "E1500"),
        ("CALL sys.remove_orphan_files('kept', CURRENT_TIMESTAMP)", "E1500"),
        ("CALL sys.expire_snapshots('default_catalog.default_database.mem', CURRENT_TIMESTAMP)", "E1604"),
    ],
)
def test_mistakes(t_env: TableEnvironment, sql: str, code: str) -> None:
    t_env.execute_sql("CREATE TABLE kept (a INT)")
    t_env.execute_sql("INSERT INTO kept VALUES (1)")
    t_env.execute_sql("CREATE TABLE default_catalog.default_database.mem (a INT)")
    with pytest.raises(SqlEngineError) as told:
        t_env.execute_sql(sql).to_arrow()
    assert told.value.code == code
    assert rows(t_env, "SELECT * FROM kept") == [(1,)]


def test_time_travel_and_upkeep(t_env: TableEnvironment) -> None:
    t_env.execute_sql("CREATE TABLE t (a INT)")
    t_env.execute_sql("INSERT INTO t VALUES (1)")
    then = rows(t_env, "SELECT CAST(CURRENT_TIMESTAMP AS TIMESTAMP_LTZ(3))")[0][0]
    for n in (2, 3):
        t_env.execute_sql(f"INSERT INTO t VALUES ({n})")
    millis = int(then.timestamp() * 1000)
    assert rows(t_env, f"SELECT * FROM t FOR SYSTEM_TIME AS OF TO_TIMESTAMP_LTZ({millis}, 3)") == [(1,)]
    assert rows(t_env, "SELECT COUNT(*) FROM t") == [(3,)]
    assert rows(t_env, "CALL sys.compact('t')") == [(None, 3, 1, 0)]
    assert rows(t_env, "CALL sys.expire_snapshots('t', CURRENT_TIMESTAMP + INTERVAL '1' DAY)")[0][0] == 3
    assert rows(t_env, "CALL sys.remove_orphan_files('t', CURRENT_TIMESTAMP - INTERVAL '3' DAY)") == []
    assert sorted(rows(t_env, "SELECT * FROM t")) == [(1,), (2,), (3,)]


def test_a_view_follows_a_table(t_env: TableEnvironment) -> None:
    t_env.execute_sql("CREATE TABLE t (id INT, v INT, PRIMARY KEY (id) NOT ENFORCED)")
    t_env.execute_sql("INSERT INTO t VALUES (1, 10), (2, 20)")
    t_env.execute_sql("USE CATALOG default_catalog")
    t_env.execute_sql(
        "CREATE MATERIALIZED VIEW total AS SELECT SUM(v) AS v, COUNT(*) AS n "
        "FROM lake.shop.t /*+ OPTIONS('streaming' = 'true', 'monitor-interval' = '10 ms') */"
    )
    t_env.execute_sql("FLUSH")
    assert rows(t_env, "SELECT * FROM total") == [(30, 2)]
    t_env.execute_sql("INSERT INTO lake.shop.t VALUES (1, 11), (3, 30)")
    t_env.execute_sql("FLUSH")
    assert rows(t_env, "SELECT * FROM total") == [(61, 3)]


def test_the_plan_has_what_was_pushed_down(t_env: TableEnvironment) -> None:
    t_env.execute_sql("CREATE TABLE t (id INT, v INT, w STRING)")
    plan = rows(t_env, "EXPLAIN SELECT v FROM t WHERE id = 3")
    text = "\n".join(str(row[0]) for row in plan)
    assert "id = 3" in text and "w" not in text.split("Physical")[-1].replace("lake.shop", "")


def test_a_folder_is_the_one_of_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        with TableEnvironment.create() as t_env:
            t_env.execute_sql(
                "CREATE CATALOG here WITH ('type' = 'iceberg', 'catalog-type' = 'hadoop', 'warehouse' = 'lake')"
            )
            t_env.execute_sql("CREATE DATABASE here.db")
            t_env.execute_sql("CREATE TABLE here.db.t (a INT)")
        assert (tmp_path / name / "lake" / "db" / "t").is_dir()
