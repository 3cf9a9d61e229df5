"""Text to DATE, TIME and timestamps, with the forms that Flink reads.

DATE: `2024-2-9`, also `2024-02` and `2024` (the first day), anything after a space is ignored. TIME: `1:2:3.5`, also
`12` and `12:30`.
Timestamps: `2024-02-29` or `2024-02-29 12:34:56[.123456789]`; the fraction is cut to the precision. A day that the month
does not have fails, where Flink makes the month's last day of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.core.types import DataType, TypeRoot
from runtime.expr.cast.conversion import Converted, failing
from runtime.expr.columns import from_numpy, validity
from runtime.expr.time_range import limits, outside
from runtime.expr.zones import local_to_instant

__all__ = ["days_of", "last_day_of", "text_to_date", "text_to_time", "text_to_timestamp"]

_DATE = r"^\s*(?P<y>\d{1,9})\s*(?:-\s*(?P<m>\d{1,9})\s*(?:-\s*(?P<d>\d{1,9})\s*)?)?(?: .*)?$"
_TIME = r"^\s*(?P<h>\d{1,9})\s*(?::\s*(?P<m>\d{1,9})\s*(?::\s*(?P<s>\d{1,9})\s*(?:\.(?P<f>\d*)\s*)?)?)?$"
_TIMESTAMP = (
    r"^(?P<y>\d{4})-(?P<mo>\d{1,2})-(?P<d>\d{1,2})"
    r"(?: (?P<h>\d{1,2}):(?P<mi>\d{1,2}):(?P<s>\d{1,2})(?:\.(?P<f>\d{0,9}))?)?$"
)


def _number(texts: pa.Array, missing: str) -> Any:
    filled = pc.fill_null(texts, missing)
    return pc.cast(pc.if_else(pc.equal(filled, ""), missing, filled), pa.int64()).to_numpy(zero_copy_only=False)


def _fraction(texts: pa.Array, digits: int) -> Any:
    """The digits after the point as a number of 10^-digits, further digits cut off."""
    filled = pc.utf8_slice_codeunits(pc.fill_null(texts, ""), 0, digits)
    return _number(pc.utf8_rpad(filled, digits, "0"), "0")


def days_of(year: Any, month: Any, day: Any) -> Any:
    """Days since 1970-01-01 of proleptic Gregorian dates."""
    months = (year - 1970) * 12 + month - 1
    return months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64) + day - 1


def last_day_of(year: Any, month: Any) -> Any:
    """The number of days of a month."""
    months = (year - 1970) * 12 + month - 1
    start = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    return (months + 1).astype("datetime64[M]").astype("datetime64[D]").astype(np.int64) - start


def _matched(groups: pa.Array) -> Any:
    return groups.is_valid().to_numpy(zero_copy_only=False)


def _finish(values: Any, good: Any, valid: Any, type_: pa.DataType) -> Converted:
    result = from_numpy(np.where(good, values, 0), valid, type_)
    return failing(result, ~good if valid is None else ~good & valid)


def text_to_date(array: pa.Array, source: DataType, target: DataType, time_zone: str) -> Converted:
    """Texts as dates; a day that the month does not have fails."""
    del source, time_zone
    groups = pc.extract_regex(array, _DATE)
    year, month, day = (_number(groups.field(i), "1") for i in range(3))
    good = _matched(groups) & (year >= 1) & (year <= 9999) & (month >= 1) & (month <= 12) & (day >= 1)
    year, month = np.where(good, year, 1970), np.where(good, month, 1)
    good &= day <= last_day_of(year, month)
    return _finish(days_of(year, month, day), good, validity(array), target.arrow)


def text_to_time(array: pa.Array, source: DataType, target: DataType, time_zone: str) -> Converted:
    """Texts as times of day, milliseconds cut to the precision."""
    del source, time_zone
    groups = pc.extract_regex(array, _TIME)
    hour, minute, second = (_number(groups.field(i), "0") for i in range(3))
    digits = min(target.precision, 3)
    milli = _fraction(groups.field(3), digits) * 10 ** (3 - digits) if digits else 0
    good = _matched(groups) & (hour <= 23) & (minute <= 59) & (second <= 59)
    return _finish(((hour * 60 + minute) * 60 + second) * 1000 + milli, good, validity(array), target.arrow)


def text_to_timestamp(array: pa.Array, source: DataType, target: DataType, time_zone: str) -> Converted:
    """Texts as TIMESTAMP or, read in the session's time zone, as TIMESTAMP_LTZ."""
    del source
    groups = pc.extract_regex(array, _TIMESTAMP)
    year, month, day = (_number(groups.field(i), "1") for i in range(3))
    hour, minute, second = (_number(groups.field(i), "0") for i in range(3, 6))
    good = _matched(groups) & (year >= 1) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
    good &= (hour <= 23) & (minute <= 59) & (second <= 59)
    year, month, day = np.where(good, year, 1970), np.where(good, month, 1), np.where(good, day, 1)
    good &= day <= last_day_of(year, month)
    days = days_of(year, month, day)
    seconds = days * 86_400 + (hour * 60 + minute) * 60 + second
    unit_digits = 6 if target.precision <= 6 else 9
    if unit_digits == 9:
        low, high = limits(target)
        good &= (seconds > low // 10**9) & (seconds < high // 10**9)
        seconds = np.where(good, seconds, 0)
    values = seconds * 10**unit_digits
    if target.precision:
        values = values + _fraction(groups.field(6), target.precision) * 10 ** (unit_digits - target.precision)
    if target.root is TypeRoot.TIMESTAMP_LTZ:
        values = local_to_instant(np.where(good, values, 0), time_zone, "us" if unit_digits == 6 else "ns")
    return _finish(values, good & ~outside(values, target), validity(array), target.arrow)
