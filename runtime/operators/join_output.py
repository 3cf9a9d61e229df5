"""What a join gives: pairs of row slots with weights, put together to one batch of changes."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import pyarrow as pa

from runtime.core.changelog import DELETE, INSERT, UPDATE_BEFORE, ChangelogBatch, ChangelogMode
from runtime.core.schema import Schema

__all__ = ["PairOutput", "RowSource"]


class RowSource(Protocol):
    """Where the rows of one side are read by slot; -1 gives a row of NULLs."""

    def take(self, slots: np.ndarray) -> list[pa.Array]: ...


class PairOutput:
    """Collects weighted pairs of one epoch; deletes are given before inserts.

    Deletes come first so that a reader by key, too, ends at the right row. A delete is `-D`, or `-U` where the mode
    has no `-D`.

    Args:
        schema: the join's output: left columns, then right columns, or left columns alone when `left_only`.
    """

    def __init__(self, schema: Schema, mode: ChangelogMode, left: RowSource, right: RowSource, left_only: bool) -> None:
        self._schema = schema
        self._left = left
        self._right = right
        self._left_only = left_only
        self._minus = UPDATE_BEFORE if mode.update_before and not mode.delete else DELETE
        self._pairs: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def add(self, left: np.ndarray, right: np.ndarray, weights: np.ndarray) -> None:
        """Pairs of slots (-1 for a side that is padded), each so many times: taken back where the weight is negative;
        zeros are left out."""
        live = weights != 0
        if live.all():
            if len(left):
                self._pairs.append((left, right, weights))
        elif live.any():
            self._pairs.append((left[live], right[live], weights[live]))

    def add_left(self, left: np.ndarray, weights: np.ndarray) -> None:
        """Left rows alone."""
        self.add(left, np.full(len(left), -1, np.int64), weights)

    def add_right(self, right: np.ndarray, weights: np.ndarray) -> None:
        self.add(np.full(len(right), -1, np.int64), right, weights)

    def finish(self) -> tuple[ChangelogBatch | None, ChangelogBatch | None]:
        """The deletes and the inserts collected so far, and forgets them."""
        if not self._pairs:
            return None, None
        pairs = self._pairs
        self._pairs = []
        left, right, weights = (
            pairs[0] if len(pairs) == 1 else tuple(np.concatenate(a) for a in zip(*pairs, strict=True))
        )
        if (weights > 0).all():
            return None, self._batch(left, right, weights, INSERT)
        minus = weights < 0
        plus = ~minus
        deletes = self._batch(left[minus], right[minus], -weights[minus], self._minus)
        inserts = self._batch(left[plus], right[plus], weights[plus], INSERT) if plus.any() else None
        return deletes, inserts

    def _batch(self, left: np.ndarray, right: np.ndarray, times: np.ndarray, kind: int) -> ChangelogBatch:
        if (times != 1).any():
            left, right = np.repeat(left, times), np.repeat(right, times)
        columns = self._left.take(left)
        if not self._left_only:
            columns += self._right.take(right)
        return ChangelogBatch.of(columns, self._schema, None if kind == INSERT else np.full(len(left), kind, np.int8))
