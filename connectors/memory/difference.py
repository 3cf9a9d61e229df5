"""What turns one bag of rows into another."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runtime.core.changelog import DELETE, INSERT, ChangelogBatch
from runtime.state.keyed import KeyIndex

__all__ = ["difference"]


def difference(before: pa.Table, after: pa.Table) -> ChangelogBatch:
    """The changes from the rows of one table to those of another of the same columns: deletions, then insertions. Costs
    as much as both have rows."""
    index = KeyIndex([f.type for f in before.schema], exact=True)
    slots: list[np.ndarray] = []
    for rows in (before, after):
        batches = rows.combine_chunks().to_batches()
        found, _ = index.insert(batches[0].columns, len(batches[0])) if batches else (np.zeros(0, np.int64), None)
        slots.append(found)
    counts = [np.bincount(s, minlength=index.capacity) for s in slots]
    gone, come = _surplus(slots[0], counts[1]), _surplus(slots[1], counts[0])
    parts = [rows.take(pa.array(at)) for rows, at in ((before, gone), (after, come))]
    kinds = np.repeat(np.array([DELETE, INSERT], np.int8), [len(gone), len(come)])
    together = pa.concat_tables(parts).combine_chunks().to_batches()
    whole = together[0] if together else pa.RecordBatch.from_pylist([], schema=before.schema)
    return ChangelogBatch(whole, kinds)


def _surplus(slots: np.ndarray, others: np.ndarray) -> np.ndarray:
    """The positions of rows of which there are more than on the other side: the first of each kind stay."""
    order = np.argsort(slots, kind="stable")
    ordered = slots[order]
    starts = np.concatenate(([True], ordered[1:] != ordered[:-1])) if len(ordered) else np.zeros(0, bool)
    run = np.maximum.accumulate(np.where(starts, np.arange(len(ordered)), 0)) if len(ordered) else starts
    number = np.arange(len(ordered)) - run
    return np.sort(order[number >= others[ordered]])
