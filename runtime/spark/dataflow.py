"""A dataflow whose operators run in the tasks of Spark jobs.

The driver polls the sources, computes watermarks and writes to the sinks, as embedded; what lies between runs in tasks
(`runtime/spark/layout.py`). An epoch is a Spark job, or one for each phase of tasks. When it has come back the driver
takes, for each task, the file of state of the attempt whose changes it got: that is the next version.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from runtime.core.changelog import ChangelogBatch
from runtime.core.logs import Log
from runtime.core.options import Options
from runtime.expr.function import FunctionRegistry
from runtime.local.dataflow import Dataflow, SourceInput, Vertex
from runtime.local.source_inputs import SourceInputs
from runtime.operators.build import build_operator
from runtime.operators.operator import EpochTime, Operator, OperatorContext, Rejections, StateSize
from runtime.plan.nodes import PhysicalNode, SourceExec, WatermarkExec
from runtime.spark.cluster import Cluster, raised
from runtime.spark.filed import FiledBatch
from runtime.spark.layout import PREFIX, Layout, lay_out, place_of
from runtime.spark.program import EpochOrder, Program, own_functions, without_tables
from runtime.spark.remote import RemoteOperator
from runtime.spark.simulated import SimulatedCluster
from runtime.spark.sinks import adopt, row_writers
from runtime.spark.sources import SourcesInTasks
from runtime.spark.stage import Stage
from runtime.spark.task import Record, Report
from runtime.spark.versions import (
    Lineage,
    StateFolder,
    TaskChanges,
    decode_changes,
    encode_changes,
    merged,
)
from runtime.spark.wire import decode, divide, encode
from runtime.state.snapshot import SavedOperator, SavedState
from runtime.state.table import Moved, StateTable, TableChanges

__all__ = ["SparkDataflow"]

_log = Log("spark")

PREFIX_ROWS = 50_000
"""Fewer rows than this are projected and filtered by the driver: a stage of tasks more would cost more."""
MOST_FILES = 64
SMALL_BYTES = 1 << 20


@dataclass(slots=True)
class _Part:
    """The state of one task of a stage: its version, and the files since the last save (None: nothing was saved)."""

    lineage: Lineage
    unsaved: tuple[str, ...] | None = None


class SparkDataflow(Dataflow):
    """See the module. Arguments as those of `Dataflow`; `cluster`: where tasks run."""

    takes_codes = False

    def __init__(
        self,
        roots: Sequence[PhysicalNode],
        options: Options,
        functions: FunctionRegistry,
        time_zone: str,
        rejections: Rejections,
        *,
        checked: bool = False,
        job: str = "",
        cluster: Cluster | SimulatedCluster,
    ) -> None:
        self._cluster = cluster
        self._options = options
        self._functions = functions
        self._time_zone = time_zone
        self._rejections = rejections
        self._job = job
        self._remote: dict[str, RemoteOperator] = {}
        self._layout: Layout | None = None
        self._folder: StateFolder | None = None
        self._program = ""
        self._parts: dict[tuple[int, int, int], _Part] = {}
        self._base: Mapping[str, SavedState] = {}
        self._ran: set[int] = set()
        self._seen: set[tuple[int, int, int]] = set()
        """Tasks that have run: phase, stage, partition."""
        self._held: dict[int, list[ChangelogBatch]] = {}
        self._clock_at: dict[int, int] = {}
        self.partitions = cluster.partitions(options)
        self.cold_starts = 0
        """How many tasks had to open their state from files."""
        super().__init__(roots, options, functions, time_zone, rejections, checked=checked, job=job)
        nodes = [v.node for v in self.vertices]
        self._in_tasks = SourcesInTasks(nodes, self._readers_of(), options, functions, time_zone, cluster)
        self._layout = lay_out(nodes, [v.inputs for v in self.vertices], self._roots, self._in_tasks.chained)
        self._with_clock = {
            phase for phase in self._layout.phases if any(nodes[v].follows_clock for v in self._layout.vertices(phase))
        }

    def inputs(self, node: SourceExec, *given: Any, **named: Any) -> SourceInputs:  # type: ignore[override]
        """The reading of a source: by tasks where that is worth it."""
        number = self._index[node]
        if number not in self._in_tasks.branches:
            return SourceInputs(node, *given, **named)
        return self._in_tasks.inputs(number, self._shipped(), *given, **named)

    def _readers_of(self) -> list[list[int]]:
        return [[self._index[vertex.node] for vertex, _ in readers] for readers in self._readers]

    def _operator(self, node: PhysicalNode, name: str) -> Operator:
        """Everything is made here first; which operators tasks run is known when all are there. A keyed operator is
        never divided in the driver."""
        operator = (
            RemoteOperator(self._shadow(node, name)) if place_of(node)[0] != "driver" else super()._operator(node, name)
        )
        if isinstance(operator, RemoteOperator):
            operator.opened = partial(self.opened, name)
            self._remote[name] = operator
        return operator

    def _shadow(self, node: PhysicalNode, name: str) -> Operator:
        """An operator as tasks have it, all in memory."""
        context = OperatorContext(name, self._options, self._functions, self._time_zone, self._rejections, self._job)
        return build_operator(node, context)

    # --- an epoch

    def next_timer(self) -> int:
        """At once: what tasks keep is not known here."""
        return 0

    def step(self, given: Mapping[SourceExec, SourceInput], processing_time: int) -> list[ChangelogBatch | None]:
        layout = self._layout
        assert layout is not None
        self._in_tasks.forget(self._folder)
        with np.errstate(all="ignore"):
            for phase in layout.phases:
                if phase % 2:
                    self._run_in_tasks(phase, processing_time)
                    continue
                for number in layout.vertices(phase):
                    vertex = self.vertices[number]
                    if vertex.operator is None:
                        self._read(vertex, given.get(vertex.node))  # type: ignore[call-overload]
                        self._in_tasks.note(vertex)
                    elif not self._ran_where_read(number, vertex, vertex.operator, processing_time):
                        self._run(number, vertex, vertex.operator, processing_time)
                        if number in self._held:
                            vertex.output = ChangelogBatch.concat(
                                [*self._held.pop(number), *([vertex.output] if vertex.output else [])]
                            )
        outputs = [self.vertices[r].output for r in self._roots]
        for vertex in self.vertices:
            vertex.output = None
        self._splits.clear()
        self._epoch += 1
        return outputs

    def _ran_where_read(self, number: int, vertex: Vertex, operator: Operator, processing_time: int) -> bool:
        """Whether an operator has run with the tasks that read its source: then only time is left to do."""
        batch = self._in_tasks.branch(number, self.vertices)
        if batch is None or (isinstance(vertex.node, WatermarkExec) and not batch.timed):
            return False
        time = self._time(vertex, processing_time)
        if isinstance(vertex.node, WatermarkExec):
            self._in_tasks.observe(operator, batch, time)
        vertex.watermark = max(vertex.watermark, operator.output_watermark(time))
        vertex.rows_in += batch.rows_read
        vertex.rows_out += len(batch)
        vertex.output = batch if len(batch) or not isinstance(vertex.node, WatermarkExec) else None
        return True

    def _hand_on(self, number: int, piece: ChangelogBatch, processing_time: int) -> None:
        """Output in pieces is put together: readers are in tasks, which get all of it at once."""
        self._held.setdefault(number, []).append(piece)

    def _run_in_tasks(self, phase: int, processing_time: int) -> None:
        """One Spark job: the operators of a phase."""
        layout = self._layout
        assert layout is not None
        numbers = layout.vertices(phase)
        times: dict[int, EpochTime] = {}
        for number in numbers:
            vertex = self.vertices[number]
            assert vertex.operator is not None
            times[number] = time = self._time(vertex, processing_time)
            vertex.watermark = max(vertex.watermark, vertex.operator.output_watermark(time))
        sources = {layout.edges[e].source for e in layout.edges_into(phase)} - set(numbers)
        rows = sum(len(b) for s in sources if (b := self.vertices[s].output) is not None)
        moved = any(t.watermark != t.previous_watermark for t in times.values())
        clock = phase in self._with_clock and self._clock_at.get(phase) != processing_time
        if phase in self._ran and not rows and not moved and not clock:
            return
        self._clock_at[phase] = processing_time
        prefix = layout.vertices(phase, PREFIX)
        filed = {s for s in sources if isinstance(self.vertices[s].output, FiledBatch)}
        if rows < PREFIX_ROWS:
            for number in prefix:
                self._run_here(number, times[number])
            prefix, filed = [], set()
        stages = [PREFIX, *layout.stages(phase)] if prefix or filed else list(layout.stages(phase))
        if not stages:
            return
        self._ran.add(phase)
        given = self._input(phase, filed, here=set() if prefix else set(layout.vertices(phase, PREFIX)))
        self._take(phase, self._cluster.run(self._stages(phase, stages, times, processing_time), given))

    def _run_here(self, number: int, time: EpochTime) -> None:
        """A stateless operator, in the driver."""
        vertex = self.vertices[number]
        assert vertex.operator is not None
        batches = [self.vertices[i].output for i in vertex.inputs]
        output = vertex.operator.step(batches, time)
        vertex.output = output.decoded() if output is not None and len(output) else None
        vertex.rows_in += sum(len(b) for b in batches if b is not None)
        vertex.rows_out += len(output) if output is not None else 0

    def _input(self, phase: int, filed: set[int], here: set[int]) -> list[list[Record]]:
        """The records of each partition: the changes of what the driver runs, divided. `filed`: those whose changes
        tasks find in files; `here`: operators of the phase that it has run itself."""
        layout = self._layout
        assert layout is not None
        given = self._in_tasks.records([(s, self.vertices[s].output) for s in sorted(filed)])
        for number in layout.edges_into(phase):
            edge = layout.edges[number]
            source = layout.placed[edge.source]
            if (source.phase == phase and edge.source not in here) or edge.source in filed:
                continue
            batch = self.vertices[edge.source].output
            if batch is None:
                continue
            for target, part in divide(batch, edge.division, self.partitions, None):
                # By where a part comes from tasks know its order: slices of the driver's are parts in order.
                given[target].append(Record("edge", number, target, encode(part)))
        return given

    def _stages(
        self, phase: int, stages: Sequence[int], times: Mapping[int, EpochTime], processing_time: int
    ) -> list[Stage]:
        folder = self._shipped()
        whole = {
            (stage, partition)
            for (of, stage, partition), part in self._parts.items()
            if of == phase and _too_long(part.lineage)
        }
        order = EpochOrder(
            folder.place,
            self._program,
            phase,
            self._epoch,
            processing_time,
            {number: (t.watermark, t.previous_watermark) for number, t in times.items()},
            [
                {stage: self._part(phase, stage, p).lineage for stage in stages if stage >= 0}
                for p in range(self.partitions)
            ],
            frozenset(whole),
            self._cluster.resident(self._options),
        )
        return [Stage(order, stage, first=number == 0) for number, stage in enumerate(stages)]

    def _take(self, phase: int, records: Sequence[Record]) -> None:
        """What came back: changes for the driver, and the next version of the state."""
        layout = self._layout
        assert layout is not None and self._folder is not None
        errors = [r for r in records if r.kind == "error"]
        if errors:
            raise raised(min(errors, key=lambda r: (r.number, r.partition)))
        outputs: dict[int, list[Record]] = {}
        reports: list[Report] = []
        for record in records:
            if record.kind == "out":
                outputs.setdefault(record.number, []).append(record)
            elif record.kind == "written":
                adopt(self.vertices[record.number], *self._cluster.loads(record.payload))
            elif record.kind == "report":
                reports.append(self._cluster.loads(record.payload))
        for number, found in outputs.items():
            batches = [decode(r.payload) for r in sorted(found, key=lambda r: r.partition)]
            self.vertices[number].output = ChangelogBatch.concat(batches)
        for report in sorted(reports, key=lambda r: (r.stage, r.partition)):
            self._note(phase, report)

    def _note(self, phase: int, report: Report) -> None:
        assert self._folder is not None
        for number, figures in report.figures.items():
            vertex = self.vertices[number]
            assert isinstance(vertex.operator, RemoteOperator)
            vertex.rows_in += figures.rows_in
            vertex.rows_out += figures.rows_out
            vertex.busy_seconds += figures.seconds
            size = StateSize(figures.state_rows, figures.state_bytes)
            vertex.operator.reported(report.partition, size, figures.complete)
        for rejected in report.rejected:
            self._rejections.reject(*rejected)
        task = phase, report.stage, report.partition
        if not report.warm:
            self.cold_starts += 1
            # One that has run before has gone with its process; without residents Spark takes any worker.
            lost = " was lost and" if task in self._seen else ""
            level = logging.WARNING if lost and self._cluster.resident(self._options) else logging.DEBUG
            facts = {"job": self._job, "epoch": self._epoch}
            _log.write(level, f"partition %d of stage %d{lost} opens its state from files", task[2], task[1], **facts)
        self._seen.add(task)
        if not report.file:
            return
        part = self._part(phase, report.stage, report.partition)
        if report.complete:
            for name in part.lineage.files:
                self._folder.delete(name)
            part.unsaved = None if part.unsaved is None else ()
        part.lineage = part.lineage.then(report.file, report.bytes, report.complete)
        if part.unsaved is not None:
            part.unsaved = (*part.unsaved, report.file)

    def _part(self, phase: int, stage: int, partition: int) -> _Part:
        return self._parts.setdefault((phase, stage, partition), _Part(self._base_lineage()))

    def _shipped(self) -> StateFolder:
        """The folder of the job's state, with the program in it."""
        if self._folder is None:
            folder = StateFolder(f"{self._cluster.state_place(self._options)}/{uuid.uuid4().hex}")
            folder.make()
            self._folder = folder
            nodes = tuple(v.node for v in self.vertices)
            assert self._layout is not None
            program = Program(
                without_tables(nodes),
                tuple(v.name for v in self.vertices),
                tuple(v.inputs for v in self.vertices),
                self._layout,
                self.partitions,
                self._options.as_dict(),
                own_functions(self._functions, nodes),
                self._time_zone,
                self._job,
                folder.place,
                self._checked,
                row_writers(self.vertices, self._layout, self._roots, self._options),
            )
            self._program = folder.write("program", self._cluster.dumps(program))
        return self._folder

    # --- state

    def _base_lineage(self) -> Lineage:
        """What a task begins with that has no version of its own: the state that the job goes on from."""
        if not self._base_files and self._base:
            folder = self._shipped()
            for number in range(max((len(s.tasks) for s in self._base.values()), default=0)):
                changes: dict[str, tuple[TableChanges, ...]] = {
                    name: tuple(_whole(table, rows) for table, rows in saved.tasks[number].items())
                    for name, saved in self._base.items()
                    if number < len(saved.tasks) and name in self._remote
                }
                file = folder.write(f"base-{uuid.uuid4().hex[:12]}.state", encode_changes(changes))
                self._base_files = (*self._base_files, file)
        return Lineage(self._base_files)

    _base_files: tuple[str, ...] = ()

    def restore(self, epoch: int, saved: Mapping[str, SavedState]) -> None:
        super().restore(epoch, {name: state for name, state in saved.items() if name not in self._remote})
        for vertex in self.vertices:
            state = saved.get(vertex.name)
            if state is not None:
                vertex.watermark, vertex.input_watermark = state.watermark, state.input_watermark
        for part in self._parts.values():
            for name in part.lineage.files if self._folder is not None else ():
                self._folder.delete(name)  # type: ignore[union-attr]
        self._parts.clear()
        self._ran.clear()
        self._base_files = ()
        self._base = {name: state for name, state in saved.items() if name in self._remote}

    def save(self, complete: bool = False, *, hold: bool = False) -> list[SavedOperator]:
        tables: dict[str, list[tuple[TableChanges, ...]]] = {}
        for key in sorted(self._parts):
            part = self._parts[key]
            if part.unsaved is None or complete:
                names = part.lineage.files
            else:
                names = part.unsaved
            if part.lineage.files:
                part.unsaved = ()
            changes = self._changes(key[0], key[1], key[2], names)
            for name, found in changes.items():
                tables.setdefault(name, []).append(found)
        return [self._saved(vertex, tables, image=False, complete=complete, hold=hold) for vertex in self.vertices]

    def image(self) -> list[SavedOperator]:
        tables: dict[str, list[tuple[TableChanges, ...]]] = {}
        for key in sorted(self._parts):
            for name, found in self._changes(key[0], key[1], key[2], self._parts[key].lineage.files).items():
                tables.setdefault(name, []).append(found)
        return [self._saved(vertex, tables, image=True, complete=True) for vertex in self.vertices]

    def _changes(
        self, phase: int, stage: int, partition: int, names: Sequence[str]
    ) -> dict[str, tuple[TableChanges, ...]]:
        """What files add up to, by operator; an operator of the stage that has nothing in them did not change."""
        assert self._layout is not None
        found: dict[str, tuple[TableChanges, ...]] = {}
        if names:
            assert self._folder is not None
            chain: list[TaskChanges] = [decode_changes(self._folder.read(name), name) for name in names]
            found = merged(chain)
        elif self._parts[phase, stage, partition].lineage.files:
            for number in self._layout.vertices(phase, stage):
                if partition == 0 or self._layout.placed[number].where != "one":
                    found[self.vertices[number].name] = self._unchanged(number)
        return found

    def _unchanged(self, number: int) -> tuple[TableChanges, ...]:
        """No change of any table of an operator."""
        operator = self.vertices[number].operator
        assert isinstance(operator, RemoteOperator)
        none = np.empty(0, np.int64)
        return tuple(
            TableChanges(t.name, t.saved_rows(none, [pa.nulls(0, f.type) for f in t.schema]), none, False)
            for t in operator.inner.tables
        )

    def _saved(
        self,
        vertex: Vertex,
        remote: Mapping[str, list[tuple[TableChanges, ...]]],
        *,
        image: bool,
        complete: bool,
        hold: bool = False,
    ) -> SavedOperator:
        operator = vertex.operator
        if operator is None:
            tasks: tuple[tuple[TableChanges, ...], ...] = ()
        elif isinstance(operator, RemoteOperator):
            tasks = tuple(remote.get(vertex.name, ()))
            if not tasks and vertex.name in self._base:
                tasks = tuple(
                    tuple(_whole(table, rows) for table, rows in task.items()) for task in self._base[vertex.name].tasks
                )
            # The same number of tasks in each save, also before the first of them has run.
            tasks += ((),) * (self._tasks_of(vertex) - len(tasks))
        else:
            tasks = tuple(
                tuple(table.image() if image else table.changes(complete, hold=hold) for table in task.tables)
                for task in operator.tasks
            )
        return SavedOperator(vertex.name, vertex.watermark, vertex.input_watermark, tasks)

    def _tasks_of(self, vertex: Vertex) -> int:
        """How many tasks run an operator."""
        assert self._layout is not None
        where = self._layout.placed[self.vertices.index(vertex)].where
        return 1 if where == "one" else self.partitions

    def opened(self, name: str) -> Sequence[StateTable]:
        """The tables of an operator with what all of its tasks keep."""
        (saved,) = (s for s in self.image() if s.name == name)
        state = SavedState.of([saved])
        vertex = next(v for v in self.vertices if v.name == name)
        operator = self._shadow(vertex.node, name)
        for task in state.tasks:
            moved: dict[str, Moved] = {}
            for table in operator.tables:
                if table.name in task:
                    table.restore(task[table.name], None, moved)
        return operator.tables

    def _close(self) -> None:
        try:
            super()._close()
        finally:
            if self._folder is not None:
                self._folder.remove()


def _whole(table: str, rows: pa.RecordBatch) -> TableChanges:
    return TableChanges(table, rows, np.empty(0, np.int64), True)


def _too_long(lineage: Lineage) -> bool:
    """Whether a version is made of so many files, or so large ones, that writing all of it anew pays."""
    count = len(lineage.files)
    small = lineage.bytes < SMALL_BYTES and count > 16
    return small or (count > MOST_FILES and lineage.bytes > lineage.complete_bytes * 1.5) or count > 8 * MOST_FILES
