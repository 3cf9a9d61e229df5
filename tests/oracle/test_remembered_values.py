"""Values that are others each time, over rows that come, change and go: a view takes back what it gave.

After every epoch the other columns are what DuckDB answers, a value is one that was given once, and it stays while its row
stays; when all rows are gone nothing is left. The guards around all operators see to it that nothing is taken back that is
not there. The epochs are cut at random, operators made anew from their state in between, alone and in three tasks.
A hundredth of FUZZ_CASES is run.
"""

from __future__ import annotations

import itertools
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import pytest

from sqlengine import AggregateFunction, udaf, udf, udtf
from sqlengine.testing.simulated import SimulatedEnvironment

CASES = int(os.environ.get("FUZZ_CASES", "0")) // 100 or 3
Rows = list[tuple[Any, ...]]

_numbers = itertools.count(1)


@udf(result_type="BIGINT", input_types=["INT"], deterministic=False)
def ticket(value: int) -> int:
    """Never the same twice."""
    return next(_numbers)


@udf(result_type="INT", input_types=["INT"], deterministic=False)
def coin(value: int) -> int:
    """0 or 1, whatever the value, which is never one that it is asked to fail for."""
    assert value != 99
    return next(_numbers) % 2


@udtf(result_types=["INT", "BIGINT"], input_types=["INT"], deterministic=False)
def shower(value: int) -> Iterator[tuple[int, int]]:
    """From none to three rows with numbers of their own."""
    for place in range(next(_numbers) % 4):
        yield place, next(_numbers)


class Serial(AggregateFunction):
    """A number of its own whenever it is asked, whatever the rows are."""

    def create_accumulator(self) -> list[int]:
        return [0]

    def accumulate(self, accumulator: list[int], value: int) -> None:
        accumulator[0] += 1

    def retract(self, accumulator: list[int], value: int) -> None:
        accumulator[0] -= 1

    def get_value(self, accumulator: list[int]) -> int:
        return next(_numbers)


serial = udaf(Serial(), result_type="BIGINT", input_types=["INT"], deterministic=False, name="serial")


# The columns before the values, then how many values there are; what DuckDB gives for the former.
EXACT = {
    "named": ("SELECT id, v, ticket(v) AS r, UUID() AS u FROM t", 2, "SELECT id, v FROM t"),
    "bag": ("SELECT k, ticket(w) AS r FROM s", 1, "SELECT k FROM s"),
    "narrow": ("SELECT v, ticket(v) AS r FROM t", 1, "SELECT v FROM t"),
    "above": ("SELECT id, r FROM named WHERE v > 2", 1, "SELECT id FROM t WHERE v > 2"),
    "twice": ("SELECT id, r, ticket(v) AS r2 FROM (SELECT id, v, ticket(v) AS r FROM t)", 2, "SELECT id FROM t"),
    "joined": (
        "SELECT t.id, s.k, ticket(t.v) AS r FROM t JOIN s ON t.v = s.w", 1,
        "SELECT t.id, s.k FROM t JOIN s ON t.v = s.w",
    ),
    "grouped": (
        "SELECT v, n, ticket(v) AS r FROM (SELECT v, COUNT(*) AS n FROM t GROUP BY v)", 1,
        "SELECT v, COUNT(*) FROM t GROUP BY v",
    ),
    "aggregated": (
        "SELECT v, COUNT(*) AS n, serial(id) AS r FROM t GROUP BY v", 1, "SELECT v, COUNT(*) FROM t GROUP BY v",
    ),
    "by_value": ("SELECT n, r FROM (SELECT r, COUNT(*) AS n FROM (SELECT ticket(w) AS r FROM s) GROUP BY r)", 1,
        "SELECT 1 FROM s"),
    "guarded": (
        "SELECT id, CASE WHEN v = 99 THEN -ticket(id) ELSE ticket(coin(v)) END AS r FROM t", 1, "SELECT id FROM t",
    ),
    "filled": (
        "SELECT id, COALESCE(CASE WHEN v > 2 THEN CAST(v AS BIGINT) END, -ticket(v)) AS r FROM t WHERE v <= 2", 1,
        "SELECT id FROM t WHERE v <= 2",
    ),
    "padded": (
        "SELECT t.id, x.k, x.r FROM t LEFT JOIN (SELECT k, ticket(w) AS r FROM s) AS x ON t.v = x.k", 1,
        "SELECT t.id, s.k FROM t LEFT JOIN s ON t.v = s.k",
    ),
}  # fmt: skip
# Views that let a part of the rows pass: each row of theirs is one of DuckDB's, as often at most.
SOME = {
    "kept": ("SELECT id, v FROM t WHERE v <> 99 AND coin(v) = 1", "SELECT id, v FROM t WHERE v <> 99"),
    "pairs": ("SELECT t.id, s.k FROM t JOIN s ON t.v = s.w AND coin(t.id + s.k) = 1",
        "SELECT t.id, s.k FROM t JOIN s ON t.v = s.w"),
    "one_side": ("SELECT t.id, s.k FROM t JOIN s ON t.v = s.w AND coin(s.w) = 1",
        "SELECT t.id, s.k FROM t JOIN s ON t.v = s.w"),
    "semi": ("SELECT id, v FROM t WHERE EXISTS (SELECT 1 FROM s WHERE s.w = t.v AND coin(s.k + t.id) = 1)",
        "SELECT id, v FROM t WHERE v IN (SELECT w FROM s)"),
    "first_two": ("SELECT id, v FROM t ORDER BY RAND() LIMIT 2", "SELECT id, v FROM t"),
}  # fmt: skip
# Outer joins whose pairs pass by chance: every row of the kept side once or more; pairs are those of the inner join.
OUTER = {"left_pairs": "LEFT", "right_pairs": "RIGHT", "full_pairs": "FULL"}
FURTHER = {
    "anti": "SELECT id, v FROM t WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.w = t.v AND coin(s.k + t.id) = 1)",
    "showered": "SELECT t.id, t.v, x.place, x.r FROM t, LATERAL TABLE(shower(t.v)) AS x (place, r)",
    "sums": "SELECT k, SUM(ticket(w)) AS n, COUNT(*) FILTER (WHERE coin(w) = 1) AS c FROM s GROUP BY k",
    "sums_above": "SELECT v, SUM(r) AS n FROM named GROUP BY v",
    "keyed_by_chance": "SELECT t.id, x.k FROM t JOIN s AS x ON t.id = coin(x.w)",
    **{
        name: f"SELECT t.id, s.k FROM t {kind} JOIN s ON t.v = s.w AND coin(t.id + s.k) = 1"
        for name, kind in OUTER.items()
    },
}
VIEWS = {**{n: q for n, (q, *_) in EXACT.items()}, **{n: q for n, (q, _) in SOME.items()}, **FURTHER}


def changed(chance: random.Random, t: dict[int, int], s: Rows) -> list[tuple[str, str]]:
    """A change of a table, as lines of `input`, carried out on the model."""
    if chance.random() < 0.6:
        key, value = chance.randrange(1, 8), chance.choice([1, 2, 3, 4, 99])
        if key not in t:
            t[key] = value
            return [("t", f"+I {key} | {value}")]
        old = t.pop(key)
        if chance.random() < 0.4:
            return [("t", f"-D {key} | {old}")]
        t[key] = value
        return [("t", f"-U {key} | {old}"), ("t", f"+U {key} | {value}")]
    if s and chance.random() < 0.45:
        row = s.pop(chance.randrange(len(s)))
        return [("s", f"-D {row[0]} | {row[1]}")]
    s.append((chance.randrange(1, 4), chance.randrange(1, 4)))
    return [("s", f"+I {s[-1][0]} | {s[-1][1]}")]


class Seen:
    """The rows of the views as they were, and all values that were given."""

    def __init__(self, env: SimulatedEnvironment) -> None:
        self._env = env
        self._before: dict[str, Rows] = {}
        self._source: dict[str, Rows] = {"t": [], "s": []}

    def rows(self, view: str) -> Rows:
        return [tuple(row) for row in self._env.execute_sql(f"SELECT * FROM {view}").collect()]

    def check(self, oracle: duckdb.DuckDBPyConnection) -> None:
        for name, (_, values, query) in EXACT.items():
            rows = self.rows(name)
            assert Counter(r[:-values] for r in rows) == Counter(oracle.execute(query).fetchall()), name
            unique = [r[-1] for r in rows if isinstance(r[-1], str) or (r[-1] or 0) > 100 or (r[-1] or 0) < 0]
            if name not in ("joined", "padded"):
                assert len(set(unique)) == len(unique), name
        for name, (_, query) in SOME.items():
            assert not Counter(self.rows(name)) - Counter(oracle.execute(query).fetchall()), name
        assert len(self.rows("first_two")) == min(2, oracle.execute("SELECT COUNT(*) FROM t").fetchall()[0][0])
        self._outer(oracle)
        assert set(self.rows("anti")) | set(self.rows("semi")) <= set(oracle.execute("SELECT id, v FROM t").fetchall())
        named = Counter[int]()
        for _, v, r, _ in self.rows("named"):
            named[v] += r
        assert dict(self.rows("sums_above")) == named
        # What stays keeps its value.
        source = {
            "t": oracle.execute("SELECT id, v FROM t").fetchall(),
            "s": oracle.execute("SELECT k, w FROM s").fetchall(),
        }
        stays = set(self._source["t"]) & set(source["t"])
        for name in ("named", "kept", "showered"):
            before, now = (
                [r for r in rows if (r[0], r[1]) in stays] for rows in (self._before.get(name, []), self.rows(name))
            )
            assert Counter(before) == Counter(now), name
        self._before = {name: self.rows(name) for name in ("named", "kept", "showered")}
        self._source = source

    def _outer(self, oracle: duckdb.DuckDBPyConnection) -> None:
        inner = Counter(oracle.execute("SELECT t.id, s.k FROM t JOIN s ON t.v = s.w").fetchall())
        ids = {i for (i,) in oracle.execute("SELECT id FROM t").fetchall()}
        bag = Counter(k for (k,) in oracle.execute("SELECT k FROM s").fetchall())
        for name, kind in OUTER.items():
            rows = Counter(self.rows(name))
            pairs = Counter({r: n for r, n in rows.items() if None not in r})
            assert not pairs - inner, name
            if kind != "RIGHT":
                matched, alone = {i for i, _ in pairs}, [i for i, k in rows.elements() if k is None]
                assert sorted(alone) == sorted(ids - matched), name
            if kind != "LEFT":
                alone = Counter(k for i, k in rows.elements() if i is None)
                assert not alone - bag, name
                found = Counter(k for _, k in pairs.elements())
                assert all(alone[k] + found[k] >= n for k, n in bag.items()), name


def env_of(options: dict[str, str]) -> SimulatedEnvironment:
    env = SimulatedEnvironment.create(options)
    for function in (ticket, coin, shower, serial):
        env.create_temporary_system_function(function.name, function)
    env.execute_sql("CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED, v INT)")
    env.execute_sql("CREATE TABLE s (k INT, w INT)")
    return env


@pytest.mark.parametrize("seed", range(CASES))
def test_what_was_given_is_taken_back(seed: int) -> None:
    chance = random.Random(seed)
    tasks = 1 + 2 * (seed % 2)
    env = env_of({"parallelism.default": str(tasks), "sqlengine.batch.max-rows": str(chance.choice([1, 3, 262_144]))})
    oracle = duckdb.connect()
    oracle.execute("CREATE TABLE t (id INT, v INT); CREATE TABLE s (k INT, w INT)")
    late = set(chance.sample([n for n in VIEWS if n not in ("named", "above", "sums_above")], 8))
    t: dict[int, int] = {}
    s: Rows = []
    seen = Seen(env)

    def epoch(change: Callable[[], list[tuple[str, str]]], times: int) -> None:
        with env.epoch():
            for _ in range(times):
                for table, line in change():
                    env.input(table, line)
        oracle.execute("DELETE FROM t; DELETE FROM s")
        for table, rows in (("t", list(t.items())), ("s", s)):
            for row in rows:
                oracle.execute(f"INSERT INTO {table} VALUES (?, ?)", row)

    for name in (n for n in VIEWS if n not in late):
        env.execute_sql(f"CREATE MATERIALIZED VIEW {name} AS {VIEWS[name]}")
    epoch(lambda: changed(chance, t, s), 5)
    for name in (n for n in VIEWS if n in late):
        env.execute_sql(f"CREATE MATERIALIZED VIEW {name} AS {VIEWS[name]}")
    for _ in range(12):
        epoch(lambda: changed(chance, t, s), chance.choice([1, 1, 2, 6, 12]))
        seen.check(oracle)
        if chance.random() < 0.4:
            env.restart()

    def gone() -> list[tuple[str, str]]:
        lines = [("t", f"-D {k} | {v}") for k, v in t.items()] + [("s", f"-D {k} | {w}") for k, w in s]
        t.clear()
        s.clear()
        return lines

    epoch(gone, 1)
    for name in VIEWS:
        assert seen.rows(name) == [], name
