"""All changes of a batch by key, where the contents only take the last of each key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from runtime.core.changelog import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, ChangelogBatch

__all__ = ["every_change", "in_pieces", "inverse"]


def in_pieces(batches: Sequence[ChangelogBatch], rows: int) -> Iterator[ChangelogBatch]:
    """The batches put together, or cut, to pieces of about so many rows."""
    waiting: list[ChangelogBatch] = []
    for batch in batches:
        for at in range(0, len(batch), rows):
            waiting.append(batch if len(batch) <= rows else batch.slice(at, min(rows, len(batch) - at)))
            if sum(map(len, waiting)) >= rows:
                yield ChangelogBatch.concat(waiting)
                waiting = []
    if waiting:
        yield ChangelogBatch.concat(waiting)


def inverse(changes: ChangelogBatch) -> ChangelogBatch:
    """What takes changes of the contents back, the last one first: new rows go, old rows are put in again."""
    kinds = changes.kinds_or_inserts()
    back = np.flatnonzero(kinds != UPDATE_AFTER)[::-1]
    undone = np.array([DELETE, UPDATE_AFTER, UPDATE_AFTER, INSERT], np.int8)
    return ChangelogBatch(changes.rows, undone[kinds]).take(back)


def every_change(
    batch: ChangelogBatch, slots: np.ndarray, known: np.ndarray, stored: Callable[[np.ndarray], Sequence[pa.Array]]
) -> ChangelogBatch:
    """What a batch of upserts does to the contents row by row, as full images in the order of the batch.

    Args:
        slots: the slot of each row's key.
        known: whether the row's key was there before the batch.
        stored: the columns of the rows at some slots before the batch.
    """
    order = np.argsort(slots, kind="stable")
    kinds = batch.kinds_or_inserts()[order]
    followed = np.r_[slots[order][1:] == slots[order][:-1], False]
    # An old image says no more than the new one behind it.
    order = order[~((kinds == UPDATE_BEFORE) & followed)]
    ordered = slots[order]
    first = np.r_[True, ordered[1:] != ordered[:-1]]
    present = batch.signs()[order] > 0
    there = np.where(first, known[order], np.r_[False, present[:-1]])
    old = first & there
    held = pa.RecordBatch.from_arrays(list(stored(ordered[old])), schema=batch.rows.schema)
    rows = pa.Table.from_batches([held, batch.rows]).combine_chunks().to_batches()[0]
    source = held.num_rows + np.r_[-1, order[:-1]]
    source[old] = np.arange(held.num_rows)
    taken = np.concatenate((source[there], held.num_rows + order[present]))
    kinds = np.concatenate(
        (np.where(present, UPDATE_BEFORE, DELETE)[there], np.where(there, UPDATE_AFTER, INSERT)[present])
    ).astype(np.int8)
    place = np.argsort(np.concatenate((order[there] * 2, order[present] * 2 + 1)), kind="stable")
    return ChangelogBatch(rows.take(pa.array(taken[place])), kinds[place])
