"""Rows in an order within partitions: the state of top-n, deduplication, OVER and versioned tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runtime.core.schema import Schema
from runtime.kernels.order_words import OrderEncoder
from runtime.kernels.sorted_runs import SortedRuns
from runtime.plan.nodes import SortSpec
from runtime.state.rows import Identity, RowStore

__all__ = ["OrderedRows"]


class OrderedRows(RowStore):
    """Partitions, given as slots of a `KeyIndex`, to rows in sort order; equal sort values stand in order of arrival.

    `apply` takes the changes of an epoch; from then on reads show the rows as they are after it, while the rows that
    it removed can be read with `take` until `settle`. Equal rows under FULL identity are one entry with `count` > 1,
    at the place of the first of them. Rows are removed by `-U`/`-D` (whole row or unique key, as the identity says)
    or by `take_away` (what is beyond n, or too old).

    Args:
        schema: the rows.
        order: the sort columns; none means order of arrival.
        identity: what tells rows apart; `unique` holds the positions of the unique key for KEYED.
    """

    def __init__(
        self,
        schema: Schema,
        order: Sequence[SortSpec],
        identity: Identity,
        unique: Sequence[int] = (),
        *,
        totals: bool = False,
        images: bool = False,
    ) -> None:
        super().__init__(schema, identity, unique, totals=totals, images=images)
        self._order = [s.index for s in order]
        types = [schema[i].type.arrow for i in self._order]
        self._encoder = OrderEncoder(types, [s.descending for s in order], [s.nulls_last for s in order])
        self._runs = SortedRuns(self._encoder.width)
        self._arrived: np.ndarray | None = None

    @property
    def nbytes(self) -> int:
        return super().nbytes + self._runs.nbytes

    def first(self, partitions: np.ndarray, limit: int | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The first `limit` entries of each partition: `(partition_index, row_slots)`, by request, then in order.

        Entries, not rows: with FULL identity the number of rows is the sum of their `count`.
        """
        return self._runs.first(partitions, limit)

    def last(self, partitions: np.ndarray, limit: int | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The last `limit` entries of each partition, in ascending order."""
        return self._runs.last(partitions, limit)

    def all(self, partitions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """All entries of each partition: `(partition_index, row_slots)`, by request, then in order."""
        return self._runs.range(partitions, None, None)

    def range(
        self,
        partitions: np.ndarray,
        low: Sequence[pa.Array] | None,
        high: Sequence[pa.Array] | None,
        low_inclusive: bool = True,
        high_inclusive: bool = False,
    ) -> tuple[np.ndarray, np.ndarray]:
        """The entries between two bounds, given as values of the sort columns, a row for each partition; None is no
        bound."""
        low_words = None if low is None else self.words(low)
        high_words = None if high is None else self.words(high)
        if low_words is not None and high_words is not None:
            low_words = self._encoder.adapt(low_words)
        return self._runs.range(partitions, low_words, high_words, low_inclusive, high_inclusive)

    def floor(self, partitions: np.ndarray, values: Sequence[pa.Array], inclusive: bool = True) -> np.ndarray:
        """For each request the last entry at or before these sort values, -1 where there is none."""
        return self._runs.floor(partitions, self.words(values), inclusive)

    def ceiling(self, partitions: np.ndarray, values: Sequence[pa.Array], inclusive: bool = True) -> np.ndarray:
        """For each request the first entry at or after these sort values, -1 where there is none."""
        return self._runs.ceiling(partitions, self.words(values), inclusive)

    def from_words(
        self, partitions: np.ndarray, words: np.ndarray, inclusive: bool = True
    ) -> tuple[np.ndarray, np.ndarray]:
        """All entries at and after (or after) these sort words: what may change when a row there comes or goes."""
        return self._runs.range(partitions, words, None, inclusive)

    def words(self, values: Sequence[pa.Array]) -> np.ndarray:
        """Sort values as words that compare like the rows, (n, width) uint64; good until rows or values are given
        again."""
        if not self._order:
            return np.empty((len(values[0]) if values else 0, 0), np.uint64)
        words = self._encoder.encode(values)
        if self._encoder.width != self._runs.width:
            self._runs.widen(self._encoder.adapt)
        return words

    def words_of(self, slots: np.ndarray) -> np.ndarray:
        """The sort words of rows, live or gone in this epoch: rows with equal words are peers."""
        if not self._order:
            return np.empty((len(slots), 0), np.uint64)
        return self.words([self.take_column(i, slots) for i in self._order])

    def arrivals(self, slots: np.ndarray) -> np.ndarray:
        """Numbers of live rows that ascend in order of arrival, int64."""
        return self._runs.seqs_of(slots)

    def restore_arrived(
        self, columns: Sequence[pa.Array], keys: np.ndarray, counts: np.ndarray | None, arrivals: np.ndarray
    ) -> np.ndarray:
        """`restore` of rows that keep their numbers of arrival: rows of a key that were saved before and those that
        are saved later go by them together."""
        self._arrived = arrivals
        try:
            return self.restore(columns, keys, counts)
        finally:
            self._arrived = None

    def _link(self, slots: np.ndarray, columns: Sequence[pa.Array], keys: np.ndarray) -> None:
        words = self.words([columns[i] for i in self._order]) if self._order else np.empty((len(slots), 0), np.uint64)
        self._runs.insert(keys, words, self._arrived, slots)

    def _vanish(self, slots: np.ndarray) -> None:
        self._runs.remove(slots)
