"""State goes on with another parallelism and on another backend: from savepoints, and from a checkpoint after a kill."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path

import pytest

from runtime.local.job import Job
from tests.faults.disk import Killed
from tests.faults.jobs import JOBS, FaultJob
from tests.faults.nexmark_jobs import nexmark_jobs
from tests.faults.runs import PlannedJob, published

LIVES = ((1, "memory"), (4, "rocksdb"), (1, "memory"), (3, "rocksdb"), (1, "rocksdb"))
"""Tasks and backend of one run after the other."""
EVENTS = 400


def setting(parallelism: int, backend: str) -> dict[str, str]:
    """Options of a run. With rocksdb nearly all keys leave memory."""
    return {
        "parallelism.default": str(parallelism),
        "execution.checkpointing.interval": "1 ms",
        "state.backend.type": backend,
        "sqlengine.state.keys-in-memory": "2",
    }


@pytest.mark.parametrize("job", [*nexmark_jobs(EVENTS), *JOBS], ids=lambda job: job.name)
def test_savepoints_are_resumed_at_another_parallelism_on_another_backend(
    job: FaultJob, few_rows: Path, tmp_path: Path
) -> None:
    planned = PlannedJob(job, few_rows, tmp_path, rows=4 if job.sources else EVENTS // 10)
    rng = random.Random(1)
    path: str | None = None
    for run, (parallelism, backend) in enumerate(LIVES):
        last = run == len(LIVES) - 1
        stop_at, target = max(run + 1, planned.epochs * (run + 1) // len(LIVES)), str(tmp_path / f"savepoint-{run}")

        def stop(job: Job, stop_at: int = stop_at, target: str = target) -> None:
            if job.dataflow.epoch == stop_at:
                job.savepoint(target, stop=True)

        done = planned.run(
            setting(parallelism, backend), rng, savepoint=path, watch=None if last else stop, saved=run != 1
        )
        path = target
        assert done.status == ("FINISHED" if last else "CANCELED")
        planned.forget_checkpoints()
    assert planned.expected
    assert published(planned.out) == planned.expected


@pytest.mark.parametrize("job", JOBS[::3], ids=lambda job: job.name)
def test_a_checkpoint_is_resumed_at_another_parallelism(job: FaultJob, few_rows: Path, tmp_path: Path) -> None:
    planned = PlannedJob(job, few_rows, tmp_path, rows=6)
    rng = random.Random(2)
    for parallelism, backend in LIVES[:4]:

        def kill(job: Job, epochs: int = rng.randint(1, max(1, planned.epochs // 5))) -> None:
            if job.dataflow.epoch >= epochs + (job.restored.epoch if job.restored is not None else 0):
                raise Killed

        with suppress(Killed):
            planned.run(setting(parallelism, backend), rng, watch=kill)
    last = planned.run(setting(2, "memory"), rng)
    assert last.restored is not None
    assert published(planned.out) == planned.expected
