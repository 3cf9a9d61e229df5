"""Recursive queries over random changes of graphs, hierarchies and parts lists: after every epoch each view is what DuckDB
answers over the rows so far. Edges come and go, so cycles lose what held them up. A hundredth of FUZZ_CASES is run."""

from __future__ import annotations

import os
import random
from collections import Counter

import duckdb
import pytest

from sqlengine import TableEnvironment

CASES = int(os.environ.get("FUZZ_CASES", "0")) // 100 or 6

CLOSURE = """WITH RECURSIVE r (x, y) AS (
    SELECT a, b FROM edge UNION SELECT r.x, edge.b FROM r JOIN edge ON r.y = edge.a) SELECT x, y FROM r"""
REACHED = """WITH RECURSIVE r (n) AS (
    SELECT n FROM root UNION SELECT e.b FROM edge e JOIN r ON e.a = r.n WHERE e.w < 8) SELECT n FROM r"""
HOPS = """WITH RECURSIVE r (n, hops) AS (
    SELECT n, 0 FROM root UNION SELECT e.b, r.hops + 1 FROM r JOIN edge e ON e.a = r.n WHERE r.hops < 5)
    SELECT n, MIN(hops) AS hops, COUNT(*) AS c FROM r GROUP BY n"""
WALKS = """WITH RECURSIVE r (n, hops, w) AS (
    SELECT n, 0, 1 FROM root UNION ALL SELECT e.b, r.hops + 1, r.w * e.w FROM r JOIN edge e ON e.a = r.n
    WHERE r.hops < 4) SELECT n, hops, SUM(w) AS w, COUNT(*) AS c FROM r GROUP BY n, hops"""
PATHS = """WITH RECURSIVE r (n, path) AS (
    SELECT n, CAST(n AS VARCHAR) FROM root UNION ALL
    SELECT t.b, r.path || '/' || CAST(t.b AS VARCHAR) FROM r, tree t WHERE t.a = r.n) SELECT n, path FROM r"""
PARTS = """WITH RECURSIVE need (part, amount) AS (
    SELECT b, w FROM tree WHERE a IN (SELECT n FROM root) UNION ALL
    SELECT t.b, need.amount * t.w FROM need JOIN tree t ON t.a = need.part)
    SELECT part, SUM(amount) AS amount FROM need GROUP BY part"""
BOTH_WAYS = """WITH RECURSIVE r (x) AS (
    SELECT n FROM root UNION (SELECT e.b FROM r JOIN edge e ON e.a = r.x UNION ALL
    SELECT e.a FROM r JOIN edge e ON e.b = r.x AND e.w > 6)) SELECT x FROM r"""
NOT_CLOSED = """WITH RECURSIVE r (x) AS (
    SELECT n FROM root UNION SELECT e.b FROM r JOIN edge e ON e.a = r.x
    WHERE NOT EXISTS (SELECT 1 FROM closed c WHERE c.n = e.b)) SELECT x FROM r"""
PADDED = """WITH RECURSIVE r (x, d) AS (
    SELECT n, 0 FROM root UNION SELECT e.b, r.d + 1 FROM r LEFT JOIN edge e ON e.a = r.x WHERE r.d < 3)
    SELECT x, d FROM r"""
COUNTED = """WITH RECURSIVE r (x, y) AS (
    SELECT a, b FROM edge UNION SELECT r.x, edge.b FROM r JOIN edge ON r.y = edge.a)
    SELECT x, COUNT(*) AS c FROM r WHERE x NOT IN (SELECT n FROM closed) GROUP BY x"""
# DuckDB looks at the rows of the round before alone, so what is squared here is written linearly there.
SQUARED = """WITH RECURSIVE r (x, y) AS (
    SELECT a, b FROM edge UNION SELECT p.x, q.y FROM r AS p JOIN r AS q ON p.y = q.x) SELECT x, y FROM r"""

# Queries that read each other; DuckDB knows one that says of each row whose it is.
TURNS = """WITH RECURSIVE out (x, y) AS (
    SELECT n, n FROM root UNION SELECT b.x, e.b FROM back b JOIN edge e ON e.a = b.y),
    back (x, y) AS (
    SELECT a, b FROM tree WHERE w = 1 UNION SELECT o.x, e.a FROM out o JOIN edge e ON e.b = o.y AND e.w > 3)
    SELECT 1, x, y FROM out UNION ALL SELECT 2, x, y FROM back"""
TURNS_AS_ONE = """WITH RECURSIVE r (q, x, y) AS (
    SELECT 1, n, n FROM root UNION SELECT 2, a, b FROM tree WHERE w = 1 UNION
    (SELECT 1, r.x, e.b FROM r JOIN edge e ON e.a = r.y AND q = 2 UNION ALL
     SELECT 2, r.x, e.a FROM r JOIN edge e ON e.b = r.y AND e.w > 3 AND q = 1)) SELECT q, x, y FROM r"""
STRIDES = """WITH RECURSIVE left_foot (n, d) AS (
    SELECT n, 0 FROM root UNION ALL SELECT e.b, s.d + 1 FROM stand s JOIN tree e ON e.a = s.n),
    stand AS (SELECT n, d, 'right' AS foot FROM right_foot WHERE d < 4 UNION ALL SELECT n, d, 'left' FROM left_foot
      WHERE d < 2),
    right_foot (n, d, w) AS (
    SELECT n, 0, 1 FROM closed UNION ALL SELECT e.b, l.d + 1, e.w FROM left_foot l JOIN tree e ON e.a = l.n)
    SELECT 1, n, d, 0, COUNT(*) FROM left_foot GROUP BY n, d UNION ALL
    SELECT 2, n, d, w, COUNT(*) FROM right_foot GROUP BY n, d, w UNION ALL
    SELECT 3, n, d, CHAR_LENGTH(foot), COUNT(*) FROM stand GROUP BY n, d, foot"""
STRIDES_AS_ONE = """WITH RECURSIVE r (q, n, d, w) AS (
    (SELECT 1, n, 0, 0 FROM root UNION ALL SELECT 2, n, 0, 1 FROM closed) UNION ALL
    (SELECT 1, e.b, r.d + 1, 0 FROM r JOIN tree e ON e.a = r.n AND ((q = 2 AND d < 4) OR (q = 1 AND d < 2)) UNION ALL
     SELECT 2, e.b, r.d + 1, e.w FROM r JOIN tree e ON e.a = r.n AND q = 1)),
    stand AS (SELECT n, d, CASE q WHEN 1 THEN 4 ELSE 5 END AS foot FROM r WHERE d < CASE q WHEN 1 THEN 2 ELSE 4 END)
    SELECT q, n, d, w, COUNT(*) FROM r GROUP BY q, n, d, w UNION ALL
    SELECT 3, n, d, foot, COUNT(*) FROM stand GROUP BY n, d, foot"""
# Both sides of a join are of the loop: even and odd distances are the same, written linearly.
PARITY = """WITH RECURSIVE odd (x, y) AS (
    SELECT a, b FROM edge UNION SELECT p.x, q.y FROM even AS p JOIN odd AS q ON p.y = q.x),
    even (x, y) AS (SELECT n, n FROM root UNION SELECT p.x, q.y FROM odd AS p JOIN odd AS q ON p.y = q.x)
    SELECT 1, x, y FROM odd UNION ALL SELECT 2, x, y FROM even"""
PARITY_AS_ONE = """WITH RECURSIVE r (q, x, y) AS (
    SELECT 1, a, b FROM edge UNION SELECT 3 - q, r.x, e.b FROM r JOIN edge e ON e.a = r.y)
    SELECT q, x, y FROM r UNION SELECT 2, n, n FROM root"""

QUERIES = {
    "closure": (CLOSURE, CLOSURE), "reached": (REACHED, REACHED), "hops": (HOPS, HOPS), "walks": (WALKS, WALKS),
    "paths": (PATHS, PATHS), "parts": (PARTS, PARTS), "both_ways": (BOTH_WAYS, BOTH_WAYS),
    "not_closed": (NOT_CLOSED, NOT_CLOSED), "padded": (PADDED, PADDED), "counted": (COUNTED, COUNTED),
    "squared": (SQUARED, CLOSURE), "turns": (TURNS, TURNS_AS_ONE), "strides": (STRIDES, STRIDES_AS_ONE),
    "parity": (PARITY, PARITY_AS_ONE),
}  # fmt: skip
TABLES = {"edge": "a INT, b INT, w INT", "tree": "a INT, b INT, w INT", "root": "n INT", "closed": "n INT"}


def _row(table: str, chance: random.Random, nodes: int) -> tuple[int, ...]:
    if table == "edge":
        return chance.randrange(nodes), chance.randrange(nodes), chance.randrange(1, 10)
    if table == "tree":
        parent = chance.randrange(nodes - 1)
        return parent, chance.randrange(parent + 1, nodes), chance.randrange(1, 4)
    return (chance.randrange(nodes),)


def _change(chance: random.Random, nodes: int) -> str:
    table = chance.choice(["edge", "edge", "edge", "tree", "tree", "root", "closed"])
    columns = [column.split()[0] for column in TABLES[table].split(", ")]
    row = _row(table, chance, nodes)
    if chance.random() < 0.5:
        return f"INSERT INTO {table} VALUES ({', '.join(map(str, row))})"
    column = chance.choice(columns[:2])
    where = f"{column} = {row[columns.index(column)]}"
    if table == "edge" and chance.random() < 0.3:
        return f"UPDATE edge SET b = {chance.randrange(nodes)} WHERE {where}"
    return f"DELETE FROM {table} WHERE {where}"


def _rows(env: TableEnvironment, name: str) -> Counter[tuple[object, ...]]:
    return Counter(map(tuple, env.execute_sql(f"SELECT * FROM {name}").collect()))


@pytest.mark.parametrize("seed", range(CASES))
def test_views_are_what_duckdb_answers(seed: int) -> None:
    chance = random.Random(seed)
    nodes = chance.choice([4, 6, 9])
    env = TableEnvironment.create({"sqlengine.batch.max-rows": str(chance.choice([1, 3, 262_144]))})
    oracle = duckdb.connect()
    for table, columns in TABLES.items():
        for each in (env.execute_sql, oracle.execute):
            each(f"CREATE TABLE {table} ({columns})")
    names = list(QUERIES)
    early = chance.sample(names, 6)
    for name in early:
        env.execute_sql(f"CREATE MATERIALIZED VIEW {name} AS {QUERIES[name][0]}")
    statements: list[str] = []
    for step in range(14):
        changes = [_change(chance, nodes) for _ in range(chance.choice([1, 1, 2, 5, 12]))]
        statements += changes
        for text in ["BEGIN EPOCH", *changes, "END EPOCH"] if len(changes) > 1 else changes:
            env.execute_sql(text)
        for text in changes:
            oracle.execute(text)
        for name in early:
            wanted = Counter(oracle.execute(QUERIES[name][1]).fetchall())
            assert _rows(env, name) == wanted, f"{name} after epoch {step}: {statements}"
    for name in names:
        wanted = Counter(oracle.execute(QUERIES[name][1]).fetchall())
        for mode in ("streaming", "batch"):
            env.execute_sql(f"SET 'execution.runtime-mode' = '{mode}'")
            found = Counter(map(tuple, env.execute_sql(QUERIES[name][0]).collect()))
            assert mode == "streaming" or found == wanted, f"{name} in batch mode: {statements}"
