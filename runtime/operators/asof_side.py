"""One input of an ASOF join: its rows by key, in order of time."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runtime.core.changelog import ChangelogBatch, ChangelogMode
from runtime.core.schema import Schema
from runtime.kernels.arrow_buffers import null_mask
from runtime.operators.operator import EpochTime, OperatorContext
from runtime.plan.parts import SortSpec
from runtime.plan.state import StateSpec
from runtime.state.keyed import KeyIndex
from runtime.state.ordered import OrderedRows
from runtime.state.row_table import row_table
from runtime.state.rows import Identity
from runtime.state.table import StateTable
from runtime.state.timed import bound, microseconds

__all__ = ["AsofSide"]


class AsofSide:
    """One input. Rows that can match nothing are kept only where an update by key alone may need them; those without a
    time then stand behind all others of their key."""

    def __init__(
        self,
        schema: Schema,
        mode: ChangelogMode,
        keys: tuple[int, ...],
        time: int,
        unique: tuple[int, ...] | None,
    ) -> None:
        identity = Identity.of(mode, unique)
        images = mode.is_retract and not mode.key_only_deletes
        order = (SortSpec(time, False, True),)
        self.rows = OrderedRows(schema, order, identity, unique or (), totals=True, images=images)
        # Old images by key are told from new ones within an epoch: see `RowStore`.
        self.takes_parts = not (identity is Identity.KEYED and images)
        self._keys = keys
        self._time = time

    def table(self, spec: StateSpec, index: KeyIndex) -> StateTable:
        """The state table of this side."""
        return row_table(self.rows, spec, lambda columns: self._slots(columns, index)[0], of=self.rows.all)

    def _slots(self, columns: list[pa.Array], index: KeyIndex) -> tuple[np.ndarray, np.ndarray]:
        return index.insert([columns[k] for k in self._keys], len(columns[0]))

    def in_time(self, batch: ChangelogBatch, time: EpochTime, context: OperatorContext) -> ChangelogBatch:
        """The rows that are not late; the others are rejected."""
        times = batch.column(self._time)
        late = microseconds(times.fill_null(bound_time(times.type))) < bound(time.previous_watermark, 1)
        nulls = null_mask(times)
        if nulls is not None:
            late &= ~nulls
        if not late.any():
            return batch
        lost = batch.rows.filter(pa.array(late))
        context.reject("late", lost, time.previous_watermark, lost.column(self._time))
        return batch.filter(~late)

    def usable(self, batch: ChangelogBatch) -> tuple[ChangelogBatch, ChangelogBatch | None]:
        """The changes to keep, and those of rows that can match nothing where they are not kept."""
        if self.rows.identity is Identity.KEYED:
            return batch, None
        missing = _any_null([batch.column(p) for p in (*self._keys, self._time)])
        return (batch, None) if missing is None else (batch.filter(~missing), batch.filter(missing))

    def apply(self, batch: ChangelogBatch, index: KeyIndex) -> tuple[np.ndarray, np.ndarray]:
        """Takes the changes in: the row slots that changed, and the key slots that are new."""
        keys, is_new = self._slots(list(batch.columns), index)
        return self.rows.apply(batch, keys), keys[is_new]

    def times(self, slots: np.ndarray) -> pa.Array:
        """The time of rows."""
        return self.rows.take_column(self._time, slots)

    def without_time(self, slots: np.ndarray) -> np.ndarray:
        """Which rows have no time, bool."""
        nulls = null_mask(self.times(slots))
        return np.zeros(len(slots), np.bool_) if nulls is None else nulls

    def can_match(self, slots: np.ndarray) -> np.ndarray:
        """Which rows have a time and a whole key, bool."""
        whole = np.ones(len(slots), np.bool_)
        if self.rows.identity is Identity.KEYED:
            missing = _any_null([self.rows.take_column(p, slots) for p in (*self._keys, self._time)])
            if missing is not None:
                whole = ~missing
        return whole

    def drop(self, slots: np.ndarray) -> np.ndarray:
        """Forgets rows; the keys that lost one, with repeats."""
        return self.rows.settle(self.rows.take_away(slots))


def bound_time(type_: pa.DataType) -> pa.Scalar:
    """Some time, to stand for NULL."""
    return pa.scalar(0, pa.int64()).cast(type_)


def _any_null(columns: list[pa.Array]) -> np.ndarray | None:
    missing: np.ndarray | None = None
    for column in columns:
        nulls = null_mask(column)
        if nulls is not None:
            missing = nulls if missing is None else missing | nulls
    return missing
