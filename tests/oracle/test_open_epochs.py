"""Random DML with subqueries, inside and outside of epochs, against the transactions of DuckDB.

After every statement the session's own answers are those of DuckDB within its transaction; what others see (what a
materialized view keeps) is what DuckDB has committed. FUZZ_CASES and FUZZ_SEED say how many longer sequences, and which.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator

import duckdb
import pytest

from runtime.core.errors import SqlEngineError
from sqlengine import TableEnvironment
from sqlengine.catalog.objects import MaterializedView

CASES = max(12, int(os.environ.get("FUZZ_CASES", "0")) // 50)
FIRST_SEED = int(os.environ.get("FUZZ_SEED", "100"))

TABLES = {"t0": True, "t1": True, "t2": False}
"""Tables (k INT, v INT), and whether k is the primary key."""

QUERIES = (
    "SELECT k, v FROM t0",
    "SELECT k, v FROM t1",
    "SELECT k, v FROM t2",
    "SELECT a.k, b.v FROM t0 AS a LEFT JOIN t2 AS b ON a.k = b.k",
    "WITH c AS (SELECT k, SUM(v) AS s FROM t2 GROUP BY k) SELECT c.k, c.s FROM c WHERE c.k IN (SELECT k FROM t1)",
    "SELECT k, (SELECT COUNT(*) FROM t1), (SELECT MAX(v) FROM t2) FROM t0",
    "SELECT k, v FROM joined",
    "SELECT k, s FROM plain",
)
VIEWS = {
    "joined": "SELECT a.k, b.v FROM t0 AS a JOIN t1 AS b ON a.k = b.k",
    "counted": "SELECT k, COUNT(*) AS n FROM joined GROUP BY k",
}


class Both:
    """The same statements in the engine and in DuckDB."""

    def __init__(self) -> None:
        self.env = TableEnvironment.create()
        self.duck = duckdb.connect()
        self.others = self.duck.cursor()
        for name, keyed in TABLES.items():
            key = "PRIMARY KEY NOT ENFORCED" if keyed else ""
            self.env.execute_sql(f"CREATE TABLE {name} (k INT {key}, v INT)")
            self.duck.execute(f"CREATE TABLE {name} (k INT {'PRIMARY KEY' if keyed else ''}, v INT)")
        for name, query in VIEWS.items():
            self.env.execute_sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
            self.duck.execute(f"CREATE VIEW {name} AS {query}")
        plain = "CREATE VIEW plain AS SELECT k, SUM(v) AS s FROM t2 GROUP BY k"
        self.env.execute_sql(plain)
        self.duck.execute(plain)

    def execute(self, sql: str) -> None:
        self.env.execute_sql(sql)
        into = sql.split()[2] if sql.startswith("INSERT") else ""
        self.duck.execute(sql.replace("INSERT INTO", "INSERT OR REPLACE INTO") if TABLES.get(into) else sql)

    def check(self, sql: str) -> None:
        for query in (*QUERIES, *(f"SELECT * FROM {view}" for view in VIEWS)):
            ours = Counter(tuple(row) for row in self.env.execute_sql(query).collect())
            assert ours == Counter(self.duck.execute(query).fetchall()), f"{query} after {sql}"
        for view in VIEWS:
            found = self.env.session.catalogs.get((view,), None)
            assert isinstance(found, MaterializedView)
            kept = self.env.session.memory_table(found).contents()
            seen = Counter(zip(*(c.to_pylist() for c in kept.columns), strict=True))
            assert seen == Counter(self.others.execute(f"SELECT * FROM {view}").fetchall()), f"others, after {sql}"


def statements(rng: random.Random) -> Iterator[str]:
    """Changes of random tables by what is in random tables."""
    while True:
        one, two, three = (rng.choice(list(TABLES)) for _ in range(3))
        number, low = rng.randrange(6), rng.randrange(6)
        yield rng.choice(
            (
                f"INSERT INTO {one} VALUES ({number}, {low})",
                # As many rows of a key as DuckDB can replace in one statement: one.
                f"INSERT INTO {one} SELECT k, MAX(v) + {low} FROM {two} GROUP BY k",
                f"INSERT INTO {one} SELECT n, SUM(v) FROM (SELECT k + 1 AS n, v FROM {two} "
                f"WHERE k NOT IN (SELECT k FROM {three})) GROUP BY n",
                f"INSERT INTO {one} SELECT k, MIN(v) FROM joined GROUP BY k",
                f"DELETE FROM {one}",
                f"TRUNCATE TABLE {one}",
                f"DELETE FROM {one} WHERE k = {number}",
                f"DELETE FROM {one} WHERE NOT EXISTS (SELECT 1 FROM {two} WHERE {two}.k >= {low})",
                f"DELETE FROM {one} WHERE k IN (SELECT k FROM {two} WHERE v > {low})",
                f"DELETE FROM {one} WHERE v < (SELECT MAX(v) FROM {two})",
                f"UPDATE {one} SET v = v + {low} WHERE k > {number}",
                f"UPDATE {one} SET v = CAST((SELECT COUNT(*) FROM {two}) AS INT) WHERE k IN (SELECT k FROM {three})",
                f"UPDATE {one} SET v = (SELECT MAX(x.v) FROM {two} AS x WHERE x.k = {one}.k) WHERE k < {number}",
            )
        ).replace("TRUNCATE TABLE", rng.choice(("TRUNCATE TABLE", "DELETE FROM")))


FAILS = ("INSERT INTO t0 SELECT k, CAST('x' AS INT) FROM t0", "UPDATE t1 SET v = v / (v - v)", "DELETE FROM t9")


def run(seed: int, length: int) -> None:
    rng = random.Random(seed)
    both, source, opened = Both(), statements(rng), False
    with both.env:
        for _ in range(length):
            if rng.random() < 0.2:
                ends = rng.choice((("END EPOCH", "COMMIT"), ("ROLLBACK EPOCH", "ROLLBACK")))
                sql, theirs = ends if opened else ("BEGIN EPOCH", "BEGIN TRANSACTION")
                both.env.execute_sql(sql)
                both.duck.execute(theirs)
                opened = not opened
            elif rng.random() < 0.1:
                sql = rng.choice(FAILS)
                try:
                    both.env.execute_sql(sql)
                except SqlEngineError:
                    pass
            else:
                sql = next(source)
                both.execute(sql)
            both.check(sql)


@pytest.mark.parametrize("seed", range(4))
def test_a_session_sees_its_open_epoch_everywhere(seed: int) -> None:
    run(seed, 20)


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + CASES))
def test_longer_sequences(seed: int) -> None:
    run(seed, 60)
