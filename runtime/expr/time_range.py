"""How far points in time and intervals reach: what SQL calls a datetime field overflow.

DATE, TIMESTAMP and TIMESTAMP_LTZ are of the years 1 to 9999; a TIMESTAMP of more than six digits is nanoseconds in 64
bits, 1677 to 2262. An INTERVAL of months is 32 bits, one of days and seconds at most 999,999,999 days.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.core.errors import ExpressionError
from runtime.core.types import DataType, TypeRoot

__all__ = [
    "OUT_OF_YEARS",
    "check_range",
    "has_times_beyond_nanoseconds",
    "has_times_outside",
    "limits",
    "out_of_range",
    "outside",
]

_R = TypeRoot
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
_DAY_MILLIS = 86_400_000
_NANOSECONDS = 9_223_372_036_853 * 10**6
"""Whole milliseconds whose nanoseconds fit 64 bits."""
_MILLIS = 999_999_999 * _DAY_MILLIS + _DAY_MILLIS - 1


def limits(type_: DataType) -> tuple[int, int]:
    """The least and the greatest stored number of a type of time or interval."""
    match type_.root:
        case _R.DATE:
            return _FIRST_DAY, _LAST_DAY
        case _R.TIME:
            return 0, _DAY_MILLIS - 1
        case _R.INTERVAL_MONTH:
            return -(2**31), 2**31 - 1
        case _R.INTERVAL_SECOND:
            return -_MILLIS, _MILLIS
        case _ if type_.precision > 6:
            return -_NANOSECONDS, _NANOSECONDS + 10**6 - 1
        case _:
            per_day = _DAY_MILLIS * 1000
            return _FIRST_DAY * per_day, (_LAST_DAY + 1) * per_day - 1


def outside(values: Any, type_: DataType) -> Any:
    """The rows whose stored number is none of the type."""
    low, high = limits(type_)
    return np.asarray((values < low) | (values > high), dtype=np.bool_)


OUT_OF_YEARS = "a date or time is out of the years 1 to 9999"
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def has_times_outside(array: pa.Array) -> bool:
    """Whether an array that came from outside, or a part of its values, has a point in time that no type of SQL holds.

    Libraries take years that SQL does not have (and infinity, as the greatest number); their texts and fields are wrong.
    """
    return _has_times(array, _FIRST_DAY, _LAST_DAY + 1)


def has_times_beyond_nanoseconds(array: pa.Array) -> bool:
    """Whether an array, or a part of its values, has a point in time before 1677 or after 2262."""
    days = _NANOSECONDS // (_DAY_MILLIS * 10**6)
    return _has_times(array, -days, days)


def _has_times(array: pa.Array, first: int, end: int) -> bool:
    """Whether there is a time before a day since 1970, or from another on."""
    type_ = array.type
    if pa.types.is_date32(type_):
        return _beyond(array, pa.int32(), first, end - 1)
    if pa.types.is_timestamp(type_):
        per_day = 86_400 * _PER_SECOND[type_.unit]
        # 64 bits of nanoseconds end before.
        return type_.unit != "ns" and _beyond(array, pa.int64(), first * per_day, end * per_day - 1)
    if pa.types.is_struct(type_):
        return type_.num_fields > 0 and any(_has_times(part, first, end) for part in array.flatten())
    if pa.types.is_map(type_):
        return _has_times(array.keys, first, end) or _has_times(array.items, first, end)
    return pa.types.is_list(type_) and _has_times(array.flatten(), first, end)


def _beyond(array: pa.Array, stored: pa.DataType, low: int, high: int) -> bool:
    ends = pc.min_max(array.view(stored)).as_py()
    return ends["min"] is not None and not low <= ends["min"] <= ends["max"] <= high


def check_range(values: Any, valid: Any, type_: DataType) -> Any:
    """The stored numbers.

    Raises:
        ExpressionError: E2103 when one, of a row that is not NULL, is none of the type.
    """
    wrong = outside(values, type_)
    if valid is not None:
        wrong = wrong & valid
    if wrong.any():
        raise out_of_range(type_)
    return values


def out_of_range(type_: DataType) -> ExpressionError:
    """The error for a result that the type cannot hold."""
    if type_.is_interval:
        reach = "2147483647 months" if type_.root is _R.INTERVAL_MONTH else "999999999 days"
        hint = f"an INTERVAL holds up to {reach}"
    else:
        years = "the years 1677 to 2262" if type_.is_timestamp and type_.precision > 6 else "the years 1 to 9999"
        hint = f"it holds {years}; leave such rows out with WHERE or CASE"
    return ExpressionError(
        f"the result is out of the range of {type_.with_nullable(True).materialized()}", code="E2103", hint=hint
    )
