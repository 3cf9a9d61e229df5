"""Files that tasks read side by side: the same answers as when the driver reads them one after another."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from runtime.core.errors import SqlEngineError
from runtime.spark.simulated import SimulatedCluster
from runtime.tasks import divided
from sqlengine.api.environment import TableEnvironment

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
