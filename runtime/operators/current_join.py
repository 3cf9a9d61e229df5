"""Join as of processing time with a relation that changes: each row with what the other side holds when it comes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from runtime.core.changelog import ChangelogBatch
from runtime.kernels.arrow_buffers import null_mask
from runtime.operators.enriching import EnrichingOperator
from runtime.operators.join_condition import JoinCondition
from runtime.operators.join_side import JoinSide
from runtime.operators.operator import EpochTime, OperatorContext, StateSize
from runtime.plan.nodes import CurrentJoinExec
from runtime.state.keyed import KeyIndex
from runtime.state.table import StateTable

__all__ = ["CurrentJoinOperator"]


class CurrentJoinOperator(EnrichingOperator):
    """`CurrentJoinExec`. The right side's changes of an epoch are taken in first, so a row sees its epoch as a whole; what
    comes later changes nothing that is out. NULL in a key matches nothing."""

    def __init__(self, node: CurrentJoinExec, context: OperatorContext) -> None:
        super().__init__(node, node.right.schema, context)
        types = [node.right.schema[k].type.arrow for k in node.right_keys]
        flags = [False] * len(types)
        self._keys = KeyIndex(types, flags)
        plain = node.right.mode.is_append_only
        right = node.right
        self._right = JoinSide(
            right.schema, right.mode, node.right_keys, node.right_unique, flags, False, False, 0, plain
        )
        self._left_keys = node.left_keys
        self._table = self._right.table(node.kept("right"), self._keys)
        self._condition = None
        if node.condition is not None:
            self._condition = JoinCondition(node.condition, len(node.left.schema), context)

    @property
    def tables(self) -> Sequence[StateTable]:
        return (*super().tables, self._table)

    @property
    def state_size(self) -> StateSize:
        mine = StateSize(self._right.rows.rows, self._right.nbytes + self._keys.nbytes)
        return StateSize.total((super().state_size, mine))

    def takes_parts(self, position: int) -> bool:
        return position == 1 and self._right.takes_parts

    def pieces(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> Iterator[ChangelogBatch]:
        left, right = inputs
        if right is not None and len(right):
            right, keys, fresh, _ = self._right.keyed(right, self._keys)
            lost = self._right.rows.settle(self._right.apply(right, keys, time))
            seen = np.unique(np.concatenate((fresh, lost)))
            self._keys.remove(seen[self._right.rows.bag_sizes(seen) == 0])
        yield from self.enriched(left, time)

    def found(self, rows: pa.RecordBatch, time: EpochTime) -> tuple[np.ndarray, list[pa.Array]]:
        keys = [rows.column(k) for k in self._left_keys]
        usable = np.ones(rows.num_rows, np.bool_)
        for key in keys:
            nulls = null_mask(key)
            if nulls is not None:
                usable &= ~nulls
        slots = np.full(rows.num_rows, -1, np.int64)
        slots[usable] = self._keys.find([key.filter(pa.array(usable)) for key in keys], int(usable.sum()))
        index, match = self._right.rows.all(slots)
        if self._condition is not None and len(index):
            holds = self._condition.holds(
                lambda p, at: rows.column(p).take(pa.array(at)), index, self._right.rows.take_column, match, time
            )
            index, match = index[holds], match[holds]
        if not self._right.rows.plain:
            times = self._right.rows.count[match]
            if (times != 1).any():
                index, match = np.repeat(index, times), np.repeat(match, times)
        return index, self._right.rows.take(match)
