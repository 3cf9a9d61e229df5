"""A partition that has moved to another process is not kept where it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runtime.spark.simulated import SimulatedCluster
from runtime.tasks import task
from tests.spark.test_simulated import published, run


class Processes(SimulatedCluster):
    """Two processes, each with a memory of its own; after so many tasks their partitions change places."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, moves: int) -> None:
        super().__init__(None)
        self.caches = [task._Cache(), task._Cache()]
        self.most: list[int] = []
        self._monkeypatch = monkeypatch
        self._moves = moves

    def _attempts(self, stage: Any, partition: int, records: list[Any]) -> list[list[tuple[int, Any]]]:
        process = (partition + (self.tasks > self._moves)) % 2
        self._monkeypatch.setattr(task, "_cache", self.caches[process])
        found = super()._attempts(stage, partition, records)
        self.most.append(sum(len(cache.tasks) for cache in self.caches))
        return found


def test_partitions_that_move_are_dropped_where_they_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    run(tmp_path / "here", None)
    (tmp_path / "moved").mkdir()
    cluster = Processes(monkeypatch, 24)
    run(tmp_path / "moved", cluster, **{"parallelism.default": 4})
    assert cluster.tasks >= 60
    # Those of the epoch in which they move are there twice, and no longer.
    there = cluster.most[20]
    assert max(cluster.most) <= 2 * there and set(cluster.most[-20:]) == {there}, cluster.most
    for table in ("joined", "counted", "totals"):
        assert published(tmp_path / "moved", table) == published(tmp_path / "here", table)
