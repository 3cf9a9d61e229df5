"""A dataflow of which an executor runs the operators in tasks: the driver's side, the same for all executors.

The driver polls the sources, computes watermarks and writes to the sinks, as embedded; what lies between runs in tasks
(`runtime/tasks/layout.py`). An epoch is one call of the executor, or one for each phase of tasks. When it has come back
the driver takes, for each task, the file of state of the attempt whose changes it got: that is the next version.
"""

from __future__ import annotations

import logging
import pickle
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from runtime.checkpoint.away import Target
from runtime.core.changelog import ChangelogBatch
from runtime.core.clock import MAX_WATERMARK
from runtime.core.errors import SparkError
from runtime.core.logs import Log
from runtime.core.options import Options
from runtime.expr.function import FunctionRegistry
from runtime.expr.job_functions import FunctionFigure, FunctionJob, JobFunctions
from runtime.local.dataflow import Dataflow, SourceInput
from runtime.local.source_inputs import SourceInputs
from runtime.operators.build import build_operator
from runtime.operators.operator import EpochTime, Operator, OperatorContext, Rejections
from runtime.plan.nodes import PhysicalNode, SourceExec, WatermarkExec
from runtime.tasks.asked import asked_in_tasks
from runtime.tasks.attempts import Attempt, belong_together
from runtime.tasks.compacting import Compacted, Compacting, Compaction
from runtime.tasks.executor import Executor, Tasks
from runtime.tasks.filed import FiledBatch
from runtime.tasks.kept import Kept
from runtime.tasks.layout import PREFIX, is_asked_anywhere, lay_out, place_of
from runtime.tasks.options import LOOK_UP_IN_TASKS
from runtime.tasks.program import EpochOrder, Program, own_functions, without_tables
from runtime.tasks.remote import RemoteOperator
from runtime.tasks.saved_away import SavedAway
from runtime.tasks.saving import SaveStage
from runtime.tasks.shipping import loads
from runtime.tasks.sinks import RowWriter, commit_in_tasks, row_writers
from runtime.tasks.sources import SourcesInTasks, in_folder
from runtime.tasks.stage import Stage
from runtime.tasks.taking import take_written
from runtime.tasks.task import Record, Report, Version, raised
from runtime.tasks.wire import decode, divide, encode
from runtime.tasks.working import WorkStage, shared_out

__all__ = ["Divided", "divided_dataflow"]

_log = Log("tasks")

MOST_TRIES = 10
"""So often a phase is carried out whose tasks were repeated after they had asked tables outside."""
PREFIX_ROWS = 50_000
"""Fewer rows than this are projected and filtered by the driver: a stage of tasks more would cost more."""


def divided_dataflow(
    roots: Sequence[PhysicalNode],
    options: Options,
    functions: FunctionRegistry,
    time_zone: str,
    rejections: Rejections,
    *,
    checked: bool = False,
    job: str = "",
    executor: Executor,
) -> Dataflow:
    """A dataflow whose operators run on an executor; the other arguments are those of `Dataflow`."""
    # What the driver computes itself calls the same instances as the rest of what runs here.
    functions = JobFunctions.of(functions, FunctionJob(job, options))
    asked = asked_in_tasks(roots) if options.get(LOOK_UP_IN_TASKS) else frozenset[PhysicalNode]()
    divided = Divided(executor, options, functions, time_zone, rejections, checked, job, asked)
    return Dataflow(roots, options, functions, time_zone, rejections, checked=checked, job=job, elsewhere=divided)


class Divided:
    """See the module, and `runtime.local.elsewhere.Elsewhere`."""

    def __init__(
        self,
        executor: Executor,
        options: Options,
        functions: FunctionRegistry,
        time_zone: str,
        rejections: Rejections,
        checked: bool,
        job: str,
        asked: frozenset[PhysicalNode],
    ) -> None:
        self._executor = executor
        self._options = options
        self._functions = functions
        self._time_zone = time_zone
        self._rejections = rejections
        self._checked = checked
        self._job = job
        self.partitions = executor.partitions(options)
        self._asked = asked
        self.cold_starts = 0
        self._of_functions: dict[int, list[FunctionFigure]] = {}
        self._tasks: Tasks | None = None
        self._writers: Mapping[int, tuple[RowWriter, ...]] = {}
        self._program = ""
        self._nodes: dict[str, PhysicalNode] = {}
        self._kept = Kept(lambda name: self._shadow(self._nodes[name], name), lambda: self._open().folder)
        self._compacting = Compacting(self._compacted)
        self._ran: set[int] = set()
        """Phases that have run since the operators were made."""
        self._seen: set[tuple[int, int, int]] = set()
        """Tasks that have run: phase, stage, partition."""
        self._clock_at: dict[int, int] = {}

    def operator(self, node: PhysicalNode, name: str) -> Operator | None:
        if place_of(node, self._asked)[0] == "driver":
            return None
        self._kept.forget()
        self._ran.clear()
        self._nodes[name] = node
        return RemoteOperator(name, self._shadow(node, name), self._kept)

    def _shadow(self, node: PhysicalNode, name: str) -> Operator:
        """An operator as tasks have it, all in memory."""
        context = OperatorContext(name, self._options, self._functions, self._time_zone, self._rejections, self._job)
        return build_operator(node, context)

    def begin(self, flow: Dataflow) -> None:
        self._flow = flow
        vertices = flow.vertices
        nodes = [v.node for v in vertices]
        readers = [[n for n, v in enumerate(vertices) if number in v.inputs] for number in range(len(vertices))]
        self._in_tasks = SourcesInTasks(nodes, readers, self._options, self._functions, self._time_zone, self._executor)
        inputs = [v.inputs for v in vertices]
        self._layout = lay_out(nodes, inputs, flow.roots, self._in_tasks.chained, self._asked)
        commit_in_tasks(vertices, self._options, self.partitions, self._carry_out)
        self._kept.begin(self._layout, [v.name for v in vertices], self.partitions)
        self._with_clock = {
            phase for phase in self._layout.phases if any(nodes[v].follows_clock for v in self._layout.vertices(phase))
        }

    def inputs(self, node: SourceExec, *given: Any, **named: Any) -> SourceInputs:
        """By tasks where that is worth it."""
        number = next(n for n, v in enumerate(self._flow.vertices) if v.node == node)
        if number not in self._in_tasks.branches:
            return SourceInputs(in_folder(node, self._executor, self._open), *given, **named)
        return self._in_tasks.inputs(number, self._open(), *given, **named)

    def function_figures(self) -> list[FunctionFigure]:
        return [figure for found in tuple(self._of_functions.values()) for figure in found]

    @property
    def state_bytes(self) -> Mapping[int, int]:
        found: Counter[int] = Counter()
        for vertex in self._flow.vertices:
            if isinstance(vertex.operator, RemoteOperator):
                found.update({n: s.bytes - s.disk_bytes for n, s in tuple(vertex.operator.sizes.items())})
        return found

    def close(self) -> None:
        self._compacting.close()
        if self._tasks is not None:
            self._tasks.close()

    def _open(self) -> Tasks:
        """The tasks of the job, with its program in their folder."""
        if self._tasks is None:
            vertices = self._flow.vertices
            nodes = tuple(v.node for v in vertices)
            tasks = self._tasks = self._executor.open(self._options, nodes, self._job)
            self._writers = row_writers(vertices, self._layout, self._flow.roots, self._options)
            program = Program(
                without_tables(nodes),
                tuple(v.name for v in vertices),
                tuple(v.inputs for v in vertices),
                self._layout,
                self.partitions,
                self._options.as_dict(),
                own_functions(self._functions, nodes),
                self._time_zone,
                self._job,
                tasks.folder.place,
                self._checked,
                self._writers,
            )
            self._program = tasks.folder.write("program", tasks.dumps(program))
        return self._tasks

    # --- checkpoints

    def open_restored(self) -> None:
        if self._kept.is_to_open and not self._opened(read=False):
            facts = {"job": self._job}
            _log.warning("tasks do not see the checkpoint that the job goes on from: the driver reads it", **facts)
            self._opened(read=True)
        self._kept.opened_base()

    def _opened(self, *, read: bool) -> bool:
        """Whether tasks have opened what the job goes on from, and written it as their first version. `read`: the driver
        hands it to them."""
        for phase in self._layout.phases:
            stages = list(self._layout.stages(phase)) if phase % 2 else []
            bases = {stage: found for stage in stages if (found := self._kept.bases(phase, stage, read=read))}
            if not bases:
                continue
            given = [
                [
                    Record("version", s, p, pickle.dumps(Version(base=found[p]), protocol=5))
                    for s, found in bases.items()
                ]
                for p in range(self.partitions)
            ]
            order = self._order(phase, {}, 0)
            run = [Stage(order, stage, first=number == 0) for number, stage in enumerate(bases)]
            records = self._open().run(run, given)
            reports = _reports(records)
            if any(report.unseen for report in reports):
                return False
            self._take(phase, records, reports)
        return True

    def away(self, complete: bool, *, image: bool = False) -> SavedAway:
        self.open_restored()
        return self._kept.away(complete, self._write, image=image)

    def _write(self, target: Target, given: Sequence[Sequence[Record]]) -> list[Record]:
        """Tasks write their shares of a checkpoint, while epochs go on."""
        tasks = self._open()
        return tasks.aside([SaveStage(tasks.folder.place, self._program, target)], given)

    def _carry_out(self, works: Sequence[Callable[[], object]]) -> None:
        """Tasks call functions. Raises what one of them has raised."""
        tasks = self._open()
        given = shared_out(works, self.partitions, tasks.dumps)
        self._returned(tasks.aside([WorkStage(tasks.folder.place, self._program)], given))

    def _compacted(self, works: Sequence[Compaction]) -> list[Compacted]:
        """Tasks compact versions of their state, while epochs go on."""
        tasks = self._open()
        given: list[list[Record]] = [[] for _ in range(self.partitions)]
        for work in works:
            # Where the task is that keeps the state, as long as it is there: the work is its own.
            given[work.task[-1]].append(Record("work", 0, work.task[-1], tasks.dumps(work)))
        return self._returned(tasks.aside([WorkStage(tasks.folder.place, self._program)], given))

    @staticmethod
    def _returned(records: Sequence[Record]) -> list[Any]:
        """What functions have returned in tasks. Raises what one of them has raised."""
        errors = [record for record in records if record.kind == "error"]
        if errors:
            raise raised(errors)
        return [loads(record.payload) for record in records]

    # --- an epoch

    def epoch(self, given: Mapping[SourceExec, SourceInput], processing_time: int) -> None:
        self.open_restored()
        self._compact()
        self._in_tasks.forget(None if self._tasks is None else self._tasks.folder)
        for phase in self._layout.phases:
            if phase % 2:
                self._run_in_tasks(phase, processing_time)
                continue
            for number in self._layout.vertices(phase):
                if not self._ran_where_read(number, processing_time):
                    self._flow.run_here(number, given, processing_time)
                    self._in_tasks.note(self._flow.vertices[number])

    def _compact(self) -> None:
        """Takes what tasks have compacted, and has them begin with what has become long."""
        found = self._compacting.taken()
        if found is not None:
            self._kept.compacted(found)
        works = self._kept.to_compact() if self._compacting.is_free else ()
        if works:
            self._compacting.begin(works)

    def _ran_where_read(self, number: int, processing_time: int) -> bool:
        """Whether an operator has run with the tasks that read its source: then only time is left to do."""
        vertex = self._flow.vertices[number]
        batch = self._in_tasks.branch(number, self._flow.vertices)
        if vertex.operator is None or batch is None or (isinstance(vertex.node, WatermarkExec) and not batch.timed):
            return False
        time = self._flow.time_of(vertex, processing_time)
        if isinstance(vertex.node, WatermarkExec):
            self._in_tasks.observe(vertex.operator, batch, time)
        vertex.watermark = max(vertex.watermark, vertex.operator.output_watermark(time))
        vertex.rows_in += batch.rows_read
        vertex.rows_out += len(batch)
        vertex.output = batch if len(batch) or not isinstance(vertex.node, WatermarkExec) else None
        return True

    def _run_in_tasks(self, phase: int, processing_time: int) -> None:
        """The operators of a phase."""
        layout, vertices = self._layout, self._flow.vertices
        numbers = layout.vertices(phase)
        times: dict[int, EpochTime] = {}
        for number in numbers:
            vertex = vertices[number]
            assert vertex.operator is not None
            times[number] = time = self._flow.time_of(vertex, processing_time)
            # Rows that begin to wait in this epoch are not known yet; at the end none waits any more.
            if not vertex.node.holds_watermark or time.watermark == MAX_WATERMARK:
                vertex.watermark = max(vertex.watermark, vertex.operator.output_watermark(time))
        changes = self._changes_into(numbers)
        rows = sum(len(b) for b in changes.values() if b is not None)
        moved = any(t.watermark != t.previous_watermark for t in times.values())
        clock = phase in self._with_clock and self._clock_at.get(phase) != processing_time
        if phase in self._ran and not rows and not moved and not clock and not self._due(numbers, processing_time):
            return
        self._clock_at[phase] = processing_time
        prefix = layout.vertices(phase, PREFIX)
        filed = {s for s, batch in changes.items() if isinstance(batch, FiledBatch)}
        if rows < PREFIX_ROWS:
            for number in prefix:
                changes[number] = self._run_stateless(number, changes, times[number])
            prefix, filed = [], set()
        stages = [PREFIX, *layout.stages(phase)] if prefix or filed else list(layout.stages(phase))
        if not stages:
            return
        self._ran.add(phase)
        tasks = self._open()
        order = self._order(phase, times, processing_time)
        given = self._input(phase, changes, filed)
        too_long = self._kept.too_long(phase, beside=not self._compacting.failed)
        for partition, records in enumerate(given):
            for stage in stages:
                if stage != PREFIX:
                    lineage = self._kept.version(phase, stage, partition)
                    version = Version(lineage, (stage, partition) in too_long)
                    records.append(Record("version", stage, partition, pickle.dumps(version)))
        kept = bool(prefix) and any(is_asked_anywhere(vertices[number].node) for number in prefix)
        run = [Stage(order, s, first=number == 0, kept=kept or s != PREFIX) for number, s in enumerate(stages)]
        for _ in range(MOST_TRIES):
            records = tasks.run(run, given)
            reports = _reports(records)
            if belong_together((Attempt(r.stage, r.partition, r.attempt), r.seen) for r in reports):
                break
        else:
            raise SparkError(
                f"tasks were repeated in all of {MOST_TRIES} tries of an epoch, and tables outside told them other things",
                code="E3600",
                hint=f"with '{LOOK_UP_IN_TASKS.key}' = 'false' the driver asks them, once",
            )
        self._take(phase, records, reports)
        self._hold_back(numbers, processing_time)

    def _due(self, numbers: Sequence[int], processing_time: int) -> bool:
        """Whether the time has come that tasks have told for one of these operators."""
        timers = (
            vertex.operator.next_timer() for n in numbers if (vertex := self._flow.vertices[n]).operator is not None
        )
        return any(timer is not None and timer <= processing_time for timer in timers)

    def _hold_back(self, numbers: Sequence[int], processing_time: int) -> None:
        """The watermarks behind operators that hold them back, now that tasks have told them."""
        vertices = [self._flow.vertices[number] for number in numbers]
        if not any(vertex.node.holds_watermark for vertex in vertices):
            return
        for vertex in vertices:
            assert isinstance(vertex.operator, RemoteOperator)
            if vertex.node.holds_watermark:
                told = vertex.operator.told_watermark
            else:
                told = vertex.operator.output_watermark(self._flow.time_of(vertex, processing_time))
            vertex.watermark = max(vertex.watermark, told)

    def _changes_into(self, numbers: Sequence[int]) -> dict[int, ChangelogBatch | None]:
        """The changes of all that operators of a phase read in the driver, by number: with pieces that came early."""
        inside = set(numbers)
        found: dict[int, ChangelogBatch | None] = {}
        for number in numbers:
            vertex = self._flow.vertices[number]
            for position, source in enumerate(vertex.inputs):
                early = vertex.early.pop(position, ())
                if source in inside or source in found:
                    continue
                batch = self._flow.vertices[source].output
                if early:
                    batch = ChangelogBatch.concat([*early, *([] if batch is None else [batch])])
                found[source] = batch if batch is None or isinstance(batch, FiledBatch) else batch.decoded()
        return found

    def _run_stateless(
        self, number: int, changes: Mapping[int, ChangelogBatch | None], time: EpochTime
    ) -> ChangelogBatch | None:
        """What a stateless operator of tasks gives, computed in the driver."""
        vertex = self._flow.vertices[number]
        assert vertex.operator is not None
        batches = [changes.get(i) for i in vertex.inputs]
        output = vertex.operator.step(batches, time)
        vertex.output = output.decoded() if output is not None and len(output) else None
        vertex.rows_in += sum(len(b) for b in batches if b is not None)
        vertex.rows_out += len(output) if output is not None else 0
        return vertex.output

    def _input(self, phase: int, changes: Mapping[int, ChangelogBatch | None], filed: set[int]) -> list[list[Record]]:
        """The records of each partition: the changes of what the driver runs, divided. `filed`: those whose changes
        tasks find in files."""
        given = self._in_tasks.records([(s, changes[s]) for s in sorted(filed)])
        for number in self._layout.edges_into(phase):
            edge = self._layout.edges[number]
            batch = changes.get(edge.source)
            if batch is None or edge.source in filed:
                continue
            for target, part in divide(batch, edge.division, self.partitions, None):
                # By where a part comes from tasks know its order: slices of the driver's are parts in order.
                given[target].append(Record("edge", number, target, encode(part)))
        return given

    def _order(self, phase: int, times: Mapping[int, EpochTime], processing_time: int) -> EpochOrder:
        return EpochOrder(
            self._open().folder.place,
            self._program,
            phase,
            self._flow.epoch,
            processing_time,
            {number: (t.watermark, t.previous_watermark) for number, t in times.items()},
        )

    def _take(self, phase: int, records: Sequence[Record], reports: Sequence[Report]) -> None:
        """What came back: changes for the driver, and the next version of the state. All of it counts, or nothing."""
        errors = [r for r in records if r.kind == "error"]
        if errors:
            raise raised(errors)
        vertices = self._flow.vertices
        outputs: dict[int, list[Record]] = {}
        written = [r for r in records if r.kind == "written"]
        for record in records:
            if record.kind == "out":
                outputs.setdefault(record.number, []).append(record)
        if written:
            take_written(vertices, self._writers, written, outputs)
        for number, found in outputs.items():
            batches = [decode(r.payload) for r in sorted(found, key=lambda r: r.partition)]
            vertices[number].output = ChangelogBatch.concat(batches)
        for report in sorted(reports, key=lambda r: (r.stage, r.partition)):
            self._note(phase, report)

    def _note(self, phase: int, report: Report) -> None:
        for number, figures in report.figures.items():
            vertex = self._flow.vertices[number]
            assert isinstance(vertex.operator, RemoteOperator)
            vertex.rows_in += figures.rows_in
            vertex.rows_out += figures.rows_out
            vertex.busy_seconds += figures.seconds
            _, _, _, state, complete, timer, watermark = figures
            vertex.operator.reported(report.partition, state, complete, timer, watermark)
        for rejected in report.rejected:
            self._rejections.reject(rejected)
        task = phase, report.stage, report.partition
        self._of_functions[report.partition] = report.of_functions
        if not report.warm:
            self.cold_starts += 1
            # One that has run before has gone with its process; without residents any process may be asked.
            lost = " was lost and" if task in self._seen else ""
            level = logging.WARNING if lost and self._open().resident else logging.DEBUG
            facts = {"job": self._job, "epoch": self._flow.epoch}
            _log.write(level, f"partition %d of stage %d{lost} opens its state from files", task[2], task[1], **facts)
        self._seen.add(task)
        self._kept.note(phase, report)


def _reports(records: Sequence[Record]) -> list[Report]:
    return [loads(record.payload) for record in records if record.kind == "report"]
