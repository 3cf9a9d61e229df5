"""The last change of each key."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.core.changelog import DELETE, UPDATE_BEFORE, ChangelogBatch

__all__ = ["newest_by_key"]


def newest_by_key(
    batches: Iterable[ChangelogBatch], key: Sequence[str]
) -> tuple[pa.RecordBatch, pa.RecordBatch] | None:
    """Of changes in order: the rows that are there in the end, and the rows (columns of the key alone) that are deleted;
    no key is in both, or twice. None when there is no change."""
    changes = [b for b in batches if len(b)]
    if not changes:
        return None
    batch = ChangelogBatch.concat(changes)
    kinds = batch.kinds_or_inserts()
    names = [f"k{i}" for i in range(len(key))]
    places = pa.array(np.arange(len(batch), dtype=np.int64))
    keys = pa.Table.from_arrays([*(batch.rows.column(k) for k in key), places], names=[*names, "place"])
    last = pc.sort_indices(found := keys.group_by(names).aggregate([("place", "max")])["place_max"])
    newest = found.take(last).to_numpy()
    gone = (kinds[newest] == DELETE) | (kinds[newest] == UPDATE_BEFORE)
    there, deleted = pa.array(newest[~gone]), pa.array(newest[gone])
    return batch.rows.take(there), batch.rows.select(list(key)).take(deleted)
