"""A checkpoint is damaged after what it knows of was published: the job goes on from the one before it, and its output
is exact nevertheless, because files that come again are taken back."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from runtime.local.job import Job
from tests.faults.disk import Killed
from tests.faults.jobs import JOBS, FaultJob
from tests.faults.runs import PlannedJob, published

SETTING = {"execution.checkpointing.interval": "1 ms", "execution.checkpointing.num-retained": "3"}


def flip(checkpoint: Path, rng: random.Random) -> None:
    """One bit of a file of it."""
    path = rng.choice(sorted(checkpoint.iterdir()))
    data = bytearray(path.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


def truncate(checkpoint: Path, rng: random.Random) -> None:
    path = rng.choice(sorted(checkpoint.iterdir()))
    path.write_bytes(path.read_bytes()[: rng.randrange(path.stat().st_size)])


def lose_manifest(checkpoint: Path, rng: random.Random) -> None:
    (checkpoint / "manifest.json").unlink()


def lose_folder(checkpoint: Path, rng: random.Random) -> None:
    shutil.rmtree(checkpoint)


@pytest.mark.parametrize("job", JOBS[::2], ids=lambda job: job.name)
def test_going_back_behind_what_is_published(job: FaultJob, few_rows: Path, tmp_path: Path) -> None:
    planned = PlannedJob(job, few_rows, tmp_path, rows=6)
    rng = random.Random(4)
    went_back = 0
    damages: tuple[Callable[[Path, random.Random], None], ...] = (flip, truncate, lose_manifest, lose_folder)
    for number, damage in enumerate(damages):
        planned.clear()

        def kill(job: Job, epoch: int = 0 if number == 0 else rng.randint(planned.epochs // 2, planned.epochs)) -> None:
            if epoch and job.dataflow.epoch >= epoch:
                raise Killed

        with suppress(Killed):
            planned.run(SETTING, rng, watch=kill)
        checkpoints = sorted((planned.state / "job").glob("chk-*"), key=lambda path: int(path.name[4:]))
        if len([path for path in checkpoints if (path / "manifest.json").exists()]) < 2:
            continue
        damage(checkpoints[-1], rng)
        last = planned.run(SETTING, rng)
        assert last.restored is not None
        went_back += any("taken back" in problem for problem in last.restored.problems)
        assert published(planned.out) == planned.expected, damage.__name__
        assert planned.rejected.counts == planned.expected_rejected
    assert went_back
