"""What a join gives: pairs or longer tuples of row slots with weights, put together to batches of changes."""

from __future__ import annotations

import math
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
from runtime.kernels.cancel import consolidate
from runtime.kernels.grouping import group_ids
from runtime.kernels.key_encoding import KeyEncoder

__all__ = ["PairOutput", "RowSource", "TupleOutput"]


_MANY = 1024
"""From so many rows on it pays to look which of them are the same."""

Replaced = tuple[np.ndarray, np.ndarray] | None
"""The slots of rows that were replaced, and of those that replaced them."""

Slots = tuple[np.ndarray, ...]
"""Slots of each side, of the same length; -1 for a side that is padded."""
_Tuples = tuple[Slots, np.ndarray]
"""Slots, and weights."""


class RowSource(Protocol):
    """Where the rows of one side are read by slot; -1 gives a row of NULLs."""

    def take(self, slots: np.ndarray) -> list[pa.Array]: ...


class TupleOutput:
    """Collects weighted tuples of one epoch, a row of each side; deletes are given before inserts.

    Deletes come first so that a reader by key, too, ends at the right row. A delete is `-D`, or `-U` where the mode
    has no `-D`.

    Args:
        schema: the join's output: the columns of the sources, one after another.
        sources: the sides whose columns are shown, which are the first ones.
        max_rows: how many rows a batch of `pieces` has at most.
        coded: texts may be given coded (see `ChangelogBatch`), which they are when a side's rows come often.
        order: where the columns of the output stand among those of the sources; in their order when it is None.
    """

    def __init__(
        self,
        schema: Schema,
        mode: ChangelogMode,
        sources: Sequence[RowSource],
        max_rows: int = 1 << 62,
        coded: bool = False,
        order: Sequence[int] | None = None,
    ) -> None:
        self._coded = coded
        self._order = order
        self._max_rows = max(1, max_rows)
        self._schema = schema
        self._sources = tuple(sources)
        self._minus = UPDATE_BEFORE if mode.update_before and not mode.delete else DELETE
        self._gives_updates = mode.update_before and mode.update_after
        self._held: list[_Tuples] = []
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

    def add_tuples(self, slots: Slots, weights: np.ndarray) -> None:
        """Tuples of slots, each so many times: taken back where the weight is negative; zeros are left out."""
        live = weights != 0
        if not live.all():
            slots, weights = tuple(side[live] for side in slots), weights[live]
        if len(weights):
            self._held.append((slots, weights))
            self._rows_held += int(np.abs(weights).sum())

    def whole(
        self, lone: Sequence[ChangelogBatch], replaced: Sequence[Replaced], cancels: bool
    ) -> Iterator[ChangelogBatch]:
        """All that was collected, and `lone`, in one batch; forgets it. `cancels`: rows that are both deleted and inserted
        are looked for, and left out."""
        deletes, inserts = self.finish(*replaced)
        if deletes is not None and inserts is not None and cancels:
            net = self._net(ChangelogBatch.concat([deletes, inserts, *lone]))
            if net is not None:
                yield net
            return
        signs = [(batch, batch.signs() < 0) for batch in lone]
        parts = [deletes, *(b.filter(s) for b, s in signs), inserts, *(b.filter(~s) for b, s in signs)]
        parts = [p for p in parts if p is not None and len(p)]
        if parts:
            yield ChangelogBatch.concat(parts)

    @staticmethod
    def _net(batch: ChangelogBatch) -> ChangelogBatch | None:
        """The batch without rows that are both deleted and inserted."""
        keep, net = consolidate(KeyEncoder(batch.rows.schema.types, exact=True).encode(batch.columns), batch.signs())
        order = np.argsort(net > 0, kind="stable")
        return batch.take(np.repeat(keep[order], np.abs(net[order]))) if len(keep) else None

    def finish(self, *replaced: Replaced) -> tuple[ChangelogBatch | None, ChangelogBatch | None]:
        """The deletes, and the updates and inserts, collected so far; forgets them.

        `replaced`: for each side. A delete whose rows were replaced by those of an insert is an update, `-U` and `+U`
        side by side, where the mode has both.
        """
        if not self._held:
            return None, None
        slots, weights = self._collected()
        minus = weights < 0
        if not minus.any():
            return None, self._batch(slots, weights)
        deletes = (tuple(side[minus] for side in slots), -weights[minus])
        inserts = (tuple(side[~minus] for side in slots), weights[~minus])
        old, new = np.empty(0, np.int64), np.empty(0, np.int64)
        if self._gives_updates and any(r is not None for r in replaced):
            wanted = tuple(_successor(side, r) for side, r in zip(deletes[0], replaced, strict=True))
            old, new = _same_tuples(wanted, inserts[0])
            single = (deletes[1][old] == 1) & (inserts[1][new] == 1)
            old, new = old[single], new[single]
        parts = [
            self._batch(*_without(deletes, old), kind=self._minus),
            None,
            self._batch(*_without(inserts, new)),
        ]
        if len(old):
            order = np.arange(2 * len(old)).reshape(2, -1).T.ravel()
            both = tuple(np.concatenate((a[old], b[new]))[order] for a, b in zip(deletes[0], inserts[0], strict=True))
            kinds = np.tile(np.array([UPDATE_BEFORE, UPDATE_AFTER], np.int8), len(old))
            parts[1] = ChangelogBatch(self._rows(both), kinds)
        rest = [part for part in parts[1:] if part is not None]
        return parts[0], ChangelogBatch.concat(rest) if rest else None

    def pieces(self) -> Iterator[ChangelogBatch]:
        """What was collected in batches of at most `max_rows`, deletes first, none of them paired with inserts; forgets
        it."""
        if not self.full:
            yield from (part for part in self.finish() if part is not None)
            return
        slots, weights = self._collected()
        for sign, kind in ((-1, self._minus), (1, INSERT)):
            chosen = np.flatnonzero(weights * sign > 0)
            ends = np.cumsum(weights[chosen] * sign)
            rows = int(ends[-1]) if len(ends) else 0
            for at in range(0, rows, self._max_rows):
                look()
                places = np.arange(at, min(at + self._max_rows, rows))
                tuples = chosen[np.searchsorted(ends, places, side="right")]
                batch = self._batch(tuple(side[tuples] for side in slots), np.ones(len(tuples), np.int64), kind)
                if batch is not None:
                    yield batch

    def drop_inserts(self) -> None:
        """Forgets the inserts that were collected."""
        self._held = [(tuple(side[w < 0] for side in slots), w[w < 0]) for slots, w in self._held]
        self._held = [tuples for tuples in self._held if len(tuples[1])]
        self._rows_held = -sum(int(w.sum()) for _, w in self._held)

    def _collected(self) -> _Tuples:
        held = self._held
        self._held, self._rows_held = [], 0
        if len(held) == 1:
            return held[0]
        slots = tuple(np.concatenate(part) for part in zip(*(s for s, _ in held), strict=True))
        return slots, np.concatenate([w for _, w in held])

    def _batch(self, slots: Slots, times: np.ndarray, kind: int = INSERT) -> ChangelogBatch | None:
        if not len(times):
            return None
        if (times != 1).any():
            slots = tuple(np.repeat(side, times) for side in slots)
        count = len(slots[0])
        return ChangelogBatch(self._rows(slots), None if kind == INSERT else np.full(count, kind, np.int8))

    def _rows(self, slots: Slots) -> pa.RecordBatch:
        columns: list[pa.Array] = []
        for source, side in zip(self._sources, slots, strict=False):
            columns += self._taken(source, side)
        if self._order is not None:
            columns = [columns[place] for place in self._order]
        return record_batch(columns, self._schema)

    def _taken(self, source: RowSource, slots: np.ndarray) -> list[pa.Array]:
        """The rows at slots, those that come often read once."""
        if not self._coded or len(slots) < _MANY:
            return source.take(slots)
        first, group = group_ids(slots.view(np.uint64).reshape(-1, 1))
        if 2 * len(first) > len(slots):
            return source.take(slots)
        return [_spread(column, group) for column in source.take(slots[first])]


class PairOutput(TupleOutput):
    """The output of two sides: left columns, then right columns, or left columns alone when `left_only`."""

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
        super().__init__(schema, mode, (left,) if left_only else (left, right), max_rows, coded)

    def add(self, left: np.ndarray, right: np.ndarray, weights: np.ndarray) -> None:
        """Pairs of slots (-1 for a side that is padded), each so many times: taken back where the weight is negative;
        zeros are left out."""
        self.add_tuples((left, right), weights)

    def add_left(self, left: np.ndarray, weights: np.ndarray) -> None:
        """Left rows alone."""
        self.add(left, np.full(len(left), -1, np.int64), weights)

    def add_right(self, right: np.ndarray, weights: np.ndarray) -> None:
        self.add(np.full(len(right), -1, np.int64), right, weights)


def _spread(column: pa.Array, group: np.ndarray) -> pa.Array:
    """Row i is the value at `group[i]`: of a text its code."""
    if not pa.types.is_string(column.type) or column.null_count:
        return column.take(pa.array(group))
    return pa.DictionaryArray.from_arrays(pa.array(group.astype(np.int32)), column)


def _without(tuples: _Tuples, positions: np.ndarray) -> _Tuples:
    if not len(positions):
        return tuples
    slots, weights = tuples
    keep = np.ones(len(weights), np.bool_)
    keep[positions] = False
    return tuple(side[keep] for side in slots), weights[keep]


def _successor(slots: np.ndarray, replaced: Replaced) -> np.ndarray:
    """The slots that stand for the same rows after the epoch."""
    if replaced is None:
        return slots
    order = np.argsort(replaced[0])
    old, new = replaced[0][order], replaced[1][order]
    place = np.minimum(np.searchsorted(old, slots), len(old) - 1)
    return np.where(old[place] == slots, new[place], slots)


def _same_tuples(first: Slots, second: Slots) -> tuple[np.ndarray, np.ndarray]:
    """Where the same slots stand in both, as positions; a tuple stands at most once in each."""
    widths = [max(int(a.max(initial=0)), int(b.max(initial=0))) + 2 for a, b in zip(first, second, strict=True)]
    if math.prod(widths) < 1 << 62:
        codes = [_number(slots, widths) for slots in (first, second)]
    else:
        both = np.stack([np.concatenate(sides) for sides in zip(first, second, strict=True)], axis=1)
        _, group = group_ids(np.ascontiguousarray(both).view(np.uint64))
        codes = [group[: len(first[0])], group[len(first[0]) :]]
    _, old, new = np.intersect1d(*codes, assume_unique=False, return_indices=True)
    return old, new


def _number(slots: Slots, widths: Sequence[int]) -> np.ndarray:
    """One number for each tuple of slots from -1 to below the widths less one."""
    code = np.zeros(len(slots[0]), np.int64)
    for side, width in zip(slots, widths, strict=True):
        code = code * width + side + 1
    return code
