"""Versions of tasks are compacted by tasks beside epochs. On a simulated cluster, and in processes that are killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from runtime.spark.simulated import SimulatedCluster
from runtime.tasks import kept
from runtime.tasks.compacting import Compacted, Compacting, Compaction
from runtime.tasks.kept import Kept
from tests.spark.test_checkpoints_of_tasks import named_by
from tests.spark.test_simulated import published, read_back, run


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    folder = tmp_path_factory.mktemp("whole")
    run(folder, None)
    return results(folder)


def results(folder: Path) -> dict[str, list[str]]:
    """What does not depend on where epochs are cut."""
    found = {table: published(folder, table) for table in ("joined", "counted")}
    return {**found, "totals": [str(row) for row in read_back(folder)]}


@pytest.fixture(autouse=True)
def taken(monkeypatch: pytest.MonkeyPatch) -> list[Compacted]:
    """What has been compacted, of versions of more than one file; it is there before the next epoch."""
    found: list[Compacted] = []
    begin, compacted = Compacting.begin, Kept.compacted

    def begun(self: Compacting, works: Sequence[Compaction]) -> None:
        begin(self, works)
        assert self._under_way is not None
        self._under_way.exception()

    def noted(self: Kept, given: Sequence[Compacted]) -> None:
        found.extend(given)
        compacted(self, given)

    monkeypatch.setattr(kept, "MOST_FILES", 1)
    monkeypatch.setattr(kept, "SMALL_BYTES", 0)
    monkeypatch.setattr(Compacting, "begin", begun)
    monkeypatch.setattr(Kept, "compacted", noted)
    return found


@dataclass(frozen=True, slots=True)
class Killed(Compaction):
    """The first process that begins dies of it."""

    def __call__(self) -> Compacted:
        try:
            os.close(os.open(os.environ["TEST_KILLED"], os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            # Not super(): a class with slots is another one than the one that is named here.
            return Compaction.__call__(self)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


@dataclass(frozen=True, slots=True)
class Failing(Compaction):
    def __call__(self) -> Compacted:
        raise OSError("the disk is full")


def whole(folder: Path) -> bool:
    """Whether all files are there that checkpoints name."""
    found = [manifest.parent for manifest in (folder / "state").rglob("manifest.json")]
    return bool(found) and all(file.exists() for checkpoint in found for file in named_by(checkpoint))


def test_tasks_compact_beside_epochs(
    tmp_path: Path, expected: dict[str, list[str]], taken: list[Compacted], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as failing:
        # Then a task writes all of its state with an epoch.
        failing.setattr(kept, "Compaction", Failing)
        run(tmp_path, SimulatedCluster(4), until=5, **{"parallelism.default": 2})
    assert not taken
    run(tmp_path, SimulatedCluster(4), **{"parallelism.default": 3})
    assert len(taken) > 2
    assert results(tmp_path) == expected
    assert whole(tmp_path)


def test_a_process_is_killed_that_compacts(
    tmp_path: Path, expected: dict[str, list[str]], taken: list[Compacted], monkeypatch: pytest.MonkeyPatch
) -> None:
    killed = tmp_path / "killed"
    monkeypatch.setenv("TEST_KILLED", str(killed))
    monkeypatch.setattr(kept, "Compaction", Killed)
    options = {"execution.target": "processes", "parallelism.default": 2, "sqlengine.epoch.max-rows": "300"}
    run(tmp_path, None, **options)
    assert killed.exists() and taken
    assert results(tmp_path) == expected
    assert whole(tmp_path)
