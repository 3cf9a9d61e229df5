"""Materialized views whose filling ends in the middle: each is the old one or the new one, with its exact answer.

A process makes and replaces views of a database on disk while other sessions write; it is killed with SIGKILL at a random
event of the statement (a call or return of a Python function), so that every step of it may be the last. A statement that
is cancelled in the middle leaves the old view, and nothing else. Answers are compared with DuckDB's over the stored rows.
"""

from __future__ import annotations

import gc
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest

from runtime.core.errors import SqlEngineError
from runtime.local.job import Job
from sqlengine import TableEnvironment
from sqlengine.statements import view_replacement
from tests.faults.conftest import FIRST_SEED, KILLS
from tests.faults.gates import Beside, Gate
from tests.faults.stopping import StopAtLook

QUERIES = (
    "SELECT g, MAX(n) AS c FROM t GROUP BY g",
    "SELECT g, SUM(n) AS c FROM t GROUP BY g",
    "SELECT g, MIN(n) AS c FROM t WHERE n > 100 GROUP BY g",
    "SELECT t.g, SUM(n) AS c FROM t JOIN u ON t.g = u.g GROUP BY t.g",
    "SELECT g, SUM(n) AS c FROM (SELECT DISTINCT g, n FROM t) AS d GROUP BY g",
    "SELECT g, n AS c FROM t WHERE n > 300",
)
ABOVE = "SELECT c, COUNT(*) AS m FROM v GROUP BY c"
WRITERS = 3
FIRST = (
    "CREATE TABLE t (w INT, g INT, n BIGINT) WITH ('changelog-mode' = 'retract')",
    "CREATE TABLE u (g INT PRIMARY KEY NOT ENFORCED)",
    f"INSERT INTO t VALUES {', '.join(f'({WRITERS}, {i % 40}, {i})' for i in range(400))}",
    f"INSERT INTO u VALUES {', '.join(f'({i})' for i in range(0, 40, 3))}",
    f"CREATE MATERIALIZED VIEW v AS {QUERIES[0]}",
    f"CREATE MATERIALIZED VIEW above AS {ABOVE}",
)

_FILLS = """
import json, os, signal, sys, threading
from sqlengine import TableEnvironment
size, statements, last = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])
t_env = TableEnvironment.create({"sqlengine.database.checkpoint-size": size}, path="db")
known = {r["w"]: r["c"] for r in t_env.execute_sql("SELECT w, COUNT(*) AS c FROM t GROUP BY w").to_arrow().to_pylist()}
def tell(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())
written = [threading.Event() for _ in range(WRITERS)]
def write(w, session):
    n = known.get(w, 0)
    while True:
        session.execute_sql(f"INSERT INTO t VALUES ({w}, {n % 50}, {n})")
        n += 1
        tell("wrote", w, n)
        written[w].set()
events = 0
def note(frame, event, given):
    global events
    events += 1
    if events == last:
        os.kill(os.getpid(), signal.SIGKILL)
def fill():
    sys.setprofile(note)
    for number, statement in enumerate(statements):
        t_env.execute_sql(statement)
        tell("done", number)
    tell("events", events)
    os.kill(os.getpid(), signal.SIGKILL)
for w in range(WRITERS):
    threading.Thread(target=write, args=(w, t_env.new_session())).start()
for event in written:
    event.wait()
threading.Thread(target=fill).start()
""".replace("WRITERS", str(WRITERS))


def _rows(t_env: TableEnvironment, query: str) -> list[tuple[object, ...]]:
    return sorted((tuple(r.values()) for r in t_env.execute_sql(query).to_arrow().to_pylist()), key=str)


def _answers(t_env: TableEnvironment, queries: list[str]) -> list[list[tuple[object, ...]]]:
    """What DuckDB answers over the stored rows. A query may read `v`, which is the first one."""
    with duckdb.connect() as duck:
        for name in ("t", "u"):
            duck.register(name, t_env.execute_sql(f"SELECT * FROM {name}").to_arrow())
        duck.execute(f"CREATE VIEW v AS {queries[0]}")
        return [sorted(duck.execute(query).fetchall(), key=str) for query in queries]


def _defined(t_env: TableEnvironment, name: str) -> int | None:
    """Which query a view has, None when there is no such view."""
    views = [row[0] for row in t_env.execute_sql("SHOW MATERIALIZED VIEWS").collect()]
    if name not in views:
        return None
    (row,) = t_env.execute_sql(f"SHOW CREATE MATERIALIZED VIEW {name}").collect()
    return max((len(query), i) for i, query in enumerate(QUERIES) if str(row[0]).rstrip(";").endswith(query))[1]


def _check(t_env: TableEnvironment) -> None:
    """All views are what their queries say."""
    defined = {name: _defined(t_env, name) for name in ("v", "made")}
    v, made = defined["v"], defined["made"]
    assert v is not None
    expected = _answers(t_env, [QUERIES[v], ABOVE, *([] if made is None else [QUERIES[made]])])
    for name, answer in zip(("v", "above", "made"), expected, strict=False):
        assert _rows(t_env, f"SELECT * FROM {name}") == answer, (name, defined)


def test_fills_of_a_process_that_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(FIRST_SEED)
    monkeypatch.chdir(tmp_path)
    with TableEnvironment.create(path="db") as t_env:
        _prepared(t_env)
    written = [0] * WRITERS
    v, made = 0, None
    events = 0
    for number in range(max(8, 4 * KILLS)):
        size = rng.choice(["1", "2kb", "64mb"])
        queries = [rng.randrange(len(QUERIES)) for _ in range(3)]
        statements = [
            f"CREATE OR REPLACE MATERIALIZED VIEW v AS {QUERIES[queries[0]]}",
            f"{'CREATE' if made is None else 'CREATE OR REPLACE'} MATERIALIZED VIEW made AS {QUERIES[queries[1]]}",
            f"ALTER MATERIALIZED VIEW v AS {QUERIES[queries[2]]}",
        ]
        last = rng.randrange(1, events) if number else 0
        run = subprocess.run(
            [sys.executable, "-c", _FILLS, size, json.dumps(statements), str(last)], stdout=subprocess.PIPE, text=True
        )
        done = 0
        for line in run.stdout.splitlines():
            word, *numbers = line.split()
            if word == "wrote":
                written[int(numbers[0])] = int(numbers[1])
            elif word == "done":
                done = int(numbers[0]) + 1
            else:
                events = int(numbers[0])
        print(f"{last} of {events} events, {done} done")
        assert number or done == len(statements)
        v, made = queries[0] if done > 0 else v, queries[1] if done > 1 else made
        v = queries[2] if done > 2 else v
        with TableEnvironment.create(path="db") as t_env:
            after = {"v": _defined(t_env, "v"), "made": _defined(t_env, "made")}
            if done < len(statements):
                name = "made" if done == 1 else "v"
                assert after[name] in ((made if done == 1 else v), queries[done]), (statements, done)
                after_other = after["v"] if done == 1 else after["made"]
                assert after_other == (v if done == 1 else made)
            else:
                assert after == {"v": v, "made": made}
            v, made = after["v"] or 0, after["made"]
            _check(t_env)
            counts = dict(_rows(t_env, "SELECT w, COUNT(*) AS c FROM t GROUP BY w"))  # type: ignore[arg-type]
            for w in range(WRITERS):
                assert written[w] <= counts.get(w, 0) <= written[w] + 1
                written[w] = counts.get(w, 0)
            # They go on, whether their state was read or made again.
            t_env.execute_sql(f"DELETE FROM t WHERE w = {WRITERS} AND g = {rng.randrange(40)}")
            t_env.execute_sql(f"INSERT INTO t VALUES ({WRITERS}, 7, 1000), ({WRITERS}, 41, {number})")
            _check(t_env)


def _prepared(t_env: TableEnvironment) -> None:
    for statement in FIRST:
        t_env.execute_sql(statement)


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + KILLS))
@pytest.mark.parametrize("durable", [False, True], ids=["memory", "folder"])
def test_fills_that_are_cancelled(tmp_path: Path, durable: bool, seed: int) -> None:
    """At each look the statement may end: then the old view stays, no job and no reader is left, and what follows works."""
    rng = random.Random(seed)
    path = tmp_path / "db" if durable else None
    with TableEnvironment.create(path=path) as t_env, t_env.new_session() as other:
        _prepared(t_env)
        defined: dict[str, int | None] = {"v": 0, "made": None}
        stopped = 0
        for number in range(10):
            name, query = rng.choice(["v", "v", "made"]), rng.randrange(len(QUERIES))
            alters = defined[name] is not None and rng.random() < 0.3
            verb = "ALTER" if alters else "CREATE OR REPLACE"
            readers = _readers(t_env)
            try:
                with StopAtLook(rng.randrange(1, 25)).governing():
                    t_env.execute_sql(f"{verb} MATERIALIZED VIEW {name} AS {QUERIES[query]}")
                defined[name] = query
            except SqlEngineError as error:
                assert error.code == "E1633", error
                stopped += 1
                assert _readers(t_env) == readers
            views = t_env.session.views
            assert not views.in_the_making and not views.lock.kept and not views.lock.held
            assert {n: _defined(t_env, n) for n in defined} == defined
            other.execute_sql(f"INSERT INTO t VALUES (9, {rng.randrange(45)}, {number})")
            if number % 8 == 0:
                other.execute_sql(f"DELETE FROM t WHERE n = {rng.randrange(400)}")
            _check(t_env)
        assert stopped
    if path is not None:
        with TableEnvironment.create(path=path) as t_env:
            assert {n: _defined(t_env, n) for n in defined} == defined
            _check(t_env)


@pytest.mark.parametrize("place", ["copied", "loaded"])
def test_who_writes_while_state_is_handed_over(gate: Gate, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    """While the state of the old view is copied others read it, and write what it does not read; while the new view loads
    it they write what both read."""
    owner, name = (view_replacement, "state_of") if place == "copied" else (Job, "load")
    hands_over = getattr(owner, name)

    def held(*given: Any) -> Any:
        gate(0)
        return hands_over(*given)

    monkeypatch.setattr(owner, name, held)
    query = "SELECT g, MAX(n) + 1 AS c FROM t GROUP BY g"
    with TableEnvironment.create() as t_env, t_env.new_session() as session:
        beside = Beside(session)
        _prepared(t_env)
        t_env.execute_sql("CREATE TABLE b (x INT)")
        before = beside.rows("SELECT * FROM v")
        with gate.held(lambda: t_env.execute_sql(f"ALTER MATERIALIZED VIEW v AS {query}")):
            beside.rows("INSERT INTO b VALUES (1)")
            assert beside.rows("SELECT * FROM v") == before
            if place == "loaded":
                beside.rows("INSERT INTO t VALUES (9, 3, 5000)")
                assert beside.rows("SELECT c FROM v WHERE g = 3") == [(5000,)]
        assert beside.rows("SELECT x FROM b") == [(1,)]
        beside.rows("INSERT INTO t VALUES (9, 4, 6000)")
        assert [_rows(t_env, "SELECT * FROM v"), _rows(t_env, "SELECT * FROM above")] == _answers(t_env, [query, ABOVE])


def _readers(t_env: TableEnvironment) -> dict[str, int]:
    """How many follow each table and view."""
    gc.collect()
    return {str(path): len(table._readers) for path, table in t_env.session.memory.items()}
