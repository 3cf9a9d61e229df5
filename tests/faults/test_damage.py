"""Damage of every kind to every kind of file: run again, a job publishes what an undisturbed run does, or says which file
is damaged. Nothing outside of its folders changes, nothing hangs, nothing takes much memory.

A seed is one damage of one file: of a checkpoint, a savepoint or output that is staged, in one job. Of three checkpoints
that are kept, one is always left that can be gone on from. What is crafted with a right checksum can say what it wants of
rows, so there only a key makes sure of the answer; without one it is safe, and no internal error.
"""

from __future__ import annotations

import os
import random
import resource
import shutil
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from connectors.filesystem import staged_files
from runtime.checkpoint.manifest import MANIFEST
from runtime.local.job import Job
from runtime.spark.simulated import SimulatedCluster
from tests.faults.conftest import DAMAGES, FIRST_SEED
from tests.faults.damage import BREAKING, CRAFTING, files_of, kind_of
from tests.faults.disk import Killed
from tests.faults.jobs import JOBS, FaultJob
from tests.faults.runs import PlannedJob, published

SETTING = {
    "execution.checkpointing.interval": "1 ms",
    "execution.checkpointing.num-retained": "3",
    # A specimen is a copy each time.
    "sqlengine.restore.take-over": "true",
}
EACH = -(-DAMAGES // len(JOBS))
MOST_SECONDS = 30
MOST_GROWTH = 400 << 10
"""KiB that the process may grow by for one damage."""


class Specimen:
    """A job that was killed: its checkpoints, and output that is staged or published.

    Args:
        folder: with a folder `canary` in it, which must stay as it is.
        key_file: authenticates the checkpoints; none when empty.
        cluster: where its tasks run; None for the embedded runtime.
    """

    def __init__(
        self,
        job: FaultJob,
        inputs: Path,
        folder: Path,
        key_file: str,
        rng: random.Random,
        cluster: SimulatedCluster | None = None,
    ) -> None:
        folder.mkdir(parents=True)
        options = {"execution.checkpointing.key-file": key_file} if key_file else {}
        self.keyed = bool(key_file)
        self.folder = folder
        self.planned = PlannedJob(job, inputs, folder, 6, cluster, **options)
        self.savepoint = folder / "savepoint"
        kill_at = rng.randrange(3, max(4, self.planned.epochs))
        published_before = rng.randrange(2, 6)
        real, count = staged_files.StagedFiles.publish, 0

        def publish(files: Any, given: Any) -> None:
            nonlocal count
            count += bool(given)
            if count > published_before and given:
                raise Killed
            real(files, given)

        def watch(running: Job) -> None:
            if running.dataflow.epoch == kill_at and not self.savepoint.exists():
                running.savepoint(str(self.savepoint))

        with pytest.MonkeyPatch.context() as patch, suppress(Killed):
            patch.setattr(staged_files.StagedFiles, "publish", publish)
            self.planned.run(SETTING, random.Random(1), watch=watch)
        self._whole = folder / "whole"
        for place in (self.planned.out, self.planned.state, self.savepoint):
            if place.exists():
                shutil.copytree(place, self._whole / place.name)
        self.canary = folder / "canary"
        self.expected_from_savepoint: list[str] = []
        if self.savepoint.exists():
            self.restore()
            self.planned.forget_checkpoints()
            self.planned.run(SETTING, random.Random(1), savepoint=str(self.savepoint))
            self.expected_from_savepoint = published(self.planned.out)

    def restore(self) -> None:
        """As it was when it was killed."""
        for place in (self.planned.out, self.planned.state, self.savepoint, self.canary):
            shutil.rmtree(place, ignore_errors=True)
            if (self._whole / place.name).exists():
                shutil.copytree(self._whole / place.name, place)
        self.canary.mkdir()
        (self.canary / "notes.txt").write_text("mine")
        (self.canary / "part-000000000000-0000-000000000000-000000.jsonl").write_text("mine\n")

    @property
    def checkpoints(self) -> int:
        return len(list(self.planned.state.glob(f"job/chk-*/{MANIFEST}")))

    @property
    def newest(self) -> Path:
        """The manifest of the newest checkpoint."""
        return max(self.planned.state.glob(f"job/chk-*/{MANIFEST}"), key=lambda path: int(path.parent.name[4:]))

    def outside(self) -> dict[str, Any]:
        """All that is not the job's."""
        found: dict[str, Any] = {}
        for path in sorted(self.folder.rglob("*")):
            inside = path.relative_to(self.folder).parts[0]
            if inside not in ("out", "state", "savepoint", "whole"):
                status = path.lstat()
                content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
                found[str(path)] = status.st_mode, status.st_mtime_ns, content
        found["above"] = sorted(os.listdir(self.folder.parent))
        return found


def damaged_run(specimen: Specimen, seed: int) -> str:
    """Damages one file, and goes on. Gives how it ended."""
    rng = random.Random(seed)
    specimen.restore()
    planned = specimen.planned
    by_savepoint = specimen.savepoint.exists() and rng.random() < 0.2
    if by_savepoint:
        planned.forget_checkpoints()
        files = files_of(specimen.savepoint)
    else:
        files = files_of(planned.state, planned.out)
    kinds = sorted({kind_of(path) for path in files})
    chosen = rng.choice(kinds)
    same = [path for path in files if kind_of(path) == chosen]
    path = rng.choice(same)
    crafts = rng.random() < 0.5 and chosen not in ("staged", "owner")
    damage = rng.choice(CRAFTING if crafts else BREAKING)
    story = f"{planned.job.name}, seed {seed}: {damage.__name__} of {path.relative_to(specimen.folder)}"
    before_count = specimen.checkpoints
    damage(path, same, rng)
    before = specimen.outside()
    memory, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    try:
        try:
            planned.run(SETTING, random.Random(seed), savepoint=str(specimen.savepoint) if by_savepoint else None)
        except Exception as error:
            code = getattr(error, "code", None)
            assert code not in (None, "E9100"), f"{type(error).__name__}: {error}"
            kept = before_count >= 2 and not by_savepoint
            assert not kept or (crafts and not specimen.keyed), f"a checkpoint was left: {error}"
            assert crafts or specimen.folder.name in str(error) or "chk-" in str(error), f"names no file: {error}"
            end = f"refused {code}"
        else:
            right = published(planned.out) == (specimen.expected_from_savepoint if by_savepoint else planned.expected)
            assert right or (crafts and not specimen.keyed), "wrong answer"
            end = "right" if right else "crafted"
        assert specimen.outside() == before, "something outside has changed"
        assert time.process_time() - started < MOST_SECONDS
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < MOST_GROWTH
    except BaseException as error:
        error.add_note(story)
        raise
    return end


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
def test_damage_by_seed(job: FaultJob, few_rows: Path, tmp_path: Path) -> None:
    key_file = tmp_path / "key"
    key_file.write_text("0123456789abcdef0123456789abcdef\n")
    ends: Counter[str] = Counter()
    specimens: list[Specimen] = []
    for seed in range(FIRST_SEED, FIRST_SEED + EACH):
        if len(specimens) < max(2, min(4, EACH // 8)):
            keyed = str(key_file) if len(specimens) % 2 else ""
            place = tmp_path / str(len(specimens))
            specimens.append(Specimen(job, few_rows, place, keyed, random.Random(f"{job.name} {seed}")))
        ends[damaged_run(specimens[seed % len(specimens)], seed)] += 1
    print(f"{job.name}: seeds {FIRST_SEED} to {FIRST_SEED + EACH - 1}, {dict(ends)}")
    assert ends["right"]
