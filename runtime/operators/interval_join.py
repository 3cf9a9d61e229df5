"""Interval join: rows of equal keys whose times lie close to each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from runtime.core.changelog import ChangelogBatch
from runtime.core.clock import MAX_WATERMARK, MIN_WATERMARK
from runtime.core.schema import Schema
from runtime.kernels.arrow_buffers import null_mask
from runtime.kernels.grouping import distinct_rows
from runtime.kernels.grow import grown
from runtime.operators.join_condition import JoinCondition
from runtime.operators.join_output import PairOutput
from runtime.operators.operator import PIECE_MAX_ROWS, EpochTime, OperatorContext, PiecewiseOperator, StateSize
from runtime.operators.window_columns import reject_null_times
from runtime.plan.nodes import IntervalJoinExec, JoinKind
from runtime.plan.state import StateSpec
from runtime.state.keyed import KeyIndex
from runtime.state.row_table import RowColumn
from runtime.state.table import StateTable
from runtime.state.timed import TimedRows, bound, microseconds
from runtime.state.timed_table import timed_table

__all__ = ["IntervalJoinOperator"]

_PAIRS = 1 << 18


class IntervalJoinOperator(PiecewiseOperator):
    """`IntervalJoinExec`: lower <= left time - right time <= upper.

    A row waits until the watermark (the lesser of both) has passed the last time at which a partner may come; then a
    row of a kept side that found none comes out padded (ANTI: as it is), and the row is forgotten. A late row still
    finds the partners that wait. SEMI gives a left row with its first partner. Rows without a time are rejected. With
    `proctime` a row's time is the clock's when it comes.

    The watermark goes out behind by the longer of the two bounds, as Flink's, because padded rows are that much older.
    """

    def __init__(self, node: IntervalJoinExec, context: OperatorContext) -> None:
        kind = node.kind
        self._context = context
        self._kind = kind
        self._lower = node.lower
        self._upper = node.upper
        self._proctime = node.proctime
        self._keys = KeyIndex([node.left.schema[k].type.arrow for k in node.left_keys], [False] * len(node.left_keys))
        self._left = _Side(node.left.schema, node.left_keys, node.left_time, kind.keeps_left or kind.left_only)
        self._right = _Side(node.right.schema, node.right_keys, node.right_time, kind.keeps_right)
        self._condition = None
        if node.condition is not None:
            self._condition = JoinCondition(node.condition, len(node.left.schema), context)
        rows = context.options.get(PIECE_MAX_ROWS)
        self._output = PairOutput(node.schema, node.mode, self._left.rows, self._right.rows, kind.left_only, rows)
        self._tables = (
            self._left.made_table(node.kept("left"), self._keys),
            self._right.made_table(node.kept("right"), self._keys),
        )

    @property
    def tables(self) -> Sequence[StateTable]:
        return self._tables

    def pieces(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> Iterator[ChangelogBatch]:
        yield from self.part_pieces(inputs, time)
        yield from self._expire(time)

    def takes_parts(self, position: int) -> bool:
        return True

    def part_pieces(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> Iterator[ChangelogBatch]:
        """Pairs rows; none is forgotten yet. What is less than a batch stays with the output."""
        left_batch, right_batch = inputs
        if left_batch is not None and len(left_batch):
            slots = self._take_in(self._left, left_batch, time)
            before, after = self._upper * 1000, -self._lower * 1000
            for mine, found in _partners(self._left.rows, slots, self._right.rows, before, after):
                self._pair(mine, found, time)
                if self._output.full:
                    yield from self._output.pieces()
        if right_batch is not None and len(right_batch):
            slots = self._take_in(self._right, right_batch, time)
            before, after = -self._lower * 1000, self._upper * 1000
            for mine, found in _partners(self._right.rows, slots, self._left.rows, before, after):
                self._pair(found, mine, time)
                if self._output.full:
                    yield from self._output.pieces()

    def output_watermark(self, time: EpochTime) -> int:
        if self._proctime or time.watermark in (MIN_WATERMARK, MAX_WATERMARK):
            return time.watermark
        return time.watermark - max(-self._lower, self._upper, 0)

    @property
    def state_size(self) -> StateSize:
        left, right = self._left, self._right
        return StateSize(left.rows.rows + right.rows.rows, left.rows.nbytes + right.rows.nbytes + self._keys.nbytes)

    def _take_in(self, side: _Side, batch: ChangelogBatch, time: EpochTime) -> np.ndarray:
        """The slots of the rows that have a time."""
        if self._proctime:
            times = np.full(len(batch), time.processing_time * 1000, np.int64)
        else:
            batch = reject_null_times(batch, side.time, self._context)
            times = microseconds(batch.column(side.time))
        return side.add(batch, times, self._keys)

    def _pair(self, left: np.ndarray, right: np.ndarray, time: EpochTime) -> None:
        if self._condition is not None and len(left):
            holds = self._condition.holds(self._left.rows.take_column, left, self._right.rows.take_column, right, time)
            left, right = left[holds], right[holds]
        if self._kind is JoinKind.SEMI:
            first = self._left.newly_matched(left)
            self._output.add_left(first, np.ones(len(first), np.int64))
        elif self._kind is not JoinKind.ANTI:
            self._output.add(left, right, np.ones(len(left), np.int64))
        self._left.match(left)
        self._right.match(right)

    def _expire(self, time: EpochTime) -> Iterator[ChangelogBatch]:
        now = time.processing_time if self._proctime and time.watermark != MAX_WATERMARK else time.watermark
        left = self._left.rows.due(bound(now, self._lower))
        right = self._right.rows.due(bound(now, -self._upper))
        if self._left.kept and self._kind is not JoinKind.SEMI:
            lone = left[~self._left.matched[left]]
            self._output.add_left(lone, np.ones(len(lone), np.int64))
        if self._right.kept:
            lone = right[~self._right.matched[right]]
            self._output.add_right(lone, np.ones(len(lone), np.int64))
        yield from self._output.pieces()
        if len(left) or len(right):
            seen = np.unique(np.concatenate((self._left.rows.key[left], self._right.rows.key[right])))
            seen = seen[seen >= 0]
            self._left.rows.free(left)
            self._right.rows.free(right)
            empty = (self._left.rows.key_counts(seen) == 0) & (self._right.rows.key_counts(seen) == 0)
            self._keys.remove(seen[empty])


class _Side:
    """One input: its waiting rows, and, for a kept side, whether each has found a partner."""

    def __init__(self, schema: Schema, keys: tuple[int, ...], time: int, kept: bool) -> None:
        self.rows = TimedRows(schema, keyed=True)
        self.time = time
        self.kept = kept
        self.matched = np.empty(0, np.bool_)
        self._keys = keys

    def made_table(self, spec: StateSpec, index: KeyIndex) -> StateTable:
        """The state table of this side, in which it notes its changes from now on."""
        matched = RowColumn("$matched", pa.bool_(), lambda slots: pa.array(self.matched[slots]), self._load_matched)
        extra = [matched] if self.kept else []
        return timed_table(self.rows, spec, lambda columns: self._key_slots(columns, index), extra=extra)

    def add(self, batch: ChangelogBatch, times: np.ndarray, index: KeyIndex) -> np.ndarray:
        slots = self.rows.add(batch.columns, self._key_slots(batch.columns, index), times)
        if self.kept:
            self.matched = grown(self.matched, self.rows.capacity, False)
            self.matched[slots] = False
        return slots

    def match(self, slots: np.ndarray) -> None:
        """Rows have found a partner."""
        if not self.kept or not len(slots):
            return
        fresh = slots[~self.matched[slots]]
        self.matched[fresh] = True
        if self.rows.table is not None:
            self.rows.table.wrote(fresh)

    def newly_matched(self, slots: np.ndarray) -> np.ndarray:
        """Those of the slots that had no partner yet, each once, in order."""
        fresh = slots[~self.matched[slots]]
        return fresh[distinct_rows(fresh)]

    def _key_slots(self, columns: Sequence[pa.Array], index: KeyIndex) -> np.ndarray:
        """Rows with a NULL in their key wait without one, -1: they find no partner."""
        present = np.ones(len(columns[0]), np.bool_)
        for position in self._keys:
            nulls = null_mask(columns[position])
            if nulls is not None:
                present &= ~nulls
        held = [columns[k] for k in self._keys]
        if present.all():
            return index.insert(held, len(present))[0]
        keys = np.full(len(present), -1, np.int64)
        mask = pa.array(present)
        keys[present] = index.insert([c.filter(mask) for c in held], int(present.sum()))[0]
        return keys

    def _load_matched(self, slots: np.ndarray, matched: pa.Array) -> None:
        self.matched = grown(self.matched, self.rows.capacity, False)
        self.matched[slots] = matched.to_numpy(zero_copy_only=False)


def _partners(
    rows: TimedRows, slots: np.ndarray, others: TimedRows, before: int, after: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The others of equal key within `before` and `after` (microseconds) of each row: pairs of slots, in pieces."""
    times = rows.time[slots]
    for index, found in others.range_chunks(rows.key[slots], times - before, times + after, _PAIRS):
        yield slots[index], found
