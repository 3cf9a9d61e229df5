"""A job that checks itself: after every so many epochs what it has given is compared with DuckDB's answer over the input so
far. The first difference stops the job and is told with few rows that show it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np
import pyarrow as pa

from connectors.memory import MemoryTable
from planner.logical import nodes as n
from planner.logical.nodes import LogicalNode
from runtime.core.changelog import DELETE, UPDATE_BEFORE, ChangelogBatch
from runtime.core.clock import MAX_WATERMARK, MIN_WATERMARK
from runtime.core.errors import InternalError
from runtime.core.options import Options
from runtime.core.schema import Schema
from runtime.expr.function import FunctionRegistry
from runtime.local.dataflow import Dataflow, SourceInput
from runtime.local.rejected import RejectedRows
from runtime.plan.nodes import PhysicalNode, SinkExec, SourceExec, TemporalJoinExec, WatermarkExec
from runtime.plan.walk import walk
from runtime.plan.window_nodes import WindowAggregateExec, WindowTableExec
from runtime.spi.source import SourceTable
from sqlengine.verify.reference import Reference
from sqlengine.verify.rows import Row, difference, rows_of, sorted_parts
from sqlengine.verify.texts import CannotVerify

__all__ = ["Verifier"]

SHRINKING_SECONDS = 5.0
_SHOWN = 12
_LOG = ("$arrival", "$came", "$gone")
Epoch = Mapping[SourceExec, SourceInput]


class Verifier:
    """Watches one root of a job.

    Args:
        plan: the bound plan of the root.
        root: its physical plan; of a sink what it is given is compared.
        every: compare after so many epochs, and at the end of the input.
        at_end: compare only then, because operators wait for event time.
    Raises:
        CannotVerify: DuckDB cannot be asked for this plan.
    """

    def __init__(
        self,
        name: str,
        plan: LogicalNode,
        root: PhysicalNode,
        functions: FunctionRegistry,
        options: Options,
        time_zone: str,
        rejected: RejectedRows,
        *,
        every: int,
        at_end: bool,
        tell: Callable[[str], None],
    ) -> None:
        self._name = name
        self._plan = plan
        self.root = root.input if isinstance(root, SinkExec) else root
        self._functions, self._options, self._time_zone = functions, options, time_zone
        self._rejected = rejected
        self._every, self._at_end, self._tell = max(1, every), at_end, tell
        self._reference = Reference(plan, functions, time_zone)
        key = () if not isinstance(root, SinkExec) else tuple(root.table.primary_key)
        self._key = tuple(root.schema.names.index(k) for k in key) if key else ()
        if not _retracts(self.root) and not self._key:
            raise CannotVerify("an upsert stream without a key")
        self._approximate = [f.type.is_approximate for f in self.root.schema]
        self._epochs: list[tuple[Epoch, int]] = []
        self._schema = Schema(self.root.schema.fields[: len(plan.columns)])
        # A table that is read twice may be known by its key in one of the places only.
        self._table_keys = {scan.table: _names(scan, scan.keys[0]) for scan in _scans(plan) if scan.keys}
        self._state = self._empty_state()
        self._last_marks = dict.fromkeys(range(len(self._reference.windows)), MIN_WATERMARK)
        self._off = False
        self.compared = 0
        """How often the answers were compared."""

    def after_epoch(
        self, given: Epoch, now: int, output: ChangelogBatch | None, dataflow: Dataflow, finished: bool
    ) -> None:
        """Take note of an epoch, and compare. Raises InternalError E9102 with the first difference."""
        if self._off:
            return
        silent = output is None and not any(taken.batch is not None for taken in given.values())
        try:
            marks = self._marks(dataflow, finished)
        except CannotVerify as error:
            self._stop(f"it holds {error}")
            return
        if silent and not finished and marks == self._last_marks:
            return
        self._last_marks = marks
        kept = dict(given)
        self._epochs.append((kept, now))
        self._state.take(kept, output)
        self._state.passed(marks)
        if any(job == self._name for (job, _, _) in self._rejected.counts):
            self._stop("rows were rejected, and DuckDB's answer would hold them")
            return
        if not finished and (self._at_end or len(self._epochs) % self._every):
            return
        try:
            found = self._difference(self._state, dataflow, finished)
        except CannotVerify as error:
            self._stop(f"it holds {error}")
            return
        if found is not None:
            raise self._failure(found)

    def _stop(self, reason: str) -> None:
        self._off = True
        self._epochs.clear()
        self._tell(f"{self._name} is not verified any further: {reason}")

    def _difference(self, state: _State, dataflow: Dataflow, finished: bool) -> str | None:
        theirs = self._reference.rows(state, self._marks(dataflow, finished))
        if theirs is None:
            return None
        self.compared += 1
        unordered = self._reference.unordered
        ours, theirs = sorted_parts(state.answer(), unordered), sorted_parts(theirs, unordered)
        return difference(ours, theirs, self._approximate)

    def _marks(self, dataflow: Dataflow, finished: bool) -> dict[int, int]:
        """The watermarks behind an epoch, by place."""
        windows = enumerate(self._reference.windows)
        return {place: MAX_WATERMARK if finished else _watermark(window, dataflow) for place, window in windows}

    # --- the failure, with few rows

    def _failure(self, found: str) -> InternalError:
        epochs = self._shrunk()
        last = self._replayed(epochs)
        lines = (last or found).splitlines()
        shown = "\n".join(lines[:_SHOWN] + ([f"  .. and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []))
        rows = "\n".join(_shown_epochs(epochs))
        return InternalError(
            f"{self._name}: the answer after epoch {len(self._epochs)} is not DuckDB's\n{shown}\n"
            f"input that shows it, {sum(_size(e) for e, _ in epochs)} of {sum(_size(e) for e, _ in self._epochs)} "
            f"changes:\n{rows}",
            code="E9102",
            hint="one of the two is wrong; please report the query with these rows",
        )

    def _shrunk(self) -> list[tuple[Epoch, int]]:
        """Fewer epochs and changes that still show a difference, as far as that is found in a few seconds."""
        epochs, until = list(self._epochs), time.monotonic() + SHRINKING_SECONDS
        if self._replayed(epochs) is None or not any(_size(e) for e, _ in epochs):
            return epochs
        size = max(1, sum(_size(e) for e, _ in epochs) // 2)
        while size and time.monotonic() < until:
            place, smaller = 0, False
            while place < sum(_size(e) for e, _ in epochs) and time.monotonic() < until:
                tried = _without(epochs, place, size)
                if self._replayed(tried) is not None:
                    epochs, smaller = tried, True
                else:
                    place += size
            size = size if smaller and size == 1 else size // 2
        return [(e, now) for e, now in epochs if _size(e)] or epochs

    def _empty_state(self) -> _State:
        key = self._key if not _retracts(self.root) else ()
        return _State(self._schema, key, self._table_keys, len(self._reference.windows), self._reference.histories)

    def _replayed(self, epochs: Sequence[tuple[Epoch, int]]) -> str | None:
        """The difference that some epochs give in a dataflow of their own; None when there is none."""
        rejected = RejectedRows()
        flow = Dataflow(
            (self.root,),
            self._options,
            self._functions,
            self._time_zone,
            rejected.for_job(self._name, self._time_zone),
            checked=True,
        )
        state = self._empty_state()
        try:
            for given, now in epochs:
                (output,) = flow.step(given, now)
                state.take(given, output)
                state.passed(self._marks(flow, all(taken.finished for taken in given.values())))
            finished = bool(epochs) and all(taken.finished for taken in epochs[-1][0].values())
            return None if rejected.total else self._difference(state, flow, finished)
        except Exception:
            return None
        finally:
            flow.abort()


class _State:
    """The rows so far of every source, and what the answer amounts to."""

    def __init__(
        self,
        schema: Schema,
        key: tuple[int, ...],
        table_keys: Mapping[SourceTable | None, tuple[str, ...]],
        places: int,
        histories: Collection[SourceTable],
    ) -> None:
        self._schema = schema
        self._histories = histories
        self._changes: dict[SourceTable, list[pa.RecordBatch]] = {}
        self._arrivals = 0
        self._known: list[list[int]] = [[MIN_WATERMARK] for _ in range(places)]
        """By place: the watermark before each epoch, and behind the last one."""
        self._table_keys = table_keys
        self._answer = MemoryTable("answer", _numbered(schema), [f"c{i}" for i in key])
        self._tables: dict[SourceTable, MemoryTable] = {}

    def _key_of(self, table: SourceTable) -> tuple[str, ...]:
        return tuple(getattr(table, "primary_key", ())) or self._table_keys.get(table, ())

    def take(self, given: Epoch, output: ChangelogBatch | None) -> None:
        epoch, noted = len(self._known[0]) - 1 if self._known else 0, set[SourceTable]()
        for source, taken in given.items():
            if taken.batch is not None and source.table in self._histories and source.table not in noted:
                noted.add(source.table)
                self._note(source.table, taken.batch, epoch)
            if source.table not in self._tables:
                key = () if _retracts(source) else self._key_of(source.table)
                self._tables[source.table] = MemoryTable(
                    source.name, source.schema, key, append_only=source.mode.is_append_only
                )
            if taken.batch is not None:
                self._tables[source.table].apply(taken.batch)
                self._tables[source.table].publish()
        if output is not None and len(output):
            names = list(self._answer.schema.names)
            columns = output.columns[: len(names)]
            self._answer.apply(ChangelogBatch(pa.RecordBatch.from_arrays(columns, names=names), output.kinds))
            self._answer.publish()

    def _note(self, table: SourceTable, batch: ChangelogBatch, epoch: int) -> None:
        """Changes for the log of a table: old rows of updates are not in it."""
        kinds = batch.kinds_or_inserts()
        whole = batch.filter(kinds != UPDATE_BEFORE)
        count = len(whole)
        columns = [
            pa.array(np.arange(self._arrivals, self._arrivals + count)),
            pa.array(np.full(count, epoch)),
            pa.array(whole.kinds_or_inserts() == DELETE),
        ]
        self._arrivals += count
        names = [*table.schema.names, *_LOG]
        self._changes.setdefault(table, []).append(pa.RecordBatch.from_arrays([*whole.columns, *columns], names=names))

    def passed(self, marks: Mapping[int, int]) -> None:
        """The watermarks behind the epoch that was taken, by place."""
        for place, mark in marks.items():
            self._known[place].append(mark)

    def history(self, table: SourceTable) -> pa.Table:
        """The log of a table."""
        found = self._changes.get(table)
        if found:
            return pa.Table.from_batches(found)
        types = [*(f.type.arrow for f in table.schema), pa.int64(), pa.int64(), pa.bool_()]
        return pa.schema(list(zip([*table.schema.names, *_LOG], types, strict=True))).empty_table()

    def marks(self, place: int) -> pa.Table:
        """The watermark before each epoch."""
        known = self._known[place]
        return pa.table({"came": pa.array(range(len(known)), pa.int64()), "known": pa.array(known, pa.int64())})

    def contents(self, table: SourceTable) -> pa.Table:
        found = self._tables.get(table)
        if found is not None:
            return found.contents()
        return pa.table({f.name: pa.array([], f.type.arrow) for f in table.schema})

    def answer(self) -> list[Row]:
        return rows_of(self._answer.contents())


def _numbered(schema: Schema) -> Schema:
    """The columns under names that differ."""
    return Schema.of(*((f"c{i}", f.type.with_nullable(True)) for i, f in enumerate(schema)))


def _retracts(node: PhysicalNode) -> bool:
    """Whether the changes of a node say what they take back, whole."""
    return node.mode.is_append_only or node.mode.is_retract


def _watermark(window: LogicalNode, dataflow: Dataflow) -> int:
    """How far event time is at a window function or temporal join: at the operator that does it, which an interval join
    below may hold back, or else in its tables. A source without an expression for its watermark may tell it itself, as a
    materialized view does. Raises CannotVerify where it is not known which operator it is."""
    tables = {node.table for node in _scans(window)}
    kinds = TemporalJoinExec if isinstance(window, n.TemporalJoin) else (WindowAggregateExec, WindowTableExec)
    found = {
        v.input_watermark
        for v in dataflow.vertices
        if isinstance(v.node, kinds) and {s.table for s in walk(v.node) if isinstance(s, SourceExec)} == tables
    }
    if len(found) > 1:
        raise CannotVerify("windows or temporal joins over the same tables that are not equally far in event time")
    if found:
        return found.pop()
    marks: list[int] = []
    told: set[SourceTable] = set()
    for vertex in dataflow.vertices:
        if isinstance(vertex.node, WatermarkExec):
            below = {s.table for s in walk(vertex.node) if isinstance(s, SourceExec)} & tables
            told |= below
            if below and not vertex.idle:
                marks.append(vertex.watermark)
    marks += [
        v.watermark
        for v in dataflow.vertices
        if isinstance(v.node, SourceExec) and v.node.table in tables - told and not v.idle
    ]
    return min(marks, default=MIN_WATERMARK)


def _scans(plan: LogicalNode) -> list[n.Scan]:
    if isinstance(plan, n.Scan):
        return [plan]
    return [s for source in ((plan.plan,) if isinstance(plan, n.Shared) else plan.inputs) for s in _scans(source)]


def _names(scan: n.Scan, ids: Sequence[int]) -> tuple[str, ...]:
    """Columns of a scanned table by its own names."""
    names = {c.id: f.name for c, f in zip(scan.scanned, scan.table.schema, strict=True)} if scan.table else {}
    return tuple(names[i] for i in ids if i in names)


def _size(epoch: Epoch) -> int:
    return sum(len(taken.batch) for taken in epoch.values() if taken.batch is not None)


def _without(epochs: Sequence[tuple[Epoch, int]], place: int, size: int) -> list[tuple[Epoch, int]]:
    """The epochs without some changes, counted over all of them in order."""
    found: list[tuple[Epoch, int]] = []
    at = 0
    for given, now in epochs:
        fewer: dict[SourceExec, SourceInput] = {}
        for source, taken in given.items():
            count = 0 if taken.batch is None else len(taken.batch)
            numbers = np.arange(at, at + count)
            keep = (numbers < place) | (numbers >= place + size)
            at += count
            batch = taken.batch
            if batch is not None and not keep.all():
                batch = batch.filter(keep) if keep.any() else None
            fewer[source] = SourceInput(batch, taken.finished, taken.idle, taken.watermark)
        found.append((fewer, now))
    return found


def _shown_epochs(epochs: Sequence[tuple[Epoch, int]]) -> list[str]:
    lines: list[str] = []
    for number, (given, _) in enumerate(epochs, 1):
        for source, taken in given.items():
            if taken.batch is not None:
                kinds = ("+I", "-U", "+U", "-D")
                rows = zip(taken.batch.kinds_or_inserts().tolist(), rows_of(pa.table(taken.batch.rows)), strict=True)
                name = source.name.rpartition(".")[2]
                lines += [f"  epoch {number}, {name}: {kinds[k]} {' | '.join(map(str, row))}" for k, row in rows]
    return lines[: _SHOWN * 4]
