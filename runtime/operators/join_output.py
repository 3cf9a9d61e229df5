"""What a join gives: pairs of row slots with weights, put together to batches of changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from runtime.core.cancellation import look
from runtime.core.changelog import (
    DELETE,
    INSERT,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    ChangelogBatch,
    ChangelogMode,
    record_batch,
)
from runtime.core.schema import Schema
from runtime.kernels.grouping import group_ids

__all__ = ["PairOutput", "RowSource"]


_MANY = 1024
"""From so many rows on it pays to look which of them are the same."""

Replaced = tuple[np.ndarray, np.ndarray] | None
"""The slots of rows that were replaced, and of those that replaced them."""

_Pairs = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Slots of both sides, and weights."""


class RowSource(Protocol):
    """Where the rows of one side are read by slot; -1 gives a row of NULLs."""

    def take(self, slots: np.ndarray) -> list[pa.Array]: ...


class PairOutput:
    """Collects weighted pairs of one epoch; deletes are given before inserts.

    Deletes come first so that a reader by key, too, ends at the right row. A delete is `-D`, or `-U` where the mode
    has no `-D`.

    Args:
        schema: the join's output: left columns, then right columns, or left columns alone when `left_only`.
        max_rows: how many rows a batch of `pieces` has at most.
        coded: texts may be given coded (see `ChangelogBatch`), which they are when a side's rows come often.
    """

    def __init__(
        self,
        schema: Schema,
        mode: ChangelogMode,
        left: RowSource,
        right: RowSource,
        left_only: bool,
        max_rows: int = 1 << 62,
        coded: bool = False,
    ) -> None:
        self._coded = coded
        self._max_rows = max(1, max_rows)
        self._schema = schema
        self._left = left
        self._right = right
        self._left_only = left_only
        self._minus = UPDATE_BEFORE if mode.update_before and not mode.delete else DELETE
        self._gives_updates = mode.update_before and mode.update_after
        self._pairs: list[_Pairs] = []
        self._rows_held = 0

    @property
    def full(self) -> bool:
        """Whether what was collected is more than one batch may hold."""
        return self._rows_held > self._max_rows

    def fits(self, others: Sequence[ChangelogBatch]) -> bool:
        """Whether what was collected and others' rows go into one batch."""
        return self._rows_held + sum(map(len, others)) <= self._max_rows

    def sliced(self, batches: Sequence[ChangelogBatch]) -> Iterator[ChangelogBatch]:
        """Others' rows in batches that are not too large."""
        for batch in batches:
            for at in range(0, len(batch), self._max_rows):
                yield batch.slice(at, min(self._max_rows, len(batch) - at))

    def add(self, left: np.ndarray, right: np.ndarray, weights: np.ndarray) -> None:
        """Pairs of slots (-1 for a side that is padded), each so many times: taken back where the weight is negative;
        zeros are left out."""
        live = weights != 0
        if not live.all():
            left, right, weights = left[live], right[live], weights[live]
        if len(left):
            self._pairs.append((left, right, weights))
            self._rows_held += int(np.abs(weights).sum())

    def add_left(self, left: np.ndarray, weights: np.ndarray) -> None:
        """Left rows alone."""
        self.add(left, np.full(len(left), -1, np.int64), weights)

    def add_right(self, right: np.ndarray, weights: np.ndarray) -> None:
        self.add(np.full(len(right), -1, np.int64), right, weights)

    def finish(
        self, left_replaced: Replaced = None, right_replaced: Replaced = None
    ) -> tuple[ChangelogBatch | None, ChangelogBatch | None]:
        """The deletes, and the updates and inserts, collected so far; forgets them.

        A delete whose rows were replaced by those of an insert is an update, `-U` and `+U` side by side, where the mode
        has both.
        """
        if not self._pairs:
            return None, None
        left, right, weights = self._collected()
        minus = weights < 0
        if not minus.any():
            return None, self._batch(left, right, weights)
        deletes = (left[minus], right[minus], -weights[minus])
        inserts = (left[~minus], right[~minus], weights[~minus])
        old, new = np.empty(0, np.int64), np.empty(0, np.int64)
        if self._gives_updates and (left_replaced is not None or right_replaced is not None):
            wanted = (_successor(deletes[0], left_replaced), _successor(deletes[1], right_replaced))
            old, new = _same_pairs(wanted, inserts[:2])
            single = (deletes[2][old] == 1) & (inserts[2][new] == 1)
            old, new = old[single], new[single]
        parts = [
            self._batch(*_without(deletes, old), kind=self._minus),
            None,
            self._batch(*_without(inserts, new)),
        ]
        if len(old):
            order = np.arange(2 * len(old)).reshape(2, -1).T.ravel()
            left = np.concatenate((deletes[0][old], inserts[0][new]))[order]
            right = np.concatenate((deletes[1][old], inserts[1][new]))[order]
            kinds = np.tile(np.array([UPDATE_BEFORE, UPDATE_AFTER], np.int8), len(old))
            parts[1] = ChangelogBatch(self._rows(left, right), kinds)
        rest = [part for part in parts[1:] if part is not None]
        return parts[0], ChangelogBatch.concat(rest) if rest else None

    def pieces(self) -> Iterator[ChangelogBatch]:
        """What was collected in batches of at most `max_rows`, deletes first, none of them paired with inserts; forgets
        it."""
        if not self.full:
            yield from (part for part in self.finish() if part is not None)
            return
        left, right, weights = self._collected()
        for sign, kind in ((-1, self._minus), (1, INSERT)):
            chosen = np.flatnonzero(weights * sign > 0)
            ends = np.cumsum(weights[chosen] * sign)
            rows = int(ends[-1]) if len(ends) else 0
            for at in range(0, rows, self._max_rows):
                look()
                places = np.arange(at, min(at + self._max_rows, rows))
                pairs = chosen[np.searchsorted(ends, places, side="right")]
                batch = self._batch(left[pairs], right[pairs], np.ones(len(pairs), np.int64), kind)
                if batch is not None:
                    yield batch

    def drop_inserts(self) -> None:
        """Forgets the inserts that were collected."""
        self._pairs = [(left[w < 0], right[w < 0], w[w < 0]) for left, right, w in self._pairs]
        self._pairs = [pairs for pairs in self._pairs if len(pairs[0])]
        self._rows_held = -sum(int(w.sum()) for _, _, w in self._pairs)

    def _collected(self) -> _Pairs:
        pairs = self._pairs
        self._pairs, self._rows_held = [], 0
        if len(pairs) == 1:
            return pairs[0]
        left, right, weights = (np.concatenate(part) for part in zip(*pairs, strict=True))
        return left, right, weights

    def _batch(
        self, left: np.ndarray, right: np.ndarray, times: np.ndarray, kind: int = INSERT
    ) -> ChangelogBatch | None:
        if not len(left):
            return None
        if (times != 1).any():
            left, right = np.repeat(left, times), np.repeat(right, times)
        return ChangelogBatch(self._rows(left, right), None if kind == INSERT else np.full(len(left), kind, np.int8))

    def _rows(self, left: np.ndarray, right: np.ndarray) -> pa.RecordBatch:
        columns = self._taken(self._left, left)
        if not self._left_only:
            columns += self._taken(self._right, right)
        return record_batch(columns, self._schema)

    def _taken(self, source: RowSource, slots: np.ndarray) -> list[pa.Array]:
        """The rows at slots, those that come often read once."""
        if not self._coded or len(slots) < _MANY:
            return source.take(slots)
        first, group = group_ids(slots.view(np.uint64).reshape(-1, 1))
        if 2 * len(first) > len(slots):
            return source.take(slots)
        return [_spread(column, group) for column in source.take(slots[first])]


def _spread(column: pa.Array, group: np.ndarray) -> pa.Array:
    """Row i is the value at `group[i]`: of a text its code."""
    if not pa.types.is_string(column.type) or column.null_count:
        return column.take(pa.array(group))
    return pa.DictionaryArray.from_arrays(pa.array(group.astype(np.int32)), column)


def _without(pairs: _Pairs, positions: np.ndarray) -> _Pairs:
    if not len(positions):
        return pairs
    keep = np.ones(len(pairs[0]), np.bool_)
    keep[positions] = False
    left, right, weights = pairs
    return left[keep], right[keep], weights[keep]


def _successor(slots: np.ndarray, replaced: Replaced) -> np.ndarray:
    """The slots that stand for the same rows after the epoch."""
    if replaced is None:
        return slots
    order = np.argsort(replaced[0])
    old, new = replaced[0][order], replaced[1][order]
    place = np.minimum(np.searchsorted(old, slots), len(old) - 1)
    return np.where(old[place] == slots, new[place], slots)


def _same_pairs(first: tuple[np.ndarray, ...], second: tuple[np.ndarray, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Where the same pair of slots stands in both, as positions; a pair stands at most once in each."""
    width = max(int(first[1].max(initial=0)), int(second[1].max(initial=0))) + 2
    codes = [part[0] * width + part[1] + 1 for part in (first, second)]
    _, old, new = np.intersect1d(*codes, assume_unique=False, return_indices=True)
    return old, new
