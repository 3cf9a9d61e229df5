"""Checkpoints and savepoints that an older version wrote are gone on from: `saved_before.zip` was written before manifests
were checked for every member, before hidden files told their content, and before rows were written twice."""

from __future__ import annotations

import os
import random
import shutil
import zipfile
from collections import Counter
from pathlib import Path

import pytest

from tests.faults.jobs import JOBS
from tests.faults.runs import PlannedJob, published

_SAVED = Path(__file__).with_name("saved_before.zip")
_MODIFIED = 1_700_000_000_000_000_000
NAMES = ("two-aggregations", "partitions", "top-n")


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    with zipfile.ZipFile(_SAVED) as packed:
        packed.extractall(tmp_path)
    for path in (tmp_path / "in").rglob("*.jsonl"):
        os.utime(path, ns=(_MODIFIED, _MODIFIED))
    # The paths of tables are part of a plan.
    monkeypatch.chdir(tmp_path)
    return tmp_path


def planned(name: str) -> PlannedJob:
    """The job, with what was saved of it."""
    job = next(job for job in JOBS if job.name == name)
    whole = Path(name).rename(f"{name}-saved")
    Path(name).mkdir()
    made = PlannedJob(job, Path("in"), Path(name), rows=6)
    shutil.copytree(whole, name, dirs_exist_ok=True)
    return made


@pytest.mark.parametrize("name", NAMES)
def test_a_checkpoint_of_an_older_version(name: str, saved: Path) -> None:
    job = planned(name)
    assert list(Path(name).rglob(".staged-*"))
    last = job.run({}, random.Random(1))
    assert last.restored is not None and last.restored.problems == [] and last.restored.id == 4
    assert published(job.out) == job.expected == Path(name, "expected.txt").read_text().splitlines()
    assert not list(Path(name).rglob(".staged-*"))


@pytest.mark.parametrize("name", NAMES)
def test_a_savepoint_of_an_older_version(name: str, saved: Path) -> None:
    job = planned(name)
    shutil.rmtree(job.out)
    job.forget_checkpoints()
    last = job.run({}, random.Random(1), savepoint=str(Path(name, "savepoint")))
    assert last.restored is not None and last.restored.epoch > 0
    rest = Counter(published(job.out))
    assert rest and not rest - Counter(job.expected) and rest != Counter(job.expected)
