"""FLOOR and CEIL: of numbers to whole ones, of points in time to a unit.

A week starts on Sunday. CEIL is never before its argument, and the argument where that is the start of a unit: in Flink
the first day of a month at ten o'clock is not rounded up to the next month, and the first day of a decade is.
TIMESTAMP_LTZ is rounded in the session's time zone, to the local midnight where Flink adds 24 hours. A result out of
range is an error (E2103).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from runtime.core.types import DataType, TypeRoot
from runtime.expr.cast.parse_times import days_of
from runtime.expr.columns import from_numpy
from runtime.expr.function import CallTypes, EvalContext, Value
from runtime.expr.library.declare import Family
from runtime.expr.library.rounding import ceil_number, floor_number, whole_type
from runtime.expr.library.temporal_fields import local_values
from runtime.expr.moments import stored, ticks_per_day
from runtime.expr.time_range import check_range
from runtime.expr.zones import result_to_instant

__all__ = ["FAMILY"]

FAMILY = Family("temporal rounding")
_R = TypeRoot
_PARTS = {
    "DAY": 1,
    "HOUR": 24,
    "MINUTE": 1440,
    "SECOND": 86_400,
    "MILLISECOND": 86_400_000,
    "MICROSECOND": 86_400_000_000,
}
_DAY_MILLIS = 86_400_000
_CALENDAR = frozenset({"MILLENNIUM", "CENTURY", "DECADE", "YEAR", "QUARTER", "MONTH", "WEEK"})
_ROOTS = (_R.DATE, _R.TIME, _R.TIMESTAMP, _R.TIMESTAMP_LTZ)


def _rule(types: CallTypes) -> tuple[tuple[DataType, ...], DataType] | None:
    if len(types) == 1:
        if types[0].root is _R.NULL:
            return (DataType(_R.INT),), DataType(_R.INT)
        return (tuple(types), whole_type(types).with_nullable(types[0].nullable)) if types[0].is_numeric else None
    if len(types) != 2 or types[0].root not in _ROOTS or types.literal(1) not in _CALENDAR | _PARTS.keys():
        return None
    if types[0].root is _R.TIME and types.literal(1) in _CALENDAR | {"DAY"}:
        return None
    return tuple(types), types[0]


@FAMILY.special(
    "FLOOR",
    _rule,
    "The greatest whole number not above a number; the start of the unit of a point in time.",
    form=("NUMERIC or DATETIME", "UNIT?"),
    can_fail=True,
    monotonic=True,
    syntax="FLOOR(number), FLOOR(point TO unit)",
)
def floor(context: EvalContext, value: Value, *unit: Value) -> Value:
    return _rounded(context, value, unit[0].as_py(), False) if unit else floor_number(context, value)


@FAMILY.special(
    "CEIL",
    _rule,
    "The least whole number not below a number; a point in time rounded up to a unit.",
    form=("NUMERIC or DATETIME", "UNIT?"),
    aliases=["CEILING"],
    can_fail=True,
    monotonic=True,
    syntax="CEIL(number), CEIL(point TO unit)",
)
def ceil(context: EvalContext, value: Value, *unit: Value) -> Value:
    return _rounded(context, value, unit[0].as_py(), True) if unit else ceil_number(context, value)


def _rounded(context: EvalContext, value: Value, unit: str, up: bool) -> Value:
    type_ = context.arg_types[0]
    values, valid = local_values(context, value, type_)
    per_day = ticks_per_day(type_)
    if unit in _CALENDAR:
        # The start of a unit that the point lies in or, to round up, of the one behind the last tick before the point.
        days = (values - up) // per_day
        days = _next(days, unit) if up else _start(days, unit)
        result = days if per_day == 1 else stored(days * _DAY_MILLIS, 0, type_)
    elif _PARTS[unit] >= per_day:
        result = values
    elif per_day <= _DAY_MILLIS or _PARTS[unit] > _DAY_MILLIS:
        step = per_day // _PARTS[unit]
        result = -(-values // step) * step if up else values // step * step
    else:
        # By milliseconds: the next day of a TIMESTAMP(9) may not fit 64 bits.
        millis, rest = np.divmod(values, per_day // _DAY_MILLIS)
        step = _DAY_MILLIS // _PARTS[unit]
        result = stored(-(-(millis + (rest > 0)) // step) * step if up else millis // step * step, 0, type_)
    if type_.root is _R.TIMESTAMP_LTZ:
        result = result_to_instant(np.ascontiguousarray(result), context.time_zone, type_)
    if type_.root is _R.TIME:
        result = result % per_day
    result = check_range(result, valid, type_)
    return from_numpy(result, valid, context.result_type.arrow, context.num_rows)


def _start(days: Any, unit: str) -> Any:
    """Days since 1970-01-01 rounded down to the start of a week or a longer unit."""
    if unit == "WEEK":
        return days - (days + 4) % 7
    return _first_day(_number(days, unit), unit)


def _next(days: Any, unit: str) -> Any:
    """The start of the unit after the one that a day lies in."""
    return _start(days, unit) + 7 if unit == "WEEK" else _first_day(_number(days, unit) + 1, unit)


_YEARS = {"YEAR": 1, "DECADE": 10, "CENTURY": 100, "MILLENNIUM": 1000}


def _number(days: Any, unit: str) -> Any:
    """The number of the unit that a day lies in. Centuries and millennia begin with the year 1."""
    months = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
    if unit in ("MONTH", "QUARTER"):
        return months // (1 if unit == "MONTH" else 3)
    return (months // 12 + 1970 - (unit in ("CENTURY", "MILLENNIUM"))) // _YEARS[unit]


def _first_day(number: Any, unit: str) -> Any:
    if unit in ("MONTH", "QUARTER"):
        months = number * (1 if unit == "MONTH" else 3)
        return days_of(months // 12 + 1970, months % 12 + 1, 1)
    year = number * _YEARS[unit] + (unit in ("CENTURY", "MILLENNIUM"))
    return days_of(year, np.ones_like(year), 1)
