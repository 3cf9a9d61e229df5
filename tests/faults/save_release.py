"""Writes what this version saves of a job of each kind of state, to be restored by all later ones.

    python -m tests.faults.save_release 0.1.0

makes `tests/faults/saved_by/0.1.0.zip`: the inputs, and for each job its output and checkpoints as a kill leaves them, a
savepoint with the output that belongs to it, and the output of a whole run. Run it once, when a version is released; a
file that is there is never written again.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path

from runtime.local.checkpoints import _WRITING
from runtime.local.job import Job
from tests.faults.disk import Killed
from tests.faults.inputs import make_inputs
from tests.faults.jobs import JOBS
from tests.faults.runs import PlannedJob

__all__ = ["MODIFIED", "NAMES", "ROWS", "SAVED"]

SAVED = Path(__file__).with_name("saved_by")
NAMES = (
    "left-join", "semi-join", "top-n", "last-row", "first-row", "over-rows", "over-changes", "sessions", "window-top-n",
    "window-join", "interval-join", "temporal-join", "extremes", "set-operations", "ttl", "two-watermarks",
)  # fmt: skip
"""The jobs: each kind of operator that keeps state."""
ROWS = 6
MODIFIED = 1_700_000_000_000_000_000
"""When the inputs were changed last, nanoseconds: sources remember it."""


def _save(name: str) -> None:
    Path(name).mkdir()
    job = PlannedJob(next(job for job in JOBS if job.name == name), Path("in"), Path(name), rows=ROWS)
    Path(name, "expected.txt").write_text("\n".join(job.expected) + "\n")
    half = job.epochs // 2

    def stop(running: Job) -> None:
        if running.dataflow.epoch == half:
            running.savepoint(str(Path(name, "savepoint")), stop=True)

    job.run({}, random.Random(1), watch=stop)
    shutil.move(job.out, Path(name, "out-savepoint"))
    job.clear()

    def kill(running: Job) -> None:
        if running.dataflow.epoch == half + 1:
            raise Killed("a kill")

    try:
        job.run({"execution.checkpointing.interval": "1 ms"}, random.Random(1), watch=kill)
    except Killed:
        _WRITING.clear()


def _main(version: str) -> None:
    target = SAVED / f"{version}.zip"
    if target.exists():
        sys.exit(f"{target} is there already")
    SAVED.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        make_inputs(Path("in"), 40)
        for path in Path("in").rglob("*.jsonl"):
            os.utime(path, ns=(MODIFIED, MODIFIED))
        for name in NAMES:
            _save(name)
        with zipfile.ZipFile(target, "w", zipfile.ZIP_LZMA) as packed:
            for path in sorted(p for p in Path().rglob("*") if p.is_file()):
                packed.write(path)


if __name__ == "__main__":
    _main(sys.argv[1])
