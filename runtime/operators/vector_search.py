"""The operator of VECTOR_SEARCH: rows with the nearest of the vectors that another table holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from runtime.core.changelog import ChangelogBatch
from runtime.core.schema import Field, Schema
from runtime.kernels.arrow_buffers import null_mask
from runtime.kernels.vectors import as_matrix
from runtime.operators.lookup_join import LookupJoinOperator
from runtime.operators.operator import EpochTime, OperatorContext, PiecewiseOperator, StateSize
from runtime.operators.vector_index import VectorIndex, vector_index
from runtime.plan.nodes import LookupJoinExec, PhysicalNode, VectorSearchExec
from runtime.plan.parts import VectorIndexSpec
from runtime.state.multiset import RowMultiset
from runtime.state.row_table import row_table
from runtime.state.rows import Identity
from runtime.state.table import StateTable

__all__ = ["VectorSearchOperator"]

_QUERY = "query"


class VectorSearchOperator(PiecewiseOperator):
    """`VectorSearchExec`, INNER or LEFT.

    The changes that the right side has in an epoch are taken in first; then the left rows of the epoch are answered: a
    lookup join with a table that is searched. So nothing is kept of left rows that only come, what was found for others is
    kept to be taken back, and a vector that many rows of an epoch have is searched for once. The index is made anew of the
    kept rows after a restart.
    """

    def __init__(self, node: VectorSearchExec, context: OperatorContext) -> None:
        column = node.right.schema[node.column]
        self._rows = rows = _rows_of(node.right, node.right_unique)
        self._table = row_table(rows, node.kept("vectors"), _no_key)
        self._searched = _Searched(node.index, rows, node.column, node.top_k, Schema(node.found))
        asked = LookupJoinExec(
            node.left,
            self._searched,
            column.name,
            node.kind,
            ((node.query, 0),),
            None,
            node.schema,
            node.mode,
            node.ttl,
        )
        self._join = LookupJoinOperator(asked, context)
        self._left = node.left.schema
        self._waiting: RowMultiset | None = None
        self._waiting_table: StateTable | None = None
        if node.at_end:
            self._waiting = _rows_of(node.left, node.left_unique)
            self._waiting_table = row_table(self._waiting, node.kept("waiting"), _no_key)

    @property
    def tables(self) -> Sequence[StateTable]:
        waiting = () if self._waiting_table is None else (self._waiting_table,)
        return (self._table, *waiting, *self._join.tables)

    @property
    def state_size(self) -> StateSize:
        joined = self._join.state_size
        waiting = (0, 0) if self._waiting is None else (self._waiting.rows, self._waiting.nbytes)
        return StateSize(
            self._rows.rows + joined.rows + waiting[0],
            self._rows.nbytes + self._searched.nbytes + joined.bytes + waiting[1],
        )

    def pieces(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> Iterator[ChangelogBatch]:
        left, right = inputs
        if right is not None and len(right):
            self._searched.change(right)
        waiting = self._waiting
        if waiting is None:
            yield from self._join.pieces([left], time)
            return
        if left is not None and len(left):
            waiting.settle(waiting.apply(left, np.full(len(left), -1, np.int64)))
        if time.ends:
            slots = waiting.live_slots()
            slots = np.repeat(slots, waiting.count[slots])
            yield from self._join.pieces([ChangelogBatch.of(waiting.take(slots), self._left)], time)


class _Searched:
    """The right side as a table that is looked up by a vector: `LookupTable`."""

    def __init__(self, spec: VectorIndexSpec, rows: RowMultiset, column: int, top_k: int, found: Schema) -> None:
        query, *columns = found
        self.schema = Schema((Field(_QUERY, query.type), *(Field(f"{i}", f.type) for i, f in enumerate(columns))))
        self._spec = spec
        self._rows = rows
        self._column = column
        self._top_k = top_k
        self._index: VectorIndex | None = None
        self._width = 0
        self._indexed = np.empty(0, np.bool_)
        self._made = False

    @property
    def nbytes(self) -> int:
        return 0 if self._index is None else self._index.nbytes

    def describe(self) -> dict[str, Any]:
        return {"index": self._spec.text()}

    def change(self, batch: ChangelogBatch) -> None:
        """Take in changes of the rows."""
        self._make()
        rows = self._rows
        changed = rows.apply(batch, np.full(len(batch), -1, np.int64))
        gone = changed[(rows.count[changed] == 0)]
        # A row that takes the place of another one of its key may stand in the same slot.
        stale = changed[rows.count[changed] > 0]
        self._remove(np.concatenate([gone, stale]))
        rows.settle(changed)
        self._add(stale)

    def _make(self) -> None:
        """The index of the rows that are there, before anything is asked or changed."""
        if not self._made:
            self._made = True
            self._add(self._rows.live_slots())

    def _add(self, slots: np.ndarray) -> None:
        column = self._rows.take_column(self._column, slots)
        nulls = null_mask(column)
        if nulls is not None:
            slots, column = slots[~nulls], column.filter(pa.array(~nulls))
        if not len(slots):
            return
        matrix = as_matrix(column, self._width if self._index is not None else None)
        if self._index is None:
            self._width = matrix.shape[1]
            self._index = vector_index(self._spec, self._width, matrix.dtype)
        self._index.add(slots, matrix)
        size = int(slots.max()) + 1
        if size > len(self._indexed):
            self._indexed = np.concatenate([self._indexed, np.zeros(max(size, 64), np.bool_)])
        self._indexed[slots] = True

    def _remove(self, slots: np.ndarray) -> None:
        known = slots[slots < len(self._indexed)]
        known = known[self._indexed[known]]
        if len(known) and self._index is not None:
            self._index.remove(known)
            self._indexed[known] = False

    def lookup(self, key_columns: Sequence[str], keys: pa.RecordBatch) -> tuple[pa.Array, pa.RecordBatch]:
        """The nearest rows of each vector, equal rows as often as they are there, at most `top_k` in all."""
        del key_columns
        self._make()
        query = keys.column(0)
        if self._index is None:
            slots, values = np.empty((len(query), 0), np.int64), np.empty((len(query), 0))
        else:
            slots, values = self._index.search(as_matrix(query, self._width), self._top_k)
        counts = np.where(slots >= 0, self._rows.count[slots] if len(self._rows.count) else 0, 0)
        before = np.cumsum(counts, axis=1) - counts
        counts = np.clip(self._top_k - before, 0, counts)
        flat = counts.reshape(-1)
        place = np.repeat(np.arange(len(flat)), flat)
        positions = place // max(1, slots.shape[1])
        columns = self._rows.take(slots.reshape(-1)[place])
        scores = pa.array(values.reshape(-1)[place])
        empty = pa.nulls(len(place), self.schema[0].type.arrow)
        found = pa.RecordBatch.from_arrays([empty, *columns, scores], names=list(self.schema.names))
        return pa.array(positions, pa.int64()), found


def _rows_of(node: PhysicalNode, unique: tuple[int, ...] | None) -> RowMultiset:
    mode = node.mode
    images = mode.is_retract and not mode.key_only_deletes
    return RowMultiset(node.schema, Identity.of(mode, unique), unique or (), images=images)


def _no_key(columns: list[pa.Array]) -> np.ndarray:
    return np.full(len(columns[0]), -1, np.int64)
