"""A lookup join that asks again, some time later, for rows that have found nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import InternalError
from runtime.kernels.grow import grown
from runtime.operators.lookup_join import LookupJoinOperator
from runtime.operators.operator import EpochTime, OperatorContext
from runtime.plan.nodes import LookupJoinExec
from runtime.state.idle_slots import IdleSlots
from runtime.state.row_table import RowColumn

__all__ = ["RetryingLookupJoin"]


class RetryingLookupJoin(LookupJoinOperator):
    """Rows without a match wait, and others pass. They are asked for again after the delay, so many times, and at the end of
    the input once more at once; then they go on as any row without a match. A row that is taken back while it waits has
    never been there.

    The rows that wait are state. They hold the watermark back to where it was before they came, so that they are not late
    behind the join.
    """

    def __init__(self, node: LookupJoinExec, context: OperatorContext) -> None:
        if node.input.mode.is_upsert:
            raise InternalError("rows of an upsert stream are to wait for a lookup")
        assert node.retry is not None
        self._waiting = _Waiting(node.retry.delay, node.retry.attempts)
        super().__init__(node, context)
        self._drops = not node.input.mode.is_retract

    def row_columns(self) -> Sequence[RowColumn]:
        return self._waiting.columns()

    def next_timer(self) -> int | None:
        return self._waiting.next_due

    def output_watermark(self, time: EpochTime) -> int:
        return min(time.watermark, self._waiting.mark(time.watermark))

    def enriched(self, batch: ChangelogBatch | None, time: EpochTime) -> Iterator[ChangelogBatch]:
        kept, waiting, now = self._kept, self._waiting, time.processing_time
        assert kept is not None
        rows = kept.rows
        if self._ttl:
            waiting.finish(kept.expire(now - self._ttl))
        changed = np.empty(0, np.int64)
        if batch is not None and len(batch):
            changed = rows.apply(batch, np.full(len(batch), -1, np.int64))
            if self._ttl:
                rows.write_times(changed, now)
        fresh = changed[rows.count[changed] == rows.delta[changed]]
        due = waiting.due(now, time.ends)
        touched = np.unique(np.concatenate((changed, due)))
        waited = waiting.waits(touched)
        waiting.finish(changed[rows.count[changed] == 0])
        due = due[rows.count[due] > 0]
        if len(fresh):
            missed = self.ask(kept, fresh, time)
            if not time.ends:
                waiting.begin(missed, now, time.previous_watermark)
        if len(due):
            missed = self.ask(kept, due, time)
            waiting.finish(np.setdiff1d(due, missed))
            waiting.try_again(missed, now, time.ends)
        if rows.table is not None:
            rows.table.wrote(np.concatenate((fresh, due)))
        waits = waiting.waits(touched)
        count = rows.count[touched]
        before = np.where(waited, 0, count - rows.delta[touched])
        delta = np.where(waits, 0, count) - before
        given = delta != 0
        yield from self.give(kept, touched[given], delta[given])
        if self._drops:
            answered = touched[~waits & (count > 0)]
            kept.remove(answered)
            rows.settle(np.unique(np.concatenate((touched, rows.take_away(answered)))))
        else:
            kept.remove(touched[count == 0])
            rows.settle(touched)


class _Waiting:
    """Which rows wait, by slot.

    Args:
        delay: milliseconds until a row is tried again.
        attempts: how often.
    """

    def __init__(self, delay: int, attempts: int) -> None:
        self._attempts = attempts
        self._delay = delay
        # What is as old as the delay is due, and idle slots are those that are older.
        self._tried = IdleSlots(delay - 1)
        self._left = np.zeros(0, np.int64)
        """Tries that are left; 0 for a row that does not wait."""
        self._mark = np.zeros(0, np.int64)
        self._marks: Counter[int] = Counter()

    def waits(self, slots: np.ndarray) -> np.ndarray:
        self._room(slots)
        return self._left[slots] > 0

    @property
    def next_due(self) -> int | None:
        """When the first row is to be tried again, or a little earlier: it may be gone by then."""
        first = self._tried.first if self._marks else None
        return None if first is None else first + self._delay

    def mark(self, watermark: int) -> int:
        """Up to where the watermark may come."""
        return min(self._marks, default=watermark)

    def begin(self, slots: np.ndarray, now: int, mark: int) -> None:
        if len(slots):
            self._room(slots)
            self._left[slots] = self._attempts
            self._note(slots, np.full(len(slots), mark))
            self._tried.touch(slots, now)

    def due(self, now: int, every: bool) -> np.ndarray:
        """The rows to try now; they are not due again until `try_again`."""
        if every:
            slots = np.flatnonzero(self._left > 0)
            self._tried.forget(slots)
            return slots
        return self._tried.expired(now)

    def try_again(self, slots: np.ndarray, now: int, last: bool) -> None:
        """Rows were tried and have found nothing. `last`: there is no later."""
        self._left[slots] -= 1
        over = slots if last else slots[self._left[slots] == 0]
        self._left[over] = np.maximum(self._left[over], 1)
        self.finish(over)
        self._tried.touch(slots[self._left[slots] > 0], now)

    def finish(self, slots: np.ndarray) -> None:
        """Rows that do not wait any more, if they did."""
        slots = slots[self.waits(slots)]
        self._left[slots] = 0
        self._tried.forget(slots)
        marks, counts = np.unique(self._mark[slots], return_counts=True)
        for mark, count in zip(marks.tolist(), counts.tolist(), strict=True):
            self._marks[mark] -= count
            if not self._marks[mark]:
                del self._marks[mark]

    def columns(self) -> list[RowColumn]:
        """What is saved beside the rows."""
        return [
            RowColumn("$tried", pa.int64(), self._tried.times, self._restore_tried),
            RowColumn("$left", pa.int64(), lambda slots: pa.array(self._saved(self._left, slots)), self._restore_left),
            RowColumn("$mark", pa.int64(), lambda slots: pa.array(self._saved(self._mark, slots)), self._restore_mark),
        ]

    def _saved(self, values: np.ndarray, slots: np.ndarray) -> np.ndarray:
        return grown(values, int(slots.max(initial=-1)) + 1)[slots]

    def _restore_tried(self, slots: np.ndarray, times: pa.Array) -> None:
        self._tried.restore(slots, times)

    def _restore_left(self, slots: np.ndarray, left: pa.Array) -> None:
        self._room(slots)
        self._left[slots] = left.to_numpy()

    def _restore_mark(self, slots: np.ndarray, marks: pa.Array) -> None:
        self._room(slots)
        waits = self.waits(slots)
        self._note(slots[waits], marks.to_numpy()[waits])

    def _note(self, slots: np.ndarray, marks: np.ndarray) -> None:
        self._mark[slots] = marks
        found, counts = np.unique(marks, return_counts=True)
        self._marks.update(dict(zip(found.tolist(), counts.tolist(), strict=True)))

    def _room(self, slots: np.ndarray) -> None:
        size = int(slots.max(initial=-1)) + 1
        self._left = grown(self._left, size)
        self._mark = grown(self._mark, size)
