"""A cluster in this process that makes happen, by a seed, what happens on real ones.

Tasks run again after they have done all their work, as those do whose output a machine has lost with it, or twice at a
time, as speculative ones do; some partitions then get what the first attempt gave and some what the second gave, and the
driver hears of either. Workers forget what they keep in memory. All that a real cluster would send is pickled.
"""

from __future__ import annotations

import pickle
import random
from collections.abc import Sequence
from typing import Any

from runtime.core.options import Options
from runtime.plan.nodes import PhysicalNode
from runtime.spark.session import temporary_place
from runtime.spark.shipping import dumps
from runtime.tasks.reading import ReadStage
from runtime.tasks.saving import SaveStage
from runtime.tasks.shipping import loads
from runtime.tasks.stage import Stage
from runtime.tasks.task import Record
from runtime.tasks.versions import StateFolder
from runtime.tasks.working import WorkStage

__all__ = ["SimulatedCluster"]


class SimulatedCluster:
    """Runs stages as Spark would (see `Cluster`). `seed` decides what goes wrong; None: nothing does."""

    def __init__(self, seed: int | None) -> None:
        self._chance = None if seed is None else random.Random(seed)
        self._aside = None if seed is None else random.Random(seed)
        self.tasks = 0
        self.repeated = 0

    local = True
    """All tasks run on this machine."""

    def partitions(self, options: Options) -> int:
        return int(options.text("parallelism.default") or 2)

    def long_lived(self, options: Options, nodes: Sequence[PhysicalNode]) -> bool:
        return True

    def described(self, options: Options, nodes: Sequence[PhysicalNode]) -> str:
        return f"a simulated cluster, {self.partitions(options)} tasks"

    def open(self, options: Options, nodes: Sequence[PhysicalNode], job: str) -> SimulatedTasks:
        return SimulatedTasks(self, self.state_place(options))

    def state_place(self, options: Options) -> str:
        return temporary_place("simulated")

    def aside(self, stages: Sequence[SaveStage | WorkStage], given: Sequence[Sequence[Record]]) -> list[Record]:
        """In another thread, with a chance of its own: what happens in this one does not depend on it."""
        beside = SimulatedCluster(None)
        beside._chance = self._aside
        return beside.run(stages, given)

    def run(
        self, stages: Sequence[Stage | ReadStage | SaveStage | WorkStage], given: Sequence[Sequence[Record]]
    ) -> list[Record]:
        count = len(given)
        parts: list[list[Any]] = [[[tuple(record) for record in part]] for part in given]
        for number, stage in enumerate(stages):
            sent: list[list[list[tuple[int, Any]]]] = [self._attempts(stage, p, parts[p]) for p in range(count)]
            if number == len(stages) - 1:
                return [Record(*fields) for attempts in sent for _, fields in self._one_of(attempts)]
            parts = [
                [entry for attempts in sent for entry in self._one_of(attempts) if entry[0] == target]
                for target in range(count)
            ]
        return []

    def _attempts(
        self, stage: Stage | ReadStage | SaveStage | WorkStage, partition: int, records: list[Any]
    ) -> list[list[tuple[int, Any]]]:
        """What each attempt of a task gives."""
        found: list[list[tuple[int, Any]]] = []
        self.tasks += 1
        while not found or (len(found) < 3 and self._happens(0.2)):
            self.repeated += bool(found)
            if self._happens(0.2):
                stage.forget()
            shipped: Stage | ReadStage | SaveStage | WorkStage = loads(dumps(stage))
            given = loads(pickle.dumps(records))
            found.append(list(shipped(partition, iter(given))))
        return found

    def _one_of(self, attempts: list[list[tuple[int, Any]]]) -> list[tuple[int, Any]]:
        return attempts[0] if self._chance is None else self._chance.choice(attempts)

    def _happens(self, share: float) -> bool:
        return self._chance is not None and self._chance.random() < share


class SimulatedTasks:
    """The tasks of a job: see `runtime.tasks.executor.Tasks`."""

    resident = False

    def __init__(self, cluster: SimulatedCluster, place: str) -> None:
        self.folder = StateFolder.new(place)
        self.run = cluster.run
        self.aside = cluster.aside

    def dumps(self, thing: Any) -> bytes:
        return dumps(thing)

    def close(self) -> None:
        self.folder.remove()
