"""Every kind of operator answers over Arrow dictionaries of texts what it answers over plain texts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from runtime.plan import nodes, window_nodes
from sqlengine import TableEnvironment

ROWS = 400
COLUMNS = "id BIGINT, k STRING, s STRING, v BIGINT, ts TIMESTAMP(3), p AS PROCTIME(), WATERMARK FOR ts AS ts"
AGGREGATES = (
    "COUNT({0}), COUNT(DISTINCT {0})",
    "MIN({0}), MAX({0})",
    "MIN({0}) FILTER (WHERE v > 3), MAX(DISTINCT {0})",
    "FIRST_VALUE({0}), LAST_VALUE({0})",
    "LISTAGG({0}), LISTAGG({0}, '-'), LISTAGG(DISTINCT {0})",
    "ARRAY_AGG({0}), ARRAY_AGG(DISTINCT {0})",
    "CARDINALITY(COLLECT({0}))",
    "JSON_ARRAYAGG({0}), JSON_OBJECTAGG(KEY CAST(id AS STRING) VALUE {0})",
    "APPROX_COUNT_DISTINCT({0}), MAX(UPPER({0}) || k)",
)
QUERIES = (
    "SELECT id, k, last_digit(s) AS d FROM t WHERE last_digit(k) > 2",
    *(f"SELECT k, {call.format('k')} FROM t GROUP BY k" for call in AGGREGATES),
    *(f"SELECT k, {call.format('s')} FROM t GROUP BY k" for call in AGGREGATES),
    "SELECT k, s, MIN(k), MAX(s) FROM t GROUP BY GROUPING SETS ((k), (s), (k, s), ())",
    "SELECT MIN(x), MAX(k), COUNT(*) FROM (SELECT k, MAX(s) AS x FROM t GROUP BY k)",
    "SELECT k, MIN(s) FROM (SELECT k, s, COUNT(*) AS n FROM t GROUP BY k, s HAVING COUNT(*) > 1) GROUP BY k",
    "SELECT DISTINCT k, s FROM t",
    "SELECT a.k, b.s, MIN(b.k) FROM t AS a JOIN t AS b ON a.k = b.s GROUP BY a.k, b.s",
    "SELECT a.id, b.id, b.s FROM t AS a JOIN t AS b ON a.k = b.k AND a.s < b.s AND a.v = b.v",
    "SELECT a.id, b.k, b.s FROM t AS a LEFT JOIN t AS b ON a.k = b.s AND a.id = b.id",
    "SELECT a.id, a.k, b.s FROM t AS a FULL JOIN (SELECT * FROM t WHERE v > 5) AS b ON a.s = b.s AND a.id = b.id",
    "SELECT id, k FROM t WHERE s IN (SELECT s FROM t WHERE v > 8) AND k NOT IN (SELECT s FROM t WHERE s IS NOT NULL)",
    "SELECT a.id, b.s FROM t AS a JOIN t AS b ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '3' SECOND",
    "SELECT a.id, b.s, c.k FROM t AS a JOIN t AS b ON a.k = b.k AND a.id = b.id LEFT JOIN t AS c ON c.k = a.k AND c.id = a.id",
    "SELECT a.id, b.s, b.k FROM t AS a ASOF LEFT JOIN t AS b ON a.s = b.s AND a.ts > b.ts",
    "SELECT a.id, b.s, b.k FROM t AS a JOIN t FOR SYSTEM_TIME AS OF a.p AS b ON a.k = b.k AND a.id = b.id",
    "WITH RECURSIVE r (k, n) AS (SELECT k, 1 FROM t UNION SELECT t.s, r.n + 1 FROM r JOIN t ON t.k = r.k WHERE r.n < 3) SELECT * FROM r",
    "SELECT a.id, n.s, n.k FROM t AS a JOIN newest FOR SYSTEM_TIME AS OF a.ts AS n ON a.k = n.k",
    "SELECT id, k, s FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY s DESC, id) AS n FROM t) WHERE n <= 3",
    "SELECT k, s, n FROM (SELECT *, RANK() OVER (PARTITION BY s ORDER BY k) AS n FROM t) WHERE n <= 3",
    "SELECT k, x FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY x DESC, k) AS n"
    " FROM (SELECT k, MAX(s) AS x FROM t GROUP BY k)) WHERE n <= 3",
    "SELECT id, k FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts) AS n FROM t) WHERE n = 1",
    "SELECT id, k FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC) AS n FROM t) WHERE n = 1",
    "SELECT id, k FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k, s ORDER BY p) AS n FROM t) WHERE n = 1",
    "SELECT id, k, MIN(k) OVER w, MAX(s) OVER w, LAG(k) OVER w FROM t WINDOW w AS (PARTITION BY s ORDER BY ts)",
    "SELECT id, MAX(s) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) FROM t",
    "SELECT id, MIN(k) OVER (PARTITION BY s ORDER BY k, id) FROM t",
    "SELECT k, window_start, MIN(k), MAX(s), COUNT(DISTINCT k) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND))"
    " GROUP BY window_start, window_end, k",
    "SELECT k, window_start, MIN(k), LISTAGG(s) FROM TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND))"
    " GROUP BY window_start, window_end, k",
    "SELECT k, window_end, MIN(k), MAX(s) FROM TABLE(SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '2' SECOND))"
    " GROUP BY window_start, window_end, k",
    "SELECT id, k, window_end FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND))",
    "SELECT id, k, s FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, k ORDER BY s, id) AS n"
    " FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND))) WHERE n <= 2",
    "SELECT a.k, a.id, b.s FROM (SELECT * FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND))) AS a"
    " JOIN (SELECT * FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND))) AS b"
    " ON a.k = b.k AND a.s = b.s AND a.window_start = b.window_start AND a.window_end = b.window_end",
    "SELECT k FROM t INTERSECT ALL SELECT s FROM t",
    "SELECT k, s FROM t EXCEPT SELECT s, k FROM t",
    "SELECT k FROM t UNION SELECT s FROM t UNION ALL SELECT 'x' FROM t",
    "SELECT id, k, w FROM t CROSS JOIN UNNEST(ARRAY[k, s, 'x']) AS u (w)",
    "SELECT id, k, s FROM t ORDER BY k DESC, s, id LIMIT 20 OFFSET 3",
    "SELECT id, k, s FROM t ORDER BY ts, k, s, id",
    "SELECT id, k, s FROM t LIMIT 300",
    "SELECT id, CASE WHEN k > s THEN k ELSE UPPER(s) END, COALESCE(s, k), (SELECT MAX(k) FROM t AS u WHERE u.s = t.s) FROM t",
    "SELECT id, ROW(k, s), ARRAY[k, s], MAP[k, s] FROM t WHERE k LIKE '%3' OR s IN ('x 1', 'x 2')",
)
NEWEST = (
    "CREATE VIEW newest AS SELECT k, s, ts FROM"
    " (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC) AS n FROM t) WHERE n = 1"
)
LAST_DIGIT = "CREATE FUNCTION last_digit AS 'tests.unit.table_api.function_program.last_digit' LANGUAGE PYTHON"

NOT_OVER_FILES = {
    "Values",
    "LookupJoin",
    "DuckDB",
    "DeltaJoin",
    "ChangelogNormalize",
    "DropUpdateBefore",
    "FinalRows",
    "SinkMaterialize",
    "Sink",
    "FromChangelog",
    "ToChangelog",
    "Match",
    "ProcessTables",
    "Remember",
    "SnapshotJoin",
    "TimeFilter",
    "VectorSearch",
}
"""Operators that no query over a file that only grows has, whose rows come from elsewhere, or that tests of their own
give texts."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Path]:
    """The same rows with and without dictionaries of the texts, by whether they have them."""
    rng = np.random.default_rng(5)
    k = pa.array([f"x {n}" for n in rng.integers(0, 6, ROWS)], pa.large_string())
    s = pa.array([f"x {n}" for n in rng.integers(0, 4, ROWS)], mask=rng.random(ROWS) < 0.1)
    ts = pa.array(np.sort(rng.integers(0, 60_000, ROWS)), pa.timestamp("ms"))
    rows = pa.table({"id": np.arange(ROWS), "k": k, "s": s, "v": rng.integers(0, 10, ROWS), "ts": ts})
    made: dict[bool, Path] = {}
    for coded in (True, False):
        made[coded] = tmp_path_factory.mktemp("coded" if coded else "plain")
        pq.write_table(rows, made[coded] / "a.parquet", use_dictionary=coded)
    return made


def opened(folder: Path, options: dict[str, str]) -> TableEnvironment:
    environment = TableEnvironment.create(options)
    environment.execute_sql(
        f"CREATE TABLE t ({COLUMNS}) WITH ('connector' = 'filesystem', 'path' = '{folder}', 'format' = 'parquet')"
    )
    environment.execute_sql(NEWEST)
    environment.execute_sql(LAST_DIGIT)
    return environment


@pytest.mark.parametrize("query", QUERIES)
def test_codes_do_not_show(files: dict[bool, Path], query: str) -> None:
    found: list[list[str]] = []
    for folder in files.values():
        with opened(folder, {"sqlengine.epoch.max-rows": "150"}) as environment:
            found.append(sorted(map(str, environment.execute_sql(query).to_arrow().to_pylist())))
    assert found[0]
    assert found[0] == found[1]


def test_every_operator_is_among_them(files: dict[bool, Path]) -> None:
    with opened(files[True], {}) as environment:
        plans = "\n".join(environment.explain_sql(query).partition("== Physical Plan ==")[2] for query in QUERIES)
    kinds = {
        name.removesuffix("Exec")
        for module in (nodes, window_nodes)
        for name in module.__all__
        if name.endswith("Exec")
    }
    shown = {line.split()[0] for line in plans.splitlines() if line.strip()}
    assert kinds - shown == NOT_OVER_FILES
