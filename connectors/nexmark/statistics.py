"""What is known of the columns of a flat table of Nexmark before it is read: it follows from how events are made."""

from __future__ import annotations

import datetime as dt
import math
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.nexmark.generator import ACTIVE_PEOPLE, AUCTION, AUCTIONS_IN_FLIGHT, KINDS, PERSON, Nexmark
from runtime.spi.statistics import ColumnStatistics

__all__ = ["column_statistics"]

_SAMPLE = 512
_OF_PEOPLE = frozenset({"bidder", "seller"})
_OF_AUCTIONS = frozenset({"auction"})


@lru_cache(maxsize=64)
def column_statistics(generator: Nexmark, kind: int, events: int) -> tuple[tuple[str, ColumnStatistics], ...]:
    """By column of the first `events` events of a kind; values of a small sample where the generator's rules do not
    tell."""
    rows = generator.count(kind, events)
    sample = generator.events_of(kind, np.arange(min(rows, _SAMPLE), dtype=np.int64))
    columns = generator.columns(kind, sample, generator.field_names(kind))
    ends = generator.times.of(generator.events_of(kind, np.array([0, rows - 1], dtype=np.int64)))
    found: list[tuple[str, ColumnStatistics]] = []
    for name, values in columns.items():
        if name == "dateTime":
            low, high = (dt.datetime(1970, 1, 1) + dt.timedelta(milliseconds=int(end)) for end in ends)
            found.append((name, ColumnStatistics(min(rows, float(ends[1] - ends[0] + 1)), 0, low, high, None, 0.0)))
            continue
        length = float(pc.mean(pc.binary_length(values)).as_py()) if pa.types.is_string(values.type) else None
        distinct = _distinct(generator, kind, name, values, rows, events)
        lifetime = _lifetime(name, distinct)
        found.append((name, ColumnStatistics(distinct, 0, None, None, length, lifetime)))
    return tuple(found)


def _distinct(generator: Nexmark, kind: int, name: str, values: pa.Array, rows: int, events: int) -> float:
    """Ids by the rows that they are of; others by how many values so many draws have given."""
    if name == "id":
        return rows
    if name in _OF_PEOPLE:
        return max(1.0, min(rows, generator.count(PERSON, events)))
    if name in _OF_AUCTIONS:
        return max(1.0, min(rows, generator.count(AUCTION, events)))
    pool = generator.pool_size(KINDS[kind], name)
    if pool is not None:
        return min(rows, pool * -math.expm1(-rows / pool))
    seen = len(pc.unique(values))
    # Values that come again in a sample are few, others nearly all different.
    return seen if seen < len(values) / 4 else rows


def _lifetime(name: str, distinct: float) -> float | None:
    """Ids are used while they are new: as long as so many people are active, so many auctions are in flight."""
    if name == "id":
        return 0.0
    if name in _OF_PEOPLE:
        return min(1.0, ACTIVE_PEOPLE / distinct)
    return min(1.0, AUCTIONS_IN_FLIGHT / distinct) if name in _OF_AUCTIONS else None
