"""Files that tasks read side by side: the same answers as when the driver reads them one after another."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from runtime.core.errors import SqlEngineError
from runtime.core.options import Options
from runtime.plan.base import PhysicalNode
from runtime.plan.nodes import SourceExec
from runtime.plan.walk import walk_all
from runtime.spark.simulated import SimulatedCluster
from runtime.tasks import divided
from runtime.tasks.reading import ReadStage
from runtime.tasks.sources import worth_it
from sqlengine.api.environment import TableEnvironment
from sqlengine.parse import parse_statement
from sqlengine.statements.planning import plan_query

FILES = 4
COUNT = "SELECT k, COUNT(*) AS n, SUM(v) AS v FROM t WHERE v > 2 GROUP BY k"
WINDOWS = """SELECT k, window_start, COUNT(*) AS n
FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(at), INTERVAL '1' MINUTE)) WHERE v <> 3 GROUP BY k, window_start, window_end"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files each of which is in order of time, with one record in the middle that is none."""
    for number in range(FILES):
        rows = [{"k": i % 5, "v": i % 7, "time": f"2024-01-01 00:{i // 10:02d}:00"} for i in range(number, 500, FILES)]
        lines = [json.dumps(row) for row in rows]
        lines.insert(30, '{"k": "none"}')
        (tmp_path / f"{number}.json").write_text("\n".join(lines))
    return tmp_path


def environment(folder: Path, in_tasks: bool, *, ignore: bool = True, **options: str) -> TableEnvironment:
    t_env = TableEnvironment.create({"sqlengine.epoch.max-rows": "90", **options})
    if in_tasks:
        config = t_env.get_config().set("execution.target", "spark").set("parallelism.default", "3")
        config.set("sqlengine.spark.read-in-tasks", "true")
        t_env.session.target.cluster = SimulatedCluster(5)
    t_env.execute_sql(
        f"""CREATE TABLE t (k INT, v INT, `time` STRING, at AS TO_TIMESTAMP(`time`), WATERMARK FOR at AS at)
        WITH ('connector' = 'filesystem', 'path' = '{folder}', 'format' = 'json',
        'json.ignore-parse-errors' = '{str(ignore).lower()}')"""
    )
    return t_env


def rows(t_env: TableEnvironment, query: str) -> list[Any]:
    with t_env:
        return sorted(map(str, t_env.execute_sql(query).to_arrow().to_pylist()))


@pytest.mark.parametrize("least", [10, 1000], ids=["in tasks", "few rows, by the driver"])
@pytest.mark.parametrize("query", [COUNT, WINDOWS], ids=["count", "windows"])
def test_files_side_by_side(folder: Path, query: str, least: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(divided, "PREFIX_ROWS", least)
    expected = rows(environment(folder, False), query)
    assert len(expected) >= 5
    assert rows(environment(folder, True), query) == expected


def test_records_that_are_none_are_kept_once(folder: Path) -> None:
    with environment(folder, True) as t_env:
        t_env.execute_sql(COUNT).wait()
        counted = t_env.execute_sql("SELECT COUNT(*) AS n FROM system.rejected").to_arrow().to_pylist()
    assert counted == [{"n": FILES}]


def test_an_error_in_a_task_is_told_as_by_the_driver(folder: Path) -> None:
    told: list[str] = []
    for in_tasks in (False, True):
        with environment(folder, in_tasks, ignore=False) as t_env, pytest.raises(SqlEngineError) as error:
            t_env.execute_sql(COUNT).wait()
        told.append(str(error.value))
    assert told[0] == told[1]


def test_bad_files_are_left_out_as_by_the_driver(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    (folder / "packed.gz").write_text("not packed")
    good = '{"k": 1, "v": 3, "time": "2024-01-01 00:00:00"}'
    (folder / "strict.json").write_text(f'{good}\n{{"k": 1\n{good}\n')
    told: list[list[str]] = []
    for in_tasks in (False, True):
        with environment(folder, in_tasks, ignore=False) as t_env:
            skipping = "SELECT k, COUNT(*) AS n FROM t /*+ OPTIONS('source.bad-files' = 'skip') */ GROUP BY k"
            counted = t_env.execute_sql(skipping).to_arrow().to_pylist()
            left_out = t_env.execute_sql("SELECT reason, `row` FROM system.rejected").to_arrow().to_pylist()
        told.append(sorted(map(str, [*counted, *left_out])))
    assert told[0] == told[1]
    assert len(told[0]) == 5 + FILES + 3


def test_rows_without_event_time_are_the_drivers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(divided, "PREFIX_ROWS", 10)
    (folder / "1.json").write_text('{"k": 9, "v": 1}\n' * 20 + '{"k": 9, "v": 1, "time": "2024-01-01 00:03:00"}\n')
    drop = {"table.exec.source.rowtime-null-handling": "DROP"}
    expected = rows(environment(folder, False, **drop), WINDOWS)
    assert any("'k': 9" in row for row in expected)
    assert rows(environment(folder, True, **drop), WINDOWS) == expected


@pytest.mark.parametrize("mode", ["batch", "streaming"])
def test_a_lake_is_read_by_tasks(tmp_path: Path, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The task that has begun a split goes on with it."""
    by: list[int] = []
    call = ReadStage.__call__

    def noted(self: ReadStage, partition: int, given: Iterator[Any]) -> Iterator[Any]:
        parts = list(given)
        by.extend(partition for part in parts for _ in part)
        return call(self, partition, iter(parts))

    monkeypatch.setattr(ReadStage, "__call__", noted)
    lake = f"CREATE TABLE lake (k INT, v INT) WITH ('connector' = 'delta', 'table-path' = '{tmp_path / 'lake'}')"
    with TableEnvironment.create() as t_env:
        t_env.execute_script(
            f"{lake}; INSERT INTO lake VALUES (1, 1), (2, 2), (1, 3); INSERT INTO lake VALUES (3, 1), (2, 5)"
        )
    with environment(tmp_path, True) as t_env:
        t_env.execute_sql(lake)
        query = f"SELECT k, v FROM lake /*+ OPTIONS('mode' = '{mode}') */ LIMIT 5"
        found = [tuple(row) for row in t_env.execute_sql(query).collect()]
    assert sorted(found) == [(1, 1), (1, 3), (2, 2), (2, 5), (3, 1)]
    assert len(set(by)) == 1


FOLDER = "'connector' = 'filesystem', 'path' = 'none', 'format' = 'json', 'source.monitor-interval' = '1 s'"


class Machines(SimulatedCluster):
    """A cluster of several machines."""

    local = False

    def __init__(self, lives: bool) -> None:
        super().__init__(None)
        self._lives = lives

    def long_lived(self, options: Options, nodes: Sequence[PhysicalNode]) -> bool:
        return self._lives


@pytest.mark.parametrize(
    ("connector", "lives", "expected"),
    [
        (FOLDER, True, True),
        (FOLDER, False, False),
        ("'connector' = 'datagen', 'number-of-rows' = '200000'", False, True),
        ("'connector' = 'datagen', 'number-of-rows' = '199999'", True, False),
        ("'connector' = 'sqlite', 'path' = 'none.db', 'table-name' = 't'", True, False),
    ],
)
def test_what_can_be_read_anywhere_is_read_by_tasks(connector: str, lives: bool, expected: bool) -> None:
    """On several machines, without being asked."""
    with TableEnvironment.create() as t_env:
        t_env.execute_sql(f"CREATE TABLE t (k INT) WITH ({connector})")
        nodes = walk_all([plan_query(t_env.session, parse_statement("SELECT k FROM t").query.query).physical])
        (source,) = (node for node in nodes if isinstance(node, SourceExec))
        assert worth_it(source, t_env.session.options, Machines(lives), nodes) is expected
        assert not worth_it(source, t_env.session.options, SimulatedCluster(None), nodes)


def test_explain_says_what_the_driver_reads_and_asks() -> None:
    with TableEnvironment.create({"execution.target": "spark"}) as t_env:
        t_env.session.target.cluster = Machines(False)
        t_env.execute_script(
            f"""CREATE TABLE t (k INT, p AS PROCTIME()) WITH ({FOLDER});
            CREATE TABLE few (k INT, p AS PROCTIME()) WITH ('connector' = 'datagen', 'number-of-rows' = '9');
            CREATE TABLE kept (k INT, p AS PROCTIME());
            CREATE TABLE outside (k INT, v INT) WITH ('connector' = 'sqlite', 'path' = 'none.db', 'table-name' = 't');
            CREATE TABLE file (k INT, v INT) WITH ('connector' = 'lookup-jsonl', 'path' = 'none.jsonl')"""
        )
        parts = [
            f"SELECT a.k FROM {table} AS a JOIN {looked_up} FOR SYSTEM_TIME AS OF a.p AS b ON a.k = b.k"
            for table, looked_up in (("t", "outside"), ("few", "file"), ("kept", "file"))
        ]
        text = t_env.explain_sql(" UNION ALL ".join(parts))
    told = text.partition("== Execution ==\n")[2].splitlines()[1:]
    assert told == [
        "the driver reads t: it has no end, and is asked in each epoch, which would be a Spark job",
        "the driver asks outside: tasks cannot ask it",
        "the driver reads few: it has few rows, or epochs have",
        "the driver reads kept: tasks cannot read it",
    ]
