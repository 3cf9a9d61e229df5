"""Local times and instants in a time zone, daylight saving included, as Java resolves them.

A local time that a change of clocks skips is moved forward by the length of the gap; one that happens twice is the
earlier instant. Whoever needs the clock of a zone asks here: Arrow's own functions know no changes of clocks after 2037.
Nanoseconds that leave the 64 bits are the least or the greatest number, which no type holds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.core.types import DataType
from runtime.expr.columns import integers_of
from runtime.expr.time_range import limits, outside

__all__ = ["instant_to_local", "is_fixed_zone", "local_to_instant", "result_to_instant"]

_UTC = frozenset({"UTC", "Z", "GMT", "Etc/UTC"})
Numbers = np.ndarray[Any, np.dtype[np.int64]]


_TICKS = {"ms": 86_400 * 10**3, "us": 86_400 * 10**6, "ns": 86_400 * 10**9}
_LAST_KNOWN = int(np.datetime64("2038-01-01", "D").astype(np.int64))


def _calendars() -> Numbers:
    """For each kind of year (14: the weekday of 1 January, leap or not) the first day of such a year from 2010 to
    2037."""
    years = np.arange(2010, 2038)
    starts = (years - 1970).astype("datetime64[Y]").astype("datetime64[D]").astype(np.int64)
    ends = (years - 1969).astype("datetime64[Y]").astype("datetime64[D]").astype(np.int64)
    found = np.zeros(14, np.int64)
    found[starts % 7 * 2 + (ends - starts == 366)] = starts
    return found


_CALENDARS = _calendars()


def _cycle(values: Numbers, unit: str) -> Numbers | None:
    """How far times from 2038 on lie behind the same day of a year with the same calendar before 2038; None without
    such.

    Arrow knows no changes of clocks after 2037, Java goes on with the last rules.
    """
    per_day = _TICKS[unit]
    late = values >= _LAST_KNOWN * per_day
    if not late.any():
        return None
    years = (values // per_day).astype("datetime64[D]").astype("datetime64[Y]")
    starts = years.astype("datetime64[D]").astype(np.int64)
    leap = (years + 1).astype("datetime64[D]").astype(np.int64) - starts == 366
    return np.where(late, (starts - _CALENDARS[starts % 7 * 2 + leap]) * per_day, 0)


_SECOND = 10**9
_LEAST, _GREATEST = -(2**63), 2**63 - 1


def _by_seconds(values: Numbers, convert: Callable[[Numbers], Numbers]) -> Numbers:
    """Nanoseconds converted by their whole seconds, which changes of clocks are of."""
    seconds, rest = np.divmod(values, _SECOND)
    moved = convert(seconds * 1000) // 1000
    far = (moved <= _LEAST // _SECOND) | (moved >= _GREATEST // _SECOND)
    ends = np.where(moved < 0, _LEAST, _GREATEST)
    return np.where(far, ends, np.where(far, 0, moved) * _SECOND + rest)


def is_fixed_zone(time_zone: str) -> bool:
    """Whether the clocks of a zone are never put on or back."""
    return time_zone in _UTC or time_zone.startswith(("+", "-"))


def instant_to_local(values: Numbers, time_zone: str, unit: str) -> Numbers:
    """Instants (units since the epoch, UTC) as the local time of a zone."""
    if time_zone in _UTC:
        return values
    if unit == "ns":
        return _by_seconds(values, lambda v: instant_to_local(v, time_zone, "ms"))
    cycle = _cycle(values, unit)
    if cycle is not None:
        return instant_to_local(values - cycle, time_zone, unit) + cycle
    array = pa.array(values, pa.int64()).cast(pa.timestamp(unit, time_zone))
    return integers_of(pc.local_timestamp(array))


def local_to_instant(
    values: Numbers, time_zone: str, unit: str, *, ambiguous: str = "earliest", skipped: str = "moved"
) -> Numbers:
    """Local times of a zone (units since the local epoch) as instants. Of a time that happens twice it is the
    `earliest` instant, as java.time has it, or the `latest`, as java.util.Calendar has it; one that is skipped is
    `moved`, or the `first` instant after the change."""
    if time_zone in _UTC:
        return values
    if unit == "ns":
        options = {"ambiguous": ambiguous, "skipped": skipped}
        return _by_seconds(values, lambda v: local_to_instant(v, time_zone, "ms", **options))
    cycle = _cycle(values, unit)
    if cycle is not None:
        return local_to_instant(values - cycle, time_zone, unit, ambiguous=ambiguous, skipped=skipped) + cycle
    array = pa.array(values, pa.int64()).cast(pa.timestamp(unit))
    instants = integers_of(pc.assume_timezone(array, time_zone, ambiguous=ambiguous, nonexistent="latest"))
    if skipped == "first":
        return instants
    gap = instant_to_local(instants, time_zone, unit) != values
    if not gap.any():
        return instants
    # At a gap Arrow answers the change itself: Java uses the offset from before it.
    before = instants[gap] - 1
    offset = instant_to_local(before, time_zone, unit) - before
    result = instants.copy()
    result[gap] = values[gap] - offset
    return result


def result_to_instant(values: Numbers, time_zone: str, type_: DataType) -> Numbers:
    """Local times that were computed, as the stored numbers of a TIMESTAMP_LTZ; one out of its range stays out of it,
    whichever way the zone leads."""
    far = outside(values, type_)
    unit = "us" if type_.precision <= 6 else "ns"
    made = local_to_instant(np.where(far, 0, values), time_zone, unit)
    return np.where(far, limits(type_)[0] - 1, made)
