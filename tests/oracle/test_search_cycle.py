"""SEARCH and CYCLE mean what they mean in PostgreSQL: the same statements over random changes give the same rows there, in
the order of the new columns. A hundredth of FUZZ_CASES is run."""

from __future__ import annotations

import os
import random
from collections import Counter
from typing import Any

import pytest

from sqlengine import TableEnvironment
from tests.servers.postgres import PostgresDatabase

CASES = int(os.environ.get("FUZZ_CASES", "0")) // 100 or 2

STEP = "SELECT e.a, e.b FROM edge AS e JOIN r ON e.a = r.b"
TREE = "SELECT t.a, t.b FROM tree AS t JOIN r ON t.a = r.b"
# Ranks say how the new columns sort, counts how often a row is there.
QUERIES = {
    "marked": f"""WITH RECURSIVE r (a, b) AS (SELECT a, b FROM edge WHERE a < 2 UNION ALL {STEP})
        CYCLE a, b SET back USING path
        SELECT a, b, back, CARDINALITY(path), RANK() OVER (ORDER BY path) FROM r""",
    "members": f"""WITH RECURSIVE r (a, b) AS (SELECT a, b FROM edge UNION {STEP} WHERE NOT r.back)
        CYCLE b SET back USING path
        SELECT a, b, back, CARDINALITY(path), RANK() OVER (ORDER BY path DESC, a, b) FROM r""",
    "texts": f"""WITH RECURSIVE r (a, b) AS (SELECT a, b FROM edge WHERE a = 1 UNION ALL {STEP})
        SEARCH DEPTH FIRST BY b SET seq CYCLE a SET back TO 'yes' DEFAULT 'no' USING path
        SELECT a, b, back, RANK() OVER (ORDER BY seq, a) FROM r""",
    "breadth": f"""WITH RECURSIVE r (a, b) AS (SELECT a, b FROM tree UNION ALL {TREE})
        SEARCH BREADTH FIRST BY b, a SET seq
        SELECT a, b, RANK() OVER (ORDER BY seq) FROM r""",
    "depth": f"""WITH RECURSIVE r (a, b) AS (SELECT a, b FROM tree WHERE a < 2 UNION {TREE})
        SEARCH DEPTH FIRST BY a, b SET seq
        SELECT a, b, RANK() OVER (ORDER BY seq) FROM r""",
    "stars": """WITH RECURSIVE r AS (SELECT a, b FROM tree UNION ALL SELECT r.* FROM tree AS t JOIN r ON t.a = r.b)
        SEARCH DEPTH FIRST BY b SET seq CYCLE b SET back TO 1 DEFAULT 0 USING path
        SELECT r.*, RANK() OVER (ORDER BY seq DESC) FROM r""",
}


def _row(table: str, chance: random.Random) -> tuple[str, str]:
    if table == "tree":
        parent = chance.randrange(5)
        return str(parent), str(chance.randrange(parent + 1, 6))
    return str(chance.randrange(4)), chance.choice(["0", "1", "2", "3", "NULL"])


def _change(chance: random.Random, rows: Counter[str]) -> str:
    table = chance.choice(["edge", "tree"])
    a, b = _row(table, chance)
    if rows[table] < 6 and chance.random() < 0.7:
        rows[table] += 1
        return f"INSERT INTO {table} VALUES ({a}, {b})"
    if table == "edge" and chance.random() < 0.4:
        return f"UPDATE edge SET b = {b} WHERE a = {a}"
    return f"DELETE FROM {table} WHERE a = {a}"


def _plain(value: object) -> object:
    """As far as both sides have it: the fields of PostgreSQL's rows are texts."""
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value if value is None else str(value)


def _bag(rows: list[Any]) -> Counter[str]:
    return Counter(str([_plain(value) for value in row]) for row in rows)


@pytest.mark.parametrize("seed", range(CASES))
def test_views_are_what_postgres_answers(seed: int, postgres: PostgresDatabase) -> None:
    chance = random.Random(seed)
    env = TableEnvironment.create({"sqlengine.sql.dialect": "postgres"})
    rows: Counter[str] = Counter()
    statements: list[str] = []
    with postgres.connect() as oracle:
        for table in ("edge", "tree"):
            for each in (env.execute_sql, oracle.execute):
                each(f"CREATE TABLE {table} (a INT, b INT)")
        kept = {name: f"SELECT * FROM {name}" for name in QUERIES}
        for name, query in QUERIES.items():
            env.execute_sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        for step in range(8):
            changes = [_change(chance, rows) for _ in range(chance.choice([1, 1, 3, 6]))]
            statements += changes
            for text in ["BEGIN EPOCH", *changes, "END EPOCH"] if len(changes) > 1 else changes:
                env.execute_sql(text)
            for text in changes:
                oracle.execute(text)
            for name, query in QUERIES.items():
                wanted = _bag(oracle.execute(query).fetchall())
                assert _bag(list(env.execute_sql(kept[name]).collect())) == wanted, f"{name} at {step}: {statements}"
                if step == 7:
                    assert _bag(list(env.execute_sql(query).collect())) == wanted, f"{name} at once: {statements}"
