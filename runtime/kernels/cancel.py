"""Folding the changes of one batch: what is inserted and deleted again within the batch never happened."""

from __future__ import annotations

import numpy as np

from runtime.kernels.grouping import group_ids
from runtime.kernels.indexed import add_at

__all__ = ["consolidate"]


def consolidate(words: np.ndarray, signs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The net change of each distinct row: `(keep int64 ascending, net int64)`, rows with net weight 0 left out.

    Args:
        words: (n, width) uint64, equal exactly for equal rows (see `KeyEncoder`).
        signs: +1 or -1 (or any weight) per row.

    A row with a positive net weight is represented by its last positive change, one with a negative weight by its
    first negative change. So, if every key holds at most one row at a time, the deletion of a key's old row still
    comes before the insertion of its new one.
    """
    count = len(words)
    first, group = group_ids(words)
    weights = np.asarray(signs).astype(np.int64)
    if len(first) == count:
        keep = np.flatnonzero(weights)
        return keep, weights[keep]
    net = np.zeros(len(first), dtype=np.int64)
    add_at(net, group, weights)
    row = first.copy()
    # Of several assignments to one place the last one stays.
    inserted = np.flatnonzero((weights > 0) & (net[group] > 0))
    row[group[inserted]] = inserted
    deleted = np.flatnonzero((weights < 0) & (net[group] < 0))[::-1]
    row[group[deleted]] = deleted
    kept = np.flatnonzero(net)
    kept = kept[np.argsort(row[kept])]
    return row[kept], net[kept]
