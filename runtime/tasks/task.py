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
from runtime.core.errors import SqlEngineError
from runtime.core.key_group import key_group_range
from runtime.core.options import Options
from runtime.eval.context import Chance
from runtime.expr.job_functions import FunctionFigure, JobFunctions
from runtime.operators.operator import EpochTime, Operator, Rejected, StateSize
from runtime.state.backend import StateBackend
from runtime.state.snapshot import restore_task
from runtime.state.table import StateTable, TableChanges
from runtime.tasks.layout import PREFIX
from runtime.tasks.program import EpochOrder, Program
from runtime.tasks.shipping import loads
from runtime.tasks.versions import Lineage, StateFolder, decode_changes, encode_changes, task_states
from runtime.tasks.wire import decode, divide, encode

__all__ = [
    "Figures",
    "Record",
    "Report",
    "Version",
    "forget",
    "forget_all",
    "forget_ended",
    "plain",
    "raised",
    "run_stage",
]

WRITTEN_ROWS = 20_000
"""Fewer rows of a task than this go to the driver, which puts those of many epochs into one file."""


class Record(NamedTuple):
    """What passes between tasks and the driver.

    `kind`: `version` what a task goes on from, `edge` changes on an edge, `out` changes for the driver, `filed` changes
    of a source that lie in files, `written` what a task has written for a sink, `report` what a task did, `error` why it
    could not. `number`: of the stage, of the edge, or of the operator. `partition`: where it comes from. `payload`: a
    pickled `Version`, an Arrow stream of changes, pickled names of files, a pickled `Report`, or a pickled error.
    """

    kind: Literal["version", "edge", "out", "filed", "written", "report", "error"]
    number: int
    partition: int
    payload: bytes


class Version(NamedTuple):
    """What a task goes on from, and whether it is to write all its state this time, not only what changes."""

    lineage: Lineage = Lineage()
    complete: bool = False


class Figures(NamedTuple):
    """What is shown of an operator: rows in and out in this epoch, seconds; rows and bytes that it keeps; whether
    nothing will come out any more."""

    rows_in: int
    rows_out: int
    seconds: float
    state: StateSize
    complete: bool


@dataclass(slots=True)
class Report:
    """What a task did. `file`: what it wrote, "" for nothing; `complete`: the file holds all its state; `warm`: it
    found its operators in memory."""

    stage: int
    partition: int
    file: str = ""
    bytes: int = 0
    complete: bool = False
    warm: bool = True
    figures: dict[int, Figures] = field(default_factory=dict)
    of_functions: list[FunctionFigure] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)


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

    def close(self) -> None:
        for operator in self.operators.values():
            operator.close()


class _Cache:
    """What this process keeps from task to task: programs, and operators by program, phase, stage and partition."""

    def __init__(self) -> None:
        self.programs: dict[tuple[str, str], Program] = {}
        self.tasks: dict[tuple[str, str, int, int, int], _Task] = {}
        self.registries: dict[tuple[str, str, int], JobFunctions] = {}

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

    def forget_ended(self) -> None:
        """Drop what belongs to jobs whose folder is gone."""
        for key in list(self.programs):
            if not StateFolder(key[0]).exists(key[1]):
                forget(*key)


_cache = _Cache()


def forget(place: str, program: str) -> None:
    """Drop all that is kept of a job."""
    _cache.programs.pop((place, program), None)
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
    for key in list(_cache.programs):
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
    for record in records:
        if record.kind == "edge" and record.number in into:
            arrived[record.number].append(record)
        elif record.kind == "version" and record.number == stage:
            version = loads(record.payload)
        elif record.kind == "filed":
            here, sent = _filed(program, order, record, partition)
            filed.update(here)
            passed += sent
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
        return passed + _run(program, order, stage, partition, version, given)


def _run(
    program: Program,
    order: EpochOrder,
    stage: int,
    partition: int,
    version: Version,
    given: dict[int, ChangelogBatch],
) -> list[tuple[int, Record]]:
    layout = program.layout
    key = (order.place, order.program, order.phase, stage, partition)
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
            rows_in, 0 if output is None else len(output), seconds, operator.state_size, operator.complete
        )
        if output is not None:
            found += _sent(program, order, number, partition, output)
    report.rejected, task.rejections.rows = task.rejections.rows, []
    report.of_functions = _cache.functions(program, order, partition).figures()
    if stage != PREFIX:
        _save(program, order, task, report, version.complete)
        _cache.tasks[key] = task
    found.append((partition, Record("report", stage, partition, pickle.dumps(report))))
    return found


def _filed(
    program: Program, order: EpochOrder, record: Record, partition: int
) -> tuple[dict[int, ChangelogBatch], list[tuple[int, Record]]]:
    """The changes of a source that lie in files: by edge those for this task, and what goes to others."""
    folder = StateFolder(order.place)
    files: list[str] = loads(record.payload)
    batch = ChangelogBatch.concat([decode(folder.read(name)) for name in files])
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
    if writers and len(output) >= WRITTEN_ROWS and all(w.takes(output) for w in writers):
        found += [
            (partition, Record("written", w.sink, partition, pickle.dumps((w.writer.write(output), len(output)))))
            for w in writers
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


def _open(program: Program, order: EpochOrder, stage: int, partition: int, version: Lineage) -> _Task:
    """The operators of a stage as they were after the epoch before, from the files."""
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
    based = not version.files
    chain = [decode_changes(folder.read(name), name) for name in (version.base if based else version.files)]
    if chain:
        # Each file of the base is a whole task of another run; those of the task's own are one after another.
        saved = [task_states([one]) for one in chain] if based else [task_states(chain)]
        for number, operator in operators.items():
            name = program.names[number]
            states = [state[name] for state in saved if name in state]
            if not states:
                continue
            by_key = based and layout.placed[number].where == "keyed"
            with taking(f"the state of {name}"):
                groups = key_group_range(partition, program.partitions) if by_key else None
                # What it has written itself is the version that its next file goes on from.
                goes_on = () if based else tuple(table.name for table in _tables(operator))
                restore_task(_tables(operator), states, groups, goes_on=goes_on)
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
        for table in _tables(operator):
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


def _tables(operator: Operator) -> Sequence[StateTable]:
    """The tables of an operator, guards or not."""
    (task,) = operator.tasks
    return task.tables


def plain(error: SqlEngineError) -> tuple[type[SqlEngineError], str, dict[str, Any], tuple[str, ...]]:
    """What an error is made of."""
    return type(error), error.message, {"code": error.code, "span": error.span, "hint": error.hint}, error.trace


def raised(errors: Sequence[Record]) -> SqlEngineError:
    """The error that tasks have told of: of several that of the first stage and partition."""
    cls, message, more, trace = loads(min(errors, key=lambda r: (r.number, r.partition)).payload)
    error = cls(message, **more)
    error.trace = trace
    return error
