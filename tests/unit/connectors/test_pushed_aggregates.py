"""Aggregates that a database computes give what they give here, or are not asked for."""

from __future__ import annotations

import json
import os
import random
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from sqlengine import PlanReference, SqlEngineError, TableEnvironment
from tests.servers.mariadb import MariaDatabase
from tests.servers.postgres import PASSWORD, PostgresDatabase

RULE = "push_aggregate_into_scan"
COLUMNS = "k STRING, g INT, x INT, b BIGINT, s SMALLINT, p DECIMAL(12, 2), w DECIMAL(30, 2), d DATE, f DOUBLE"
TYPES = {
    "postgres": "k text, g int, x int, b bigint, s smallint, p numeric(12, 2), w numeric(30, 2), d date, f float8",
    "mysql": "k TEXT, g INT, x INT, b BIGINT, s SMALLINT, p DECIMAL(12, 2), w DECIMAL(30, 2), d DATE, f DOUBLE",
    "duckdb": "k VARCHAR, g INT, x INT, b BIGINT, s SMALLINT, p DECIMAL(12, 2), w DECIMAL(30, 2), d DATE, f DOUBLE",
    "sqlite": "k TEXT COLLATE NOCASE, g INT, x INT, b BIGINT, s SMALLINT, p DECIMAL(12, 2), w TEXT, d DATE, f DOUBLE",
}
QUERIES = (
    "SELECT COUNT(*) FROM t",
    "SELECT COUNT(*), COUNT(x), SUM(x), SUM(b), SUM(s), MIN(b), MAX(s) FROM t",
    "SELECT k, COUNT(*), SUM(x), SUM(b), COUNT(f), MIN(g) FROM t GROUP BY k",
    "SELECT g, k, SUM(s), MAX(x), MIN(b) FROM t GROUP BY g, k",
    "SELECT DISTINCT k FROM t",
    "SELECT g, SUM(b), MIN(x), COUNT(*) FROM t WHERE x > 0 GROUP BY g",
    "SELECT SUM(p), MIN(p), MAX(p), MIN(d), MAX(d), SUM(w), COUNT(d) FROM t",
    "SELECT d, p, COUNT(*) FROM t GROUP BY d, p",
    "SELECT g, SUM(b), COUNT(1) FROM t WHERE x > 0 AND g IS NOT NULL GROUP BY g",
    "SELECT COUNT(*), SUM(x) FROM t WHERE g = 77",
    "SELECT MIN(k), MAX(k), SUM(f), AVG(x), COUNT(DISTINCT g) FROM t",
    "SELECT (SELECT COUNT(*) FROM t WHERE g = 77), (SELECT SUM(x) FROM t)",
    "SELECT COUNT(*) FROM (SELECT * FROM t LIMIT 3)",
)


@pytest.fixture(params=["sqlite", "duckdb", "postgres", "mysql"])
def open_table(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., TableEnvironment]:
    """Makes an environment whose table t holds rows of a database, which declares the columns as it says."""
    system: str = request.param
    database: PostgresDatabase | None = request.getfixturevalue("postgres") if system == "postgres" else None
    mariadb: MariaDatabase | None = request.getfixturevalue("mariadb") if system == "mysql" else None

    def make(rows: list[tuple[Any, ...]], types: str = TYPES[system], declared: str = COLUMNS) -> TableEnvironment:
        marks = ", ".join("?" * len(rows[0]))
        if database is not None:
            with database.connect() as connection, connection.cursor() as cursor:
                cursor.execute(f"CREATE TABLE t ({types})")
                cursor.executemany(f"INSERT INTO t VALUES ({marks.replace('?', '%s')})", rows)
            where = f"'url' = '{database.url}', 'username' = 'postgres', 'password' = '{PASSWORD}'"
        elif mariadb is not None:
            with mariadb.connect() as connection, connection.cursor() as cursor:
                cursor.execute(f"CREATE TABLE t ({types})")
                cursor.executemany(f"INSERT INTO t VALUES ({marks.replace('?', '%s')})", rows)
            where = mariadb.options
        elif system == "duckdb":
            with duckdb.connect(str(tmp_path / "db")) as connection:
                connection.execute(f"CREATE TABLE t ({types})")
                connection.executemany(f"INSERT INTO t VALUES ({marks})", rows)
            where = f"'path' = '{tmp_path}/db'"
        else:
            plain = [tuple(v if v is None or isinstance(v, int | float) else str(v) for v in row) for row in rows]
            lite = sqlite3.connect(tmp_path / "db")
            lite.execute(f"CREATE TABLE t ({types})")
            lite.executemany(f"INSERT INTO t VALUES ({marks})", plain)
            lite.commit()
            lite.close()
            where = f"'path' = '{tmp_path}/db'"
        t_env = TableEnvironment.create()
        t_env.execute_sql(f"CREATE TABLE t ({declared}) WITH ('connector' = '{system}', 'table-name' = 't', {where})")
        return t_env

    make.system = system  # type: ignore[attr-defined]
    return make


def answer(t_env: TableEnvironment, query: str) -> list[str]:
    return sorted(map(repr, t_env.execute_sql(query).to_arrow().to_pylist()))


def random_rows(seed: int) -> list[tuple[Any, ...]]:
    chance = random.Random(seed)

    def one_of(*values: Any) -> Any:
        return chance.choice((None, *values))

    def number(bits: int) -> Any:
        half = 1 << (bits - 1)
        return one_of(-half, half - 1, half - 1, 0, chance.randrange(-half, half))

    return [
        (
            one_of("a", "A", "a ", "ä", "", "b"),
            one_of(1, 2, -3),
            number(32),
            number(64),
            number(16),
            one_of("0.10", "-9999999999.99", "9999999999.99", "5.00"),
            one_of("9999999999999999999999999999.99", "1.00"),
            one_of("0001-01-01", "9999-12-31", "2026-02-28"),
            one_of(1.5, -0.0, 1e300),
        )
        for _ in range(chance.randrange(1, 60))
    ]


@pytest.mark.parametrize("seed", range(int(os.environ.get("FUZZ_CASES", "1"))))
def test_they_are_equal(open_table: Callable[..., TableEnvironment], seed: int) -> None:
    with open_table(random_rows(seed)) as t_env:
        for query in QUERIES:
            pushed = answer(t_env, query)
            t_env.execute_sql(f"SET 'optimizer.disabled_rules' = '{RULE}'")
            assert answer(t_env, query) == pushed, query
            t_env.execute_sql("RESET 'optimizer.disabled_rules'")


def test_they_are_asked_for(open_table: Callable[..., TableEnvironment]) -> None:
    with open_table(random_rows(1)) as t_env:
        # MySQL groups by numbers alone.
        groups_by_texts = open_table.system != "mysql"  # type: ignore[attr-defined]
        for query in (q for q in QUERIES[:6] if groups_by_texts or "k" not in q):
            assert "group by" in t_env.explain_sql(query) or "aggregates" in t_env.explain_sql(query), query
        for query in QUERIES[-3:-2]:
            assert "aggregates=" not in t_env.explain_sql(query)


@pytest.mark.parametrize(
    "query", ["SELECT SUM(x) FROM t", "SELECT MIN(x), COUNT(*) FROM t", "SELECT x FROM t GROUP BY x"]
)
def test_values_that_do_not_fit_are_errors_as_they_are_when_read(
    open_table: Callable[..., TableEnvironment], query: str
) -> None:
    with open_table([(1,), (70_000,), (2,)], "x BIGINT", "x SMALLINT") as t_env:
        with pytest.raises(SqlEngineError) as pushed:
            answer(t_env, query)
        t_env.execute_sql(f"SET 'optimizer.disabled_rules' = '{RULE}'")
        with pytest.raises(SqlEngineError) as read:
            answer(t_env, query)
        assert pushed.value.code == read.value.code


def test_a_plan_has_them(open_table: Callable[..., TableEnvironment]) -> None:
    with open_table(random_rows(2)) as t_env:
        t_env.execute_sql("CREATE TABLE sums (g INT PRIMARY KEY NOT ENFORCED, n BIGINT, s BIGINT)")
        query = "SELECT g, COUNT(*) AS n, SUM(b) AS s FROM t WHERE g IS NOT NULL GROUP BY g"
        expected = answer(t_env, query)
        plan = t_env.compile_plan_sql(f"INSERT INTO sums {query}")
        text = plan.as_json_string()
        assert '"aggregates"' in text
        plan.execute().wait()
        assert answer(t_env, "SELECT * FROM sums") == expected
        asked = json.loads(text)
        source = next(n for n in asked["nodes"] if n["node"].startswith("SourceExec"))
        for wrong in (
            [["COUNT", None]],
            [["COUNT", None], ["SUM", "k"]],
            [["AVG", "b"], ["SUM", "b"]],
            "SUM",
            [["SUM"]],
        ):
            source["table"]["aggregates"] = wrong
            with pytest.raises(SqlEngineError, match="E3210"):
                t_env.execute_plan(PlanReference.from_json_string(json.dumps(asked)))


@pytest.mark.parametrize(
    ("types", "declared", "values"),
    [
        ("x BIGINT UNSIGNED", "x BIGINT", ["1", "9223372036854775807"]),
        ("x BIGINT UNSIGNED", "x BIGINT", ["1", "9223372036854775808"]),
        ("x DECIMAL(5, 1)", "x INT", ["1.0", "2.0"]),
        ("x DECIMAL(5, 1)", "x INT", ["1.0", "2.5"]),
        ("x DECIMAL(12, 3)", "x DECIMAL(8, 1)", ["1.000", "9999999.900"]),
        ("x DECIMAL(12, 3)", "x DECIMAL(8, 1)", ["1.000", "99999999.900"]),
        ("x DECIMAL(12, 3)", "x DECIMAL(8, 1)", ["1.000", "1.110"]),
        ("x INT", "x INT NOT NULL", ["1", None]),
        ("x MEDIUMINT", "x SMALLINT", ["1", "32767"]),
        ("x YEAR", "x INT", ["2020", "1999"]),
    ],
)
def test_types_of_mysql(mariadb: MariaDatabase, types: str, declared: str, values: list[str | None]) -> None:
    """An answer or an error, as when the rows are read."""
    with mariadb.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE t ({types})")
        cursor.executemany("INSERT INTO t VALUES (%s)", [(v,) for v in values])
    with TableEnvironment.create() as t_env:
        t_env.execute_sql(
            f"CREATE TABLE t ({declared}) WITH ('connector' = 'mysql', 'table-name' = 't', {mariadb.options})"
        )
        found: list[Any] = []
        for rules in ("", RULE):
            t_env.execute_sql(f"SET 'optimizer.disabled_rules' = '{rules}'")
            for query in ("SELECT SUM(x), MIN(x), MAX(x), COUNT(x) FROM t", "SELECT x, COUNT(*) FROM t GROUP BY x"):
                try:
                    found.append(answer(t_env, query))
                except SqlEngineError as error:
                    found.append(error.code)
    assert found[:2] == found[2:]
