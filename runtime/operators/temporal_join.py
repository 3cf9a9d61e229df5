"""Event-time temporal join: each left row with the version of its key that was valid at its time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runtime.core.changelog import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, ChangelogBatch
from runtime.kernels.arrow_buffers import null_mask
from runtime.kernels.cancel import consolidate
from runtime.kernels.grow import grown
from runtime.kernels.key_encoding import KeyEncoder
from runtime.operators.join_condition import JoinCondition
from runtime.operators.operator import EpochTime, Operator, OperatorContext, StateSize
from runtime.operators.touched_table import touched_table
from runtime.operators.window_columns import reject_null_times
from runtime.plan.nodes import JoinKind, TemporalJoinExec
from runtime.state.idle_slots import IdleSlots
from runtime.state.keyed import KeyIndex
from runtime.state.row_table import RowColumn
from runtime.state.table import StateTable
from runtime.state.timed import TimedRows, bound, microseconds
from runtime.state.timed_table import timed_table
from runtime.state.versions import Versions

__all__ = ["TemporalJoinOperator"]


class TemporalJoinOperator(Operator):
    """`TemporalJoinExec`, INNER or LEFT.

    Left rows wait until the watermark of both sides has reached their time; then the version is the newest one of
    their key that is not newer than they are, if it is not a delete. What is found stays: versions that come late
    never change what has been given.

    Old versions go when a newer one has been passed by the watermark. A late left row is answered as long as the
    version of its time is still known (Flink answers it from whatever is left), else it is rejected. An updating left
    side takes rows back at any later time, so versions are then kept for good, and a version that comes late counts
    from the watermark it met, so that a row that is taken back finds the version that it was given with.

    A version that comes late for a key that is not there is rejected when it is older than some delete that went:
    the key may be the one that was deleted.

    A key that no row of either side has come for in longer than the node's `ttl` is forgotten with its versions; rows
    that come later are answered as if it had never been.

    Of the right side's changes `-U` is passed over, as its `+U` follows; `-D` is a version that matches nothing,
    unless it takes back the newest version and an insert of its key follows in the epoch: that is an update, too.
    """

    def __init__(self, node: TemporalJoinExec, context: OperatorContext) -> None:
        self._context = context
        self._schema = node.schema
        self._outer = node.kind is JoinKind.LEFT
        self._left_keys = node.left_keys
        self._left_time = node.left_time
        self._right_keys = node.right_keys
        self._right_time = node.right_time
        self._left_mode = node.left.mode
        self._mode = node.mode
        self._condition = None
        if node.condition is not None:
            self._condition = JoinCondition(node.condition, len(node.left.schema), context)
        self._waiting = TimedRows(node.left.schema, keyed=False)
        self._kinds = np.empty(0, np.int8)
        self._keys = KeyIndex.of(node.right.schema, node.right_keys)
        self._versions = Versions(node.right.schema)
        self._idle = IdleSlots(node.ttl) if node.ttl else None
        self._touched = None
        if self._idle is not None:
            self._touched = touched_table(self._keys, self._idle, node.kept("touched"))
        kinds = RowColumn("$kind", pa.int8(), lambda slots: pa.array(self._kinds[slots]), self._set_kinds)
        self._tables = (
            timed_table(
                self._waiting,
                node.kept("waiting"),
                lambda columns: np.full(len(columns[0]), -1, np.int64),
                extra=[] if node.left.mode.is_append_only else [kinds],
            ),
            *self._versions.tables(node.kept("keys"), node.kept("versions"), self._keys),
            *([] if self._touched is None else [self._touched]),
        )

    @property
    def tables(self) -> Sequence[StateTable]:
        return self._tables

    def step(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> ChangelogBatch | None:
        left, right = inputs
        if self._idle is not None:
            expired = self._idle.expired(time.processing_time)
            self._versions.forget(expired)
            self._remove(expired)
        if right is not None and len(right):
            self._add_versions(right, time)
        come = None
        if left is not None and len(left):
            come = self._add_rows(left, time)
        due = self._waiting.due(bound(time.watermark, 1), with_slots=come)
        output = self._answer(due, time) if len(due) else None
        self._waiting.free(due)
        if self._left_mode.is_append_only and time.watermark > time.previous_watermark:
            self._remove(self._versions.prune(bound(time.watermark, 1) - 1))
        return output

    def _remove(self, keys: np.ndarray) -> None:
        """Gives back key slots that have no versions."""
        self._keys.remove(keys)
        if self._idle is not None and self._touched is not None:
            self._idle.forget(keys)
            self._touched.freed(keys)

    def _touch(self, keys: np.ndarray, time: EpochTime) -> None:
        """Keys are in use; -1 is none."""
        if self._idle is not None and self._touched is not None:
            keys = np.unique(keys[keys >= 0])
            self._idle.touch(keys, time.processing_time)
            self._touched.wrote(keys)

    @property
    def state_size(self) -> StateSize:
        rows = self._waiting.rows + self._versions.rows
        return StateSize(rows, self._waiting.nbytes + self._kinds.nbytes + self._versions.nbytes + self._keys.nbytes)

    def _add_versions(self, batch: ChangelogBatch, time: EpochTime) -> None:
        kinds = batch.kinds_or_inserts()
        unusable = _any_null(batch, self._right_keys)
        if unusable is not None:
            batch, kinds = batch.filter(~unusable), kinds[~unusable]
        images = kinds != UPDATE_BEFORE
        batch, kinds = batch.filter(images), kinds[images]
        deleted = kinds == DELETE
        nulls = null_mask(batch.column(self._right_time))
        if nulls is not None and (nulls & ~deleted).any():
            bad = nulls & ~deleted
            self._context.reject("NULL event time", batch.rows.filter(pa.array(bad)))
            batch, deleted, nulls = batch.filter(~bad), deleted[~bad], nulls[~bad]
        batch, deleted, nulls = self._with_known_past(batch, deleted, nulls, time)
        if not len(batch):
            return
        keys, is_new = self._keys.insert([batch.column(k) for k in self._right_keys], len(batch))
        self._versions.begin(keys[is_new])
        self._touch(keys, time)
        times = microseconds(batch.column(self._right_time))
        if nulls is not None and nulls.any():
            # A delete by key alone holds from when it is known.
            times = np.where(nulls, np.maximum(self._versions.newest(keys), _passed(time)), times)
        if not self._left_mode.is_append_only:
            late = times <= _passed(time)
            if late.any():
                useful = ~late | (times >= self._versions.newest_until(keys, np.full(len(keys), _passed(time))))
                times = np.where(late, _passed(time), times)
                keys, times, deleted, batch = keys[useful], times[useful], deleted[useful], batch.filter(useful)
        replaced = self._replaced(keys, times, deleted)
        if replaced.any():
            batch, keys, times, deleted = batch.filter(~replaced), keys[~replaced], times[~replaced], deleted[~replaced]
        self._versions.add(batch.columns, keys, times, deleted)

    def _with_known_past(
        self, batch: ChangelogBatch, deleted: np.ndarray, nulls: np.ndarray | None, time: EpochTime
    ) -> tuple[ChangelogBatch, np.ndarray, np.ndarray | None]:
        """Without the late versions of keys that are not there, when deletes newer than they are have been dropped: as
        their key may have been deleted since, they are rejected, or a deleted row would come back."""
        old = self._versions.may_be_superseded(microseconds(batch.column(self._right_time)))
        if nulls is not None:
            old &= ~nulls
        if not old.any():
            return batch, deleted, nulls
        old &= self._keys.find([batch.column(k) for k in self._right_keys], len(batch)) < 0
        lost = batch.rows.filter(pa.array(old & ~deleted))
        reason = "it is late, and whether its key was deleted since is no longer known"
        self._context.reject(reason, lost, time.previous_watermark, lost.column(self._right_time))
        return batch.filter(~old), deleted[~old], None if nulls is None else nulls[~old]

    def _replaced(self, keys: np.ndarray, times: np.ndarray, deleted: np.ndarray) -> np.ndarray:
        """Deletes that are the first half of an update: the newest version itself is taken back, and its key comes
        again after it."""
        if not deleted.any() or deleted.all():
            return np.zeros(len(keys), np.bool_)
        distinct, group = np.unique(keys, return_inverse=True)
        position = np.arange(len(keys))
        last_insert = np.full(len(distinct), -1)
        last_insert[group[~deleted]] = position[~deleted]
        return deleted & (position < last_insert[group]) & (times == self._versions.newest(keys))

    def _add_rows(self, batch: ChangelogBatch, time: EpochTime) -> np.ndarray:
        """Keeps rows; the slots of those that are due at once."""
        batch = reject_null_times(batch, self._left_time, self._context)
        if self._idle is not None:
            self._touch(self._keys.find([batch.column(k) for k in self._left_keys], len(batch)), time)
        times = microseconds(batch.column(self._left_time))
        slots, due = self._waiting.add_waiting(batch.columns, times, bound(time.watermark, 1))
        if not self._left_mode.is_append_only:
            self._set_kinds(slots, pa.array(batch.kinds_or_inserts()))
        return due

    def _set_kinds(self, slots: np.ndarray, kinds: pa.Array) -> None:
        self._kinds = grown(self._kinds, self._waiting.capacity)
        self._kinds[slots] = kinds.to_numpy()

    def _answer(self, due: np.ndarray, time: EpochTime) -> ChangelogBatch | None:
        kinds = None if self._left_mode.is_append_only else self._kinds[due]
        if self._left_mode.is_retract:
            due, kinds = self._net(due, kinds)
        left = self._waiting.take(due)
        keys = self._keys.find([left[k] for k in self._left_keys], len(due))
        for position in self._left_keys:
            nulls = null_mask(left[position])
            if nulls is not None:
                keys[nulls] = -1
        times = self._waiting.time[due]
        if self._left_mode.is_append_only:
            known = self._versions.known(keys, times)
            if not known.all():
                rows = pa.RecordBatch.from_arrays(
                    [c.filter(pa.array(~known)) for c in left], names=[str(i) for i in range(len(left))]
                )
                reason = "it is late, and the version of its time is no longer kept"
                self._context.reject(reason, rows, time.previous_watermark, rows.column(self._left_time))
                due, keys, times = due[known], keys[known], times[known]
        version = self._versions.valid_at(keys, times)
        if self._condition is not None:
            rows = np.flatnonzero(version >= 0)
            holds = self._condition.holds(
                self._waiting.take_column, due[rows], self._versions.take_column, version[rows], time
            )
            version[rows[~holds]] = -1
        return self._batch(due, version, kinds)

    def _batch(self, due: np.ndarray, version: np.ndarray, kinds: np.ndarray | None) -> ChangelogBatch | None:
        if not self._outer:
            found = version >= 0
            if kinds is not None and self._left_mode.is_upsert:
                # An update that matches nothing any more takes the row of its key away.
                lost = ~found & (kinds == UPDATE_AFTER)
                kinds = np.where(lost, np.int8(DELETE), kinds)
                found |= lost | (kinds == DELETE)
            due, version = due[found], version[found]
            kinds = None if kinds is None else kinds[found]
        if not len(due):
            return None
        return ChangelogBatch.of(self._waiting.take(due) + self._versions.take(version), self._schema, kinds)

    def _net(self, due: np.ndarray, kinds: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """What is left of full images that come and go within the rows due now, deletes first."""
        assert kinds is not None
        signs = np.where((kinds == UPDATE_BEFORE) | (kinds == DELETE), -1, 1)
        columns = self._waiting.take(due)
        keep, net = consolidate(KeyEncoder([c.type for c in columns], exact=True).encode(columns), signs)
        order = np.argsort(net > 0, kind="stable")
        keep, net = keep[order], net[order]
        delete = UPDATE_BEFORE if self._mode.update_before and not self._mode.delete else DELETE
        times = np.abs(net)
        return np.repeat(due[keep], times), np.repeat(np.where(net > 0, INSERT, delete).astype(np.int8), times)


def _passed(time: EpochTime) -> int:
    """The last microsecond that the watermark before this epoch has passed."""
    return bound(time.previous_watermark, 1) - 1


def _any_null(batch: ChangelogBatch, positions: Sequence[int]) -> np.ndarray | None:
    missing: np.ndarray | None = None
    for position in positions:
        nulls = null_mask(batch.column(position))
        if nulls is not None:
            missing = nulls if missing is None else missing | nulls
    return missing
