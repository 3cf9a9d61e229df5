"""Sinks that follow views and tables of a database whose process is killed: they have what those have, each change once.

The views read tables, files that come one after another, and values that differ each time, which are others when the view
computes them again behind a checkpoint. One sink is written by a job that joins two views, and so has state of its own.
"""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from sqlengine import TableEnvironment
from tests.faults.conftest import FIRST_SEED, KILLS
from tests.faults.processes import WarmProcess

OPTIONS = {
    "execution.checkpointing.interval": "20 ms",
    "sqlengine.database.checkpoint-size": "20kb",
    "sqlengine.database.synchronous": "normal",
}
SINK = "WITH ('connector' = 'filesystem', 'path' = 'ROOT/out/{}', 'format' = '{}')"
DEFINITIONS = (
    "CREATE TABLE a (id INT) WITH ('changelog-mode' = 'append')",
    "CREATE TABLE t (w INT, n INT)",
    "CREATE TABLE k (w INT PRIMARY KEY NOT ENFORCED, name STRING)",
    "CREATE TABLE f (n INT) WITH ('connector' = 'filesystem', 'path' = 'ROOT/in', 'format' = 'csv', "
    "'source.monitor-interval' = '1 ms')",
    "CREATE MATERIALIZED VIEW stamped AS SELECT id, UUID() AS u FROM a",
    "CREATE MATERIALIZED VIEW sums AS SELECT w, COUNT(*) AS c, SUM(n) AS s FROM t GROUP BY w",
    "CREATE MATERIALIZED VIEW files AS SELECT n % 4 AS w, COUNT(*) AS c, MAX(UUID()) AS u FROM f GROUP BY n % 4",
    "INSERT INTO t VALUES (1, 1), (2, 2)",
    "INSERT INTO a VALUES (0)",
    f"CREATE TABLE stamped_out (id INT, u STRING) {SINK.format('stamped', 'csv')}",
    f"CREATE TABLE sums_out (w INT, c BIGINT, s INT) {SINK.format('sums', 'debezium-json')}",
    f"CREATE TABLE k_out (w INT, name STRING) {SINK.format('k', 'debezium-json')}",
    f"CREATE TABLE joined_out (w INT, c BIGINT, s INT, u STRING) {SINK.format('joined', 'debezium-json')}",
    "SET 'sqlengine.insert.follow' = 'true'",
    "INSERT INTO stamped_out SELECT * FROM stamped",
    "EXECUTE STATEMENT SET BEGIN INSERT INTO sums_out SELECT * FROM sums; INSERT INTO k_out SELECT * FROM k; END",
    "INSERT INTO joined_out SELECT s.w, f.c, s.s, f.u FROM sums AS s JOIN files AS f ON s.w = f.w",
    "SET 'sqlengine.sql.dialect' = 'postgres'",
    f"CREATE SINK files_out FROM files {SINK.format('files', 'debezium-json')}",
)
QUERIES = {
    "stamped": "SELECT * FROM stamped",
    "sums": "SELECT * FROM sums",
    "k": "SELECT * FROM k",
    "joined": "SELECT s.w, f.c, s.s, f.u FROM sums AS s JOIN files AS f ON s.w = f.w",
    "files": "SELECT * FROM files",
}


def _changes(rng: random.Random, ids: Iterator[int]) -> str:
    w, n = rng.randrange(4), rng.randrange(9)
    return rng.choice(
        (
            f"INSERT INTO a VALUES ({next(ids)}), ({next(ids)})",
            f"INSERT INTO t VALUES ({w}, {n}), ({n % 4}, {w})",
            f"DELETE FROM t WHERE n = {n}",
            f"UPDATE t SET n = n + 1 WHERE w = {w}",
            f"INSERT INTO k VALUES ({w}, 'k{n}')",
            f"DELETE FROM k WHERE w = {w}",
        )
    )


def _written(name: str) -> Counter[tuple[object, ...]]:
    """What a sink's files add up to; a row that goes must have come."""
    found: Counter[tuple[object, ...]] = Counter()
    for path in Path("out", name).glob("part-*"):
        for line in path.read_text().splitlines():
            if name == "stamped":
                number, text = line.split(",")
                found[int(number), text] += 1
                continue
            change = json.loads(line)
            for row, count in (change["before"], -1), (change["after"], 1):
                if row is not None:
                    found[tuple(row.values())] += count
    return Counter({row: count for row, count in found.items() if count})


def _held(t_env: TableEnvironment, query: str) -> Counter[tuple[object, ...]]:
    return Counter(tuple(row.values()) for row in t_env.execute_sql(query).to_arrow().to_pylist())


def test_sinks_have_what_views_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warm: WarmProcess) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    rng, ids = random.Random(FIRST_SEED), itertools.count(1)
    place = str(tmp_path / "db")
    with TableEnvironment.create(OPTIONS, path=place) as t_env:
        for definition in DEFINITIONS:
            assert not t_env.execute_sql(definition.replace("ROOT", str(tmp_path))).warnings
    options = [part for key, value in OPTIONS.items() for part in ("-D", f"{key}={value}")]
    for turn in range(max(1, KILLS // 2)):
        Path("in", f"{turn}.csv").write_text("".join(f"{rng.randrange(9)}\n" for _ in range(20)))
        Path("changes.sql").write_text(";\n".join(_changes(rng, ids) for _ in range(100)))
        said = Path(f"said-{turn}")
        warm.start(["run", str(Path("changes.sql").absolute()), "--database", place, *options], said.absolute())
        wanted = rng.randrange(1, 30)
        while not warm.ended(0.001) and (not said.exists() or said.read_text().count("\n") < wanted):
            pass
        warm.kill()
        assert warm.status() == -9, said.read_text()
    with TableEnvironment.create(OPTIONS, path=place) as t_env:
        for _ in range(5):
            t_env.execute_sql(_changes(rng, ids))
        t_env.flush()
        for name, query in QUERIES.items():
            while _written(name) != _held(t_env, query):
                failed = t_env.execute_sql("SELECT error FROM system.jobs WHERE status = 'FAILED'").to_arrow()
                assert not len(failed), failed.to_pylist()
        held = {name: _held(t_env, query) for name, query in QUERIES.items()}
    assert {name: _written(name) for name in QUERIES} == held
    assert sum(held["stamped"].values()) > 1 and held["files"]
