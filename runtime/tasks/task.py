"""What a task does: open its version of the state, run the operators of one stage, write the next version.

A worker process keeps the operators of the tasks it ran, as a cache: the next task for the same partition that meets
them in just the version it must start from goes on with them; any other makes them anew from the files. Nothing depends
on the cache: a task that is retried or runs twice finds its version in the files, and what it writes counts only if the
driver takes it.
"""

from __future__ import annotations

import pickle
import time as wall_clock
import uuid
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from runtime.checkpoint.fitting import taking
from runtime.core.changelog import ChangelogBatch
from runtime.core.clock import MIN_WATERMARK
from runtime.core.errors import SqlEngineError
from runtime.core.options import Options
from runtime.eval.context import Chance
from runtime.expr.job_functions import FunctionFigure, JobFunctions
from runtime.operators.operator import EpochTime, Operator, Rejected, StateSize
from runtime.state.backend import StateBackend
from runtime.state.snapshot import restore_task
from runtime.state.table import TableChanges
from runtime.tasks.attempts import Attempt, attempt_name
from runtime.tasks.base import Base, go_on_from, is_there, tables_of
from runtime.tasks.held import drop, take
from runtime.tasks.layout import PREFIX, is_asked_anywhere
from runtime.tasks.program import EpochOrder, Program
from runtime.tasks.shipping import loads
from runtime.tasks.versions import Lineage, StateFolder, decode_changes, encode_changes, task_states
from runtime.tasks.wire import decode, divide, encode

__all__ = [
    "Figures",
    "Record",
    "Report",
    "Version",
    "chains_of",
    "forget",
    "forget_all",
    "forget_ended",
    "plain",
    "raised",
    "run_stage",
]


class Record(NamedTuple):
    """What passes between tasks and the driver.

    `kind`: `version` what a task goes on from, `save` what it is to write of a checkpoint, `saved` what it has written,
    `work` a function to call, or what it has returned, `edge` changes on an edge, `attempt` the name of the attempt that has
    made those, `out` changes for the driver, `filed` changes of a source that lie in files, `written` what a task has written
    for a sink, `report` what a task did, `error` why it could not. `number`: of the stage, of the edge, or of the operator.
    `partition`: where it comes from. `payload`: a pickled `Version`, pickled parts of a checkpoint, a pickled function or
    value, a name, an Arrow stream of changes, pickled names of files, a pickled `Report`, or a pickled error.
    """

    kind: Literal["version", "save", "saved", "work", "edge", "attempt", "out", "filed", "written", "report", "error"]
    number: int
    partition: int
    payload: bytes | pa.Buffer


class Version(NamedTuple):
    """What a task goes on from, and whether it is to write all its state this time, not only what changes. `base`: it only
    opens that, and writes it as its first version."""

    lineage: Lineage = Lineage()
    complete: bool = False
    base: Base | None = None


class Figures(NamedTuple):
    """What is told of an operator: rows in and out in this epoch, seconds; rows and bytes that it keeps; whether
    nothing will come out any more; when it has something to do although nothing comes (`Operator.next_timer`); the
    watermark behind it."""

    rows_in: int
    rows_out: int
    seconds: float
    state: StateSize
    complete: bool
    timer: int | None = None
    watermark: int = MIN_WATERMARK


@dataclass(slots=True)
class Report:
    """What a task did. `file`: what it wrote, "" for nothing; `complete`: the file holds all its state; `warm`: it
    found its operators in memory; `unseen`: it does not see the place that it was to go on from; `attempt`: its name, and
    `seen` whose changes it has had, where attempts may differ (`runtime/tasks/attempts.py`)."""

    stage: int
    partition: int
    file: str = ""
    bytes: int = 0
    complete: bool = False
    warm: bool = True
    unseen: bool = False
    figures: dict[int, Figures] = field(default_factory=dict)
    of_functions: list[FunctionFigure] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)
    attempt: str = ""
    seen: tuple[Attempt, ...] = ()


class _Rejections:
    """Collects for the report of the epoch at hand."""

    def __init__(self) -> None:
        self.rows: list[Rejected] = []

    def reject(self, rejected: Rejected) -> None:
        self.rows.append(rejected)


@dataclass(slots=True)
class _Task:
    """The operators of a stage for one partition, at the version that `token` names."""

    operators: dict[int, Operator]
    rejections: _Rejections
    token: str
    saved: dict[tuple[str, str], pa.RecordBatch]
    """The figures of whole operators (`StateTable.shared`) as they were last written, by operator and table."""
    epoch: int = 0
    """When it last ran."""

    def close(self) -> None:
        for operator in self.operators.values():
            operator.close()


class _Cache:
    """What this process keeps from task to task: programs, and operators by program, phase, stage and partition."""

    def __init__(self) -> None:
        self.programs: dict[tuple[str, str], Program] = {}
        self.tasks: dict[tuple[str, str, int, int, int], _Task] = {}
        self.registries: dict[tuple[str, str, int], JobFunctions] = {}
        self.chains: dict[tuple[str, str], dict[tuple[str, int, str], Any]] = {}
        self.newest: dict[tuple[str, str, int], int] = {}
        """The last epoch of each phase in which this process ran a task of it."""

    def program(self, order: EpochOrder) -> Program:
        key = (order.place, order.program)
        found = self.programs.get(key)
        if found is None:
            self.forget_ended()
            found = self.programs[key] = loads(StateFolder(order.place).read(order.program))
        return found

    def functions(self, program: Program, order: EpochOrder, partition: int) -> JobFunctions:
        """The functions as the tasks of a partition call them: also those tasks share them that are made anew in each
        epoch."""
        key = (order.place, order.program, partition)
        found = self.registries.get(key)
        if found is None:
            found = self.registries[key] = program.registry(partition)
        return found

    def forget_moved(self, order: EpochOrder) -> None:
        """Drop tasks of a phase that were not run here when it was carried out last: other processes run them now."""
        key = (order.place, order.program, order.phase)
        last = self.newest.get(key, 0)
        if order.epoch <= last:
            return
        self.newest[key] = order.epoch
        with ExitStack() as closing:
            for moved in [k for k, t in self.tasks.items() if k[:3] == key and k[3] != PREFIX and t.epoch < last]:
                closing.callback(self.tasks.pop(moved).close)

    def forget_ended(self) -> None:
        """Drop what belongs to jobs whose folder is gone."""
        for key in [*self.programs, *self.chains]:
            if not StateFolder(key[0]).exists(key[1]):
                forget(*key)


_cache = _Cache()


def chains_of(place: str, program: str) -> dict[tuple[str, int, str], Any]:
    """What this process remembers of the tables of a job in its checkpoints, by operator, partition and table."""
    return _cache.chains.setdefault((place, program), {})


def forget(place: str, program: str) -> None:
    """Drop all that is kept of a job."""
    drop(place)
    _cache.programs.pop((place, program), None)
    _cache.chains.pop((place, program), None)
    for phase in [k for k in _cache.newest if k[:2] == (place, program)]:
        del _cache.newest[phase]
    with ExitStack() as closing:
        for key in [k for k in _cache.registries if k[:2] == (place, program)]:
            closing.callback(_cache.registries.pop(key).close)
        for task in [k for k in _cache.tasks if k[:2] == (place, program)]:
            closing.callback(_cache.tasks.pop(task).close)


def forget_ended() -> None:
    """Drop what is kept of jobs that have ended."""
    _cache.forget_ended()


def forget_all() -> None:
    """Drop what is kept of any job."""
    for key in [*_cache.programs, *_cache.chains]:
        forget(*key)


def run_stage(order: EpochOrder, stage: int, partition: int, records: Iterable[Record]) -> list[tuple[int, Record]]:
    """What a task does. An error of ours is a record, so that nothing is tried again that can only fail again."""
    try:
        return _run_stage(order, stage, partition, records)
    except SqlEngineError as error:
        return [(partition, Record("error", stage, partition, pickle.dumps(plain(error))))]


def _run_stage(order: EpochOrder, stage: int, partition: int, records: Iterable[Record]) -> list[tuple[int, Record]]:
    program = _cache.program(order)
    into = set(program.layout.edges_into(order.phase, stage))
    passed: list[tuple[int, Record]] = []
    arrived: dict[int, list[Record]] = defaultdict(list)
    failed = False
    version = Version()
    filed: dict[int, ChangelogBatch] = {}
    seen: list[Attempt] = []
    for record in records:
        if record.kind == "edge" and record.number in into:
            arrived[record.number].append(record)
        elif record.kind == "version" and record.number == stage:
            version = loads(record.payload)
        elif record.kind == "filed":
            here, sent = _filed(program, order, record, partition)
            filed.update(here)
            passed += sent
        elif record.kind == "attempt":
            seen.append(Attempt(record.number, record.partition, bytes(record.payload).decode()))
        else:
            passed.append((partition, record))
            failed |= record.kind == "error"
    if failed:
        return passed
    given = {
        edge: ChangelogBatch.concat([decode(r.payload) for r in sorted(found, key=lambda r: r.partition)])
        for edge, found in arrived.items()
    } | filed
    with np.errstate(all="ignore"):
        return passed + _run(program, order, stage, partition, version, given, tuple(seen))


def _run(
    program: Program,
    order: EpochOrder,
    stage: int,
    partition: int,
    version: Version,
    given: dict[int, ChangelogBatch],
    seen: tuple[Attempt, ...],
) -> list[tuple[int, Record]]:
    layout = program.layout
    if version.base is not None:
        return _began(program, order, stage, partition, version.base)
    key = (order.place, order.program, order.phase, stage, partition)
    _cache.forget_moved(order)
    # Nobody else finds it until the epoch is done: a task that fails half way leaves nothing in the cache.
    task = _cache.tasks.pop(key, None)
    warm = task is not None and task.token == version.lineage.token
    if task is not None and not warm:
        task.close()
    if task is None or not warm:
        task = _open(program, order, stage, partition, version.lineage)
    report = Report(stage, partition, warm=warm)
    found: list[tuple[int, Record]] = []
    outputs: dict[int, ChangelogBatch | None] = {}
    for number, operator in task.operators.items():
        inputs = [
            outputs.get(source) if edge is None else given.get(edge)
            for source, edge in zip(program.inputs[number], layout.placed[number].inputs, strict=True)
        ]
        watermark, before = order.times[number]
        chance = Chance(program.chance, order.epoch, number, partition)
        time = EpochTime(order.epoch, watermark, before, order.processing_time, chance=chance)
        started = wall_clock.perf_counter()
        output = operator.step(inputs, time)
        seconds = wall_clock.perf_counter() - started
        output = output.decoded() if output is not None and len(output) else None
        outputs[number] = output
        rows_in = sum(len(b) for b in inputs if b is not None)
        report.figures[number] = Figures(
            rows_in,
            0 if output is None else len(output),
            seconds,
            operator.state_size,
            operator.complete,
            operator.next_timer(),
            operator.output_watermark(time),
        )
        if output is not None:
            found += _sent(program, order, number, partition, output)
    report.rejected, task.rejections.rows = task.rejections.rows, []
    report.of_functions = _cache.functions(program, order, partition).figures()
    if stage != PREFIX:
        _save(program, order, task, report, version.complete)
    asks = any(is_asked_anywhere(program.nodes[number]) for number in task.operators)
    report.seen, report.attempt = seen, attempt_name(asks, seen)
    if report.attempt and stage + 1 in layout.stages(order.phase):
        # Also to those for whom it has no changes: another attempt may have some.
        name = report.attempt.encode()
        found += [(target, Record("attempt", stage, partition, name)) for target in range(program.partitions)]
    if stage != PREFIX or asks:
        # Also who has no state may hold connections, and what it has been told.
        task.epoch = order.epoch
        _cache.tasks[key] = task
    found.append((partition, Record("report", stage, partition, pickle.dumps(report))))
    return found


def _began(program: Program, order: EpochOrder, stage: int, partition: int, base: Base) -> list[tuple[int, Record]]:
    """The operators of a stage as an earlier run has left them, and the first version of this one."""
    report = Report(stage, partition, warm=False)
    if base.place and not is_there(base.place, base.seen):
        report.unseen = True
    else:
        task = _open(program, order, stage, partition, Lineage(), base)
        _save(program, order, task, report, complete=True)
        report.figures = {
            n: Figures(0, 0, 0.0, o.state_size, o.complete, o.next_timer()) for n, o in task.operators.items()
        }
        task.epoch = order.epoch
        _cache.tasks[order.place, order.program, order.phase, stage, partition] = task
    return [(partition, Record("report", stage, partition, pickle.dumps(report)))]


def _filed(
    program: Program, order: EpochOrder, record: Record, partition: int
) -> tuple[dict[int, ChangelogBatch], list[tuple[int, Record]]]:
    """The changes of a source that lie in files: by edge those for this task, and what goes to others."""
    folder = StateFolder(order.place)
    files: list[str] = loads(record.payload)
    batch = ChangelogBatch.concat([take(order.place, name) or decode(folder.read(name)) for name in files])
    here: dict[int, ChangelogBatch] = {}
    sent: list[tuple[int, Record]] = []
    for number in program.layout.edges_from(record.number, order.phase):
        edge = program.layout.edges[number]
        if edge.stage == PREFIX:
            here[number] = batch
            continue
        sent += [
            (target, Record("edge", number, partition, encode(part)))
            for target, part in divide(batch, edge.division, program.partitions, partition)
        ]
    return here, sent


def _sent(
    program: Program, order: EpochOrder, number: int, partition: int, output: ChangelogBatch
) -> list[tuple[int, Record]]:
    """An operator's changes, for each edge and for the driver."""
    found: list[tuple[int, Record]] = []
    writers = program.writers.get(number, ())
    takes = writers and all(w.takes(output) for w in writers)
    written = [(w.sink, w.writer.write(output)) for w in writers] if takes else []
    if written and all(names is not None for _, names in written):
        found += [
            (partition, Record("written", sink, partition, pickle.dumps((names, len(output)))))
            for sink, names in written
        ]
    elif number in program.layout.to_driver:
        found.append((partition, Record("out", number, partition, encode(output))))
    for edge in program.layout.edges_from(number, order.phase):
        division = program.layout.edges[edge].division
        found += [
            (target, Record("edge", edge, partition, encode(part)))
            for target, part in divide(output, division, program.partitions, partition)
        ]
    return found


def _open(
    program: Program, order: EpochOrder, stage: int, partition: int, version: Lineage, base: Base | None = None
) -> _Task:
    """The operators of a stage as they were after the epoch before, from the files, or as an earlier run has left them."""
    rejections = _Rejections()
    layout = program.layout
    numbers = [
        number
        for number in layout.vertices(order.phase, stage)
        if partition == 0 or layout.placed[number].where != "one"
    ]
    backend = StateBackend(Options(dict(program.options)))
    functions = _cache.functions(program, order, partition)
    operators = {number: program.operator(number, functions, rejections, backend) for number in numbers}
    folder = StateFolder(order.place)
    if base is not None:
        go_on_from(program, partition, operators, folder, base)
    elif version.files:
        states = task_states([decode_changes(folder.read(name), name) for name in version.files])
        for number, operator in operators.items():
            state = states.get(program.names[number])
            if state is not None:
                with taking(f"the state of {program.names[number]}"):
                    # What it has written itself is the version that its next file goes on from.
                    tables = tables_of(operator)
                    restore_task(tables, [state], None, goes_on=tuple(table.name for table in tables))
                    operator.restored()
    return _Task(operators, rejections, version.token, {})


def _save(program: Program, order: EpochOrder, task: _Task, report: Report, complete: bool) -> None:
    """Write what has changed. Without any change the version stays as it is."""
    changes: dict[str, tuple[TableChanges, ...]] = {}
    shared: dict[tuple[str, str], pa.RecordBatch] = {}
    moved = complete
    for number, operator in task.operators.items():
        name = program.names[number]
        found: list[TableChanges] = []
        for table in tables_of(operator):
            change = table.changes(complete)
            found.append(change)
            if table.shared:
                shared[name, table.name] = change.rows
                before = task.saved.get((name, table.name))
                moved |= before is None or not before.equals(change.rows)
            else:
                moved |= change.complete or change.rows.num_rows > 0 or len(change.removed) > 0
        if found:
            changes[name] = tuple(found)
    task.saved = shared
    if not changes or not moved:
        return
    data = encode_changes(changes)
    name = f"{order.epoch}-{order.phase}.{report.stage}-{report.partition}-{uuid.uuid4().hex[:12]}.state"
    report.file = StateFolder(order.place).write(name, data)
    report.bytes = len(data)
    report.complete = all(c.complete for tables in changes.values() for c in tables)
    task.token = report.file


def plain(error: SqlEngineError) -> tuple[type[SqlEngineError], str, dict[str, Any], tuple[str, ...]]:
    """What an error is made of."""
    return type(error), error.message, {"code": error.code, "span": error.span, "hint": error.hint}, error.trace


def raised(errors: Sequence[Record]) -> SqlEngineError:
    """The error that tasks have told of: of several that of the first stage and partition."""
    cls, message, more, trace = loads(min(errors, key=lambda r: (r.number, r.partition)).payload)
    error = cls(message, **more)
    error.trace = trace
    return error
