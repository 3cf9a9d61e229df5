"""What an epoch on Spark costs with many executors, counted without any: `python -m tests.benchmarks.spark_scale`.

The real layout, tasks, orders and versions of state run in this process; instead of going over connections, messages are
counted as long-lived tasks would send them. A query with two exchanges has loaded its keys; counted is an epoch that
changes 2,000 rows of it.

    executors  partitions   keys  messages: driver  between tasks  bytes: driver  between tasks  state: files  bytes
"""

from __future__ import annotations

import pickle
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from runtime.core.options import Options
from runtime.local.job import Job
from runtime.plan.nodes import PhysicalNode
from runtime.spark.shipping import dumps
from runtime.tasks.member import Answered, Order, owners_of
from runtime.tasks.task import Record
from runtime.tasks.versions import StateFolder
from sqlengine import TableEnvironment

__all__ = ["Costs", "costs", "main"]

SIZES = ((10, 1024), (100, 1024), (1000, 1024), (1000, 512), (1000, 256))
CORES = 4
CHANGES = 2000
QUERY = """SELECT n, COUNT(*), MAX(s) FROM (SELECT i, COUNT(*) AS n, SUM(v) AS s FROM t GROUP BY i) GROUP BY n"""


@dataclass(slots=True)
class Costs:
    """Of one epoch. `driver_messages`: orders and answers; `task_messages`: from task to task."""

    driver_messages: int = 0
    task_messages: int = 0
    driver_bytes: int = 0
    task_bytes: int = 0
    state_files: int = 0
    state_bytes: int = 0


class Counted:
    """See `runtime.tasks.executor.Executor`: so many long-lived tasks, of which nothing is there but their messages."""

    local = True

    def __init__(self, tasks: int, place: str) -> None:
        self._tasks = tasks
        self._place = place
        self.costs = Costs()

    def partitions(self, options: Options) -> int:
        return int(options.text("parallelism.default") or 1)

    def described(self, options: Options, nodes: Sequence[PhysicalNode]) -> str:
        return f"{self._tasks} tasks that are counted"

    def open(self, options: Options, nodes: Sequence[PhysicalNode]) -> CountedTasks:
        return CountedTasks(self, self._tasks, StateFolder.new(self._place))


class CountedTasks:
    """See `runtime.tasks.executor.Tasks`, and `runtime.tasks.member` for what is sent."""

    resident = True

    def __init__(self, executor: Counted, tasks: int, folder: StateFolder) -> None:
        self._executor = executor
        self._count = tasks
        self.folder = folder
        write = folder.write

        def counted(name: str, data: bytes) -> str:
            executor.costs.state_files += 1
            executor.costs.state_bytes += len(data)
            return write(name, data)

        self._counted = counted

    def run(self, stages: Sequence[Any], given: Sequence[Sequence[Record]]) -> list[Record]:
        costs = self._executor.costs
        owners = owners_of(len(given), self._count)
        members = max(owners)
        data = pickle.dumps(list(stages), protocol=5)
        for member in range(1, members + 1):
            parts = {p: [tuple(r) for r in records] for p, records in enumerate(given) if owners[p] == member}
            costs.driver_bytes += len(pickle.dumps(Order(1, data, len(given), parts), protocol=5))
        costs.driver_messages += 2 * members
        arrived: list[list[Any]] = [[[tuple(record) for record in part]] for part in given]
        write = StateFolder.write
        StateFolder.write = lambda _, name, data: self._counted(name, data)  # type: ignore[method-assign]
        try:
            for step, stage in enumerate(stages):
                sent: list[list[tuple[int, Any]]] = [[] for _ in range(members + 1)]
                next_arrived: list[list[Any]] = [[] for _ in given]
                for partition in range(len(given)):
                    for target, found in stage(partition, iter(arrived[partition])):
                        sent[owners[partition]].append((target, found))
                        next_arrived[target].append((target, found))
                if step < len(stages) - 1:
                    costs.task_messages += members * (members - 1)
                    costs.task_bytes += sum(
                        len(pickle.dumps((target, found), protocol=5))
                        for member, things in enumerate(sent)
                        for target, found in things
                        if owners[target] != member
                    )
                else:
                    for things in sent[1:]:
                        answer = Answered(1, [found for _, found in things])
                        costs.driver_bytes += len(pickle.dumps(answer, protocol=5))
                arrived = next_arrived
        finally:
            StateFolder.write = write  # type: ignore[method-assign]
        return [Record(*found) for part in arrived for _, found in part]

    def dumps(self, thing: Any) -> bytes:
        return dumps(thing)

    def close(self) -> None:
        self.folder.remove()


def costs(executors: int, partitions: int, keys: int, changes: int = CHANGES) -> Costs:
    """What the median of some epochs costs, once the keys are there."""
    epochs: list[Costs] = []
    with tempfile.TemporaryDirectory() as place:
        executor = Counted(executors * CORES, place)
        options = {"execution.target": "spark", "parallelism.default": str(partitions)}
        with TableEnvironment.create(options) as t_env:
            t_env.session.target.cluster = executor
            t_env.execute_sql(
                f"""CREATE TABLE t (i BIGINT, v BIGINT) WITH ('connector' = 'datagen', 'fields.i.min' = '0', 'seed' = '1',
                'number-of-rows' = '{4 * keys + 3 * changes}', 'fields.i.max' = '{keys - 1}', 'fields.v.max' = '9')"""
            )

            class Cut:
                """All keys in one epoch, then a few changes in each."""

                def rows(self, sources: Any, number: int) -> list[int]:
                    return [changes if epochs else 4 * keys]

            def on_epoch(job: Job) -> None:
                epochs.append(executor.costs)
                executor.costs = Costs()

            def on_job(job: Job) -> None:
                job.on_epoch = on_epoch

            t_env.session.on_job = on_job
            t_env.session.harness.cut = Cut()  # type: ignore[assignment]
            t_env.execute_sql(QUERY).wait()
    loaded = [c for c in epochs[1:] if c.driver_messages]
    return Costs(*(sorted(getattr(c, f.name) for c in loaded)[len(loaded) // 2] for f in fields(Costs)))


def main(sizes: Sequence[tuple[int, int]] = SIZES) -> None:
    print((__doc__ or "").strip().splitlines()[-1].strip())
    for executors, partitions in sizes:
        for keys in (20_000, 200_000):
            c = costs(executors, partitions, keys)
            print(
                f"{executors:9,} {partitions:11,} {keys:9,} {c.driver_messages:14,} {c.task_messages:14,} {c.driver_bytes:14,}"
                f" {c.task_bytes:14,} {c.state_files:13,} {c.state_bytes:9,}",
                flush=True,
            )


if __name__ == "__main__":
    main(SIZES if len(sys.argv) < 2 else [(int(sys.argv[1]), int(sys.argv[2]))])
