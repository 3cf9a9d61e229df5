"""Splits read by tasks: each opens one where the last epoch has left it, reads so many rows, and puts them in a file.

The driver takes the file of the attempt that it hears of, and learns from it where reading stands now. So rows that a
second attempt would read differently (a file that grows, values by chance) do no harm.
"""

from __future__ import annotations

import pickle
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from runtime.checkpoint.fitting import taking
from runtime.core.changelog import ChangelogBatch
from runtime.core.clock import MIN_WATERMARK
from runtime.core.errors import SqlEngineError
from runtime.core.options import Options
from runtime.expr.analysis import is_deterministic, is_dynamic
from runtime.expr.function import AnyFunction, FunctionRegistry, adopt
from runtime.expr.library import builtin_functions
from runtime.local.rejected import Refusals, Refused
from runtime.operators.build import build_operator
from runtime.operators.operator import EpochTime, Operator, OperatorContext, Rejected
from runtime.operators.watermark import WatermarkOperator
from runtime.plan.nodes import CalcExec, PhysicalNode, WatermarkExec
from runtime.spi.reader import AvailabilityReader, RejectedRow, SourceReader
from runtime.spi.source import SourceTable, Split
from runtime.tasks.filed import Piece
from runtime.tasks.held import drop, hold
from runtime.tasks.shipping import loads
from runtime.tasks.task import Record, plain
from runtime.tasks.versions import StateFolder
from runtime.tasks.wire import encode

__all__ = ["Part", "ReadStage", "Reading", "Taken", "branches_over"]


@dataclass(frozen=True, slots=True)
class Reading:
    """What tasks must know to read a source, once.

    Args:
        branches: what is done with the rows where they are read, for each branch of the plan: nodes from the source
            upward, of which the last makes the watermark. An empty one gets the rows as they are.
        functions: those that are not built in.
    """

    name: str
    table: SourceTable
    branches: tuple[tuple[PhysicalNode, ...], ...]
    options: Mapping[str, str]
    functions: Mapping[str, AnyFunction]
    time_zone: str


@dataclass(frozen=True, slots=True)
class Part:
    """What one task is to read: so many rows of a split, from a position on (None: its beginning). `whole`: of what it
    refuses nothing may be lost."""

    split: Split
    position: Any
    rows: int
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Taken:
    """What it has read: for each branch a piece, none at all when there was no row. `over`: there was nothing more
    now."""

    pieces: tuple[Piece, ...]
    position: Any
    finished: bool
    over: bool
    refused: Refused
    seconds: float = 0.0


@dataclass(slots=True)
class _Context:
    """See `ReadContext`."""

    time_zone: str
    refused: Refusals = field(default_factory=Refusals)
    news: threading.Event = field(default_factory=threading.Event)

    def reject(self, rows: Sequence[RejectedRow]) -> None:
        self.refused.add(rows)

    def wake(self) -> None:
        """The driver asks again by itself; who waits for the first rows goes on."""
        self.news.set()


@dataclass(slots=True)
class _Opened:
    """A reader that this process keeps, and whom it tells what it refuses."""

    reader: SourceReader
    context: _Context


_readings: dict[tuple[str, str], Reading] = {}
_kept: dict[tuple[str, str, str], _Opened] = {}
_MOST_KEPT = 8
_PATIENCE_SECONDS = 0.1
"""So long a task waits for the first rows of a table that ends, before the driver asks again."""


class ReadStage:
    """A stage in which each task reads the parts that it is given. What it has read has the number of the part.

    Args:
        file: the name of the file that holds the `Reading`, in `place`.
    """

    def __init__(self, place: str, file: str) -> None:
        self._place = place
        self._file = file

    def __call__(self, partition: int, given: Iterator[Any]) -> Iterator[tuple[int, tuple[Any, ...]]]:
        records = [Record(*fields) for part in given for fields in part]
        for record in records:
            try:
                with np.errstate(all="ignore"):
                    taken = _read(self._place, self._file, loads(record.payload), partition)
                yield partition, tuple(Record("report", record.number, partition, pickle.dumps(taken)))
            except SqlEngineError as error:
                yield partition, tuple(Record("error", record.number, partition, pickle.dumps(plain(error))))

    def forget(self) -> None:
        """What this process keeps of the job is lost."""
        for key in [key for key in _kept if key[0] == self._place]:
            _kept.pop(key).reader.close()
        drop(self._place)


def _read(place: str, file: str, part: Part, task: int) -> Taken:
    folder = StateFolder(place)
    reading = _readings.get((place, file))
    if reading is None:
        reading = _readings[place, file] = loads(folder.read(file))
        adopt(reading.functions.values())
    key = (place, file, part.split.id)
    opened = _kept.pop(key, None)
    if opened is not None and (part.position is None or opened.reader.position() != part.position):
        opened.reader.close()
        opened = None
    if opened is None:
        context = _Context(reading.time_zone, Refusals(whole=part.whole))
        opened = _Opened(reading.table.open(part.split, context), context)
        if part.position is not None:
            with taking(f"the position of {part.split.id}"):
                opened.reader.seek(part.position)
    reader = opened.reader
    batches: list[ChangelogBatch] = []
    room, over = part.rows, False
    while room > 0 and not over and not opened.context.refused.is_full:
        batch = reader.poll(room)
        if batch is not None and len(batch):
            batches.append(batch)
            room -= len(batch)
        over = batch is None or reader.finished
        if batch is None and not batches and reading.table.bounded and _fetches(reader):
            over = not opened.context.news.wait(_PATIENCE_SECONDS)
            opened.context.news.clear()
    refused = opened.context.refused.take()
    pieces = _worked(reading, folder, part.split.id, ChangelogBatch.concat(batches), task) if batches else ()
    position, finished = reader.position(), reader.finished
    if finished:
        reader.close()
    else:
        while len(_kept) >= _MOST_KEPT:
            _kept.pop(next(iter(_kept))).reader.close()
        _kept[key] = opened
    return Taken(pieces, position, finished, over, refused)


def _fetches(reader: SourceReader) -> bool:
    """Whether it tells when rows have come that it waits for."""
    return not reader.finished and isinstance(reader, AvailabilityReader) and reader.available_in() is None


def _worked(reading: Reading, folder: StateFolder, split: str, batch: ChangelogBatch, task: int) -> tuple[Piece, ...]:
    """Rows after what is done with them where they are read, for each branch, and their greatest watermark. Branches
    that differ in their watermark alone share a file."""
    time = EpochTime(0, MIN_WATERMARK, MIN_WATERMARK, 0)
    made: dict[tuple[PhysicalNode, ...], tuple[str, ChangelogBatch | None]] = {}
    pieces: list[Piece] = []
    for branch in reading.branches:
        calcs = tuple(node for node in branch if not isinstance(node, WatermarkExec))
        if calcs not in made:
            kept: ChangelogBatch | None = batch
            for node in calcs:
                kept = None if kept is None else _operator(reading, node).step([kept], time)
            name = ""
            if kept is not None:
                kept = kept.decoded()
                name = folder.write(f"read-{uuid.uuid4().hex}", encode(kept))
                hold(folder.place, name, kept)
            made[calcs] = name, kept
        name, kept = made[calcs]
        mark: int | None = MIN_WATERMARK
        if kept is not None and len(calcs) < len(branch):
            operator = _operator(reading, branch[-1])
            assert isinstance(operator, WatermarkOperator)
            mark = operator.greatest(kept, time)
        pieces.append(Piece(split, name, 0 if kept is None else len(kept), mark, len(batch), task))
    return tuple(pieces)


def _operator(reading: Reading, node: PhysicalNode) -> Operator:
    functions = builtin_functions()
    functions.functions.update(reading.functions)
    context = OperatorContext(
        reading.name, Options(dict(reading.options)), functions, reading.time_zone, _NoRejections(), ""
    )
    return build_operator(node, context)


class _NoRejections:
    """Nothing of a chain rejects rows: rows without event time are left to the driver."""

    def reject(self, rejected: Rejected) -> None:
        raise AssertionError("a row was rejected where it is read")


def branches_over(
    source: int, nodes: Sequence[PhysicalNode], readers: Sequence[Sequence[int]], functions: FunctionRegistry
) -> tuple[tuple[int, ...], ...] | None:
    """For each branch of the plan the operators, by number, that run where a source is read: up to the one of its
    watermark, none where there is no watermark. None when rows must come to the driver for a watermark.

    `readers`: by operator those that read it.
    """
    branches: list[tuple[int, ...]] = []
    plain = not readers[source]
    for first in dict.fromkeys(readers[source]):
        chain: list[int] = []
        at = first
        while not isinstance(nodes[at], WatermarkExec):
            if len(readers[at]) != 1 or not _is_pure(nodes[at], functions):
                if _watermark_above(at, nodes, readers):
                    return None
                plain = True
                break
            chain.append(at)
            at = readers[at][0]
        else:
            branches.append((*chain, at))
    # First the rows as they are, where anybody gets those: it is these that the source is said to give.
    branches.sort(key=len)
    return ((), *branches) if plain else tuple(branches)


def _watermark_above(number: int, nodes: Sequence[PhysicalNode], readers: Sequence[Sequence[int]]) -> bool:
    """Whether a watermark is made of an operator's rows."""
    return any(isinstance(nodes[n], WatermarkExec) or _watermark_above(n, nodes, readers) for n in readers[number])


def _is_pure(node: PhysicalNode, functions: FunctionRegistry) -> bool:
    """Whether an operator gives the same whenever it runs."""
    if not isinstance(node, CalcExec):
        return False
    expressions = [*node.projections, *([] if node.condition is None else [node.condition])]
    return all(is_deterministic(e, functions) and not is_dynamic(e, functions) for e in expressions)
