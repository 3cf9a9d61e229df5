"""Local times and instants in a time zone, daylight saving included, as Java resolves them.

A local time that a change of clocks skips is moved forward by the length of the gap; one that happens twice is the
earlier instant.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.expr.columns import integers_of

__all__ = ["instant_to_local", "local_to_instant"]

_UTC = frozenset({"UTC", "Z", "GMT", "Etc/UTC"})
Numbers = np.ndarray[Any, np.dtype[np.int64]]


def instant_to_local(values: Numbers, time_zone: str, unit: str) -> Numbers:
    """Instants (units since the epoch, UTC) as the local time of a zone."""
    if time_zone in _UTC:
        return values
    array = pa.array(values, pa.int64()).cast(pa.timestamp(unit, time_zone))
    return integers_of(pc.local_timestamp(array))


def local_to_instant(values: Numbers, time_zone: str, unit: str, *, ambiguous: str = "earliest") -> Numbers:
    """Local times of a zone (units since the local epoch) as instants. Of a time that happens twice it is the `earliest`
    instant, as java.time has it, or the `latest`, as java.util.Calendar has it."""
    if time_zone in _UTC:
        return values
    array = pa.array(values, pa.int64()).cast(pa.timestamp(unit))
    instants = integers_of(pc.assume_timezone(array, time_zone, ambiguous=ambiguous, nonexistent="latest"))
    skipped = instant_to_local(instants, time_zone, unit) != values
    if not skipped.any():
        return instants
    # At a gap Arrow answers the change itself: Java uses the offset from before it.
    before = instants[skipped] - 1
    offset = instant_to_local(before, time_zone, unit) - before
    result = instants.copy()
    result[skipped] = values[skipped] - offset
    return result
