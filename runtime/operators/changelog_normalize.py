"""From an upsert stream to full images: the last row of each key is kept, so that its old image can be sent."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runtime.core.changelog import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, ChangelogBatch
from runtime.operators.operator import EpochTime, Operator, OperatorContext, StateSize
from runtime.plan.nodes import ChangelogNormalizeExec
from runtime.state.keyed import KeyIndex
from runtime.state.keyed_state import KeyedState
from runtime.state.row_table import row_table
from runtime.state.rows import Identity, RowStore
from runtime.state.table import StateTable

__all__ = ["ChangelogNormalizeOperator"]


class ChangelogNormalizeOperator(Operator):
    """Per key the row before the epoch and after it:

        none, row: +I      row, other row: -U +U (only +U when nobody wants -U)      row, none: -D with the full old row
             equal rows: nothing

    A delete of a key that is not there is ignored; a delete may carry the key columns alone (Flink:
    ChangelogNormalize).
    """

    def __init__(self, node: ChangelogNormalizeExec, context: OperatorContext) -> None:
        del context
        self._node = node
        self._rows = RowStore(node.schema, Identity.KEYED, node.keys)
        self._ttl = node.ttl
        self._table = row_table(self._rows, node.kept("rows"), _one_key, of=self._rows.rows_at, ttl=node.ttl)

    @property
    def tables(self) -> Sequence[StateTable]:
        return (self._table,)

    @property
    def keyed(self) -> KeyedState:
        types = [self._node.schema[k].type.arrow for k in self._node.keys]
        return KeyedState.of(self._rows.unique_index, types, self._drop, expires=bool(self._ttl))

    def _drop(self, keys: np.ndarray) -> None:
        self._rows.settle(self._rows.take_away(self._rows.rows_at(keys)[1]))

    @property
    def state_size(self) -> StateSize:
        return StateSize(self._rows.rows, self._rows.nbytes)

    def step(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> ChangelogBatch | None:
        if self._ttl:
            expired = self._rows.expired(time.processing_time - self._ttl)
            self._rows.settle(self._rows.take_away(expired))
        (batch,) = inputs
        if batch is None or not len(batch):
            return None
        if batch.kinds is not None and (batch.kinds == UPDATE_BEFORE).any():
            batch = batch.filter(batch.kinds != UPDATE_BEFORE)
        changed = self._rows.apply(batch, np.zeros(len(batch), dtype=np.int64))
        output = self._difference(changed)
        self._rows.settle(changed)
        if self._ttl:
            self._rows.write_times(np.unique(self._rows.rows_of(batch)), time.processing_time)
        return output

    def _difference(self, changed: np.ndarray) -> ChangelogBatch | None:
        if not len(changed):
            return None
        columns = self._rows.take(changed)
        key_ids, _ = KeyIndex.of(self._node.schema, self._node.keys).insert(
            [columns[k] for k in self._node.keys], len(changed)
        )
        gone = self._rows.delta[changed] < 0
        updated = np.isin(key_ids, key_ids[gone]) & np.isin(key_ids, key_ids[~gone])
        kinds = np.where(
            gone, np.where(updated, UPDATE_BEFORE, DELETE), np.where(updated, UPDATE_AFTER, INSERT)
        ).astype(np.int8)
        order = np.lexsort((~gone, key_ids))
        if not self._node.mode.update_before:
            order = order[kinds[order] != UPDATE_BEFORE]
        return ChangelogBatch.of(columns, self._node.schema, kinds).take(order)


def _one_key(columns: list[pa.Array]) -> np.ndarray:
    return np.zeros(len(columns[0]), np.int64)
