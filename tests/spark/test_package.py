"""The package for executors holds all that a task needs, under one name, and any driver can use it."""

from __future__ import annotations

import multiprocessing.connection
import os
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import cloudpickle

from runtime.core.errors import SqlEngineError
from runtime.spark.shipping import by_value
from runtime.spark.simulated import SimulatedCluster
from runtime.tasks.shipping import here
from sqlengine import TableEnvironment
from sqlengine.cli.spark_package import write_job, write_package
from sqlengine.database import targets

EXECUTOR = """
import pickle, sys
from multiprocessing.connection import Client

with Client(sys.argv[1], "AF_UNIX") as driver:
    while data := driver.recv_bytes():
        stage, partition, given = pickle.loads(data)
        driver.send_bytes(pickle.dumps((list(stage(partition, iter(given))), sorted(sys.modules))))
"""


class ElsewhereCluster(SimulatedCluster):
    """Tasks run in another process, which has the engine as the package only. It loads what it gets as Spark does, with
    plain pickle."""

    def __init__(self, executor: multiprocessing.connection.Connection) -> None:
        super().__init__(None)
        self._executor = executor
        self.modules: list[str] = []

    def _attempts(self, stage: Any, partition: int, records: list[Any]) -> list[list[tuple[int, Any]]]:
        self._executor.send_bytes(cloudpickle.dumps((by_value(stage), partition, records)))
        found, self.modules = cloudpickle.loads(self._executor.recv_bytes())
        return [found]


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[ElsewhereCluster]:
    package = write_package(tmp_path / "engine.zip")
    with multiprocessing.connection.Listener(str(tmp_path / "socket"), "AF_UNIX") as listener:
        process = subprocess.Popen(
            [sys.executable, "-c", EXECUTOR, listener.address],
            env={**os.environ, "PYTHONPATH": str(package)},
            cwd=tmp_path,
        )
        with listener.accept() as executor:
            yield ElsewhereCluster(executor)
            executor.send_bytes(b"")
        assert process.wait() == 0


def test_a_driver_from_a_checkout_works_with_executors_that_have_the_package(
    elsewhere: ElsewhereCluster, tmp_path: Path
) -> None:
    (tmp_path / "connectors").mkdir()
    (tmp_path / "runtime.py").write_text("raise ImportError('a module of the user')")
    t_env = TableEnvironment.create({"execution.target": "spark", "parallelism.default": "2"})
    t_env.session.target.cluster = elsewhere
    factor = 3

    def times(value: int) -> int:
        return value * factor

    t_env.create_temporary_system_function("times", times)
    t_env.execute_script("""
        CREATE TABLE n (i BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '1000', 'fields.i.kind' = 'sequence',
          'fields.i.start' = '0', 'fields.i.end' = '999')""")
    rows = t_env.execute_sql(
        "SELECT MOD(i, 7) AS k, COUNT(*) AS n, times(MAX(i)) AS m FROM n GROUP BY MOD(i, 7)"
    ).to_arrow()
    expected = [{"k": k, "n": len(range(k, 1000, 7)), "m": 3 * max(range(k, 1000, 7))} for k in range(7)]
    assert sorted(rows.to_pylist(), key=lambda row: row["k"]) == expected
    assert "sqlengine.runtime.operators.group_aggregate" in elsewhere.modules
    assert not {"runtime", "planner", "connectors"} & set(elsewhere.modules)


def test_an_error_of_a_task_there_is_told_here(elsewhere: ElsewhereCluster) -> None:
    t_env = TableEnvironment.create({"execution.target": "spark", "parallelism.default": "2"})
    t_env.session.target.cluster = elsewhere
    with pytest.raises(SqlEngineError) as told:
        t_env.execute_sql("SELECT CAST(s AS INT), COUNT(*) FROM (VALUES 'x', 'y') AS t (s) GROUP BY s").to_arrow()
    assert told.value.code == "E2101"
    assert "sqlengine.runtime.tasks.task" in elsewhere.modules


def test_the_same_code_gives_the_same_package(tmp_path: Path) -> None:
    first, again = write_package(tmp_path / "engine.zip"), write_package(tmp_path / "again.zip")
    assert first.read_bytes() == again.read_bytes()


def test_the_program_for_a_file_of_sql_uses_the_session_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[object] = []
    session = SimpleNamespace(stop=lambda: done.append("stopped"))
    builder = SimpleNamespace(getOrCreate=lambda: done.append("session") or session)
    monkeypatch.setattr("pyspark.sql.SparkSession", SimpleNamespace(builder=builder))
    monkeypatch.setattr("sqlengine.cli.main.main", lambda arguments: done.append(arguments) or 3)
    monkeypatch.setattr(sys, "argv", ["sqlengine_job.py", "job.sql", "-D", "parallelism.default=2"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(write_job(tmp_path / "sqlengine_job.py")))
    assert ended.value.code == 3
    assert done == ["session", ["run", "--on", "spark", "job.sql", "-D", "parallelism.default=2"], "stopped"]


def test_names_of_modules_are_those_of_this_process() -> None:
    assert (
        here("sqlengine.runtime.tasks.task")
        == here("runtime.tasks.task")
        == here.__module__.replace("shipping", "task")
    )
    assert here("sqlengine.results.result") == "sqlengine.results.result"
    assert here("connector_of_a_user.runtime") == "connector_of_a_user.runtime"


def test_options_of_spark_are_those_of_a_new_session(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, dict[str, str]]] = []

    class Asked(Exception):
        """Enough is known."""

    def session(master: str, conf: dict[str, str]) -> None:
        asked.append((master, conf))
        raise Asked

    monkeypatch.setattr(targets._session, "spark_session", session)
    with TableEnvironment.create({"execution.target": "spark", "sqlengine.spark.master": "local[3]"}) as t_env:
        t_env.execute_sql("SET 'spark.jars.packages' = 'a:b:1'")
        with pytest.raises(Asked):
            t_env.execute_sql("SELECT COUNT(*) FROM (VALUES 1, 2) AS t (n)").wait()
    assert asked == [("local[3]", {"spark.jars.packages": "a:b:1"})]
