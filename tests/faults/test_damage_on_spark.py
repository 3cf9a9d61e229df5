"""Damage of every kind on the Spark runtime: of the checkpoints that a job there goes on from, and of the versions of state
that its tasks write between two epochs. On a cluster in this process, whose tasks forget, run again and run twice.

A job goes on to the right answer, or says which file is damaged; run again it goes on from what is whole.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from runtime.core.errors import SparkError
from runtime.core.options import Options
from runtime.local.job import Job
from runtime.spark.simulated import SimulatedCluster
from runtime.state.table import TableChanges
from runtime.tasks.versions import decode_changes, encode_changes
from tests.faults.conftest import DAMAGES, FIRST_SEED
from tests.faults.damage import BREAKING
from tests.faults.disk import Killed
from tests.faults.jobs import JOBS, FaultJob
from tests.faults.runs import PlannedJob, published
from tests.faults.test_damage import SETTING, Specimen, damaged_run

STATEFUL = ("left-join", "top-n", "sessions", "interval-join", "extremes", "two-sinks", "parallel")
CHOSEN = [job for job in JOBS if job.name in (*STATEFUL, "partitions")]
EACH = -(-DAMAGES // (2 * len(CHOSEN)))


class Cluster(SimulatedCluster):
    """Tasks that forget often, and write their state to a folder that a test knows."""

    def __init__(self, place: Path) -> None:
        super().__init__(0)
        self._place = place

    def begin(self, seed: int) -> None:
        """What goes wrong from now on depends on the seed alone."""
        self._chance = random.Random(seed)

    def state_place(self, options: Options) -> str:
        return str(self._place)


def craft_version(path: Path, others: list[Path], rng: random.Random) -> None:
    """Other rows, with a right checksum within the file."""
    try:
        changes = decode_changes(path.read_bytes(), path.name)
    except SparkError:
        # A program, or rows that were read: other bytes.
        path.write_bytes(rng.choice(others).read_bytes()[::-1])
        return
    none = np.empty(0, np.int64)
    made = {
        name: tuple(TableChanges(t.table, t.rows.slice(0, t.rows.num_rows // 2), none, t.complete) for t in tables)
        for name, tables in changes.items()
    }
    path.write_bytes(encode_changes(made))


def kind_of(path: Path) -> str:
    """`program`, `reading`, `read` (rows), `base` (what a job goes on from), or `state`."""
    first = path.name.partition(".")[0].partition("-")[0]
    return "state" if first.isdigit() else first


def contents(folder: Path) -> dict[str, bytes]:
    """All files below a folder."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def damaged_versions(planned: PlannedJob, cluster: Cluster, place: Path, seed: int) -> str:
    """Damages a file of the job's state between two epochs. Gives how it ended."""
    rng = random.Random(seed)
    planned.clear()
    cluster.begin(seed)
    canary = planned.out.parent / "canary"
    shutil.rmtree(canary, ignore_errors=True)
    canary.mkdir()
    (canary / "notes.txt").write_text("mine")
    killed_at = rng.randrange(1, planned.epochs) if rng.random() < 0.5 else 0
    damaged_at = rng.randrange(killed_at + 1, planned.epochs + 1)
    options = {**SETTING, "restart-strategy.type": "none"}
    story = [f"{planned.job.name}, seed {seed}: killed after {killed_at}, damaged after {damaged_at}"]

    def watch(job: Job) -> None:
        if job.dataflow.epoch == killed_at and job.restored is None:
            raise Killed
        files = [path for path in sorted(place.rglob("*")) if path.is_file()]
        if job.dataflow.epoch < damaged_at or len(story) > 1 or not files:
            return
        chosen = rng.choice(sorted({kind_of(path) for path in files}))
        same = [path for path in files if kind_of(path) == chosen]
        damage, path = rng.choice((*BREAKING, craft_version)), rng.choice(same)
        story.append(f"{damage.__name__} of {path.name}")
        damage(path, same, rng)
        outside.update(contents(canary))

    outside = contents(canary)
    try:
        if killed_at:
            with pytest.raises(Killed):
                planned.run(options, random.Random(seed), watch=watch)
        try:
            planned.run(options, random.Random(seed), watch=watch)
        except Exception as error:
            code = getattr(error, "code", None)
            assert code == "E3607", f"{type(error).__name__}: {error}"
            assert len(story) > 1 and str(place) in str(error), f"names no file: {error}"
            assert not Counter(published(planned.out)) - Counter(planned.expected), "a wrong answer is visible"
            planned.run(options, random.Random(seed))
            end = "refused"
        else:
            end = "right"
        assert published(planned.out) == planned.expected, "wrong answer"
        assert contents(canary) == outside, "something outside has changed"
    except BaseException as error:
        error.add_note("; ".join(story))
        raise
    return end


@pytest.mark.parametrize("job", [job for job in CHOSEN if job.name in STATEFUL], ids=lambda job: job.name)
def test_damage_of_versions_by_seed(job: FaultJob, few_rows: Path, tmp_path: Path) -> None:
    """Where the driver reads the sources, and where tasks do."""
    runs: list[tuple[PlannedJob, Cluster, Path]] = []
    for reads in ("false", "true"):
        place = tmp_path / reads / "versions"
        place.mkdir(parents=True)
        cluster = Cluster(place)
        options = {"sqlengine.spark.read-in-tasks": reads}
        runs.append((PlannedJob(job, few_rows, tmp_path / reads, 6, cluster, **options), cluster, place))
    ends: Counter[str] = Counter()
    for seed in range(FIRST_SEED, FIRST_SEED + EACH):
        ends[damaged_versions(*runs[seed % 2], seed)] += 1
    print(f"{job.name}: seeds {FIRST_SEED} to {FIRST_SEED + EACH - 1}, {dict(ends)}")
    assert ends["refused"], "what was damaged was never read"


@pytest.mark.parametrize("job", CHOSEN, ids=lambda job: job.name)
def test_damage_of_checkpoints_by_seed(job: FaultJob, few_rows: Path, tmp_path: Path) -> None:
    key_file = tmp_path / "key"
    key_file.write_text("0123456789abcdef0123456789abcdef\n")
    clusters = [Cluster(tmp_path / f"versions-{number}") for number in range(2)]
    specimens = [
        Specimen(
            job, few_rows, tmp_path / str(n), str(key_file) if n else "", random.Random(f"{job.name} {n}"), cluster
        )
        for n, cluster in enumerate(clusters)
    ]
    ends: Counter[str] = Counter()
    for seed in range(FIRST_SEED, FIRST_SEED + EACH):
        clusters[seed % 2].begin(seed)
        ends[damaged_run(specimens[seed % 2], seed)] += 1
    print(f"{job.name}: seeds {FIRST_SEED} to {FIRST_SEED + EACH - 1}, {dict(ends)}")
    assert ends["right"]
