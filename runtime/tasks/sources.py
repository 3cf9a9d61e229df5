"""The sources of a job that tasks read, and what the driver does for them."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Collection, Sequence
from itertools import groupby
from typing import Any

from runtime.core.changelog import ChangelogBatch
from runtime.core.options import Options
from runtime.expr.function import FunctionRegistry
from runtime.local.dataflow import Vertex
from runtime.local.job_settings import EPOCH_MAX_ROWS
from runtime.operators.operator import EpochTime, Operator
from runtime.operators.watermark import WatermarkOperator
from runtime.plan.nodes import PhysicalNode, SourceExec
from runtime.plan.walk import walk_all
from runtime.spi.abilities import SupportsDistributedReads, SupportsFiledReads
from runtime.spi.source import SourceTable
from runtime.tasks.executor import Executor, Tasks
from runtime.tasks.filed import FiledBatch, spread
from runtime.tasks.options import READ_IN_TASKS
from runtime.tasks.program import own_functions, without_tables
from runtime.tasks.reading import Part, Reading, ReadStage, Taken, branches_over
from runtime.tasks.shipping import loads
from runtime.tasks.task import Record, raised
from runtime.tasks.task_inputs import TaskInputs
from runtime.tasks.versions import StateFolder

__all__ = ["SourcesInTasks", "in_folder", "worth_it"]

WORTH_ROWS = 200_000
"""A table with fewer rows is read by the driver, and so is all when epochs have fewer than a quarter of it: each job of
tasks has its price."""


class SourcesInTasks:
    """See the module.

    Args:
        nodes: of the job, in an order in which they can run.
        readers: for each the numbers of those that read it.
    """

    def __init__(
        self,
        nodes: Sequence[PhysicalNode],
        readers: Sequence[Sequence[int]],
        options: Options,
        functions: FunctionRegistry,
        time_zone: str,
        executor: Executor,
    ) -> None:
        self._nodes = nodes
        self._options = options
        self._functions = functions
        self._time_zone = time_zone
        self._partitions = executor.partitions(options)
        self.branches: dict[int, tuple[tuple[int, ...], ...]] = {}
        """By source the operators that run where it is read, for each branch of the plan from the source upward."""
        for number, node in enumerate(nodes):
            if isinstance(node, SourceExec) and worth_it(node, options, executor, nodes):
                branches = branches_over(number, nodes, readers, functions)
                if branches is not None:
                    self.branches[number] = branches
        self._branch_of = {
            number: (source, position)
            for source, branches in self.branches.items()
            for position, branch in enumerate(branches)
            for number in branch
        }
        self.chained = frozenset(self._branch_of)
        """All of those operators."""
        self._files: set[str] = set()

    def inputs(self, number: int, tasks: Tasks, *given: Any, **named: Any) -> TaskInputs:
        """The reading of one of them; arguments as those of `SourceInputs`."""
        node = self._nodes[number]
        assert isinstance(node, SourceExec)
        if isinstance(node.table, SupportsFiledReads):
            node = node.with_(table=node.table.in_folder(tasks.folder.place))
        # The nodes of a branch from the source upward: each is over the one before it.
        branches = tuple(
            without_tables(walk_all([self._nodes[n] for n in branch[-1:]]))[1:] for branch in self.branches[number]
        )

        def reading(table: SourceTable) -> Reading:
            functions = own_functions(self._functions, [node for branch in branches for node in branch])
            return Reading(node.name, table, branches, self._options.as_dict(), functions, self._time_zone)

        return TaskInputs(
            node,
            *given,
            **named,
            read=_TasksRead(number, node.table, reading, tasks, self._partitions),
            width=self._partitions,
            place=tasks.folder.place,
        )

    def note(self, vertex: Vertex) -> None:
        """A source has given what it gives in this epoch."""
        batch = vertex.output
        if isinstance(batch, FiledBatch):
            filtered = batch.rows_read - len(batch)
            vertex.rows_in += filtered
            vertex.rows_out += filtered
            self._files.update(piece.file for branch in batch.branches for piece in branch.pieces if piece.file)

    def branch(self, number: int, vertices: Sequence[Vertex]) -> FiledBatch | None:
        """What an operator that runs where its source is read has given in this epoch; None when it has still to run."""
        if number not in self._branch_of:
            return None
        source, position = self._branch_of[number]
        batch = vertices[source].output
        return batch.branches[position] if isinstance(batch, FiledBatch) else None

    def observe(self, operator: Operator, batch: FiledBatch, time: EpochTime) -> None:
        """Watermarks of rows that tasks have read."""
        inner = operator
        while not isinstance(inner, WatermarkOperator):
            inner = inner.inner  # type: ignore[attr-defined]
        inner.observe([(piece.split, piece.mark) for piece in batch.pieces if piece.mark is not None], time)

    def records(self, filed: Sequence[tuple[int, ChangelogBatch | None]]) -> list[list[Record]]:
        """The files that each task of a stage takes of some sources' changes."""
        given: list[list[Record]] = [[] for _ in range(self._partitions)]
        for number, batch in filed:
            assert isinstance(batch, FiledBatch)
            for partition, files in enumerate(spread(batch.pieces, self._partitions)):
                if files:
                    given[partition].append(Record("filed", number, partition, pickle.dumps(files)))
        return given

    def forget(self, folder: StateFolder | None) -> None:
        """The epoch whose files these were is done."""
        for file in self._files:
            assert folder is not None
            folder.delete(file)
        self._files.clear()


class _TasksRead:
    """See `InTasks`. What tasks must know is put in a file when they first read."""

    def __init__(
        self, number: int, table: SourceTable, reading: Callable[[SourceTable], Reading], tasks: Tasks, width: int
    ) -> None:
        self._number = number
        self._given = table
        self._reading = reading
        self._tasks = tasks
        self._width = width
        self._homes: dict[str, int] = {}
        self._table: SourceTable | None = None
        self._file = ""

    @property
    def table(self) -> SourceTable:
        if self._table is None:
            given = self._given
            self._table = given.filed() if isinstance(given, SupportsFiledReads) else given
        return self._table

    def __call__(self, parts: Sequence[Part]) -> list[Taken]:
        if not self._file:
            data = self._tasks.dumps(self._reading(self.table))
            self._file = self._tasks.folder.write(f"reading-{self._number}", data)
        given: list[list[Record]] = [[] for _ in range(self._width)]
        for number, (part, target) in enumerate(zip(parts, self._tasks_of(parts), strict=True)):
            given[target].append(Record("filed", number, target, pickle.dumps(part)))
        records = self._tasks.run([ReadStage(self._tasks.folder.place, self._file)], given)
        errors = [r for r in records if r.kind == "error"]
        if errors:
            raise raised(errors)
        return [loads(r.payload) for r in sorted(records, key=lambda r: r.number)]

    def _tasks_of(self, parts: Sequence[Part]) -> list[int]:
        """By part who reads it: parts of a split in the order of tasks, which is the order of their rows from then on."""
        taken: set[int] = set()
        found: list[int] = []
        for split, of_split in groupby(parts, key=lambda part: part.split.id):
            tasks: list[int] = []
            for _ in of_split:
                tasks.append(self._task_of(split, taken))
                taken.add(tasks[-1])
            found += sorted(tasks)
        return found

    def _task_of(self, split: str, taken: Collection[int]) -> int:
        """Who reads a part: the task that has read its split before, and has it open; of several parts of a split each
        another one. `taken`: who reads another one now."""
        home = self._homes.setdefault(split, len(self._homes) % self._width)
        return next((t for n in range(self._width) if (t := (home + n) % self._width) not in taken), home)


def in_folder(node: SourceExec, executor: Executor, tasks: Callable[[], Tasks]) -> SourceExec:
    """A source that the driver reads. What another system computes for it comes by the job's folder where it can."""
    table = node.table
    if executor.local or not isinstance(table, SupportsFiledReads) or not table.filed_reads(False):
        return node
    return node.with_(table=table.in_folder(tasks().folder.place))


def worth_it(node: SourceExec, options: Options, executor: Executor, nodes: Sequence[PhysicalNode]) -> bool:
    """Whether tasks read a source; `nodes`: of the job.

    On one machine the driver's readers use all cores as well, and rows need not go through files.
    """
    table = node.table
    # Rows that are in files for a start cost nobody more when tasks read them, on one machine either.
    filed = isinstance(table, SupportsFiledReads) and table.bounded and table.filed_reads(executor.local)
    if not filed and not (isinstance(table, SupportsDistributedReads) and table.distributed_reads):
        return False
    wanted = options.get(READ_IN_TASKS).lower()
    if wanted != "auto":
        return wanted == "true"
    if (executor.local and not filed) or options.get(EPOCH_MAX_ROWS) < WORTH_ROWS // 4:
        return False
    if not table.bounded:
        # It is asked in each epoch, also where nothing comes.
        return executor.long_lived(options, nodes)
    rows = table.statistics().rows
    return rows is None or rows >= WORTH_ROWS
