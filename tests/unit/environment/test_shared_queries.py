"""Queries of WITH that are shared give what they give when every use is bound by itself."""

from __future__ import annotations

import random

import pytest

from sqlengine import TableEnvironment
from sqlengine.bind import common_tables

CHANGES = (
    "UPDATE t SET b = b + 1 WHERE a < 7",
    "DELETE FROM t WHERE a IN (3, 4, 5)",
    "DELETE FROM u WHERE c = 'x'",
    "INSERT INTO u VALUES (1, 'q'), (19, 'q')",
)
SHAPES = (
    "SELECT x.a, y.b FROM {x} x JOIN {y} y ON x.a = y.a",
    "SELECT x.a, y.b FROM {x} x LEFT JOIN {y} y ON x.a = y.b",
    "SELECT a, b FROM {x} UNION SELECT a, b FROM {y}",
    "SELECT a, MAX(b) AS b FROM {x} WHERE a IN (SELECT b FROM {y}) GROUP BY a",
    "SELECT a, b FROM {x} WHERE b > (SELECT MIN(b) FROM {y})",
    "SELECT a, b FROM {x} WHERE NOT EXISTS (SELECT 1 FROM {y} WHERE {y}.a = {x}.b)",
    "SELECT a, COUNT(*) AS b FROM (SELECT a FROM {x} INTERSECT SELECT a FROM {y}) GROUP BY a",
)


def query(chance: random.Random, links: int) -> str:
    names = ["c0", "d0"]
    parts = ["c0 AS (SELECT a, b FROM t)", "d0 AS (SELECT a, CAST(COUNT(*) AS INT) AS b FROM u GROUP BY a)"]
    for link in range(1, links + 1):
        body = chance.choice(SHAPES).format(x=chance.choice(names[-3:]), y=chance.choice(names[-3:]))
        names.append(f"e{link}")
        parts.append(f"e{link} AS (SELECT CAST(a AS INT) AS a, CAST(b AS INT) AS b FROM ({body}))")
    return f"WITH {', '.join(parts)} SELECT * FROM {names[-1]} UNION ALL SELECT * FROM {names[-2]}"


def answers(text: str) -> list[list[str]]:
    """The rows of a view after every change, and those of the query in batch mode."""
    with TableEnvironment.create() as t_env:
        t_env.execute_sql("CREATE TABLE t (a INT PRIMARY KEY NOT ENFORCED, b INT)")
        t_env.execute_sql("CREATE TABLE u (a INT, c STRING)")
        t_env.execute_sql("INSERT INTO t VALUES " + ", ".join(f"({i}, {i % 4})" for i in range(20)))
        t_env.execute_sql("INSERT INTO u VALUES " + ", ".join(f"({i % 13}, '{'xyz'[i % 3]}')" for i in range(20)))
        t_env.execute_sql(f"CREATE MATERIALIZED VIEW v AS {text}")
        found = []
        for change in CHANGES:
            t_env.execute_sql(change)
            found.append(sorted(map(str, t_env.execute_sql("SELECT * FROM v"))))
        t_env.execute_sql("SET 'execution.runtime-mode' = 'batch'")
        return [*found, sorted(map(str, t_env.execute_sql(text)))]


@pytest.mark.parametrize("seed", range(8))
def test_shared_queries_give_the_same_rows(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text = query(random.Random(seed), 4)
    monkeypatch.setattr(common_tables, "MOST_NODES_COPIED", 10**9)
    alone = answers(text)
    monkeypatch.setattr(common_tables, "MOST_NODES_COPIED", 2)
    assert answers(text) == alone
    with TableEnvironment.create() as t_env:
        t_env.execute_sql("CREATE TABLE t (a INT PRIMARY KEY NOT ENFORCED, b INT)")
        t_env.execute_sql("CREATE TABLE u (a INT, c STRING)")
        assert "Shared " in t_env.explain_sql(text)


def test_what_carries_time_is_not_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(common_tables, "MOST_NODES_COPIED", 1)
    with TableEnvironment.create() as t_env:
        t_env.execute_sql("CREATE TABLE s (k INT, at TIMESTAMP(3), WATERMARK FOR at AS at)")
        text = t_env.explain_sql(
            "WITH c AS (SELECT k, at FROM s WHERE k > 1) "
            "SELECT x.k FROM c x JOIN c y ON x.k = y.k AND x.at BETWEEN y.at AND y.at + INTERVAL '1' MINUTE"
        )
    assert "IntervalJoin" in text and "Shared c" not in text
