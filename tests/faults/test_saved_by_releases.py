"""What every release saved is restored by this version: checkpoints as a kill left them, and savepoints."""

from __future__ import annotations

import json
import os
import random
import shutil
import zipfile
from pathlib import Path

import pytest

from runtime.plan.identity import uids
from tests.faults.jobs import JOBS
from tests.faults.runs import PlannedJob, published
from tests.faults.save_release import MODIFIED, NAMES, ROWS, SAVED

RELEASES = sorted(SAVED.glob("*.zip"))


@pytest.fixture(scope="module", params=RELEASES, ids=lambda path: path.stem)
def saved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    with zipfile.ZipFile(request.param) as packed:
        packed.extractall(folder)
    for path in (folder / "in").rglob("*.jsonl"):
        os.utime(path, ns=(MODIFIED, MODIFIED))
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_it_goes_on(name: str, saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The paths of tables are part of a plan.
    monkeypatch.chdir(tmp_path)
    Path("in").symlink_to(saved / "in")
    job = PlannedJob(next(job for job in JOBS if job.name == name), Path("in"), Path(name), rows=ROWS)
    assert job.expected == Path(saved, name, "expected.txt").read_text().splitlines()

    shutil.copytree(saved / name, name, dirs_exist_ok=True)
    last = job.run({}, random.Random(1))
    assert last.restored is not None and last.restored.problems == []
    assert published(job.out) == job.expected

    job.clear()
    last = job.run({}, random.Random(1), savepoint=str(Path(name, "savepoint")))
    assert last.restored is not None and last.restored.epoch > 0 and last.restored.problems == []
    before = published(Path(name, "out-savepoint"))
    assert sorted([*before, *published(job.out)]) == job.expected
    # State belongs to a name, so operators have the names that they had.
    manifest = json.loads(Path(name, "savepoint", "manifest.json").read_text())
    assert {operator["name"] for operator in manifest["operators"]} == set(uids(job._roots).values())
