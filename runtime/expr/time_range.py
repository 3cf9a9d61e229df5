"""How far points in time and intervals reach: what SQL calls a datetime field overflow.

DATE, TIMESTAMP and TIMESTAMP_LTZ are of the years 1 to 9999; a TIMESTAMP of more than six digits is nanoseconds in 64
bits, 1677 to 2262. An INTERVAL of months is 32 bits, one of days and seconds at most 999,999,999 days.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from runtime.core.errors import ExpressionError
from runtime.core.types import DataType, TypeRoot

__all__ = ["check_range", "limits", "out_of_range", "outside"]

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
