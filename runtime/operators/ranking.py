"""Ranks of rows in an order: what top-n and window top-n have in common."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from runtime.plan.nodes import RankFunction
from runtime.state.ordered import OrderedRows

__all__ = ["Ranked", "rank_entries", "ranked_rows"]


@dataclass(frozen=True, slots=True)
class Ranked:
    """Rows with their ranks: `partition` indexes the request, `slot` the row, `rank` is 1-based; by partition, then in
    order.

    A row that is there n times stands n times.
    """

    partition: np.ndarray
    slot: np.ndarray
    rank: np.ndarray

    def filter(self, mask: np.ndarray) -> Ranked:
        return Ranked(self.partition[mask], self.slot[mask], self.rank[mask])


def ranked_rows(
    rows: OrderedRows, partitions: np.ndarray, function: RankFunction, start: int, end: int | None
) -> Ranked:
    """The rows of each partition whose rank is within [start, end] (`end` None: no bound).

    Reads as many rows of a partition as have such a rank, and no more than a constant factor above; ties at the end
    belong to it.
    """
    if end is None:
        index, slots = rows.all(partitions)
        found = rank_entries(rows, index, slots, function)
    elif function is RankFunction.ROW_NUMBER:
        index, slots = rows.first(partitions, end)
        found = rank_entries(rows, index, slots, function, end)
    else:
        found = _with_ties(rows, partitions, function, end)
    keep = found.rank >= start
    if end is not None:
        keep &= found.rank <= end
    return found if keep.all() else found.filter(keep)


def _with_ties(rows: OrderedRows, partitions: np.ndarray, function: RankFunction, end: int) -> Ranked:
    """Read twice as much of a partition until a rank beyond the end is seen or the partition is exhausted."""
    limits = np.full(len(partitions), end + 1, dtype=np.int64)
    while True:
        index, slots = rows.first(partitions, limits)
        found = rank_entries(rows, index, slots, function)
        read = np.bincount(index, minlength=len(partitions))
        beyond = np.zeros(len(partitions), dtype=bool)
        beyond[found.partition[found.rank > end]] = True
        unfinished = ~beyond & (read >= limits)
        if not unfinished.any():
            return found
        limits = np.where(unfinished, limits * 2, limits)


def rank_entries(
    rows: OrderedRows, index: np.ndarray, slots: np.ndarray, function: RankFunction, most: int | None = None
) -> Ranked:
    """Ranks of entries that stand in order within each request, beginning with the first of the partition. `most`: of a
    row that is there more often, so many copies are enough."""
    counts = rows.count[slots]
    if most is not None:
        counts = np.minimum(counts, most)
    if len(counts) and (counts != 1).any():
        index, slots = np.repeat(index, counts), np.repeat(slots, counts)
    positions = np.arange(len(slots))
    begins = np.ones(len(slots), dtype=bool)
    begins[1:] = index[1:] != index[:-1]
    first = np.maximum.accumulate(np.where(begins, positions, 0))
    if function is RankFunction.ROW_NUMBER or not len(slots):
        return Ranked(index, slots, positions - first + 1)
    words = rows.words_of(slots)
    new_value = begins.copy()
    new_value[1:] |= (words[1:] != words[:-1]).any(axis=1)
    if function is RankFunction.RANK:
        peers = np.maximum.accumulate(np.where(new_value, positions, 0))
        return Ranked(index, slots, peers - first + 1)
    distinct = np.cumsum(new_value)
    return Ranked(index, slots, distinct - distinct[first] + 1)
