"""INTERSECT and EXCEPT, with and without ALL, by counting equal rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runtime.core.changelog import DELETE, INSERT, UPDATE_BEFORE, ChangelogBatch
from runtime.core.errors import InternalError
from runtime.kernels.columns import ColumnStore
from runtime.kernels.grouping import distinct_rows
from runtime.kernels.grow import grown
from runtime.operators.operator import EpochTime, Operator, OperatorContext, StateSize
from runtime.plan.nodes import SetOperationExec
from runtime.plan.state import column_names
from runtime.state.idle_slots import IdleSlots
from runtime.state.keyed import KeyIndex
from runtime.state.keyed_state import KeyedState
from runtime.state.table import TOUCHED, StateTable, every_row

__all__ = ["SetOperationOperator"]

_NONE = np.empty(0, np.int64)


class SetOperationOperator(Operator):
    """`SetOperationExec`: how often each distinct row is on either side; an epoch gives the difference of the
    resulting multiplicities.

    NULL equals NULL. Both inputs must give full images. A row that no change has come to for longer than the node's `ttl`
    is forgotten; nothing is sent for that. In a batch plan the rows come once, at the end of the input.

    Raises:
        InternalError: an input is an upsert stream.
    """

    def __init__(self, node: SetOperationExec, context: OperatorContext) -> None:
        if node.left.mode.is_upsert or node.right.mode.is_upsert:
            raise InternalError("a set operation needs the old images of its inputs")
        types = [f.type.arrow for f in node.left.schema]
        self._schema = node.schema
        self._intersect = node.kind == "INTERSECT"
        self._all = node.all
        self._delete = UPDATE_BEFORE if node.mode.update_before and not node.mode.delete else DELETE
        self._at_end = node.emits_at_end
        self._index = KeyIndex(types)
        self._store = ColumnStore(types)
        self._types = types
        self._counts = np.zeros((0, 2), np.int64)
        self._idle = IdleSlots(node.ttl) if node.ttl else None
        names = column_names(node.left.schema)
        kept = node.kept("rows")
        self._table = StateTable(
            kept.name,
            [
                *zip(names, types, strict=True),
                ("$left", pa.int64()),
                ("$right", pa.int64()),
                *([] if self._idle is None else [(TOUCHED, pa.int64())]),
            ],
            live=self._index.live_slots,
            read=lambda slots: [
                *self._store.take(slots),
                *(pa.array(side) for side in self._counts[slots].T),
                *([] if self._idle is None else [self._idle.times(slots)]),
            ],
            load=self._load,
            key=kept.key_names,
            of=every_row,
            ttl=node.ttl,
        )

    @property
    def tables(self) -> Sequence[StateTable]:
        return (self._table,)

    @property
    def keyed(self) -> KeyedState:
        return KeyedState.of(self._index, self._types, self._drop, expires=self._idle is not None)

    def _load(self, columns: list[pa.Array]) -> np.ndarray:
        touched = None if self._idle is None else columns.pop()
        rows, counts = columns[:-2], columns[-2:]
        slots, _ = self._index.insert(rows, len(counts[0]))
        self._counts = grown(self._counts, self._index.capacity)
        self._store.put(slots, rows)
        self._counts[slots] = np.stack([c.to_numpy() for c in counts], axis=1)
        if self._idle is not None and touched is not None:
            self._idle.restore(slots, touched)
        return slots

    def step(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> ChangelogBatch | None:
        if self._idle is not None:
            expired = self._idle.expired(time.processing_time)
            self._drop(expired)
            self._table.freed(expired)
        output = self._take_in(inputs, time)
        if not self._at_end:
            return output
        slots = self._index.live_slots() if time.ends else _NONE
        return self._output(slots, self._multiplicity(slots))

    def _take_in(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> ChangelogBatch | None:
        parts = [(side, batch) for side, batch in enumerate(inputs) if batch is not None and len(batch)]
        if not parts:
            return None
        columns = [
            pa.concat_arrays([batch.column(i).cast(type_) for _, batch in parts]) for i, type_ in enumerate(self._types)
        ]
        slots, is_new = self._index.insert(columns)
        self._counts = grown(self._counts, self._index.capacity)
        new = np.flatnonzero(is_new)
        self._store.put(slots[new], [c.take(pa.array(new)) for c in columns])
        self._counts[slots[new]] = 0
        touched = slots[distinct_rows(slots)]
        before = self._multiplicity(touched)
        start = 0
        for side, batch in parts:
            np.add.at(self._counts[:, side], slots[start : start + len(batch)], batch.signs())
            start += len(batch)
        # What is taken back but was never there is passed over.
        self._counts[touched] = np.maximum(self._counts[touched], 0)
        output = None if self._at_end else self._output(touched, self._multiplicity(touched) - before)
        gone = touched[(self._counts[touched] == 0).all(axis=1)]
        self._drop(gone)
        if self._idle is not None:
            self._idle.touch(touched[(self._counts[touched] > 0).any(axis=1)], time.processing_time)
        self._table.wrote(touched)
        self._table.freed(gone)
        return output

    def _drop(self, slots: np.ndarray) -> None:
        self._store.free(slots)
        self._index.remove(slots)
        if self._idle is not None:
            self._idle.forget(slots)

    @property
    def state_size(self) -> StateSize:
        return StateSize(len(self._index), self._index.nbytes + self._store.nbytes + self._counts.nbytes)

    def _multiplicity(self, slots: np.ndarray) -> np.ndarray:
        """How often each row is in the result, from the counts of both sides."""
        left, right = self._counts[slots, 0], self._counts[slots, 1]
        if self._all:
            return np.minimum(left, right) if self._intersect else np.maximum(left - right, 0)
        return ((left > 0) & ((right > 0) if self._intersect else (right == 0))).astype(np.int64)

    def _output(self, slots: np.ndarray, change: np.ndarray) -> ChangelogBatch | None:
        """The rows as often as their multiplicity has changed, deletes first."""
        minus, plus = change < 0, change > 0
        rows = np.concatenate((np.repeat(slots[minus], -change[minus]), np.repeat(slots[plus], change[plus])))
        if not len(rows):
            return None
        kinds = np.full(len(rows), INSERT, np.int8)
        kinds[: int(-change[minus].sum())] = self._delete
        return ChangelogBatch.of(self._store.take(rows), self._schema, kinds)
