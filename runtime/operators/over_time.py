"""OVER ordered by time: rows come out once, in time order, and never change."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runtime.core.changelog import ChangelogBatch
from runtime.core.clock import MAX_WATERMARK, MIN_WATERMARK
from runtime.core.errors import UnsupportedError
from runtime.eval.frames.frame_call import Frames
from runtime.eval.frames.layout import lay_out
from runtime.eval.frames.position_call import WHOLE_PARTITION, PositionCall
from runtime.expr.nodes import Frame, FrameBound
from runtime.kernels.block_lists import BlockLists
from runtime.kernels.grouping import group_ids
from runtime.kernels.grow import grown
from runtime.kernels.indexed import count_at
from runtime.kernels.sorted_runs import SortedRuns
from runtime.operators.operator import EpochTime, Operator, OperatorContext, StateSize
from runtime.operators.over_calls import OverCalls
from runtime.operators.timed_rows import TimedRows, on_time
from runtime.plan.nodes import OverAggregateExec
from runtime.state.idle_slots import IdleSlots
from runtime.state.table import TOUCHED, StateTable
from runtime.state.timed import time_words

__all__ = ["OverTimeOperator"]

_PENDING, _PAST = 0, 1


class OverTimeOperator(Operator):
    """Input columns, then one column per call; append-only in and out.

    Event time: rows wait for the watermark and come out by time, then arrival; rows not above the watermark of the
    epoch before are late and rejected. Rows of equal time are peers. Processing time: rows come out at once, each
    after the one before it (no peers).

    State: waiting rows, and of rows past no more than frames still reach: the last n per partition (ROWS n PRECEDING,
    LAG), those of the last n milliseconds (RANGE), or nothing but running totals (UNBOUNDED PRECEDING). Functions made
    of all values (LISTAGG, ARRAY_AGG, ...) keep all rows of an unbounded frame.

    A partition of which no row has come out for longer than the node's `ttl`, and none waits, begins anew; but not
    where frames have a length of time: those rows go by themselves (in Flink, too, time to live is for the others).
    """

    def __init__(self, node: OverAggregateExec, context: OperatorContext) -> None:
        self._node = node
        self._context = context
        self._calls = OverCalls(node, _row_frame(node.frame) if node.proctime else node.frame, context.functions)
        frame = self._calls.frame
        for spec in node.calls:
            if spec.function.upper() in WHOLE_PARTITION:
                raise UnsupportedError(
                    f"{spec.function.upper()} over a time attribute needs rows of the future",
                    hint="order by a column that is not a time attribute",
                )
        self._carries = node.carries_totals
        self._positions = any(isinstance(call, PositionCall) for call in self._calls.calls)
        self._span = _span(frame)
        if isinstance(self._span, float) and self._calls.history:
            # LAG may look back further than any span of time.
            self._span = None
        self._timed = TimedRows(node)
        self._waiting = np.zeros(0, np.int64)
        self._queue = SortedRuns(1)
        self._past = BlockLists()
        self._idle = IdleSlots(node.ttl) if node.ttl and not node.time_bounds_rows else None
        self._saved = self._calls.saved_calls(self._carries)
        timed = self._timed
        self._waiting_table = timed.table(node.kept("waiting"), self._wait, waiting=True) if node.rowtime else None
        self._past_table = (
            timed.table(node.kept("frames"), self._loaded_past, waiting=False) if node.keeps_past_rows else None
        )
        self._totals_table = self._made_totals() if node.keeps_totals or self._idle is not None else None
        tables = [self._totals_table, self._waiting_table, self._past_table, self._calls.history_table()]
        self._tables = [table for table in tables if table is not None]
        if self._totals_table is not None:
            for name, call in self._saved:
                self._tables += call.tables(name, self._totals_table)

    @property
    def tables(self) -> Sequence[StateTable]:
        return self._tables

    def _loaded_past(self, rows: np.ndarray) -> None:
        self._waiting = grown(self._waiting, self._timed.keys.capacity)
        rows = self._timed.in_order(rows)
        self._past.append(self._timed.partition[rows], rows)
        if self._node.time_bounds_rows:
            self._insert(_PAST, rows)

    def _made_totals(self) -> StateTable:
        """The table of the partitions: what they carry over, and when they were touched."""
        source = self._node.input.schema
        spec = self._node.kept("totals")
        keys = [(name, source[i].type.arrow) for name, i in zip(spec.key_names, spec.key, strict=True)]

        def read(slots: np.ndarray) -> list[pa.Array]:
            carried = [column for _, call in self._saved for column in call.save(slots)]
            return [
                *self._timed.keys.columns(slots),
                *carried,
                *([] if self._idle is None else [self._idle.times(slots)]),
            ]

        def load(columns: list[pa.Array]) -> np.ndarray:
            slots, _ = self._timed.keys.insert(columns[: len(keys)], len(columns[-1]))
            self._waiting = grown(self._waiting, self._timed.keys.capacity)
            rest = iter(columns[len(keys) :])
            for _, call in self._saved:
                call.restore(slots, [next(rest) for _ in call.carried()])
            if self._idle is not None:
                self._idle.restore(slots, next(rest))
            return slots

        return StateTable(
            spec.name,
            [
                *keys,
                *((f"{name} {column}", type_) for name, call in self._saved for column, type_ in call.carried()),
                *([] if self._idle is None else [(TOUCHED, pa.int64())]),
            ],
            live=self._timed.keys.live_slots,
            read=read,
            load=load,
            key=spec.key_names,
        )

    def step(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> ChangelogBatch | None:
        if self._idle is not None:
            self._forget_idle(self._idle.expired(time.processing_time))
        (batch,) = inputs
        due = np.empty(0, np.int64)
        if batch is not None and len(batch):
            due = self._receive(batch, time)
        if self._node.rowtime and time.watermark != MIN_WATERMARK and len(self._timed):
            due = self._queue.pop_below(_PENDING, time_words(np.array([time.watermark]))[0], inclusive=True)
        output = self._emit(due, time) if len(due) else None
        self._expire(time)
        return output

    @property
    def state_size(self) -> StateSize:
        parts = (self._timed, self._queue, self._past, self._calls, self._waiting)
        return StateSize(len(self._timed) + len(self._timed.keys), sum(part.nbytes for part in parts))

    def _receive(self, batch: ChangelogBatch, time: EpochTime) -> np.ndarray:
        """Stores the rows; those that are due at once (processing time) come back."""
        if self._node.rowtime:
            batch, times = on_time(batch, self._node.order[0].index, time, self._context)
        else:
            times = np.full(len(batch), time.processing_time, np.int64)
        if not len(batch):
            return np.empty(0, np.int64)
        columns = batch.columns
        self._calls.look_at(columns)
        rows, partitions, new = self._timed.arrive(columns, times)
        if self._totals_table is not None:
            self._totals_table.wrote(new)
        if not self._node.rowtime:
            self._count_in(partitions)
            return rows
        self._wait(rows)
        if self._waiting_table is not None:
            self._waiting_table.wrote(rows)
        return np.empty(0, np.int64)

    def _count_in(self, partitions: np.ndarray) -> None:
        """One more row of each partition waits."""
        self._waiting = grown(self._waiting, self._timed.keys.capacity)
        count_at(self._waiting, partitions)

    def _wait(self, rows: np.ndarray) -> None:
        """Rows wait for the watermark."""
        self._timed.waits[rows] = True
        self._count_in(self._timed.partition[rows])
        self._insert(_PENDING, rows)

    def _insert(self, queue: int, rows: np.ndarray) -> None:
        self._queue.insert(
            np.full(len(rows), queue, np.int64), time_words(self._timed.time[rows]), self._timed.arrival[rows], rows
        )

    def _emit(self, due: np.ndarray, time: EpochTime) -> ChangelogBatch:
        """The rows that are due, in this order, with their values."""
        partition = self._timed.partition[due]
        first, group = group_ids(partition.view(np.uint64).reshape(-1, 1))
        slots = partition[first]
        owner, past = self._past.probe(slots)
        group = np.concatenate((owner, group))
        order = np.argsort(group, kind="stable")
        rows = np.concatenate((past, due))[order]
        times = self._timed.time[rows]
        new_peer = np.ones(len(rows), np.bool_)
        if self._node.rowtime:
            new_peer[1:] = times[1:] != times[:-1]
        layout = lay_out(group[order], new_peer)
        places = np.flatnonzero(order >= len(past))
        columns = self._columns(rows)
        low, high = self._calls.bounds(layout, times)
        heads = places[np.flatnonzero(np.diff(layout.segment[places], prepend=-1))]
        if self._carries:
            low = np.repeat(heads, np.diff(np.append(np.unique(layout.start), len(rows))))
        frames = Frames(layout, columns, places, low[places], high[places], self._calls.exclude)
        values = self._calls.run(frames, slots, heads, self._carries)
        back = np.empty(len(due), np.int64)
        back[order[places] - len(past)] = np.arange(len(due))
        take = pa.array(back)
        output = ChangelogBatch.of([*self._timed.store.take(due), *(v.take(take) for v in values)], self._node.schema)
        np.subtract.at(self._waiting, partition, 1)
        self._timed.waits[due] = False
        if self._waiting_table is not None:
            self._waiting_table.freed(due)
        if self._idle is not None:
            self._idle.touch(slots, time.processing_time)
        if self._totals_table is not None:
            self._totals_table.wrote(slots)
        self._remember(due, partition, slots)
        return output

    def _columns(self, rows: np.ndarray) -> list[pa.Array]:
        """The columns of the input at the rows; those that no call reads are not fetched."""
        nothing = pa.nulls(0)
        needed = set(self._calls.needed)
        return [
            self._timed.store.take_column(i, rows) if i in needed else nothing
            for i in range(len(self._node.input.schema))
        ]

    def _remember(self, due: np.ndarray, partition: np.ndarray, slots: np.ndarray) -> None:
        """Keeps of the rows past what later frames reach."""
        keep = self._calls.history
        if not self._carries and (self._span is None or isinstance(self._span, int)):
            if self._span is None:
                self._keep(partition, due)
                return
            keep = max(keep, self._span)
        elif not self._carries:
            self._keep(partition, due)
            self._insert(_PAST, due)
            return
        if keep == 0:
            self._free(due)
            return
        self._keep(partition, due)
        owner, rows = self._past.probe(slots)
        counts = np.bincount(owner, minlength=len(slots))
        from_end = np.cumsum(counts)[owner] - np.arange(len(owner))
        gone = from_end > keep
        self._past.remove(slots[owner[gone]], rows[gone])
        self._free(rows[gone])

    def _keep(self, partitions: np.ndarray, rows: np.ndarray) -> None:
        """Rows that have come out are kept."""
        self._past.append(partitions, rows)
        if self._past_table is not None:
            self._past_table.wrote(rows)

    def _expire(self, time: EpochTime) -> None:
        """Lets go of rows past that no frame of time (RANGE) reaches any more, and of everything at the end of the
        input."""
        if self._carries or not isinstance(self._span, float):
            return
        now = time.watermark if self._node.rowtime else time.processing_time
        if time.watermark == MAX_WATERMARK:
            now = MAX_WATERMARK
        bound = now - int(self._span)
        if now == MIN_WATERMARK or bound < MIN_WATERMARK:
            return
        # In processing time a row at the bound is still reached by rows of this very millisecond.
        rows = self._queue.pop_below(_PAST, time_words(np.array([bound]))[0], inclusive=self._node.rowtime)
        if len(rows):
            self._past.remove(self._timed.partition[rows], rows)
            self._free(rows)

    def _free(self, rows: np.ndarray) -> None:
        if len(rows) == 0:
            return
        self._release_rows(rows)
        if not self._carries and not self._positions:
            partitions = np.unique(self._timed.partition[rows])
            idle = partitions[self._waiting[partitions] == 0]
            self._forget_partitions(idle[self._past.counts(idle) == 0])

    def _release_rows(self, rows: np.ndarray) -> None:
        self._timed.free(rows)
        if self._past_table is not None:
            self._past_table.freed(rows)

    def _forget_idle(self, partitions: np.ndarray) -> None:
        """Forgets partitions, with their rows past, unless rows of theirs wait."""
        if self._totals_table is not None:
            self._totals_table.wrote(partitions)
        idle = partitions[self._waiting[partitions] == 0]
        if len(idle):
            _, rows = self._past.probe(idle)
            self._past.drop_keys(idle)
            self._release_rows(rows)
            self._forget_partitions(idle)

    def _forget_partitions(self, partitions: np.ndarray) -> None:
        if len(partitions) == 0:
            return
        self._calls.release(partitions)
        self._timed.keys.remove(partitions)
        if self._idle is not None:
            self._idle.forget(partitions)
        if self._totals_table is not None:
            self._totals_table.freed(partitions)


def _row_frame(frame: Frame | None) -> Frame:
    """Processing time: each row is after the one before, so the current row ends the frame, in RANGE too, and each is a
    group by itself."""
    if frame is None:
        return Frame(True, FrameBound.UNBOUNDED_PRECEDING, FrameBound.CURRENT_ROW)
    if frame.groups:
        return frame.with_(rows=True, groups=False)
    if not frame.rows and frame.lower is FrameBound.UNBOUNDED_PRECEDING:
        return Frame(True, FrameBound.UNBOUNDED_PRECEDING, FrameBound.CURRENT_ROW, exclude=frame.exclude)
    return frame


def _span(frame: Frame | None) -> int | float | None:
    """How far back a frame reaches: rows as int, milliseconds as float, None for all rows."""
    if frame is None or frame.lower is FrameBound.UNBOUNDED_PRECEDING:
        return None
    if frame.lower is FrameBound.CURRENT_ROW:
        return 0 if frame.rows else 0.0
    return int(frame.lower_offset or 0) if frame.rows else float(frame.lower_offset or 0)
