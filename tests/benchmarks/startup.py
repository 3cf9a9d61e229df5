"""Start-up time: `python -m tests.benchmarks.startup`. A fresh process answers `SELECT 1` and ends; so does Flink's, where
`make bench-peers` installed it, with the JVM and the local cluster that it starts. Every run is a line in
`results/startup.jsonl`; the first run of each, which reads files that are not in memory yet, is left out."""

from __future__ import annotations

import argparse
import resource
import shlex
import subprocess
import sys
import time
from pathlib import Path

from tests.benchmarks import results
from tests.benchmarks.contenders import FLINK_PYTHON, flink_command
from tests.benchmarks.suites import ROOT

__all__ = ["main"]

COMMANDS = {
    "python, nothing imported": [sys.executable, "-c", "pass"],
    "import sqlengine": [sys.executable, "-c", "import sqlengine"],
    "sqlengine --help": [sys.executable, "-m", "sqlengine", "--help"],
    "sqlengine run -e 'SELECT 1'": [sys.executable, "-m", "sqlengine", "run", "-e", "SELECT 1"],
    "sqlengine shell -e 'SELECT 1'": [sys.executable, "-m", "sqlengine", "shell", "-e", "SELECT 1"],
}
QUESTION = {"settings": {"parallelism.default": "2"}, "declared": [], "question": "SELECT 1"}


def main(words: list[str] | None = None) -> int:
    """Exit status 1 when a command failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.startup", description="Start-up time.")
    parser.add_argument("--repeat", type=int, default=10)
    parser.add_argument("--under", default="")
    parser.add_argument("--out", default=str(results.RESULTS / "startup.jsonl"))
    options = parser.parse_args(words)
    commands = dict(COMMANDS)
    if FLINK_PYTHON.exists():
        commands["Flink, SELECT 1"] = flink_command(QUESTION)
    results.forget(Path(options.out), lambda record: record["command"] in commands)
    failed = 0
    for number in range(options.repeat + 1):
        for name, command in commands.items():
            started, used = time.perf_counter(), _processor_seconds()
            done = subprocess.run([*shlex.split(options.under), *command], cwd=ROOT, capture_output=True, check=False)
            seconds, used = time.perf_counter() - started, _processor_seconds() - used
            failed += done.returncode != 0
            if number:
                record = {"command": name, "round": number, "seconds": seconds, "processor": used}
                results.append(Path(options.out), record)
    for (name,), record in results.medians(results.read(Path(options.out)), ["command"]).items():
        print(f"{name:<32} {record['seconds']:.3f} s  processor {record.get('processor', 0):.3f} s")
    return int(failed > 0)


def _processor_seconds() -> float:
    """What the processes that have ended took of the processor."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main())
