"""EXTRACT and the functions of one field: YEAR, HOUR, DAYOFWEEK and their like, all BIGINT.

Points of TIMESTAMP_LTZ are seen in the session's time zone. Fields of points before 1970 are those of the calendar and
the clock, too: HOUR(TIMESTAMP '1969-07-20 20:17:40') is 20, where Flink gives -3. Those of a negative interval are
negative. Weeks are those of ISO 8601; DAYOFWEEK and DOW are 1 on Sunday, ISODOW is 1 on Monday.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from runtime.core.types import BIGINT, DataType, TypeRoot
from runtime.expr.columns import from_numpy, numbers
from runtime.expr.function import CallTypes, EvalContext, Value
from runtime.expr.library.declare import Family
from runtime.expr.moments import ticks_per_day, unit_of
from runtime.expr.zones import instant_to_local

__all__ = ["FAMILY", "local_values", "truncated"]

FAMILY = Family("temporal fields")
_R = TypeRoot
_MOMENTS = (_R.DATE, _R.TIME, _R.TIMESTAMP, _R.TIMESTAMP_LTZ)
_DAY = 86_400_000
_CALENDAR = frozenset(
    {
        "MILLENNIUM",
        "CENTURY",
        "DECADE",
        "YEAR",
        "QUARTER",
        "MONTH",
        "WEEK",
        "DAY",
        "DOY",
        "DOW",
        "ISODOW",
        "ISOYEAR",
        "EPOCH",
    }
)
_CLOCK = {"HOUR": (_DAY, 3_600_000), "MINUTE": (3_600_000, 60_000), "SECOND": (60_000, 1000), "MILLISECOND": (1000, 1)}
_FINE = {"MICROSECOND": 1000, "NANOSECOND": 1_000_000}
_OF_MONTHS = {"MILLENNIUM": 12_000, "CENTURY": 1200, "DECADE": 120, "YEAR": 12}
_OF_MILLIS = frozenset({"DAY", *_CLOCK, *_FINE, "EPOCH"})
_Typed = tuple[tuple[DataType, ...], DataType]


def truncated(values: Any, divisor: int) -> Any:
    """Quotients toward zero."""
    return np.sign(values) * (np.abs(values) // divisor)


def local_values(context: EvalContext, value: Value, type_: DataType) -> tuple[Any, Any]:
    """The stored numbers of points in time, TIMESTAMP_LTZ as local times of the session's zone, and which are valid."""
    values, valid = numbers(value, context.num_rows)
    values = values.astype(np.int64)
    if type_.root is _R.TIMESTAMP_LTZ:
        values = instant_to_local(np.ascontiguousarray(values), context.time_zone, unit_of(type_))
    return values, valid


def _fits(unit: str, type_: DataType) -> bool:
    match type_.root:
        case _R.DATE | _R.TIMESTAMP | _R.TIMESTAMP_LTZ:
            return True
        case _R.TIME:
            return unit in _CLOCK or unit in _FINE or unit == "EPOCH"
        case _R.INTERVAL_SECOND:
            return unit in _OF_MILLIS
        case _R.INTERVAL_MONTH:
            return unit in _OF_MONTHS or unit in ("QUARTER", "MONTH")
        case _:
            return False


def _rule(types: CallTypes) -> _Typed | None:
    if len(types) != 2 or not isinstance(types.literal(0), str):
        return None
    unit, given = types.literal(0), types[1]
    if given.root is _R.NULL:
        return (types[0], DataType(_R.TIMESTAMP, 3)), BIGINT.with_nullable(True)
    return (tuple(types), BIGINT.with_nullable(given.nullable)) if _fits(unit, given) else None


@FAMILY.special(
    "EXTRACT",
    _rule,
    "A field of a point in time or of an interval.",
    form=("UNIT", "DATETIME"),
    syntax="EXTRACT(unit FROM point)",
)
def extract(context: EvalContext, unit: Value, value: Value) -> Value:
    return _extract(context, unit.as_py(), value, context.arg_types[1])


def _extract(context: EvalContext, unit: str, value: Value, type_: DataType) -> Value:
    values, valid = local_values(context, value, type_)
    if type_.root is _R.INTERVAL_MONTH:
        found = _month_field(unit, values)
    elif type_.root is _R.INTERVAL_SECOND:
        found = np.sign(values) * _interval_field(unit, np.abs(values))
    elif type_.root is _R.DATE:
        found = _day_field(unit, values) if unit in _CALENDAR else np.zeros_like(values)
    else:
        per_milli = ticks_per_day(type_) // _DAY
        millis, rest = np.divmod(values, per_milli)
        if unit in _CALENDAR and unit != "EPOCH":
            found = _day_field(unit, millis // _DAY)
        else:
            found = _clock_field(unit, millis, rest * (1_000_000 // per_milli))
    return from_numpy(found, valid, context.result_type.arrow, context.num_rows)


def _month_field(unit: str, months: Any) -> Any:
    rest = np.fmod(months, 12)
    if unit in _OF_MONTHS:
        return truncated(months, _OF_MONTHS[unit])
    return rest if unit == "MONTH" else truncated(rest, 3) + 1


def _clock_field(unit: str, millis: Any, nanos: Any) -> Any:
    """A field of milliseconds and the nanoseconds beyond them."""
    if unit == "EPOCH":
        return millis // 1000
    if unit in _FINE:
        return millis % 1000 * _FINE[unit] + nanos // (1_000_000 // _FINE[unit])
    length, size = _CLOCK[unit]
    return millis % length // size


def _interval_field(unit: str, millis: Any) -> Any:
    return millis // _DAY if unit == "DAY" else _clock_field(unit, millis, np.zeros_like(millis))


def _day_field(unit: str, days: Any) -> Any:
    match unit:
        case "EPOCH":
            return days * 86_400
        case "DAY":
            dates = days.astype("datetime64[D]")
            return (dates - dates.astype("datetime64[M]").astype("datetime64[D]")).astype(np.int64) + 1
        case "DOW":
            return (days + 4) % 7 + 1
        case "ISODOW":
            return (days + 3) % 7 + 1
        case "DOY":
            return days - _start_of_year(days) + 1
        case "WEEK" | "ISOYEAR":
            # The week belongs to the year of its Thursday.
            thursday = days - (days + 3) % 7 + 3
            return (thursday - _start_of_year(thursday)) // 7 + 1 if unit == "WEEK" else _year(thursday)
        case "MONTH" | "QUARTER":
            month = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64) % 12
            return month + 1 if unit == "MONTH" else month // 3 + 1
        case "YEAR":
            return _year(days)
        case "DECADE":
            return truncated(_year(days), 10)
        case _:
            length = 100 if unit == "CENTURY" else 1000
            year = _year(days)
            return truncated(year + np.where(year > 0, length - 1, 1 - length), length)


def _year(days: Any) -> Any:
    return days.astype("datetime64[D]").astype("datetime64[Y]").astype(np.int64) + 1970


def _start_of_year(days: Any) -> Any:
    return days.astype("datetime64[D]").astype("datetime64[Y]").astype("datetime64[D]").astype(np.int64)


def _declare(name: str, unit: str, document: str) -> None:
    def rule(types: CallTypes) -> _Typed | None:
        if len(types) != 1:
            return None
        given = types[0]
        if given.root is _R.NULL:
            return (DataType(_R.TIMESTAMP, 3),), BIGINT.with_nullable(True)
        return (tuple(types), BIGINT.with_nullable(given.nullable)) if _fits(unit, given) else None

    @FAMILY.special(name, rule, document, form=("DATETIME",))
    def evaluate(context: EvalContext, value: Value) -> Value:
        return _extract(context, unit, value, context.arg_types[0])


_declare("YEAR", "YEAR", "The year of a point in time.")
_declare("QUARTER", "QUARTER", "The quarter, 1 to 4.")
_declare("MONTH", "MONTH", "The month, 1 to 12.")
_declare("WEEK", "WEEK", "The week of the year by ISO 8601, 1 to 53.")
_declare("DAYOFYEAR", "DOY", "The day of the year, 1 to 366.")
_declare("DAYOFMONTH", "DAY", "The day of the month, 1 to 31.")
_declare("DAYOFWEEK", "DOW", "The day of the week, 1 on Sunday to 7.")
_declare("HOUR", "HOUR", "The hour, 0 to 23.")
_declare("MINUTE", "MINUTE", "The minute, 0 to 59.")
_declare("SECOND", "SECOND", "The second, 0 to 59.")
