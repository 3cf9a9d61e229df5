"""The package for executors holds all that a task needs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sqlengine import TableEnvironment, targets
from sqlengine.cli.spark_package import write_package


def test_tasks_run_from_the_package_alone(tmp_path: Path) -> None:
    package = write_package(tmp_path / "engine.zip")
    program = (
        "import runtime, runtime.spark.stage, runtime.spark.resident, runtime.spark.task as task\n"
        "from runtime.expr.library import builtin_functions\n"
        "assert '.zip' in task.__file__, task.__file__\n"
        "print(len(builtin_functions().functions) > 100)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(package)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == "True", done.stderr
    assert write_package(tmp_path / "again.zip").read_bytes() == package.read_bytes()


def test_options_of_spark_are_those_of_a_new_session(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, dict[str, str]]] = []

    class Asked(Exception):
        """Enough is known."""

    def session(master: str, conf: dict[str, str]) -> None:
        asked.append((master, conf))
        raise Asked

    monkeypatch.setattr(targets, "spark_session", session)
    with TableEnvironment.create({"execution.target": "spark", "sqlengine.spark.master": "local[3]"}) as t_env:
        t_env.execute_sql("SET 'spark.jars.packages' = 'a:b:1'")
        with pytest.raises(Asked):
            t_env.execute_sql("SELECT COUNT(*) FROM (VALUES 1, 2) AS t (n)").wait()
    assert asked == [("local[3]", {"spark.jars.packages": "a:b:1"})]
