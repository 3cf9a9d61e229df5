"""Changes held back until the watermark moves: a stream is then as complete as it says."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runtime.core.changelog import ChangelogBatch
from runtime.core.schema import Field, Schema
from runtime.core.types import TINYINT
from runtime.operators.operator import EpochTime, Operator, StateSize
from runtime.plan.state import StateSpec
from runtime.state.table import StateTable
from runtime.state.timed import TimedRows
from runtime.state.timed_table import timed_table

__all__ = ["UntilWatermarkOperator"]


class UntilWatermarkOperator(Operator):
    """Gives an operator all changes since the watermark last moved, in the order of their arrival, when it moves again.

    So what the operator makes of rows that come and go in between does not depend on where epochs are cut. At the end of
    the input the watermark moves for the last time. State: the changes that wait; `keys` decide their key group.
    """

    def __init__(self, inner: Operator, spec: StateSpec) -> None:
        self._inner = inner
        self._schema = spec.schema
        kept = Schema((*spec.schema.fields, Field("$kind", TINYINT)))
        self._waiting = TimedRows(kept, keyed=False)
        self._table = timed_table(self._waiting, spec._replace(schema=kept), _no_key)

    @property
    def tables(self) -> Sequence[StateTable]:
        return (self._table, *self._inner.tables)

    @property
    def state_size(self) -> StateSize:
        inner = self._inner.state_size
        return StateSize(inner.rows + self._waiting.rows, inner.bytes + self._waiting.nbytes)

    def restored(self) -> None:
        self._inner.restored()

    def step(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> ChangelogBatch | None:
        (batch,) = inputs
        moves = time.watermark > time.previous_watermark
        if moves and not self._waiting.rows:
            return self._inner.step([batch], time)
        if batch is not None and len(batch):
            columns = [*batch.columns, pa.array(batch.kinds_or_inserts(), pa.int8())]
            nothing = np.zeros(len(batch), np.int64)
            self._waiting.add(columns, nothing - 1, nothing)
        return self._inner.step([self._all() if moves else None], time)

    def _all(self) -> ChangelogBatch:
        slots = self._waiting.due(1)
        *columns, kinds = self._waiting.take(slots)
        self._waiting.free(slots)
        changes = kinds.to_numpy(zero_copy_only=False).astype(np.int8)
        return ChangelogBatch.of(columns, self._schema, changes if changes.any() else None)

    def close(self) -> None:
        self._inner.close()


def _no_key(columns: list[pa.Array]) -> np.ndarray:
    return np.full(len(columns[0]), -1, np.int64)
