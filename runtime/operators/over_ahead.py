"""OVER ordered by event time with frames that reach ahead: rows wait until their frame is whole, and never change."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runtime.core.changelog import ChangelogBatch
from runtime.core.clock import MAX_WATERMARK, MIN_WATERMARK
from runtime.core.errors import InternalError, UnsupportedError
from runtime.eval.frames.frame_call import Frames
from runtime.eval.frames.layout import FrameLayout, lay_out
from runtime.eval.frames.position_call import WHOLE_PARTITION
from runtime.expr.nodes import FrameBound
from runtime.kernels.block_lists import BlockLists
from runtime.kernels.grow import grown
from runtime.kernels.indexed import count_at
from runtime.kernels.sorted_runs import SortedRuns
from runtime.operators.operator import EpochTime, Operator, OperatorContext, StateSize
from runtime.operators.over_calls import OverCalls
from runtime.operators.timed_rows import TimedRows, on_time
from runtime.plan.nodes import OverAggregateExec
from runtime.state.table import StateTable
from runtime.state.timed import time_words

__all__ = ["OverAheadOperator"]

_PENDING, _OWED, _PAST = 0, 1, 2
"""Rows by time: those that the watermark has not passed, those whose frame is not whole, those that have come out."""


class OverAheadOperator(Operator):
    """Input columns, then one column per call; append-only in and out.

    Rows wait for the watermark; rows not above the watermark of the epoch before are late and rejected. Then a row waits
    until its frame is whole: until the watermark is as far beyond it as the frame reaches (RANGE), until so many rows or
    groups of equal time of its partition follow (ROWS, GROUPS), or until the end of the input (UNBOUNDED FOLLOWING).
    Rows come out by time, then arrival. The watermark behind this operator stays below the rows that wait.

    State: rows that wait, and of rows that have come out those that frames of others still reach. Nothing else makes a
    partition go: the time to live is not for rows that wait for others.

    Cost: an epoch reads what is kept of the partitions in which rows come out or follow.
    """

    def __init__(self, node: OverAggregateExec, context: OperatorContext) -> None:
        self._node = node
        self._context = context
        if node.frame is None:
            raise InternalError("a frame that reaches ahead is none")
        self._frame = frame = node.frame
        self._calls = OverCalls(node, frame, context.functions)
        for spec in node.calls:
            if spec.function.upper() in WHOLE_PARTITION:
                raise UnsupportedError(
                    f"{spec.function.upper()} over a time attribute needs rows of the future",
                    hint="order by a column that is not a time attribute",
                )
        self._by_time = frame.unit == "RANGE"
        self._ahead = frame.upper_offset or 0 if frame.upper is FrameBound.FOLLOWING else 0
        self._back = frame.lower_offset or 0 if frame.lower is FrameBound.PRECEDING else 0
        self._keeps_all = frame.lower is FrameBound.UNBOUNDED_PRECEDING
        self._timed = TimedRows(node)
        self._count = np.zeros(0, np.int64)
        self._queue = SortedRuns(1)
        self._lists = BlockLists()
        self._waiting_table = self._timed.table(node.kept("waiting"), self._loaded_waiting, waiting=True)
        self._past_table = self._timed.table(node.kept("frames"), self._loaded_past, waiting=False)

    @property
    def tables(self) -> Sequence[StateTable]:
        return (self._waiting_table, self._past_table)

    def _loaded_waiting(self, rows: np.ndarray) -> None:
        # All wait for the watermark once more: those that it has passed come first.
        self._count_in(self._timed.partition[rows])
        self._wait(rows)

    def _loaded_past(self, rows: np.ndarray) -> None:
        self._count_in(self._timed.partition[rows])
        rows = self._timed.in_order(rows)
        self._lists.append(self._timed.partition[rows], rows)
        if self._by_time and not self._keeps_all:
            self._insert(_PAST, rows)

    @property
    def state_size(self) -> StateSize:
        parts = (self._timed, self._queue, self._lists, self._calls, self._count)
        return StateSize(len(self._timed) + len(self._timed.keys), sum(part.nbytes for part in parts))

    def output_watermark(self, time: EpochTime) -> int:
        """Rows that wait for others come out behind the watermark, so it is held back."""
        if time.watermark in (MIN_WATERMARK, MAX_WATERMARK):
            return time.watermark
        _, rows = self._queue.first(np.array([_OWED], np.int64), 1)
        return min(time.watermark, int(self._timed.time[rows[0]]) - 1) if len(rows) else time.watermark

    def step(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> ChangelogBatch | None:
        (batch,) = inputs
        if batch is not None and len(batch):
            self._receive(batch, time)
        if time.watermark == MIN_WATERMARK or not len(self._timed):
            return None
        passed = self._queue.pop_below(_PENDING, time_words(np.array([time.watermark]))[0], inclusive=True)
        if len(passed):
            self._lists.append(self._timed.partition[passed], passed)
            self._insert(_OWED, passed)
        if time.watermark == MAX_WATERMARK:
            due = self._queue.range(np.array([_OWED], np.int64), None, None)[1]
            slots = np.unique(self._timed.partition[due])
        elif self._frame.upper is FrameBound.UNBOUNDED_FOLLOWING:
            return None
        elif self._by_time:
            bound = time_words(np.array([time.watermark - int(self._ahead)]))[0].reshape(1, -1)
            due = self._queue.range(np.array([_OWED], np.int64), None, bound, True, True)[1]
            slots = np.unique(self._timed.partition[due])
        else:
            due, slots = None, np.unique(self._timed.partition[passed])
        output = self._emit(due, slots) if len(slots) else None
        self._expire(time)
        return output

    def _receive(self, batch: ChangelogBatch, time: EpochTime) -> None:
        """Keeps rows until the watermark passes them."""
        batch, times = on_time(batch, self._node.order[0].index, time, self._context)
        if not len(batch):
            return
        rows, partitions, _ = self._timed.arrive(batch.columns, times)
        self._count_in(partitions)
        self._wait(rows)
        self._waiting_table.wrote(rows)

    def _count_in(self, partitions: np.ndarray) -> None:
        self._count = grown(self._count, self._timed.keys.capacity)
        count_at(self._count, partitions)

    def _wait(self, rows: np.ndarray) -> None:
        self._timed.waits[rows] = True
        self._insert(_PENDING, rows)

    def _insert(self, queue: int, rows: np.ndarray) -> None:
        self._queue.insert(
            np.full(len(rows), queue, np.int64), time_words(self._timed.time[rows]), self._timed.arrival[rows], rows
        )

    def _emit(self, due: np.ndarray | None, slots: np.ndarray) -> ChangelogBatch | None:
        """The rows that are due with their values; None: those that enough others follow. `slots` are all their
        partitions."""
        group, rows = self._lists.probe(slots)
        times = self._timed.time[rows]
        new_peer = np.ones(len(rows), np.bool_)
        new_peer[1:] = times[1:] != times[:-1]
        layout = lay_out(group, new_peer)
        low, high = self._calls.bounds(layout, times)
        if due is None:
            chosen = self._timed.waits[rows] & self._followed(layout)
        else:
            is_due = np.zeros(self._timed.slots.high, np.bool_)
            is_due[due] = True
            chosen = is_due[rows]
        places = np.flatnonzero(chosen)
        if not len(places):
            return None
        places = places[np.lexsort((self._timed.arrival[rows[places]], times[places]))]
        needed = set(self._calls.needed)
        nothing = pa.nulls(0)
        columns = [
            self._timed.store.take_column(i, rows) if i in needed else nothing
            for i in range(len(self._node.input.schema))
        ]
        values = self._calls.values(Frames(layout, columns, places, low[places], high[places], self._calls.exclude))
        out = rows[places]
        output = ChangelogBatch.of([*self._timed.store.take(out), *values], self._node.schema)
        self._came_out(out)
        if not self._by_time:
            self._free_unreached(layout, rows, low)
        return output

    def _followed(self, layout: FrameLayout) -> np.ndarray:
        """Whether as many rows, or groups of equal time, follow each row as its frame reaches ahead."""
        if self._frame.rows:
            return layout.end - np.arange(len(layout)) > int(self._ahead)
        number = np.cumsum(layout.peer_start == np.arange(len(layout)))
        return number[layout.end - 1] - number >= int(self._ahead)

    def _came_out(self, rows: np.ndarray) -> None:
        self._waiting_table.freed(rows)
        self._timed.waits[rows] = False
        self._past_table.wrote(rows)
        self._queue.remove(rows)
        if self._by_time and not self._keeps_all:
            self._insert(_PAST, rows)

    def _free_unreached(self, layout: FrameLayout, rows: np.ndarray, low: np.ndarray) -> None:
        """ROWS and GROUPS: lets go of rows that have come out and that neither the rows waiting nor those to come
        reach."""
        if self._keeps_all:
            return
        here = np.arange(len(layout), dtype=np.int64)
        back = int(self._back)
        # The first row that waits reaches furthest back; where none does, the next to come, a group of its own.
        waits = self._timed.waits[rows]
        reached = np.where(waits, low, len(layout))
        heads = np.flatnonzero(np.diff(layout.segment, prepend=-1))
        first = np.minimum.reduceat(reached, heads)[layout.segment]
        if self._frame.rows:
            next_low = layout.end - back
        else:
            number = np.cumsum(layout.peer_start == here)
            next_low = np.where(number > number[layout.end - 1] - back, here, len(layout))
            next_low = np.minimum.reduceat(next_low, heads)[layout.segment]
        self._free(rows[~waits & (here < np.minimum(first, next_low))])

    def _expire(self, time: EpochTime) -> None:
        """RANGE: lets go of rows that have come out and that no frame reaches any more; at the end of the input of all."""
        if time.watermark == MAX_WATERMARK:
            self._free(self._timed.slots.live_slots())
            self._queue.clear()
            return
        if not self._by_time or self._keeps_all:
            return
        bound = time.watermark - int(self._ahead) - int(self._back)
        if bound < MIN_WATERMARK:
            return
        self._free(self._queue.pop_below(_PAST, time_words(np.array([bound]))[0], inclusive=True))

    def _free(self, rows: np.ndarray) -> None:
        """Lets go of rows, and of partitions without any."""
        if not len(rows):
            return
        partitions = self._timed.partition[rows]
        self._lists.remove(partitions, rows)
        self._past_table.freed(rows)
        self._timed.free(rows)
        np.subtract.at(self._count, partitions, 1)
        slots = np.unique(partitions)
        self._timed.keys.remove(slots[self._count[slots] == 0])
