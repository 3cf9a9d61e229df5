"""CEIL, FLOOR, ROUND and TRUNCATE of numbers.

Of a DECIMAL(p, s), CEIL and FLOOR give DECIMAL(p, 0); ROUND and TRUNCATE to r digits give DECIMAL(1 + p - s + r, r),
of an unknown r the argument's type. ROUND is half up (away from zero), on the decimal digits that a DOUBLE is written
with.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.core.types import DataType, TypeRoot, decimal
from runtime.expr.cast.float_text import float_text
from runtime.expr.cast.parse_numbers import text_to_decimal
from runtime.expr.columns import as_array, combine_valid, from_numpy, integers_of, numbers, validity
from runtime.expr.decimals import (
    divide_half_up,
    divide_truncating,
    from_unscaled,
    low_words,
    power_of_ten,
    scaled_up,
    to_double,
    unscaled,
)
from runtime.expr.function import CallTypes, EvalContext, Value
from runtime.expr.library.declare import INT_, NUMERIC, Family, optional

__all__ = ["FAMILY", "ceil_number", "floor_number", "whole_type"]

FAMILY = Family("rounding")
_R = TypeRoot
Divide = Callable[[Any, Any], Any]


def whole_type(types: CallTypes) -> DataType:
    """The type of CEIL and FLOOR of a number."""
    first = types[0]
    return decimal(first.precision, 0) if first.root is _R.DECIMAL else first


def ceil_number(context: EvalContext, value: Value) -> Value:
    return _whole(context, value, pc.ceil)


def floor_number(context: EvalContext, value: Value) -> Value:
    return _whole(context, value, pc.floor)


def _whole(context: EvalContext, value: Value, kernel: Callable[[Value], Value]) -> Value:
    source = context.arg_types[0]
    if source.is_integer:
        return value
    if source.root is not _R.DECIMAL:
        return kernel(value)
    values, valid = unscaled(value, context.num_rows)
    unit = power_of_ten(source.scale, values)
    whole = values // unit if kernel is pc.floor else -(-values // unit)
    return from_unscaled(whole, valid, context.result_type.arrow, context.num_rows)


def _rounded_type(types: CallTypes) -> DataType:
    first = types[0]
    if first.root is not _R.DECIMAL:
        return first
    digits = 0 if len(types) == 1 else types.literal(1)
    if digits is None or digits >= first.scale:
        return first
    whole = 1 + first.precision - first.scale
    return decimal(min(38, whole), 0) if digits < 0 else decimal(min(38, whole + digits), digits)


def _carried(types: CallTypes, result: DataType) -> bool:
    """Whether rounding up may need a digit more before the point than the result has: 9.9 is 10."""
    first = types[0]
    if first.root is not _R.DECIMAL:
        return False
    digits = 0 if len(types) == 1 else types.literal(1)
    if digits is not None and digits >= first.scale:
        return False
    return 1 + first.precision - first.scale > result.precision - result.scale


@FAMILY.scalar(
    "ROUND",
    [NUMERIC, optional(INT_)],
    _rounded_type,
    "The number rounded half up to d digits after the point (0).",
    overflows=_carried,
)
def round_(context: EvalContext, value: Value, *digits: Value) -> Value:
    return _to_digits(context, value, digits, divide_half_up)


@FAMILY.scalar(
    "TRUNCATE", [NUMERIC, optional(INT_)], _rounded_type, "The number cut off after d digits after the point (0)."
)
def truncate(context: EvalContext, value: Value, *digits: Value) -> Value:
    return _to_digits(context, value, digits, divide_truncating)


def _to_digits(context: EvalContext, value: Value, digits: tuple[Value, ...], divide: Divide) -> Value:
    length = context.num_rows
    places, valid_places = numbers(digits[0], length) if digits else (np.zeros(1, np.int64), None)
    array = as_array(value, length)
    valid = combine_valid(validity(array), valid_places)
    source = context.arg_types[0]
    if source.is_approximate:
        return from_numpy(_doubles(array, places, divide), valid, array.type)
    values, _ = unscaled(array, length)
    cut = np.clip(source.scale - places.astype(np.int64), 0, 39)
    rounded = _cut_each(values, np.broadcast_to(cut, (length,)), divide)
    if source.is_integer:
        return from_numpy(low_words(rounded), valid, array.type)
    target = context.result_type
    if target.scale < source.scale:
        rounded = divide_truncating(rounded, power_of_ten(source.scale - target.scale, rounded))
    return from_unscaled(rounded, valid, target.arrow, length)


def _cut_each(values: Any, cut: Any, divide: Divide) -> Any:
    """Each value with its last `cut` digits made zero; one pass per distinct number of digits."""
    result = values
    for count in np.unique(cut):
        if count:
            factor = 10 ** int(count)
            big = values.astype(object) if count >= 18 else values
            whole = scaled_up(divide(big, np.full(len(big), factor, object) if count >= 18 else factor), int(count))
            result = np.where(cut == count, whole, result)
    return result


_EXACT = 20
_LARGE = 1e15


def _doubles(array: pa.Array, places: Any, divide: Divide) -> Any:
    """FLOAT and DOUBLE are rounded on their shortest digits: 1.005 to two digits is 1.01.

    Where the scaled value is not close to the border between two results, arithmetic on doubles gives the same
    answer; only the others are computed on their digits.
    """
    values = integers_of(array).astype(np.float64)
    half = divide is divide_half_up
    digits = np.clip(np.broadcast_to(places, values.shape), -22, 22)
    # Powers of ten up to 22 are exact doubles, their inverses are not: so multiply or divide, whichever is exact.
    up, down = np.float64(10.0) ** np.maximum(digits, 0), np.float64(10.0) ** np.maximum(-digits, 0)
    with np.errstate(all="ignore"):
        scaled = np.abs(values) * up / down
        low = np.floor(scaled)
        rest = scaled - low
        close = np.abs(rest - 0.5) < 1e-3 if half else (rest < 1e-3) | (rest > 1 - 1e-3)
        result = np.copysign((low + (rest >= 0.5) if half else low) / up * down, values)
    # From 10^15 on a double has no fraction; and what is not finite stays as it is.
    whole = ~np.isfinite(values) | ((np.abs(values) >= _LARGE) & (places >= 0))
    rows = np.flatnonzero(close & (np.abs(values) < _LARGE) & ~whole)
    if len(rows):
        chosen = np.broadcast_to(places, values.shape)[rows].astype(np.int64)
        result[rows] = _on_digits(array.take(pa.array(rows)), chosen, divide)
    return np.where(whole, values, result)


def _on_digits(array: pa.Array, places: Any, divide: Divide) -> Any:
    texts = pc.fill_null(float_text(array), "0")
    digits, _ = unscaled(text_to_decimal(texts, decimal(38, _EXACT)).values, len(array))
    cut = np.clip(_EXACT - places, 0, 39)
    return np.copysign(np.abs(to_double(_cut_each(digits, cut, divide), _EXACT)), integers_of(array))
