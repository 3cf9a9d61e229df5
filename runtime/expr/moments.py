"""Arithmetic on points in time: adding intervals, the time between two of them.

A DATE takes whole days of an interval (rounded down), a TIME wraps at midnight. Months clamp to the month's last day.
Days and smaller units are added to a TIMESTAMP_LTZ as exact lengths; months in the session's time zone, on local time.
A result out of range is an error (E2103).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from runtime.core.types import DataType, TypeRoot
from runtime.expr.cast.parse_times import days_of, last_day_of
from runtime.expr.columns import combine_valid, from_numpy, numbers
from runtime.expr.function import EvalContext, Value
from runtime.expr.time_range import check_range, limits, outside
from runtime.expr.zones import instant_to_local, result_to_instant

__all__ = [
    "add_millis",
    "add_to_moment",
    "bounded",
    "day_and_rest",
    "difference",
    "moments_of",
    "months_between",
    "plus_months",
    "stored",
    "ticks_per_day",
    "unit_of",
]

_R = TypeRoot
_DAY_MILLIS = 86_400_000


def unit_of(type_: DataType) -> str:
    """The Arrow unit of a timestamp type: `us`, above precision 6 `ns`."""
    return "us" if type_.precision <= 6 else "ns"


def ticks_per_day(type_: DataType) -> int:
    """Stored units in a day: of a DATE 1, of a TIME milliseconds, of a timestamp its unit."""
    if type_.root is _R.DATE:
        return 1
    if type_.root is _R.TIME:
        return _DAY_MILLIS
    return 86_400 * (10**6 if type_.precision <= 6 else 10**9)


def day_and_rest(values: Any, type_: DataType) -> tuple[Any, Any]:
    """Days since 1970-01-01 and stored units since midnight."""
    per_day = ticks_per_day(type_)
    return (values.astype(np.int64), 0) if per_day == 1 else np.divmod(values.astype(np.int64), per_day)


def _civil(days: Any) -> tuple[Any, Any, Any]:
    """Months since 1970-01, year-independent, and the day of the month."""
    dates = days.astype("datetime64[D]")
    months = dates.astype("datetime64[M]")
    return months.astype(np.int64), months, (dates - months.astype("datetime64[D]")).astype(np.int64) + 1


def plus_months(days: Any, months: Any) -> Any:
    """Days since 1970-01-01 moved by months; a day that the month lacks becomes its last."""
    start, _, day = _civil(days)
    moved = start + months
    year, month = np.divmod(moved, 12)
    return days_of(year + 1970, month + 1, np.minimum(day, last_day_of(year + 1970, month + 1)))


def add_to_moment(
    context: EvalContext, moment: Value, type_: DataType, interval: Value, interval_type: DataType, sign: int
) -> Value:
    """A point in time plus (`sign` 1) or less (-1) an interval; the result has the point's type."""
    values, valid = numbers(moment, context.num_rows)
    amount, valid_amount = numbers(interval, context.num_rows)
    amount = amount.astype(np.int64)
    # A time of day goes round; elsewhere what is cut leads out of range anyway.
    amount = (amount % _DAY_MILLIS if type_.root is _R.TIME else bounded(amount)) * sign
    if interval_type.root is _R.INTERVAL_MONTH:
        result = _add_months(values, type_, amount, context.time_zone)
    else:
        result = add_millis(values, type_, amount)
    return moments_of(context, result, combine_valid(valid, valid_amount), type_)


def moments_of(context: EvalContext, values: Any, valid: Any, type_: DataType) -> pa.Array:
    """Stored numbers as points in time; ExpressionError E2103 for one out of range, or NULL where that is asked for."""
    if context.lenient:
        valid = combine_valid(valid, np.broadcast_to(~outside(values, type_), (context.num_rows,)))
        values = np.where(outside(values, type_), 0, values)
    return from_numpy(check_range(values, valid, type_), valid, type_.arrow, context.num_rows)


_FAR = 10**15
"""More milliseconds, and more months, than lie between any two points in time."""


def bounded(amount: Any) -> Any:
    """Amounts that no product or sum with a point in time takes out of 64 bits."""
    return np.clip(amount, -_FAR, _FAR)


def add_millis(values: Any, type_: DataType, millis: Any, ticks: Any = 0) -> Any:
    """Stored numbers of points in time moved by up to 10^15 milliseconds and by further `ticks` of the type; a number
    that is none of the type where the result is out of range."""
    values = values.astype(np.int64)
    if type_.root is _R.DATE:
        return values + np.floor_divide(millis, _DAY_MILLIS)
    if type_.root is _R.TIME:
        return (values + millis % _DAY_MILLIS + ticks) % _DAY_MILLIS
    per_milli = ticks_per_day(type_) // _DAY_MILLIS
    whole, rest = np.divmod(values, per_milli)
    more, rest = np.divmod(rest + ticks, per_milli)
    return stored(whole + millis + more, rest, type_)


def stored(millis: Any, rest: Any, type_: DataType) -> Any:
    """The stored numbers of a timestamp of `millis` and `rest` ticks; one that is none where they do not fit."""
    per_milli = ticks_per_day(type_) // _DAY_MILLIS
    low, high = limits(type_)
    far = (millis < low // per_milli) | (millis > high // per_milli)
    return np.where(far, low - 1, np.where(far, 0, millis) * per_milli + rest)


def _add_months(values: Any, type_: DataType, months: Any, time_zone: str) -> Any:
    if type_.root is _R.TIME:
        return np.broadcast_arrays(values, months)[0]
    # More than 20,000 years lead out of range from everywhere, and days of more do not fit.
    months = np.clip(months, -240_000, 240_000)
    zoned = type_.root is _R.TIMESTAMP_LTZ
    local = instant_to_local(values, time_zone, unit_of(type_)) if zoned else values
    days, rest = day_and_rest(local, type_)
    if type_.root is _R.DATE:
        return plus_months(days, months)
    millis, rest = np.divmod(rest, ticks_per_day(type_) // _DAY_MILLIS)
    result = stored(plus_months(days, months) * _DAY_MILLIS + millis, rest, type_)
    return result_to_instant(np.ascontiguousarray(result), time_zone, type_) if zoned else result


def _milliseconds(value: Value, type_: DataType, length: int) -> tuple[Any, Any]:
    values, valid = numbers(value, length)
    per_day = ticks_per_day(type_)
    values = values.astype(np.int64)
    return (values * (_DAY_MILLIS // per_day) if per_day <= _DAY_MILLIS else values // (per_day // _DAY_MILLIS)), valid


def difference(context: EvalContext, a: Value, b: Value) -> pa.Array:
    """a - b as an INTERVAL SECOND."""
    left, right = context.arg_types
    x, valid_x = _milliseconds(a, left, context.num_rows)
    y, valid_y = _milliseconds(b, right, context.num_rows)
    return from_numpy(x - y, combine_valid(valid_x, valid_y), pa.duration("ms"), context.num_rows)


def months_between(context: EvalContext, a: Value, b: Value) -> pa.Array:
    """The whole months from b to a, negative when b is later, as an INTERVAL MONTH."""
    left, right = context.arg_types
    x, valid_x = _milliseconds(a, left, context.num_rows)
    y, valid_y = _milliseconds(b, right, context.num_rows)
    x_days, x_rest = np.divmod(x, _DAY_MILLIS)
    y_days, y_rest = np.divmod(y, _DAY_MILLIS)
    x_month, _, x_day = _civil(x_days)
    y_month, _, y_day = _civil(y_days)
    months = x_month - y_month
    x_within, y_within = x_day * _DAY_MILLIS + x_rest, y_day * _DAY_MILLIS + y_rest
    months = months - ((months > 0) & (x_within < y_within)) + ((months < 0) & (x_within > y_within))
    return from_numpy(months, combine_valid(valid_x, valid_y), pa.int32(), context.num_rows)
