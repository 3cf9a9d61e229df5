"""Window join: the rows of equal windows, joined when the window closes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from runtime.core.changelog import ChangelogBatch
from runtime.core.schema import Schema
from runtime.kernels.arrow_buffers import null_mask
from runtime.kernels.block_lists import BlockLists
from runtime.operators.join_condition import JoinCondition
from runtime.operators.join_output import PairOutput
from runtime.operators.operator import PIECE_MAX_ROWS, EpochTime, OperatorContext, PiecewiseOperator, StateSize
from runtime.operators.window_assign import firing_times, milliseconds
from runtime.operators.window_columns import clock_watermark, ends_as_times
from runtime.plan.nodes import JoinKind, WindowJoinExec
from runtime.state.keyed import KeyIndex
from runtime.state.table import StateTable
from runtime.state.timed import TimedRows, bound
from runtime.state.timed_table import timed_table

__all__ = ["WindowJoinOperator"]

_PAIRS = 1 << 18


class WindowJoinOperator(PiecewiseOperator):
    """`WindowJoinExec`. Rows wait until the watermark has reached the end of their window less 1 ms; then all rows of
    that window are joined at once and forgotten. Rows of a window that was closed before they came are rejected.

    With `zone` the window columns are wall-clock times of that zone, and a window closes at the instant of its last
    millisecond. With `proctime` windows close by the clock, and no row is late.
    """

    def __init__(self, node: WindowJoinExec, context: OperatorContext) -> None:
        flags = [*(node.null_safe or (False,) * len(node.left_keys)), False, False]
        self._context = context
        self._kind = node.kind
        self._zone = node.zone
        self._proctime = node.proctime
        self._key_types = [node.left.schema[k].type.arrow for k in (*node.left_keys, *node.left_window)]
        self._left = _Side(node.left.schema, (*node.left_keys, *node.left_window), flags)
        self._right = _Side(node.right.schema, (*node.right_keys, *node.right_window), flags)
        self._condition = None
        if node.condition is not None:
            self._condition = JoinCondition(node.condition, len(node.left.schema), context)
        self._output = PairOutput(
            node.schema,
            node.mode,
            self._left.rows,
            self._right.rows,
            node.kind.left_only,
            context.options.get(PIECE_MAX_ROWS),
        )
        self._tables = [
            timed_table(self._left.rows, node.kept("left"), _without_key),
            timed_table(self._right.rows, node.kept("right"), _without_key),
        ]

    @property
    def tables(self) -> Sequence[StateTable]:
        return self._tables

    def takes_parts(self, position: int) -> bool:
        return not self._proctime

    def pieces(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> Iterator[ChangelogBatch]:
        closed = bound(clock_watermark(time) if self._proctime else time.watermark) + 1
        left, right = (
            side.rows.due(closed, with_slots=None if not batch else self._take_in(side, batch, time, closed))
            for side, batch in zip((self._left, self._right), inputs, strict=True)
        )
        if not len(left) and not len(right):
            return
        yield from self._join(left, right, time)
        self._left.rows.free(left)
        self._right.rows.free(right)

    @property
    def state_size(self) -> StateSize:
        left, right = self._left.rows, self._right.rows
        return StateSize(left.rows + right.rows, left.nbytes + right.nbytes)

    def _take_in(self, side: _Side, batch: ChangelogBatch, time: EpochTime, closed: int) -> np.ndarray:
        """Keeps rows; the slots of those whose window is closed in this very epoch."""
        ends = batch.column(side.keys[-1])
        nulls = null_mask(ends)
        if nulls is not None:
            self._context.reject("NULL window", batch.rows.filter(pa.array(nulls)))
            batch = batch.filter(~nulls)
            ends = batch.column(side.keys[-1])
        fires = firing_times(milliseconds(ends), self._zone)
        if not self._proctime:
            late = fires <= time.previous_watermark
            if late.any():
                rows = batch.rows.filter(pa.array(late))
                ends_lost = ends_as_times(rows.column(side.keys[-1]), self._zone)
                self._context.reject("late", rows, time.previous_watermark, ends_lost)
                batch, fires = batch.filter(~late), fires[~late]
        return side.rows.add_waiting(batch.columns, fires * 1000, closed)[1]

    def _join(self, left: np.ndarray, right: np.ndarray, time: EpochTime) -> Iterator[ChangelogBatch]:
        """All pairs of the closed windows' rows, and the rows of kept sides that have no partner."""
        kind = self._kind
        groups = KeyIndex(self._key_types)
        bags = BlockLists()
        right_groups = self._right.groups(right, groups, insert=True)
        present = np.flatnonzero(right_groups >= 0)
        bags.append(right_groups[present], present)
        left_groups = self._left.groups(left, groups, insert=False)
        left_matched, right_matched = np.zeros(len(left), np.bool_), np.zeros(len(right), np.bool_)
        for l, r in bags.probe_chunks(left_groups, _PAIRS):
            if self._condition is not None:
                holds = self._condition.holds(
                    self._left.rows.take_column, left[l], self._right.rows.take_column, right[r], time
                )
                l, r = l[holds], r[holds]
            left_matched[l] = True
            right_matched[r] = True
            if not kind.left_only:
                self._output.add(left[l], right[r], np.ones(len(l), np.int64))
                if self._output.full:
                    yield from self._output.pieces()
        if kind.keeps_left or kind.left_only:
            alone = left[left_matched] if kind is JoinKind.SEMI else left[~left_matched]
            self._output.add_left(alone, np.ones(len(alone), np.int64))
        if kind.keeps_right:
            alone = right[~right_matched]
            self._output.add_right(alone, np.ones(len(alone), np.int64))
        yield from self._output.pieces()


def _without_key(columns: Sequence[pa.Array]) -> np.ndarray:
    """The key slots of rows: until their window closes they are looked for by nothing."""
    return np.full(len(columns[0]), -1, np.int64)


class _Side:
    """One input: its rows by the end of their window. `keys`: the join keys, then window start and end."""

    def __init__(self, schema: Schema, keys: tuple[int, ...], null_safe: Sequence[bool]) -> None:
        self.rows = TimedRows(schema, keyed=False)
        self.keys = keys
        self._null_safe = null_safe

    def groups(self, slots: np.ndarray, index: KeyIndex, *, insert: bool) -> np.ndarray:
        """The group of equal keys and windows of each row, -1 for rows that can have no partner."""
        columns = [self.rows.take_column(k, slots) for k in self.keys]
        found = index.insert(columns, len(slots))[0] if insert else index.find(columns, len(slots))
        for column, safe in zip(columns, self._null_safe, strict=True):
            nulls = None if safe else null_mask(column)
            if nulls is not None:
                found[nulls] = -1
        return found
