"""LIMIT and OFFSET without ORDER BY: the first rows to arrive that are still there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import pyarrow as pa

from runtime.core.changelog import ChangelogBatch
from runtime.operators.operator import EpochTime, Operator, OperatorContext, StateSize
from runtime.operators.top_n import TopNOperator
from runtime.plan.nodes import LimitExec, RankFunction, TopNExec
from runtime.state.table import StateTable, shared_value

__all__ = ["LimitOperator"]


class LimitOperator(Operator):
    """From an append-only input rows number offset+1 to offset+limit pass, and nothing is kept. From an updating input
    this is the top-n by arrival: a row that is taken back makes room for the next one."""

    def __init__(self, node: LimitExec, context: OperatorContext) -> None:
        self._node = node
        self._seen = 0
        self._top: TopNOperator | None = None
        self._tables: Sequence[StateTable] = (shared_value("count", pa.int64(), lambda: self._seen, self._go_on_from),)
        if not node.input.mode.is_append_only:
            end = None if node.limit is None else node.offset + node.limit
            top = TopNExec(
                node.input,
                RankFunction.ROW_NUMBER,
                (),
                (),
                node.offset + 1,
                end,
                False,
                None,
                node.schema,
                node.mode,
                node.ttl,
            )
            self._top = TopNOperator(top, context)
            self._tables = self._top.tables

    @property
    def tables(self) -> Sequence[StateTable]:
        return self._tables

    def _go_on_from(self, counts: list[object]) -> None:
        self._seen = max(cast("list[int]", counts))

    @property
    def state_size(self) -> StateSize:
        return self._top.state_size if self._top is not None else StateSize(0, 0)

    @property
    def complete(self) -> bool:
        limit = self._node.limit
        return self._top is None and limit is not None and self._seen >= self._node.offset + limit

    def takes_parts(self, position: int) -> bool:
        return self._top is None

    def step(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> ChangelogBatch | None:
        if self._top is not None:
            return self._top.step(inputs, time)
        (batch,) = inputs
        if batch is None or not len(batch):
            return None
        numbers = np.arange(self._seen, self._seen + len(batch))
        self._seen += len(batch)
        keep = numbers >= self._node.offset
        if self._node.limit is not None:
            keep &= numbers < self._node.offset + self._node.limit
        kept = batch.filter(keep)
        return kept if len(kept) else None
