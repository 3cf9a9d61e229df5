"""Casts between DATE, TIME, TIMESTAMP and TIMESTAMP_LTZ; fractions are cut to the precision, zones are the session's.

A TIME is that time on 1970-01-01; a DATE is its first moment.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from runtime.core.types import DataType, TypeRoot
from runtime.expr.cast.conversion import Converted, failing
from runtime.expr.columns import from_numpy, integers_of, validity
from runtime.expr.time_range import limits, outside
from runtime.expr.zones import instant_to_local, local_to_instant

__all__ = ["in_range", "time_to_time"]

_R = TypeRoot
_DAY_MILLIS = 86_400_000


def _unit(type_: DataType) -> str:
    return "us" if type_.precision <= 6 else "ns"


def _per_day(unit: str) -> int:
    return 86_400_000_000 if unit == "us" else 86_400_000_000_000


def time_to_time(array: pa.Array, source: DataType, target: DataType, time_zone: str) -> Converted:
    """A value of one of the four as another."""
    values = integers_of(array)
    valid = validity(array)
    if source.is_timestamp:
        values, unit = values, _unit(source)
        if source.root is _R.TIMESTAMP_LTZ and target.root is not _R.TIMESTAMP_LTZ:
            values = instant_to_local(values, time_zone, unit)
    else:
        unit = "us"
        per_day = _per_day(unit)
        values = values.astype("int64") * (per_day if source.root is _R.DATE else per_day // _DAY_MILLIS)
    if target.root is _R.DATE:
        return in_range(values // _per_day(unit), valid, target)
    if target.root is _R.TIME:
        return Converted(from_numpy(_time_of_day(values, unit, target.precision), valid, target.arrow))
    if target.root is _R.TIMESTAMP_LTZ and source.root is not _R.TIMESTAMP_LTZ:
        values = local_to_instant(values, time_zone, unit)
    if unit == "us" and _unit(target) == "ns":
        low, high = limits(target)
        far = (values < low // 1000) | (values > high // 1000)
        return in_range(np.where(far, low - 1, _in_precision(np.where(far, 0, values), unit, target)), valid, target)
    return in_range(_in_precision(values, unit, target), valid, target)


def in_range(values: Any, valid: Any, target: DataType) -> Converted:
    """Stored numbers as a column; what is none of the type fails."""
    wrong = outside(values, target)
    if valid is not None:
        wrong = wrong & valid
    return failing(from_numpy(values, valid, target.arrow), wrong)


def _time_of_day(values: Any, unit: str, precision: int) -> Any:
    millis = values % _per_day(unit) // (_per_day(unit) // _DAY_MILLIS)
    step = 10 ** (3 - min(precision, 3))
    return millis // step * step


def _in_precision(values: Any, unit: str, target: DataType) -> Any:
    wanted = _unit(target)
    if unit != wanted:
        values = values * 1000 if wanted == "ns" else values // 1000
    step = 10 ** ((6 if wanted == "us" else 9) - target.precision)
    return values if step == 1 else values // step * step
