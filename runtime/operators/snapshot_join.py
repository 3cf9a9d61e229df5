"""The join with the rows that a table has now: LATERAL TABLE(SNAPSHOT(..))."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import pyarrow as pa

from runtime.core.changelog import UPDATE_AFTER, UPDATE_BEFORE, ChangelogBatch
from runtime.core.clock import MAX_WATERMARK, MIN_WATERMARK
from runtime.kernels.arrow_buffers import null_mask
from runtime.kernels.grow import grown
from runtime.operators.join_condition import JoinCondition
from runtime.operators.join_side import PAIRS, JoinSide
from runtime.operators.operator import EpochTime, Operator, OperatorContext, StateSize
from runtime.operators.window_columns import reject_null_times
from runtime.plan.nodes import JoinKind, SnapshotJoinExec
from runtime.state.keyed import KeyIndex
from runtime.state.row_table import RowColumn
from runtime.state.table import StateTable, shared_value
from runtime.state.timed import TimedRows, bound, microseconds
from runtime.state.timed_table import timed_table

__all__ = ["SnapshotJoinOperator"]

_ALL = bound(MAX_WATERMARK)


class SnapshotJoinOperator(Operator):
    """`SnapshotJoinExec`, INNER or LEFT; append-only.

    Changes of the right side count once its own watermark has reached their time; a `-U` comes with its `+U`. Until the
    right side is loaded, left rows wait, and so does time behind the join. Then each is joined at once with the right
    rows that count at the end of its epoch's changes; what was given stays. Behind the join time is that of the left
    side. Rows whose key is NULL match nothing.

    Source: Flink 2.4, `LateralSnapshotJoinOperator` and FLIP-579.
    """

    def __init__(self, node: SnapshotJoinExec, context: OperatorContext) -> None:
        self._node = node
        self._context = context
        right = node.right.schema
        self._keys = KeyIndex.of(right, node.right_keys)
        flags = [False] * len(node.right_keys)
        self._right = JoinSide(right, node.right.mode, node.right_keys, None, flags, False, False, node.ttl, False)
        self._condition = None
        if node.condition is not None:
            self._condition = JoinCondition(node.condition, len(node.left.schema), context)
        self._waiting = TimedRows(node.left.schema, keyed=False)
        self._pending = TimedRows(right, keyed=False)
        self._kinds = np.empty(0, np.int8)
        self._loaded = False
        self._until = node.load.until
        self._mark, self._moved = MIN_WATERMARK, 0
        kinds = RowColumn("$kind", pa.int8(), lambda slots: pa.array(self._kinds[slots]), self._set_kinds)
        self._tables = (
            self._right.table(node.kept("rows"), self._keys),
            timed_table(self._pending, node.kept("pending"), _no_key, extra=[kinds]),
            timed_table(self._waiting, node.kept("waiting"), _no_key),
            shared_value("loaded", pa.int64(), lambda: int(self._loaded), self._set_loaded),
            shared_value("until", pa.int64(), lambda: self._until, self._set_until),
            shared_value("moved", pa.int64(), lambda: self._moved, self._set_moved),
            shared_value("mark", pa.int64(), lambda: self._mark, self._set_mark),
        )

    @property
    def tables(self) -> Sequence[StateTable]:
        return self._tables

    @property
    def state_size(self) -> StateSize:
        rows = self._right.rows.rows + self._waiting.rows + self._pending.rows
        size = self._right.nbytes + self._waiting.nbytes + self._pending.nbytes + self._keys.nbytes
        return StateSize(rows, size)

    def _set_loaded(self, given: list[object]) -> None:
        self._loaded = bool(max(cast("list[int]", given)))

    def _set_until(self, given: list[object]) -> None:
        self._until = next((cast("int", g) for g in given if g is not None), self._until)

    def _set_moved(self, given: list[object]) -> None:
        self._moved = max(cast("list[int]", given))

    def _set_mark(self, given: list[object]) -> None:
        self._mark = max(cast("list[int]", given))

    def _set_kinds(self, slots: np.ndarray, kinds: pa.Array) -> None:
        self._kinds = grown(self._kinds, self._pending.capacity)
        self._kinds[slots] = kinds.to_numpy()

    def next_timer(self) -> int | None:
        idle = self._node.load.idle
        return None if self._loaded or idle is None else self._moved + idle

    def output_watermark(self, time: EpochTime) -> int:
        return _marks(time)[0] if self._loaded else MIN_WATERMARK

    def step(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> ChangelogBatch | None:
        left, right = inputs
        _, mark = _marks(time)
        if right is not None and len(right):
            self._hold(right)
        if self._loaded:
            self._forget(self._right.take_expired(time))
        self._apply(mark, time)
        if not self._loaded:
            self._look(mark, time)
            if not self._loaded:
                if left is not None and len(left):
                    times = np.zeros(len(left), np.int64)
                    self._waiting.add(left.columns, np.full(len(left), -1, np.int64), times)
                return None
        outputs: list[ChangelogBatch] = []
        slots = self._waiting.due(_ALL)
        if len(slots):
            outputs += self._answer(self._waiting.take(slots), len(slots), time)
            self._waiting.free(slots)
        if left is not None and len(left):
            outputs += self._answer(left.columns, len(left), time)
        return ChangelogBatch.concat(outputs) if outputs else None

    def _look(self, mark: int, time: EpochTime) -> None:
        """Whether the right side is loaded now."""
        if self._until is None:
            self._until = time.processing_time
        if not self._moved or mark > self._mark:
            self._moved = time.processing_time
        self._mark = mark
        idle = self._node.load.idle
        waited = idle is not None and time.processing_time - self._moved >= idle
        self._loaded = mark >= self._until or waited

    def _hold(self, batch: ChangelogBatch) -> None:
        """Keeps changes until their time has come."""
        batch = reject_null_times(batch, self._node.right_time, self._context)
        times = microseconds(batch.column(self._node.right_time)).copy()
        kinds = batch.kinds_or_inserts()
        before = np.flatnonzero((kinds[:-1] == UPDATE_BEFORE) & (kinds[1:] == UPDATE_AFTER))
        times[before] = np.maximum(times[before], times[before + 1])
        slots = self._pending.add(batch.columns, np.full(len(batch), -1, np.int64), times)
        self._set_kinds(slots, pa.array(kinds))

    def _apply(self, mark: int, time: EpochTime) -> None:
        """The changes of the right side whose time has come."""
        due = self._pending.due(bound(mark, 1))
        if not len(due):
            return
        batch = ChangelogBatch.of(self._pending.take(due), self._node.right.schema, self._kinds[due])
        batch, keys, new, _ = self._right.keyed(batch, self._keys)
        changed = self._right.apply(batch, keys, time)
        self._forget(np.concatenate((self._right.rows.settle(changed), new)))
        self._pending.free(due)

    def _forget(self, keys: np.ndarray) -> None:
        """Gives back keys that have no rows."""
        keys = np.unique(keys)
        self._keys.remove(keys[self._right.rows.bag_sizes(keys) == 0])

    def _answer(self, columns: Sequence[pa.Array], count: int, time: EpochTime) -> list[ChangelogBatch]:
        """Left rows with the right rows of their keys, a batch for so many pairs."""
        node, rows = self._node, self._right.rows
        keys = self._keys.find([columns[k] for k in node.left_keys], count)
        for position in node.left_keys:
            nulls = null_mask(columns[position])
            if nulls is not None:
                keys[nulls] = -1
        known = np.flatnonzero(keys >= 0)
        matched = np.zeros(count, np.bool_)
        found: list[ChangelogBatch] = []
        for index, slots in rows.probe(keys[known], PAIRS):
            index = known[index]
            if self._condition is not None:
                holds = self._condition.holds(
                    lambda p, at: columns[p].take(pa.array(at)), index, rows.take_column, slots, time
                )
                index, slots = index[holds], slots[holds]
            matched[index] = True
            times = rows.count[slots]
            index, slots = np.repeat(index, times), np.repeat(slots, times)
            if len(index):
                taken = pa.array(index)
                found.append(ChangelogBatch.of([*(c.take(taken) for c in columns), *rows.take(slots)], node.schema))
        if node.kind is JoinKind.LEFT and not matched.all():
            alone = pa.array(np.flatnonzero(~matched))
            nothing = [pa.nulls(len(alone), f.type.arrow) for f in node.right.schema]
            found.append(ChangelogBatch.of([*(c.take(alone) for c in columns), *nothing], node.schema))
        return found


def _marks(time: EpochTime) -> tuple[int, int]:
    """The watermarks of the left and the right side."""
    return (time.inputs[0], time.inputs[1]) if time.inputs else (time.watermark, time.watermark)


def _no_key(columns: list[pa.Array]) -> np.ndarray:
    return np.full(len(columns[0]), -1, np.int64)
