"""The disk of a cluster is full: a job says which folder has no room, ends in bounded time, and goes on with nothing lost.

The disk is full where a task writes: its state between epochs, the rows that it has read, its share of a
checkpoint. On a simulated cluster, whose tasks fail at the call that writes, with half of the bytes written.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from runtime.core.errors import SqlEngineError
from runtime.core.options import Options
from runtime.spark.simulated import SimulatedCluster
from tests.faults.disk import Disk, takes_space
from tests.spark.test_simulated import published, run

FEW: dict[str, Any] = {"sqlengine.epoch.max-rows": "400"}


class Cluster(SimulatedCluster):
    """Tasks whose state is where the test says."""

    def __init__(self, place: Path) -> None:
        super().__init__(None)
        self._place = place

    def state_place(self, options: Options) -> str:
        return str(self._place)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    folder = tmp_path_factory.mktemp("whole")
    run(folder, None, **FEW)
    return results(folder)


def results(folder: Path) -> dict[str, list[str]]:
    return {table: published(folder, table) for table in ("joined", "counted", "totals")}


class Full:
    """A disk without room for some files, from the so-manieth write on, until it was in the way so often."""

    def __init__(self, named: str, after: int, times: int) -> None:
        self._named = named
        self._after = after
        self.left = times

    def __call__(self, number: int, kind: str, path: str) -> int:
        if not self.left or self._named not in path or not takes_space(number, kind, 0, number + 1):
            return 0
        self._after -= 1
        if self._after >= 0:
            return 0
        self.left -= 1
        return errno.ENOSPC


WRITES = {
    "state between epochs": (".state", "E3415"),
    "rows that were read": ("/read-", "E3415"),
    "a checkpoint": ("/state/", "E3401"),
}
"""What is written, by a part of its path, and the code of the error."""


@pytest.mark.parametrize("what", WRITES)
def test_a_job_ends_with_the_folder_and_goes_on(tmp_path: Path, expected: dict[str, list[str]], what: str) -> None:
    named, code = WRITES[what]
    place = tmp_path / "versions"
    options: dict[str, Any] = {
        **FEW,
        "sqlengine.spark.read-in-tasks": "true",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "2",
        "restart-strategy.fixed-delay.delay": "0",
    }
    with Disk(full := Full(named, 6, 1 << 30)).installed() as disk, pytest.raises(SqlEngineError) as caught:
        run(tmp_path, Cluster(place), **options)
    assert caught.value.code == code
    assert "No space left on device" in str(caught.value) and str(tmp_path) in str(caught.value)
    # It was tried twice more, and no half of a file has stayed behind.
    assert 3 <= len(disk.failed) <= 9, disk.failed
    assert not [path for path in place.rglob("*") if path.is_file()]
    # There is room again, for another process.
    assert full.left
    run(tmp_path, Cluster(place), **options)
    assert results(tmp_path) == expected


def test_a_disk_that_is_full_for_a_while_ends_nothing(tmp_path: Path, expected: dict[str, list[str]]) -> None:
    options: dict[str, Any] = {**FEW, "restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "0"}
    with Disk(full := Full(".state", 6, 1)).installed():
        run(tmp_path, Cluster(tmp_path / "versions"), **options)
    assert not full.left
    assert results(tmp_path) == expected
    assert os.listdir(tmp_path / "versions") == []
