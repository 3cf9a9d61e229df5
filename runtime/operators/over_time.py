"""OVER ordered by time: rows come out once, in time order, and never change."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runtime.core.changelog import ChangelogBatch
from runtime.core.clock import MAX_WATERMARK, MIN_WATERMARK
from runtime.core.errors import UnsupportedError
from runtime.eval.frames.layout import lay_out
from runtime.eval.frames.position_call import WHOLE_PARTITION, PositionCall
from runtime.expr.nodes import Frame, FrameBound
from runtime.kernels.block_lists import BlockLists
from runtime.kernels.columns import ColumnStore, SlotAllocator
from runtime.kernels.grouping import group_ids
from runtime.kernels.grow import grown
from runtime.kernels.hash_index import HashIndex
from runtime.kernels.interned import forget_unused
from runtime.kernels.key_encoding import KeyEncoder
from runtime.kernels.sorted_runs import SortedRuns
from runtime.operators.idle_slots import IdleSlots
from runtime.operators.operator import EpochTime, Operator, OperatorContext, StateSize
from runtime.operators.over_calls import OverCalls
from runtime.operators.window_assign import milliseconds
from runtime.operators.window_columns import reject_null_times
from runtime.plan.nodes import OverAggregateExec
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
    """

    def __init__(self, node: OverAggregateExec, context: OperatorContext) -> None:
        self._node = node
        self._context = context
        self._calls = OverCalls(node, _row_frame(node.frame) if node.proctime else node.frame)
        frame = self._calls.frame
        for spec in node.calls:
            if spec.function.upper() in WHOLE_PARTITION:
                raise UnsupportedError(
                    f"{spec.function.upper()} over a time attribute needs rows of the future",
                    hint="order by a column that is not a time attribute",
                )
        following = (FrameBound.FOLLOWING, FrameBound.UNBOUNDED_FOLLOWING)
        if frame is not None and (frame.upper in following or frame.lower is FrameBound.FOLLOWING):
            raise UnsupportedError(
                "a frame over a time attribute cannot end after the current row", hint="end it with CURRENT ROW"
            )
        self._carries = (
            self._calls.from_start
            and (frame is None or frame.upper is FrameBound.CURRENT_ROW)
            and all(call.carries or call.history for call in self._calls.calls)
        )
        self._positions = any(isinstance(call, PositionCall) for call in self._calls.calls)
        self._span = _span(frame)
        if isinstance(self._span, float) and self._calls.history:
            # LAG may look back further than any span of time.
            self._span = None
        source = node.input.schema
        types = [source[i].type for i in node.partition]
        self._encoder = KeyEncoder([t.arrow for t in types], [t.nullable for t in types])
        self._index = HashIndex(self._encoder.width)
        self._rows = SlotAllocator()
        self._store = ColumnStore([t.arrow for t in source.types])
        self._time_of, self._partition_of = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self._waiting = np.zeros(0, np.int64)
        self._queue = SortedRuns(1)
        self._past = BlockLists()
        self._idle = IdleSlots(node.ttl) if node.ttl and self._carries else None
        self._next_seq = 0

    def step(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> ChangelogBatch | None:
        if self._idle is not None:
            self._forget_partitions(self._without_rows(self._idle.expired(time.processing_time)))
        (batch,) = inputs
        due = np.empty(0, np.int64)
        if batch is not None and len(batch):
            due = self._receive(batch, time)
        if self._node.rowtime and time.watermark != MIN_WATERMARK and len(self._rows):
            due = self._queue.pop_below(_PENDING, time_words(np.array([time.watermark]))[0], inclusive=True)
        output = self._emit(due, time) if len(due) else None
        self._expire(time)
        return output

    @property
    def state_size(self) -> StateSize:
        parts = (self._encoder, self._index, self._rows, self._store, self._queue, self._past, self._calls)
        arrays = self._time_of.nbytes + self._partition_of.nbytes + self._waiting.nbytes
        return StateSize(len(self._rows) + len(self._index), arrays + sum(part.nbytes for part in parts))

    def _receive(self, batch: ChangelogBatch, time: EpochTime) -> np.ndarray:
        """Stores the rows; those that are due at once (processing time) come back."""
        if self._node.rowtime:
            column = self._node.order[0].index
            batch = reject_null_times(batch, column, self._context)
            times = milliseconds(batch.column(column))
            if time.previous_watermark != MIN_WATERMARK:
                late = times <= time.previous_watermark
                if late.any():
                    mask = pa.array(late)
                    self._context.reject(
                        "late", batch.rows.filter(mask), time.previous_watermark, batch.column(column).filter(mask)
                    )
                    batch, times = batch.filter(~late), times[~late]
        else:
            times = np.full(len(batch), time.processing_time, np.int64)
        if not len(batch):
            return np.empty(0, np.int64)
        columns = batch.columns
        self._calls.look_at(columns)
        partitions, _ = self._index.insert(self._encoder.encode([columns[i] for i in self._node.partition], len(batch)))
        rows = self._rows.allocate(len(batch))
        high = self._rows.high
        self._time_of, self._partition_of = grown(self._time_of, high), grown(self._partition_of, high)
        self._time_of[rows], self._partition_of[rows] = times, partitions
        self._store.put(rows, columns)
        self._waiting = grown(self._waiting, self._index.capacity)
        np.add.at(self._waiting, partitions, 1)
        if not self._node.rowtime:
            return rows
        seqs = np.arange(self._next_seq, self._next_seq + len(rows), dtype=np.int64)
        self._next_seq += len(rows)
        self._queue.insert(np.full(len(rows), _PENDING, np.int64), time_words(times), seqs, rows)
        return np.empty(0, np.int64)

    def _emit(self, due: np.ndarray, time: EpochTime) -> ChangelogBatch:
        """The rows that are due, in this order, with their values."""
        partition = self._partition_of[due]
        first, group = group_ids(partition.view(np.uint64).reshape(-1, 1))
        slots = partition[first]
        owner, past = self._past.probe(slots)
        group = np.concatenate((owner, group))
        order = np.argsort(group, kind="stable")
        rows = np.concatenate((past, due))[order]
        times = self._time_of[rows]
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
        values = self._calls.run(layout, columns, low[places], high[places], places, slots, heads, self._carries)
        back = np.empty(len(due), np.int64)
        back[order[places] - len(past)] = np.arange(len(due))
        take = pa.array(back)
        output = ChangelogBatch.of([*self._store.take(due), *(v.take(take) for v in values)], self._node.schema)
        np.subtract.at(self._waiting, partition, 1)
        if self._idle is not None:
            self._idle.touch(slots, time.processing_time)
        self._remember(due, partition, slots)
        return output

    def _columns(self, rows: np.ndarray) -> list[pa.Array]:
        """The columns of the input at the rows; those that no call reads are not fetched."""
        nothing = pa.nulls(0)
        needed = set(self._calls.needed)
        return [
            self._store.take_column(i, rows) if i in needed else nothing for i in range(len(self._node.input.schema))
        ]

    def _remember(self, due: np.ndarray, partition: np.ndarray, slots: np.ndarray) -> None:
        """Keeps of the rows past what later frames reach."""
        keep = self._calls.history
        if not self._carries and (self._span is None or isinstance(self._span, int)):
            if self._span is None:
                self._past.append(partition, due)
                return
            keep = max(keep, self._span)
        elif not self._carries:
            self._past.append(partition, due)
            seqs = np.arange(self._next_seq, self._next_seq + len(due), dtype=np.int64)
            self._next_seq += len(due)
            self._queue.insert(np.full(len(due), _PAST, np.int64), time_words(self._time_of[due]), seqs, due)
            return
        if keep == 0:
            self._free(due)
            return
        self._past.append(partition, due)
        owner, rows = self._past.probe(slots)
        counts = np.bincount(owner, minlength=len(slots))
        from_end = np.cumsum(counts)[owner] - np.arange(len(owner))
        gone = from_end > keep
        self._past.remove(slots[owner[gone]], rows[gone])
        self._free(rows[gone])

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
            self._past.remove(self._partition_of[rows], rows)
            self._free(rows)

    def _free(self, rows: np.ndarray) -> None:
        if len(rows) == 0:
            return
        partitions = np.unique(self._partition_of[rows])
        self._store.free(rows)
        self._rows.free(rows)
        if not self._carries and not self._positions:
            self._forget_partitions(self._without_rows(partitions))

    def _without_rows(self, partitions: np.ndarray) -> np.ndarray:
        """The partitions with neither waiting rows nor rows past (for those that carry totals rows past do not
        count)."""
        idle = partitions[self._waiting[partitions] == 0]
        if self._carries and len(idle):
            _, rows = self._past.probe(idle)
            self._past.drop_keys(idle)
            self._free(rows)
        return idle[self._past.counts(idle) == 0]

    def _forget_partitions(self, partitions: np.ndarray) -> None:
        if len(partitions):
            self._calls.release(partitions)
            self._index.remove(partitions)
            forget_unused(self._index, self._encoder)


def _row_frame(frame: Frame | None) -> Frame:
    """Processing time: each row is after the one before, so the current row ends the frame, in RANGE too."""
    if frame is None or (not frame.rows and frame.lower is FrameBound.UNBOUNDED_PRECEDING):
        return Frame(True, FrameBound.UNBOUNDED_PRECEDING, FrameBound.CURRENT_ROW)
    return frame


def _span(frame: Frame | None) -> int | float | None:
    """How far back a frame reaches: rows as int, milliseconds as float, None for all rows."""
    if frame is None or frame.lower is FrameBound.UNBOUNDED_PRECEDING:
        return None
    if frame.lower is FrameBound.CURRENT_ROW:
        return 0 if frame.rows else 0.0
    return int(frame.lower_offset or 0) if frame.rows else float(frame.lower_offset or 0)
