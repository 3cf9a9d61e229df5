"""Views whose joins read tables of the database have the answers of views whose joins keep rows: under random statements,
epochs of several of them, views that come and go, restarts, and tables that are compacted."""

from __future__ import annotations

import os
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from connectors.memory.rows import RowStore
from runtime.state.arranged import ArrangedRows
from sqlengine import TableEnvironment

CASES = int(os.environ.get("DELTA_JOIN_CASES", "1"))

TABLES = (
    "CREATE TABLE a (id INT PRIMARY KEY NOT ENFORCED, k INT, x STRING, y INT)",
    "CREATE TABLE b (k INT PRIMARY KEY NOT ENFORCED, n STRING, z INT)",
    "CREATE TABLE c (k INT, m INT)",
)
QUERIES = {
    "filtered": "SELECT a.id, b.n FROM a JOIN b ON a.k = b.k WHERE a.y > 2",
    "bag": "SELECT a.id, c.m, a.x FROM a JOIN c ON a.k = c.k",
    "self": "SELECT c.m, d.m AS mm FROM c JOIN c AS d ON c.k = d.m",
    "conditional": "SELECT a.id, d.id AS other FROM a JOIN a AS d ON a.k = d.k AND a.y < d.y",
    "nulls": "SELECT a.id, c.m FROM a JOIN c ON a.k IS NOT DISTINCT FROM c.k",
    "outer": "SELECT a.id, b.n, c.m FROM a LEFT JOIN b ON a.k = b.k JOIN c ON a.y = c.m WHERE b.z IS NULL OR b.z < c.k",
    "sums": "SELECT b.n, SUM(c.m) AS s FROM c JOIN b ON c.m = b.k GROUP BY b.n",
}
OVER_VIEWS = {
    "chained": "SELECT v.id, w.s FROM filtered_{} AS v JOIN sums_{} AS w ON v.n = w.n",
    "mixed": "SELECT a.y, v.m FROM bag_{} AS v JOIN a ON v.id = a.id",
}
STRATEGIES = ("NONE", "AUTO")


class Statements:
    """Random statements."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def value(self) -> str:
        return "NULL" if self.chance.random() < 0.15 else str(self.chance.randrange(6))

    def one(self) -> str:
        chance, value = self.chance, self.value
        rows = range(chance.randrange(1, 5))
        match chance.choice("aaabbcccdefghijk"):
            case "a":
                values = (f"({chance.randrange(30)}, {value()}, 'x{chance.randrange(3)}', {value()})" for _ in rows)
                return f"INSERT INTO a VALUES {', '.join(values)}"
            case "b":
                return f"INSERT INTO b VALUES ({chance.randrange(6)}, 'n{chance.randrange(3)}', {value()})"
            case "c":
                return f"INSERT INTO c VALUES {', '.join(f'({value()}, {value()})' for _ in rows)}"
            case "d" | "e":
                return f"DELETE FROM a WHERE id < {chance.randrange(20)}"
            case "f":
                return f"DELETE FROM c WHERE m = {chance.randrange(6)}"
            case "g":
                return f"UPDATE a SET y = {value()} WHERE k = {chance.randrange(6)}"
            case "h":
                return f"UPDATE c SET k = {value()} WHERE k = {chance.randrange(6)}"
            case "i":
                return f"UPDATE b SET z = {value()}"
            case "j":
                return f"DELETE FROM b WHERE k = {chance.randrange(6)}"
            case _:
                return f"TRUNCATE TABLE {chance.choice('abc')}"


def create(env: TableEnvironment, name: str) -> None:
    for strategy in STRATEGIES:
        env.execute_sql(f"SET 'table.optimizer.delta-join.strategy' = '{strategy}'")
        query = {**QUERIES, **OVER_VIEWS}[name].replace("{}", strategy)
        env.execute_sql(f"CREATE MATERIALIZED VIEW {name}_{strategy} AS {query}")


def check(env: TableEnvironment, names: set[str]) -> None:
    for name in sorted(names):
        kept, read = (
            sorted(map(repr, env.execute_sql(f"SELECT * FROM {name}_{s}").to_arrow().to_pylist())) for s in STRATEGIES
        )
        assert kept == read, name


@pytest.mark.parametrize("seed", range(CASES))
def test_answers_are_those_of_joins_that_keep_rows(seed: int, tmp_path: Path) -> None:
    statements = Statements(seed)
    chance, made = statements.chance, set[str]()
    for start in range(3):
        with TableEnvironment.create(path=str(tmp_path / "db")) as env:
            for table in TABLES if start == 0 else ():
                env.execute_sql(table)
            check(env, made)
            for _ in range(12):
                for name in QUERIES.keys() - made if chance.random() < 0.2 else ():
                    create(env, name)
                    made.add(name)
                if {"filtered", "sums", "bag"} <= made and chance.random() < 0.2:
                    for name in sorted(OVER_VIEWS.keys() - made):
                        create(env, name)
                        made.add(name)
                if chance.random() < 0.1 and "nulls" in made:
                    made.discard("nulls")
                    for strategy in STRATEGIES:
                        env.execute_sql(f"DROP MATERIALIZED VIEW nulls_{strategy}")
                count = chance.choice((1, 1, 3))
                env.execute_sql("BEGIN EPOCH")
                for _ in range(count):
                    env.execute_sql(statements.one())
                env.execute_sql("END EPOCH")
                if chance.random() < 0.4:
                    check(env, made)
            check(env, made)


def test_an_index_is_there_once_and_goes_with_its_last_user() -> None:
    with TableEnvironment.create() as env:
        for statement in (*TABLES, "INSERT INTO a VALUES (1, 1, 'x', 4)", "INSERT INTO b VALUES (1, 'one', 1)"):
            env.execute_sql(statement)
        indices = "SELECT job, operator, columns, `rows` FROM system.state ORDER BY operator"
        env.execute_sql(f"CREATE MATERIALIZED VIEW v AS {QUERIES['filtered']}")
        env.execute_sql("CREATE MATERIALIZED VIEW w AS SELECT a.id, b.z FROM a JOIN b ON b.k = a.k")
        found = env.execute_sql(indices).to_arrow().to_pylist()
        assert [(r["job"], r["operator"].rpartition(".")[2], r["columns"], r["rows"]) for r in found] == [
            ("view v, view w", "a", "k", 1),
            ("view v, view w", "b", "k", 1),
        ]
        env.execute_sql("DROP MATERIALIZED VIEW v")
        assert {r["job"] for r in env.execute_sql(indices).to_arrow().to_pylist()} == {"view w"}
        plan = env.explain_sql("CREATE MATERIALIZED VIEW x AS SELECT a.id FROM a JOIN b ON a.k = b.k")
        assert "DeltaJoin INNER on k = k0, reads" in plan
        env.execute_sql("DROP MATERIALIZED VIEW w")
        env.execute_sql("INSERT INTO a VALUES (2, 1, 'x', 4)")
        assert not env.execute_sql(indices).to_arrow().num_rows


class Model:
    """A bag of rows at each of its versions."""

    def __init__(self) -> None:
        self.store = RowStore(pa.schema([("k", pa.int64()), ("v", pa.int64())]))
        self.version = 0
        self.left = 0
        self.live: dict[int, int] = {}
        self.at: list[list[tuple[int, int]]] = [[]]
        self.rows = ArrangedRows(self.store.schema.types, self.store, 0, lambda: self.left)
        self.index = self.rows.index([0], "test")

    def change(self, chance: random.Random) -> None:
        for _ in range(chance.randrange(1, 6)):
            count = chance.randrange(1, 4)
            batch = pa.record_batch(
                [[chance.randrange(4) for _ in range(count)], [chance.randrange(9)] * count], ["k", "v"]
            )
            first, _ = self.store.append(batch.cast(self.store.schema))
            self.live.update({first + i: 1 for i in range(count)})
            positions = chance.sample(sorted(self.live), min(len(self.live), chance.randrange(3)))
            counts = [chance.randrange(3) for _ in positions]
            self.store.count(np.array(positions, np.int64), np.array(counts, np.int64))
            for position, often in zip(positions, counts, strict=True):
                self.live.pop(position) if not often else self.live.update({position: often})
        if chance.random() < 0.3 and (moved := self.rows.compact()) is not None:
            old, new = (part.tolist() for part in moved)
            place = dict(zip(old, new, strict=True))
            self.live = {place[position]: often for position, often in self.live.items()}
        self.version += 1
        self.rows.delivered(self.version)
        self.at.append(self.contents())

    def contents(self) -> list[tuple[int, int]]:
        positions = np.repeat(list(self.live), list(self.live.values())).astype(np.int64)
        return sorted(zip(*(c.to_pylist() for c in self.store.take(positions).columns), strict=True))

    def seen(self, start: int, end: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """What the index says was there at the start and is at the end, all keys asked for."""
        old, now = list[tuple[int, int]](), list[tuple[int, int]]()
        with self.index.reading():
            keys = self.index.find([pa.array([0, 1, 2, 3])], [False])
            for _, found in self.index.probe(keys, (start, end), 3):
                rows = list(zip(*(c.to_pylist() for c in self.index.take([0, 1], found.rows)), strict=True))
                old += [row for row, often in zip(rows, found.old.tolist(), strict=True) for _ in range(often)]
                now += [row for row, often in zip(rows, found.now.tolist(), strict=True) for _ in range(often)]
        return sorted(old), sorted(now)


@pytest.mark.parametrize("seed", range(6 * CASES))
def test_an_index_tells_each_version_that_somebody_has_yet_to_leave(seed: int) -> None:
    chance, model = random.Random(seed), Model()
    for _ in range(40):
        model.change(chance)
        model.left = chance.randrange(model.left, model.version + 1)
        start = chance.randrange(model.left, model.version + 1)
        end = chance.randrange(start, model.version + 1)
        old, now = model.seen(start, end)
        assert (old, now) == (model.at[start], model.at[end])
        with model.index.reading():
            changed = model.index.changed((start, end))
            assert not (changed.now == changed.old).any()
            assert changed.now.sum() - changed.old.sum() == len(model.at[end]) - len(model.at[start])
            assert model.index.changed((-1, end)).now.sum() == len(model.at[end])
