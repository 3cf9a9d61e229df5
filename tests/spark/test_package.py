"""The package for executors holds all that a task needs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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
