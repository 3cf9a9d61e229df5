"""TIMESTAMPADD and TIMESTAMPDIFF: points in time moved by units, and the whole units between two of them.

A result out of range is an error (E2103). Adding months clamps to the month's last day; a DATE moved by hours or less
becomes a TIMESTAMP(6). The difference counts whole units toward zero as INT; months are as many as can be added to the
earlier point, clamped.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from runtime.core.errors import ExpressionError
from runtime.core.types import BIGINT, INT, INTERVAL_MONTH, INTERVAL_SECOND, DataType, TypeRoot, timestamp
from runtime.expr.cast import cast_array
from runtime.expr.columns import combine_valid, from_numpy, numbers
from runtime.expr.function import CallTypes, EvalContext, Value
from runtime.expr.library.declare import Family
from runtime.expr.library.temporal_fields import local_values, truncated
from runtime.expr.moments import add_millis, add_to_moment, bounded, moments_of, plus_months, ticks_per_day

__all__ = ["FAMILY"]

FAMILY = Family("temporal arithmetic")
_R = TypeRoot
_MONTHS = {"MILLENNIUM": 12_000, "CENTURY": 1200, "DECADE": 120, "YEAR": 12, "QUARTER": 3, "MONTH": 1}
_MILLIS = {
    "WEEK": 604_800_000,
    "DAY": 86_400_000,
    "HOUR": 3_600_000,
    "MINUTE": 60_000,
    "SECOND": 1000,
    "MILLISECOND": 1,
}
_FINE = {"MICROSECOND": 1000, "NANOSECOND": 1_000_000, "FRAC_SECOND": 1000}
_PRECISION = {"MILLISECOND": 3, "MICROSECOND": 6, "FRAC_SECOND": 6, "NANOSECOND": 9}
_ROOTS = (_R.DATE, _R.TIME, _R.TIMESTAMP, _R.TIMESTAMP_LTZ)
_DAY = 86_400_000
_FAR = 10**15
"""More months, and more milliseconds, than lie between any two points in time."""
_Typed = tuple[tuple[DataType, ...], DataType]


def _add_rule(types: CallTypes) -> _Typed | None:
    if len(types) != 3 or types.literal(0) not in {*_MONTHS, *_MILLIS, *_FINE}:
        return None
    unit, count, point = types
    if count.root is _R.NULL:
        count = INT
    if point.root not in _ROOTS or not count.is_integer:
        return None
    result = point.materialized()
    if point.root is _R.DATE and types.literal(0) not in {*_MONTHS, "WEEK", "DAY"}:
        result = timestamp(6)
    if result.is_timestamp:
        result = result.with_(precision=max(result.precision, _PRECISION.get(types.literal(0), 0)))
    return (unit, BIGINT.with_nullable(count.nullable), point), result.with_nullable(point.nullable or count.nullable)


@FAMILY.special(
    "TIMESTAMPADD",
    _add_rule,
    "A point in time moved by a number of units.",
    form=("UNIT", "INTEGER", "DATETIME"),
    can_fail=True,
    syntax="TIMESTAMPADD(unit, number, point)",
)
def timestampadd(context: EvalContext, unit: Value, count: Value, point: Value) -> Value:
    name, result = unit.as_py(), context.result_type
    moved = context.arg_types[2]
    if moved.root is not result.root or moved.precision != result.precision:
        point, moved = cast_array(point, moved, result, False, context), result
    amount, valid_amount = numbers(count, context.num_rows)
    if name in _FINE:
        values, valid = numbers(point, context.num_rows)
        millis, rest = np.divmod(amount, _FINE[name])
        ticks = np.floor_divide(rest * (ticks_per_day(moved) // _DAY), _FINE[name])
        far = millis % _DAY if moved.root is _R.TIME else bounded(millis)
        found = add_millis(values, moved, far, ticks)
        return moments_of(context, found, combine_valid(valid, valid_amount), result)
    unit, kind = (_MONTHS[name], INTERVAL_MONTH) if name in _MONTHS else (_MILLIS[name], INTERVAL_SECOND)
    if moved.root is _R.TIME:
        amount = amount % max(_DAY // unit, 1)
    # A product that does not fit leads out of range as the bound does.
    interval = np.clip(amount, -(_FAR // unit), _FAR // unit) * unit
    return add_to_moment(context, point, moved, from_numpy(interval, valid_amount, pa.int64()), kind, 1)


def _difference_rule(types: CallTypes) -> _Typed | None:
    if len(types) != 3 or types.literal(0) not in {*_MONTHS, *_MILLIS, *_FINE}:
        return None
    points = [timestamp(3) if t.root is _R.NULL else t for t in types[1:]]
    if any(p.root not in _ROOTS for p in points) or (points[0].root is _R.TIME) != (points[1].root is _R.TIME):
        return None
    return (types[0], *points), INT.with_nullable(points[0].nullable or points[1].nullable)


@FAMILY.special(
    "TIMESTAMPDIFF",
    _difference_rule,
    "The whole units from one point in time to another.",
    form=("UNIT", "DATETIME", "DATETIME"),
    can_fail=True,
    syntax="TIMESTAMPDIFF(unit, from, to)",
)
def timestampdiff(context: EvalContext, unit: Value, start: Value, end: Value) -> Value:
    name = unit.as_py()
    in_zone = name in _MONTHS or context.arg_types[1].root is not context.arg_types[2].root
    early, valid_early = _millis(context, start, context.arg_types[1], in_zone)
    late, valid_late = _millis(context, end, context.arg_types[2], in_zone)
    if name in _MONTHS:
        counted = truncated(_months_between(late, early), _MONTHS[name])
    elif name in _FINE:
        # Milliseconds whose nanoseconds fit 64 bits are more than an INT holds.
        counted = np.clip(late - early, -(10**12), 10**12) * _FINE[name]
    else:
        counted = truncated(late - early, _MILLIS[name])
    known = combine_valid(valid_early, valid_late)
    return from_numpy(_checked_int(counted, known, name), known, pa.int32(), context.num_rows)


def _checked_int(counted: Any, valid: Any, unit: str) -> Any:
    wrong = np.asarray(np.abs(counted) >= 2**31, dtype=np.bool_)
    if valid is not None:
        wrong = wrong & valid
    if wrong.any():
        raise ExpressionError(
            f"there are more {unit.lower()}s between the two points than an INT holds",
            code="E2103",
            hint="count a larger unit, or subtract EXTRACT(EPOCH FROM ..) of the two",
        )
    return counted


def _millis(context: EvalContext, value: Value, type_: DataType, in_zone: bool) -> tuple[Any, Any]:
    values, valid = local_values(context, value, type_) if in_zone else numbers(value, context.num_rows)
    values = values.astype(np.int64)
    per_day = ticks_per_day(type_)
    return (values * (_DAY // per_day) if per_day <= _DAY else values // (per_day // _DAY)), valid


def _months_between(late: Any, early: Any) -> Any:
    """Months from `early` to `late` in milliseconds, negative the other way round."""
    sign = np.where(late < early, -1, 1)
    low_day, low_rest = np.divmod(np.minimum(early, late), _DAY)
    high_day, high_rest = np.divmod(np.maximum(early, late), _DAY)
    months = _month_number(high_day) - _month_number(low_day)
    reached = plus_months(low_day, months)
    return sign * (months - ((reached > high_day) | ((reached == high_day) & (high_rest < low_rest))))


def _month_number(days: Any) -> Any:
    return days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
