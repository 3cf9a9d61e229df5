"""Every rule may be switched off and nothing changes but the plan.

Each query runs over small tables with NULLs and duplicates, first with all rules, then again without each rule that
fired for it (and may be missed). The folded answers must be equal, and DuckDB's where DuckDB understands the query.
"""

from __future__ import annotations

import collections
import random
from pathlib import Path

import duckdb
import pytest

from planner.stages import STAGES
from sqlengine.api.environment import TableEnvironment
from sqlengine.parse import parse_statement
from sqlengine.statements.planning import plan_query

ESSENTIAL = {r.name for s in STAGES for r in s.rules if r.essential}
TABLES = {
    "t": ("id INT", "a INT", "b INT", "s STRING"),
    "u": ("id INT", "c INT", "d INT", "s STRING"),
    "w": ("k INT", "v INT", "ts TIMESTAMP(3)"),
    "x": ("k INT", "v INT", "ts TIMESTAMP(3)"),
}

NOTHING = "SELECT id FROM t WHERE a NOT IN (SELECT c FROM u)"
"""The rule of NOT IN: u holds a NULL, so no row is surely not in it."""

PLAIN = [
    "SELECT a + 0 * 1 AS a, CASE WHEN TRUE THEN b ELSE a END AS b FROM t WHERE 3 < a AND NOT (b IS NULL OR b < 2)",
    "SELECT * FROM (SELECT a * 2 AS p, b FROM t) WHERE p > 4 AND b IN (3, 3) AND CAST(b AS BIGINT) < 100",
    "SELECT t.id, u.d FROM t, u WHERE t.a = u.c AND t.b > 2 AND u.d < 6",
    "SELECT t.id, u.d FROM t LEFT JOIN u ON t.a = u.c AND u.d > 2 WHERE u.d < 5",
    "SELECT t.id, u.id AS uid FROM t FULL JOIN u ON t.a = u.c WHERE t.b > 3",
    "SELECT t.id, u.id AS uid FROM t FULL JOIN u ON t.a = u.c WHERE t.id IS NULL OR u.id IS NULL",
    "SELECT t.id, u.id AS uid FROM t LEFT JOIN u ON t.a = u.c AND t.b > 3 WHERE t.a < 6",
    "SELECT t.id FROM t JOIN u ON (t.a = u.c AND t.b = 1) OR (t.a = u.c AND u.d = 2)",
    "SELECT t1.id, u.id AS uid, t2.id AS tid FROM t t1, t t2, u WHERE t1.a = u.c AND t2.b = u.d AND t1.a > 3",
    "SELECT t1.id, u.id AS uid, t2.id AS tid FROM t t1 LEFT JOIN u ON t1.a = u.c LEFT JOIN t t2 ON t2.b = t1.a",
    "SELECT a, n FROM (SELECT a, COUNT(*) AS n FROM t GROUP BY a) WHERE a > 2 AND n > 1",
    "SELECT a, COUNT(*) AS n FROM t GROUP BY ROLLUP (a) HAVING COUNT(*) > 2",
    "SELECT DISTINCT id, a FROM (SELECT DISTINCT id, a, b FROM t)",
    "SELECT y FROM (SELECT a AS y FROM t UNION ALL SELECT c FROM u UNION ALL SELECT 5) WHERE y > 3",
    "SELECT y FROM (SELECT a AS y FROM t INTERSECT SELECT c FROM u) WHERE y > 1",
    "SELECT y FROM (SELECT a AS y FROM t EXCEPT ALL SELECT c FROM u) WHERE y > 1 OR y IS NULL",
    "SELECT a FROM t WHERE FALSE UNION ALL SELECT c FROM u",
    "SELECT id, rn FROM (SELECT id, a, ROW_NUMBER() OVER (PARTITION BY a ORDER BY id) AS rn FROM t) WHERE rn <= 2 AND a > 1",
    "SELECT a, id FROM (SELECT a, id, ROW_NUMBER() OVER (PARTITION BY a ORDER BY id DESC) AS rn FROM t) WHERE rn = 1",
    "SELECT id, a FROM (SELECT id, a FROM t ORDER BY id DESC) ORDER BY id LIMIT 5 OFFSET 2",
    "SELECT COUNT(*) AS n FROM (SELECT id FROM t ORDER BY a) HAVING COUNT(*) > 1",
    "SELECT id FROM t WHERE a IN (SELECT c FROM u WHERE d > 2) AND b > 1",
    "SELECT id FROM t WHERE a NOT IN (SELECT c FROM u WHERE d > 2 AND c IS NOT NULL)",
    NOTHING,
    "SELECT id FROM t WHERE a NOT IN (SELECT c FROM u WHERE d > 100)",
    "SELECT id FROM t WHERE a NOT IN (SELECT c FROM u WHERE u.d = t.b)",
    "SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.c = t.a AND u.d > t.b)",
    "SELECT id, (SELECT COUNT(*) FROM u WHERE u.c = t.a) AS n FROM t",
    "SELECT id, (SELECT COUNT(*) FROM u WHERE u.c > t.a) AS n, (SELECT MAX(d) FROM u WHERE u.c < t.a) AS m FROM t",
    "SELECT id, a IN (SELECT c FROM u) AS i, EXISTS (SELECT 1 FROM u WHERE c = a) AS e FROM t",
    "SELECT id FROM t WHERE b > 4 OR a IN (SELECT c FROM u WHERE u.d = t.b) OR id = 1",
    "SELECT id FROM t WHERE b > (SELECT AVG(CAST(d AS DOUBLE)) FROM u WHERE u.c = t.a)",
    "SELECT t.id, z.d FROM t CROSS JOIN LATERAL (SELECT u.d FROM u WHERE u.c = t.a ORDER BY u.d DESC, u.id LIMIT 2) z",
    "SELECT t.id, z.y FROM t CROSS JOIN LATERAL (SELECT t.a + t.b AS y) z WHERE z.y > 3",
    "SELECT t.id, z.n FROM t LEFT JOIN LATERAL (SELECT d + t.b AS n FROM u WHERE c = t.a) z ON TRUE",
    "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.c = t.a AND EXISTS (SELECT 1 FROM t t2 WHERE t2.b = u.d AND t2.a >= t.a))",
    "SELECT id, (SELECT SUM(z.n) FROM (SELECT c, COUNT(*) AS n FROM u WHERE u.d <> t.b GROUP BY c) z) AS s FROM t",
    "SELECT t.id, u.id AS uid FROM t LEFT JOIN u ON t.a = u.c AND t.b IN (SELECT d FROM u u2)",
    "SELECT t.id, u.id AS uid FROM t RIGHT JOIN u ON t.a = u.c AND u.d IN (SELECT b FROM t t2 WHERE t2.s = u.s)",
    "SELECT t.id, u.id AS uid FROM t FULL JOIN u ON t.a = u.c AND EXISTS (SELECT 1 FROM t t2 WHERE t2.b = u.d AND t2.id > 20)",
    "SELECT t.id, u.id AS uid FROM t LEFT JOIN u ON t.a = u.c AND EXISTS (SELECT 1 FROM t t2 WHERE t2.b = u.d AND t2.a > t.b)",
    "SELECT id FROM t WHERE (SELECT COUNT(*) FROM u WHERE u.c = t.a HAVING COUNT(*) > 1) IS NULL",
]
"""Queries that mean the same in DuckDB."""

STREAMING = [
    "SELECT k, window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE w, DESCRIPTOR(ts), INTERVAL '10' SECOND)) WHERE v > 2"
    " GROUP BY k, window_start, window_end",
    "SELECT window_start, MAX(n) AS m FROM (SELECT k, window_start, window_end, COUNT(*) AS n FROM"
    " TABLE(HOP(TABLE w, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)) GROUP BY k, window_start, window_end)"
    " GROUP BY window_start, window_end",
    "SELECT a.k, b.v, a.window_start FROM (SELECT * FROM TABLE(TUMBLE(TABLE w, DESCRIPTOR(ts), INTERVAL '10' SECOND))) a JOIN"
    " (SELECT * FROM TABLE(TUMBLE(TABLE x, DESCRIPTOR(ts), INTERVAL '10' SECOND))) b"
    " ON a.window_start = b.window_start AND a.window_end = b.window_end AND a.k = b.k WHERE a.v > 3",
    "SELECT w.k, w.v, x.v AS xv FROM w JOIN x ON w.k = x.k AND x.ts BETWEEN w.ts - INTERVAL '3' SECOND AND w.ts + INTERVAL '5' SECOND",
    "SELECT k, v, n FROM (SELECT k, v, window_start, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY v DESC, k) AS n"
    " FROM TABLE(TUMBLE(TABLE w, DESCRIPTOR(ts), INTERVAL '10' SECOND))) WHERE n <= 2",
    "SELECT k, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC) AS n FROM w) WHERE n = 1",
    "SELECT w.k, w.v, x.v AS xv, w.ts FROM w JOIN x ON w.k = x.k ORDER BY w.v, x.v, w.ts, x.ts LIMIT 4",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """CSV files of the tables; times grow by seconds without two equal ones in a file, so that no answer depends on
    arrival."""
    path = tmp_path_factory.mktemp("tables")
    chance = random.Random(7)

    def number() -> str:
        return "" if chance.random() < 0.15 else str(chance.randint(1, 7))

    for name in ("t", "u"):
        rows = [f"{i},{number()},{number()},{chance.choice('xyz')}" for i in range(1, 25)]
        path.joinpath(f"{name}.csv").write_text("\n".join([_header(name), *rows]) + "\n")
    for name in ("w", "x"):
        rows = [
            f"{chance.randint(1, 3)},{chance.randint(1, 9)},2024-01-01 00:00:{i * 2:02d}.{len(name) * 7:03d}"
            for i in range(25)
        ]
        path.joinpath(f"{name}.csv").write_text("\n".join([_header(name), *rows]) + "\n")
    return path


def _header(name: str) -> str:
    return ",".join(c.split()[0] for c in TABLES[name])


def _environment(folder: Path, disabled: str = "") -> TableEnvironment:
    env = TableEnvironment.create({"optimizer.disabled_rules": disabled})
    for name, columns in TABLES.items():
        extra = ", WATERMARK FOR ts AS ts" if name in "wx" else ""
        options = f"'connector' = 'filesystem', 'path' = '{folder}/{name}.csv', 'format' = 'csv'"
        options += ", 'csv.header' = 'true', 'csv.null-literal' = ''"
        env.execute_sql(f"CREATE TABLE {name} ({', '.join(columns)}{extra}) WITH ({options})")
    return env


def _rows(env: TableEnvironment, query: str) -> collections.Counter[tuple[object, ...]]:
    table = env.execute_sql(query).to_arrow()
    return collections.Counter(tuple(row) for row in zip(*(c.to_pylist() for c in table.columns), strict=True))


def _fired(env: TableEnvironment, query: str) -> frozenset[str]:
    return plan_query(env._session, parse_statement(query).query.query).trace.fired


@pytest.mark.parametrize("query", PLAIN + STREAMING)
def test_an_answer_does_not_depend_on_a_rule(folder: Path, query: str) -> None:
    with _environment(folder) as env:
        expected = _rows(env, query)
        assert expected or query == NOTHING, "a query without rows shows nothing"
        optional = sorted(_fired(env, query) - ESSENTIAL)
    for rule in optional:
        with _environment(folder, rule) as env:
            assert rule not in _fired(env, query)
            assert _rows(env, query) == expected, f"without {rule} the answer is another one"


@pytest.mark.parametrize("query", PLAIN)
def test_the_answer_is_that_of_duckdb(folder: Path, query: str) -> None:
    with duckdb.connect() as db, _environment(folder) as env:
        for name in ("t", "u"):
            db.execute(f"CREATE TABLE {name} AS SELECT * FROM read_csv('{folder}/{name}.csv')")
        expected = collections.Counter(db.execute(query).fetchall())
        assert _rows(env, query) == expected


def test_each_optional_rule_fires_for_some_query(folder: Path) -> None:
    """What only sources with abilities or statistics see, or plans of programs, has its golden spec alone."""
    with _environment(folder) as env:
        fired = frozenset[str]().union(*(_fired(env, q) for q in PLAIN + STREAMING))
    optional = {r.name for s in STAGES for r in s.rules} - ESSENTIAL
    assert optional - fired <= {
        "remove_unused_join",
        "push_filter_into_scan",
        "push_aggregate_into_scan",
        "push_limit_into_scan",
        "push_limit_into_union",
        "push_filter_into_unnest",
        "push_limit_into_project",
        "reorder_joins",
        "push_semi_join_into_join",
        "merge_limit_into_sort",
        "remove_distinct",
        "remove_sort",
        "push_filter_into_sort",
    }
