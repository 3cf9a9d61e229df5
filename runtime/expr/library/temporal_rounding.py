"""FLOOR and CEIL: of numbers to whole ones, of points in time to a unit.

A week starts on Sunday. CEIL to a week or longer looks at the date only: the first day of a month at ten o'clock is not
rounded up, and a millennium, century or decade always ends in the next; so it is in Flink. TIMESTAMP_LTZ is rounded in
the session's time zone, to the local midnight where Flink adds 24 hours.
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
from runtime.expr.moments import ticks_per_day, unit_of
from runtime.expr.zones import local_to_instant

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
        result = _calendar(values // per_day, unit, up) * per_day
    elif _PARTS[unit] >= per_day:
        result = values
    else:
        step = per_day // _PARTS[unit]
        result = -(-values // step) * step if up else values // step * step
    if type_.root is _R.TIMESTAMP_LTZ:
        result = local_to_instant(np.ascontiguousarray(result), context.time_zone, unit_of(type_))
    if type_.root is _R.TIME:
        result = result % per_day
    return from_numpy(result, valid, context.result_type.arrow, context.num_rows)


def _calendar(days: Any, unit: str, up: bool) -> Any:
    """Days since 1970-01-01 rounded to a week or longer."""
    if unit == "WEEK":
        after_sunday = (days + 4) % 7
        return days - np.where(up & (after_sunday > 0), after_sunday - 7, after_sunday)
    months = days.astype("datetime64[D]").astype("datetime64[M]")
    first_of_month = days == months.astype("datetime64[D]").astype(np.int64)
    number = months.astype(np.int64)
    year, month = number // 12 + 1970, number % 12 + 1
    match unit:
        case "MONTH":
            number = number + (up & ~first_of_month)
            return days_of(number // 12 + 1970, number % 12 + 1, 1)
        case "QUARTER":
            quarters = number // 3 + (up & ((month > 1) | ~first_of_month))
            return days_of(quarters // 4 + 1970, quarters % 4 * 3 + 1, 1)
        case "YEAR":
            return days_of(year + (up & ((month > 1) | ~first_of_month)), np.ones_like(year), 1)
        case "DECADE":
            return days_of((year // 10 + up) * 10, np.ones_like(year), 1)
        case _:
            length = 100 if unit == "CENTURY" else 1000
            return days_of((year + length - 1) // length * length + (1 if up else 1 - length), np.ones_like(year), 1)
