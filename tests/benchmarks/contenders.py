"""Who takes part: for each one the command that answers one query in a fresh process, and prints its figures."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.benchmarks import spark_run
from tests.benchmarks.flink_text import REFUSED, job_of, question_of
from tests.benchmarks.suites import GENERATED, ROOT, SUITES

__all__ = ["CONTENDERS", "FLINK_PYTHON", "Contender", "flink_answer", "flink_command", "run"]

TIMEOUT_SECONDS = 900
WARM_UP_SIZE = 1_000_000
FLINK_PYTHON = ROOT / ".venv-peers" / "bin" / "python"


@dataclass(frozen=True)
class Contender:
    """Args:

    command: of one measurement. Args: a job (see `one_run`).
    takes: whether it can run such a job at all.
    """

    name: str
    command: Callable[[dict[str, Any]], list[str]]
    takes: Callable[[dict[str, Any]], bool] = lambda job: True


def run(command: Sequence[str], under: str = "") -> dict[str, Any]:
    """What the command prints on its last line, or `error`. Args: `under` is put before the command, as `taskset -c
    0,1`."""
    try:
        done = subprocess.run(
            [*shlex.split(under), *command],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
            env={**os.environ, "TZ": "UTC"},
        )
    except subprocess.TimeoutExpired:
        return {"error": f"not done after {TIMEOUT_SECONDS} s"}
    if done.returncode:
        said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        causes = [line for line in said if line.startswith("Caused by:")]
        return {"error": (causes or said or [f"ended with status {done.returncode}"])[-1][:200]}
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def _warm_up(job: dict[str, Any]) -> str | int:
    """Files of the same kind that each contender answers the query over before it is measured; of generated events their
    number."""
    size = min(job["size"], WARM_UP_SIZE)
    return size if job["format"] == GENERATED else str(SUITES[job["suite"]].files(size, job["format"], False))


def _in_python(by: str, tasks: int = 1) -> Callable[[dict[str, Any]], list[str]]:
    def command(job: dict[str, Any]) -> list[str]:
        asked = {**job, "by": by, "tasks": tasks, "warm_up": _warm_up(job)}
        return [sys.executable, "-m", "tests.benchmarks.one_run", json.dumps(asked)]

    return command


def _in_spark(job: dict[str, Any]) -> list[str]:
    return [sys.executable, "-m", "tests.benchmarks.spark_run", json.dumps({**job, "warm_up": _warm_up(job)})]


def _takes_spark(job: dict[str, Any]) -> bool:
    return job["suite"] == "nexmark" and job["format"] != GENERATED and job["query"] in spark_run.QUERIES


def _in_flink(mini_batch: bool) -> Callable[[dict[str, Any]], list[str]]:
    def command(job: dict[str, Any]) -> list[str]:
        return flink_command(job_of(job, str(_warm_up(job)), mini_batch))

    return command


def flink_command(job: dict[str, Any]) -> list[str]:
    """Runs a job of `flink_run.py`."""
    jars = sorted(map(str, (FLINK_PYTHON.parents[1] / "jars").glob("*.jar")))
    return [str(FLINK_PYTHON), str(Path(__file__).parent / "flink_run.py"), json.dumps({**job, "jars": jars})]


def flink_answer(job: dict[str, Any]) -> dict[str, Any]:
    """Its final `rows` as lists of texts, or `error`."""
    return run(flink_command(question_of(job)))


def _takes_flink(job: dict[str, Any]) -> bool:
    return FLINK_PYTHON.exists() and job["format"] != GENERATED and (job["suite"], job["query"]) not in REFUSED


CONTENDERS = {
    contender.name: contender
    for contender in (
        Contender("ours", _in_python("ours")),
        Contender("ours-2", _in_python("ours", tasks=2)),
        Contender("duckdb", _in_python("duckdb"), lambda job: job["format"] != GENERATED),
        Contender("flink", _in_flink(mini_batch=False), _takes_flink),
        Contender("flink-mini-batch", _in_flink(mini_batch=True), _takes_flink),
        Contender("spark", _in_spark, _takes_spark),
    )
}
"""`ours-2` has two tasks of each keyed operator."""
