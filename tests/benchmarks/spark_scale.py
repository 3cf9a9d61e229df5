"""What an epoch on Spark costs with many executors, counted without any: `python -m tests.benchmarks.spark_scale`.

The real layout, tasks, orders and versions of state run in this process; instead of going over connections, messages are
counted as long-lived tasks would send them. A query with two exchanges has loaded its keys; counted is an epoch that
changes 2,000 rows of it, then the checkpoint behind such an epoch, then the start of the next run from a checkpoint.

    executors  partitions      keys         messages: driver  between tasks  bytes: driver  tasks  state: files  bytes  read: tasks  driver
"""

from __future__ import annotations

import pickle
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from runtime.checkpoint.segments import Segment, SegmentReader, SegmentWriter
from runtime.core.options import Options
from runtime.local.job import Job
from runtime.plan.nodes import PhysicalNode
from runtime.spark.shipping import dumps
from runtime.tasks.member import Answered, Order, owners_of
from runtime.tasks.task import Record
from runtime.tasks.versions import StateFolder
from sqlengine import TableEnvironment

__all__ = ["Costs", "Measured", "costs", "main"]

SIZES = ((10, 1024), (100, 1024), (1000, 1024), (1000, 512), (1000, 256))
CORES = 4
CHANGES = 2000
QUERY = """SELECT n, COUNT(*), MAX(s) FROM (SELECT i, COUNT(*) AS n, SUM(v) AS s FROM t GROUP BY i) GROUP BY n"""


@dataclass(slots=True)
class Costs:
    """Of one epoch, checkpoint or start. `driver_messages`: orders and answers; `task_messages`: from task to task;
    `state_files`, `state_bytes`: written by tasks; `read_files`: opened by them; `driver_files`: opened by the driver."""

    driver_messages: int = 0
    task_messages: int = 0
    driver_bytes: int = 0
    task_bytes: int = 0
    state_files: int = 0
    state_bytes: int = 0
    read_files: int = 0
    driver_files: int = 0


class Counted:
    """See `runtime.tasks.executor.Executor`: so many long-lived tasks, of which nothing is there but their messages."""

    local = True

    def __init__(self, tasks: int, place: str) -> None:
        self._tasks = tasks
        self._place = place
        self.costs = Costs()
        self._in_tasks = False

    def partitions(self, options: Options) -> int:
        return int(options.text("parallelism.default") or 1)

    def described(self, options: Options, nodes: Sequence[PhysicalNode]) -> str:
        return f"{self._tasks} tasks that are counted"

    def open(self, options: Options, nodes: Sequence[PhysicalNode], job: str) -> CountedTasks:
        return CountedTasks(self, self._tasks, StateFolder.new(self._place))

    def taken(self) -> Costs:
        """What has been counted since the last call."""
        found, self.costs = self.costs, Costs()
        return found

    @contextmanager
    def in_tasks(self) -> Generator[None]:
        self._in_tasks = True
        try:
            yield
        finally:
            self._in_tasks = False

    @contextmanager
    def watched(self) -> Generator[None]:
        """Counts the files that are written and read meanwhile."""
        write, read, rows, gather = StateFolder.write, StateFolder.read, SegmentReader.read, SegmentWriter.close
        opened: set[str] = set()

        def wrote(count: int, size: int) -> None:
            if self._in_tasks:
                self.costs.state_files += count
                self.costs.state_bytes += size

        def look(name: str) -> None:
            if self._in_tasks:
                self.costs.read_files += name not in opened
                opened.add(name)
            elif not name.endswith(".plan.json"):
                self.costs.driver_files += name not in opened
                opened.add(name)

        def counted_write(folder: StateFolder, name: str, data: bytes) -> str:
            wrote(1, len(data))
            return write(folder, name, data)

        def counted_read(folder: StateFolder, name: str) -> bytes:
            if ".state" in name:
                look(name)
            return read(folder, name)

        def counted_rows(reader: SegmentReader, segment: Segment) -> Any:
            look(f"{id(reader)} {segment.file}" if self._in_tasks else segment.file)
            return rows(reader, segment)

        def counted_close(writer: SegmentWriter) -> None:
            gather(writer)
            wrote(len(writer.files), sum(writer.files.values()))

        StateFolder.write, StateFolder.read = counted_write, counted_read  # type: ignore[method-assign]
        SegmentReader.read, SegmentWriter.close = counted_rows, counted_close  # type: ignore[method-assign]
        try:
            yield
        finally:
            StateFolder.write, StateFolder.read = write, read  # type: ignore[method-assign]
            SegmentReader.read, SegmentWriter.close = rows, gather  # type: ignore[method-assign]


class CountedTasks:
    """See `runtime.tasks.executor.Tasks`, and `runtime.tasks.member` for what is sent."""

    resident = True

    def __init__(self, executor: Counted, tasks: int, folder: StateFolder) -> None:
        self._executor = executor
        self._count = tasks
        self.folder = folder

    def aside(self, stages: Sequence[Any], given: Sequence[Sequence[Record]]) -> list[Record]:
        return self.run(stages, given)

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
        with self._executor.in_tasks():
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
        return [Record(*found) for part in arrived for _, found in part]

    def dumps(self, thing: Any) -> bytes:
        return dumps(thing)

    def close(self) -> None:
        self.folder.remove()


class Measured(NamedTuple):
    """The median epoch, the median checkpoint behind one, the start from a checkpoint."""

    epoch: Costs
    checkpoint: Costs
    start: Costs


def costs(executors: int, partitions: int, keys: int, changes: int = CHANGES) -> Measured:
    """What epochs and checkpoints cost, once the keys are there."""
    with tempfile.TemporaryDirectory() as place:
        executor = Counted(executors * CORES, place)
        first = _run(executor, place, partitions, keys, changes, until=5)
        again = _run(executor, place, partitions, keys, changes, until=1)
        return Measured(_median(first.epochs[2:]), _median(first.checkpoints[2:]), again.start)


@dataclass(slots=True)
class _Counts:
    epochs: list[Costs]
    checkpoints: list[Costs]
    start: Costs


class _Enough(Exception):
    """The run ends as in a crash: its last checkpoint is there."""


def _run(executor: Counted, place: str, partitions: int, keys: int, changes: int, until: int) -> _Counts:
    """Some epochs, the first of all keys, each with a checkpoint behind it."""
    found = _Counts([], [], Costs())
    options = {
        "execution.target": "spark",
        "parallelism.default": str(partitions),
        "execution.checkpointing.dir": f"{place}/checkpoints",
    }
    with executor.watched(), TableEnvironment.create(options) as t_env:
        t_env.session.target.cluster = executor
        t_env.execute_sql(
            f"""CREATE TABLE t (i BIGINT, v BIGINT) WITH ('connector' = 'datagen', 'fields.i.min' = '0', 'seed' = '1',
            'number-of-rows' = '{4 * keys + 9 * changes}', 'fields.i.max' = '{keys - 1}', 'fields.v.max' = '9')"""
        )
        t_env.execute_sql("CREATE TABLE told (n BIGINT, c BIGINT, m BIGINT) WITH ('connector' = 'blackhole')")

        class Cut:
            """All keys in one epoch, then a few changes in each."""

            def rows(self, sources: Any, number: int) -> list[int]:
                return [changes if found.epochs or found.start.driver_messages else 4 * keys]

        def on_epoch(job: Job) -> None:
            found.epochs.append(executor.taken())
            assert job.checkpoints is not None
            job.checkpoints.now(job)
            found.checkpoints.append(executor.taken())
            if len(found.epochs) == until:
                raise _Enough

        def on_job(job: Job) -> None:
            found.start = executor.taken()
            job.on_epoch = on_epoch

        t_env.session.on_job = on_job
        t_env.session.harness.cut = Cut()  # type: ignore[assignment]
        with suppress(_Enough):
            t_env.execute_sql(f"INSERT INTO told {QUERY}").wait()
    return found


def _median(of: Sequence[Costs]) -> Costs:
    return Costs(*(sorted(getattr(c, f.name) for c in of)[len(of) // 2] for f in fields(Costs)))


def main(sizes: Sequence[tuple[int, int]] = SIZES) -> None:
    print((__doc__ or "").strip().splitlines()[-1].strip())
    for executors, partitions in sizes:
        for keys in (20_000, 200_000):
            measured = costs(executors, partitions, keys)
            for what, c in measured._asdict().items():
                print(
                    f"{executors:9,} {partitions:11,} {keys:9,} {what:10} {c.driver_messages:14,} {c.task_messages:14,}"
                    f" {c.driver_bytes:14,} {c.task_bytes:14,} {c.state_files:13,} {c.state_bytes:11,} {c.read_files:9,}"
                    f" {c.driver_files:6,}",
                    flush=True,
                )


if __name__ == "__main__":
    main(SIZES if len(sys.argv) < 2 else [(int(sys.argv[1]), int(sys.argv[2]))])
