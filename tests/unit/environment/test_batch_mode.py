"""Batch mode gives the answer over all input, once: insertions alone, in however many epochs the input comes."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from sqlengine import SqlEngineError, TableEnvironment

ROWS = 40
QUERIES = (
    "SELECT g, COUNT(*) AS n, SUM(v) AS s, MIN(v) AS m, COUNT(DISTINCT v) AS d FROM a GROUP BY g",
    "SELECT DISTINCT g FROM a",
    "SELECT g, COUNT(*) FROM a GROUP BY GROUPING SETS ((g), ())",
    "SELECT n, COUNT(*) FROM (SELECT id, COUNT(*) AS n FROM b GROUP BY id) GROUP BY n",
    "SELECT g FROM a GROUP BY g HAVING MAX(v) > 9",
    "SELECT a.id, b.w FROM a JOIN b ON a.id = b.id",
    "SELECT a.id, b.w FROM a LEFT JOIN b ON a.id = b.id",
    "SELECT a.id, b.w FROM a RIGHT JOIN b ON a.id = b.id AND a.v < b.w",
    "SELECT a.id, b.w FROM a FULL JOIN b ON a.id = b.id AND a.v < b.w",
    "SELECT a.id, b.w FROM a FULL JOIN b ON a.v > b.w AND b.w < 3",
    "SELECT id FROM a WHERE id IN (SELECT id FROM b)",
    "SELECT id FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.id = a.id)",
    "SELECT id FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.id = a.id AND b.w > a.v)",
    "SELECT id FROM a WHERE v NOT IN (SELECT w FROM b)",
    "SELECT id FROM a WHERE v > (SELECT MIN(w) FROM b)",
    "SELECT a.g, x.n FROM (SELECT g, COUNT(*) AS n FROM a GROUP BY g) AS x LEFT JOIN a ON a.v = x.n",
    "SELECT id FROM a EXCEPT SELECT id FROM b",
    "SELECT id FROM b EXCEPT ALL SELECT v FROM a",
    "SELECT id FROM b INTERSECT SELECT v FROM a",
    "SELECT id FROM b INTERSECT ALL SELECT v FROM a",
    "SELECT g FROM a UNION SELECT CAST(w AS STRING) FROM b",
    "SELECT id, ROW_NUMBER() OVER (PARTITION BY g ORDER BY v, id), SUM(v) OVER (PARTITION BY g) FROM a",
    "SELECT id, LAG(v) OVER (ORDER BY id), RANK() OVER (PARTITION BY g ORDER BY v DESC) FROM a",
    "SELECT id, r FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY v DESC, id) AS r FROM a) WHERE r <= 2",
    "SELECT id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY v, id) AS r FROM a) WHERE r BETWEEN 2 AND 3",
    "SELECT id, r FROM (SELECT *, RANK() OVER (PARTITION BY g ORDER BY v) AS r FROM a) WHERE r <= 2",
    "SELECT g, n FROM (SELECT g, COUNT(*) AS n FROM a GROUP BY g) ORDER BY n, g LIMIT 2",
    "SELECT id, v FROM a ORDER BY v DESC, id LIMIT 200",
    "SELECT id, v FROM a ORDER BY v, id OFFSET 30 ROWS",
    "SELECT id, v FROM a ORDER BY v, id",
    "SELECT COUNT(*) FROM (SELECT * FROM a LIMIT 7)",
    "SELECT id, sum_of FROM totals",
    "SELECT * FROM changed",
    "SELECT k, COUNT(*) FROM keyed_changes GROUP BY k",
    "SELECT a.id, x FROM a CROSS JOIN UNNEST(ARRAY[v, id]) AS t (x) WHERE g = 'a'",
)
CHANGES = (
    '{"before": null, "after": {"k": 1, "v": 10}, "op": "c"}\n{"before": null, "after": {"k": 2, "v": 20}, "op": "c"}\n'
)
CHANGES += '{"before": {"k": 1, "v": 10}, "after": {"k": 1, "v": 11}, "op": "u"}\n'
CHANGES += (
    '{"before": {"k": 2, "v": 20}, "after": null, "op": "d"}\n{"before": null, "after": {"k": 3, "v": 30}, "op": "c"}\n'
)


def made(folder: Path) -> TableEnvironment:
    (folder / "changes.json").write_text(CHANGES)
    env = TableEnvironment.create()
    env.execute_script(f"""
    CREATE TABLE a (id INT, g STRING, v INT);
    CREATE TABLE b (id INT, w INT);
    INSERT INTO a VALUES {", ".join(f"({i}, '{'abcd'[i % 4]}', {i * 7 % 11})" for i in range(ROWS))};
    INSERT INTO b VALUES {", ".join(f"({i % 15}, {i % 6})" for i in range(30))}, (CAST(NULL AS INT), 1);
    CREATE VIEW totals AS SELECT id, SUM(w) AS sum_of FROM b GROUP BY id;
    CREATE TABLE changed (k INT, v INT) WITH
      ('connector' = 'filesystem', 'path' = '{folder / "changes.json"}', 'format' = 'debezium-json');
    CREATE TABLE keyed_changes (k INT PRIMARY KEY NOT ENFORCED, v INT) WITH
      ('connector' = 'filesystem', 'path' = '{folder / "changes.json"}', 'format' = 'debezium-json');
    """)
    return env


@pytest.fixture
def env(tmp_path: Path) -> Iterator[TableEnvironment]:
    with made(tmp_path) as env:
        yield env


def rows(env: TableEnvironment, query: str) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in env.execute_sql(query).to_arrow().to_pylist()]


def settle(env: TableEnvironment, mode: str, epoch: int, tasks: int = 1) -> None:
    env.execute_sql(f"SET 'execution.runtime-mode' = '{mode}'")
    env.execute_sql(f"SET 'sqlengine.epoch.max-rows' = '{epoch}'")
    env.execute_sql(f"SET 'parallelism.default' = '{tasks}'")


@pytest.mark.parametrize(("epoch", "tasks"), [(1, 1), (7, 3), (1000, 1)])
def test_insertions_alone_and_the_answer_of_the_stream(env: TableEnvironment, epoch: int, tasks: int) -> None:
    for query in QUERIES:
        settle(env, "streaming", 1000)
        folded = rows(env, query)
        settle(env, "batch", epoch, tasks)
        result = env.execute_sql(query)
        batches = list(result.changes())
        assert all(batch.is_append_only for batch in batches), query
        got = [row for batch in batches for row in zip(*(c.to_pylist() for c in batch.columns), strict=True)]
        visible = len(folded[0])
        assert Counter(row[:visible] for row in got) == Counter(folded), query
        if "ORDER BY v" in query and "OVER" not in query:
            assert rows(env, query) == folded, query


def test_plans_say_insertions_only(env: TableEnvironment) -> None:
    settle(env, "batch", 3)
    for query in QUERIES:
        if "changed" not in query and "changes" not in query:
            text = rows(env, f"EXPLAIN CHANGELOG_MODE {query}")[0][0]
            assert "[I]" in text
            assert not any(mode in text for mode in ("UA", "UB", "D]", "upsert key")), text
    assert "FinalRows" in rows(env, "EXPLAIN SELECT * FROM changed")[0][0]


def test_sinks_that_take_insertions_only(env: TableEnvironment, tmp_path: Path) -> None:
    settle(env, "batch", 3)
    where = f"('connector' = 'filesystem', 'path' = '{tmp_path / 'out'}', 'format' = 'csv')"
    env.execute_sql(f"CREATE TABLE out (g STRING, n BIGINT) WITH {where}")
    env.execute_sql("INSERT INTO out SELECT g, COUNT(*) AS n FROM a GROUP BY g ORDER BY g DESC")
    written = [row for file in (tmp_path / "out").iterdir() for row in csv.reader(file.open())]
    assert written == [[g, "10"] for g in "dcba"]
    env.execute_sql("CREATE TABLE other (id INT, w INT) WITH " + where.replace("out'", "other'"))
    env.execute_sql("""
    EXECUTE STATEMENT SET BEGIN
      INSERT INTO out SELECT g, MAX(v) FROM a GROUP BY g;
      INSERT INTO other SELECT a.id, b.w FROM a LEFT JOIN b ON a.id = b.id AND b.w > 4;
    END""")
    joined = [row for file in (tmp_path / "other").iterdir() for row in csv.reader(file.open())]
    assert len(joined) == len({tuple(row) for row in joined}) == ROWS


def test_a_temporal_join_reads_all_versions(env: TableEnvironment, tmp_path: Path) -> None:
    lines = '{"before": null, "after": {"c": "EUR", "at": "2024-01-01 00:00:00", "r": 1}, "op": "c"}\n'
    lines += (
        '{"before": {"c": "EUR", "at": "2024-01-01 00:00:00", "r": 1}, '
        '"after": {"c": "EUR", "at": "2024-01-02 00:00:00", "r": 2}, "op": "u"}\n'
    )
    (tmp_path / "rates.json").write_text(lines)
    (tmp_path / "orders.csv").write_text("1,EUR,2024-01-01 12:00:00\n2,EUR,2024-01-02 12:00:00\n")
    env.execute_script(f"""
    CREATE TABLE rates (c STRING, `at` TIMESTAMP(3), r INT, PRIMARY KEY (c) NOT ENFORCED, WATERMARK FOR `at` AS `at`)
      WITH ('connector' = 'filesystem', 'path' = '{tmp_path / "rates.json"}', 'format' = 'debezium-json');
    CREATE TABLE orders (id INT, c STRING, `at` TIMESTAMP(3), WATERMARK FOR `at` AS `at`)
      WITH ('connector' = 'filesystem', 'path' = '{tmp_path / "orders.csv"}', 'format' = 'csv')
    """)
    query = "SELECT o.id, r FROM orders AS o JOIN rates FOR SYSTEM_TIME AS OF o.`at` ON o.c = rates.c"
    for mode in ("streaming", "batch"):
        settle(env, mode, 1)
        assert sorted(rows(env, query)) == [(1, 1), (2, 2)]


def test_time_to_live_drops_nothing(env: TableEnvironment) -> None:
    env.execute_sql("SET 'table.exec.state.ttl' = '1 ms'")
    settle(env, "batch", 1)
    assert sum(row[1] for row in rows(env, "SELECT g, COUNT(*) FROM a GROUP BY g")) == ROWS  # type: ignore[misc]


def test_an_upsert_sink_without_on_conflict(env: TableEnvironment) -> None:
    env.execute_sql("CREATE TABLE last_of (g STRING PRIMARY KEY NOT ENFORCED, n BIGINT)")
    settle(env, "batch", 3)
    env.execute_sql("INSERT INTO last_of SELECT g, COUNT(*) FROM a GROUP BY g, v")
    assert {row[0] for row in rows(env, "SELECT g FROM last_of")} == set("abcd")
    with pytest.raises(SqlEngineError, match="E2015"):
        env.execute_sql("INSERT INTO last_of SELECT g, COUNT(*) FROM a GROUP BY g, v ON CONFLICT DO ERROR")
