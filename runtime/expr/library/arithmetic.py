"""The operators + - * / % and the minus sign, over numbers, points in time and intervals.

Integers wrap like Java's; division by zero fails for integers and decimals, gives Infinity or NaN for FLOAT and
DOUBLE. Decimal results have the precision and scale that Flink derives (below), and are NULL where they do not fit. A
point in time keeps its type when an interval is added; adding months clamps to the month's last day.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.core.errors import ExpressionError
from runtime.core.types import INTERVAL_MONTH, INTERVAL_SECOND, DataType, TypeRoot, decimal
from runtime.expr.columns import Mask, combine_valid, from_numpy, numbers
from runtime.expr.decimals import (
    divide_half_up,
    from_unscaled,
    power_of_ten,
    product,
    rescaled,
    scaled_up,
    total,
    unscaled,
)
from runtime.expr.digits import as_decimal
from runtime.expr.function import CallRule, CallTypes, EvalContext, Overflows, Value
from runtime.expr.library.declare import Family
from runtime.expr.moments import add_to_moment, difference, months_between
from runtime.expr.nullability import cast_type
from runtime.expr.time_range import check_range
from runtime.expr.typing import common_type

__all__ = ["FAMILY", "adjusted"]

FAMILY = Family("arithmetic")
_R = TypeRoot
_MOMENTS = (_R.DATE, _R.TIME, _R.TIMESTAMP, _R.TIMESTAMP_LTZ)
_MAX = 38
_Typed = tuple[tuple[DataType, ...], DataType]
Fields = Callable[[DataType, DataType], tuple[int, int]]


def adjusted(precision: int, scale: int) -> DataType:
    """A derived DECIMAL within 38 digits: whole digits are kept, the scale gives way down to 6 (Flink's, that is SQL
    Server's rule)."""
    if precision <= _MAX:
        return decimal(precision, scale)
    whole = precision - scale
    return decimal(_MAX, max(_MAX - whole, min(scale, 6)))


def _sum_digits(a: DataType, b: DataType) -> tuple[int, int]:
    scale = max(a.scale, b.scale)
    return max(a.precision - a.scale, b.precision - b.scale) + scale + 1, scale


def _product_digits(a: DataType, b: DataType) -> tuple[int, int]:
    return a.precision + b.precision + 1, a.scale + b.scale


def _quotient_digits(a: DataType, b: DataType) -> tuple[int, int]:
    scale = max(6, a.scale + b.precision + 1)
    return a.precision - a.scale + b.scale + scale, scale


def _rest_digits(a: DataType, b: DataType) -> tuple[int, int]:
    scale = max(a.scale, b.scale)
    return min(a.precision - a.scale, b.precision - b.scale) + scale, scale


def _overflow(digits: Fields) -> Overflows:
    """Whether a DECIMAL result has fewer digits before the point than its greatest value."""

    def overflows(types: CallTypes, result: DataType) -> bool:
        if result.root is not _R.DECIMAL or any(t.root is _R.NULL for t in types):
            return False
        precision, scale = digits(as_decimal(types[0]), as_decimal(types[1]))
        return precision - scale > result.precision - result.scale

    return overflows


def _untyped(a: DataType, b: DataType) -> tuple[DataType, DataType]:
    """An untyped NULL takes the type of the other side."""
    if a.root is _R.NULL:
        a = b.with_nullable(True)
    if b.root is _R.NULL:
        b = a.with_nullable(True)
    return a, b


def _numeric(a: DataType, b: DataType, digits: Fields) -> _Typed | None:
    if not (a.is_numeric and b.is_numeric):
        return None
    if _R.DECIMAL in (a.root, b.root) and not (a.is_approximate or b.is_approximate):
        # Integers stay integers: an operand's type is only the digits that the result counts on.
        return (a, b), adjusted(*digits(as_decimal(a), as_decimal(b)))
    common = common_type((a, b))
    if common is None:
        return None
    return (cast_type(a, common), cast_type(b, common)), common


def _rule(digits: Fields, other: Callable[[DataType, DataType], _Typed | None]) -> CallRule:
    def rule(types: CallTypes) -> _Typed | None:
        if len(types) != 2:
            return None
        a, b = _untyped(types[0], types[1])
        return _numeric(a, b, digits) or other(a, b)

    return rule


def _plus_types(a: DataType, b: DataType) -> _Typed | None:
    if a.root in _MOMENTS and b.is_interval:
        return (a, b), a
    if b.root in _MOMENTS and a.is_interval:
        return (a, b), b
    return _intervals(a, b)


def _intervals(a: DataType, b: DataType) -> _Typed | None:
    if a.is_interval and a.root is b.root:
        return (a, b), a.undeclared()
    return None


def _minus_types(a: DataType, b: DataType) -> _Typed | None:
    if a.root in _MOMENTS and b.is_interval:
        return (a, b), a
    return _intervals(a, b)


def _times_types(a: DataType, b: DataType) -> _Typed | None:
    if a.is_interval and b.is_exact_numeric:
        return (a, b), a.undeclared()
    if b.is_interval and a.is_exact_numeric:
        return (a, b), b.undeclared()
    return None


def _nothing(a: DataType, b: DataType) -> _Typed | None:
    return None


def _rest_rule(types: CallTypes) -> _Typed | None:
    """The remainder has the type of the divisor (integers), or the digits that both have (decimals)."""
    typed = _rule(_rest_digits, _nothing)(types)
    if typed is None:
        return None
    a, b = _untyped(types[0], types[1])
    return (typed[0], b) if a.is_integer and b.is_integer else typed


@FAMILY.special(
    "+",
    _rule(_sum_digits, _plus_types),
    "The sum; a point in time and an interval too.",
    form=("NUMERIC", "NUMERIC"),
    syntax="a + b",
    can_fail=True,
    overflows=_overflow(_sum_digits),
)
def plus(context: EvalContext, a: Value, b: Value) -> Value:
    return _add(context, a, b, 1)


@FAMILY.special(
    "-",
    _rule(_sum_digits, _minus_types),
    "The difference; a point in time less an interval too.",
    form=("NUMERIC", "NUMERIC"),
    syntax="a - b",
    can_fail=True,
    overflows=_overflow(_sum_digits),
)
def minus(context: EvalContext, a: Value, b: Value) -> Value:
    return _add(context, a, b, -1)


def _add(context: EvalContext, a: Value, b: Value, sign: int) -> Value:
    left, right = context.arg_types
    if left.root in _MOMENTS:
        return add_to_moment(context, a, left, b, right, sign)
    if right.root in _MOMENTS:
        return add_to_moment(context, b, right, a, left, sign)
    if context.result_type.root is _R.DECIMAL:
        x, valid_x = unscaled(a, context.num_rows)
        y, valid_y = unscaled(b, context.num_rows)
        scale = max(left.scale, right.scale)
        summed = total(scaled_up(x, scale - left.scale), sign * scaled_up(y, scale - right.scale))
        return _decimal(context, rescaled(summed, scale, context.result_type.scale), valid_x, valid_y)
    if left.is_interval:
        x, valid_x = numbers(a, context.num_rows)
        y, valid_y = numbers(b, context.num_rows)
        return _interval(context, x.astype(np.int64) + sign * y.astype(np.int64), valid_x, valid_y)
    return pc.add(a, b) if sign > 0 else pc.subtract(a, b)


def _interval(context: EvalContext, values: Any, *valid: Mask | None) -> pa.Array:
    known = combine_valid(*valid)
    if len(values) != context.num_rows:
        values = np.broadcast_to(values, (context.num_rows,))
    values = check_range(values, known, context.result_type)
    if known is not None:
        values = np.where(known, values, 0)
    return from_numpy(values.astype(np.int64), known, context.result_type.arrow)


def _decimal(context: EvalContext, values: Any, *valid: Mask | None) -> pa.Array:
    return from_unscaled(values, combine_valid(*valid), context.result_type.arrow, context.num_rows)


@FAMILY.special(
    "*",
    _rule(_product_digits, _times_types),
    "The product; an interval times a number too.",
    form=("NUMERIC", "NUMERIC"),
    syntax="a * b",
    can_fail=True,
    overflows=_overflow(_product_digits),
)
def times(context: EvalContext, a: Value, b: Value) -> Value:
    left, right = context.arg_types
    result = context.result_type
    if result.is_interval:
        if right.is_interval:
            (a, left), (b, right) = (b, right), (a, left)
        length, valid_length = numbers(a, context.num_rows)
        factor, valid_factor = unscaled(b, context.num_rows)
        values = product(length.astype(np.int64), factor)
        if right.scale:
            values = divide_half_up(values, power_of_ten(right.scale, values))
        return _interval(context, values, valid_length, valid_factor)
    if result.root is _R.DECIMAL:
        x, valid_x = unscaled(a, context.num_rows)
        y, valid_y = unscaled(b, context.num_rows)
        return _decimal(context, rescaled(product(x, y), left.scale + right.scale, result.scale), valid_x, valid_y)
    return pc.multiply(a, b)


def _zero_divisor(divisor: Any, valid: Mask | None, length: int) -> None:
    """Fails when a divisor is zero on a row whose operands are not NULL."""
    zero = np.broadcast_to(np.asarray(divisor == 0, dtype=np.bool_), (length,))
    if valid is not None:
        zero = zero & valid
    if zero.any():
        raise ExpressionError(
            "division by zero", code="E2102", hint="guard it: CASE WHEN b <> 0 THEN a / b END, or a / NULLIF(b, 0)"
        )


@FAMILY.special(
    "/",
    _rule(_quotient_digits, _nothing),
    "The quotient; of integers, truncated toward zero.",
    form=("NUMERIC", "NUMERIC"),
    can_fail=True,
    syntax="a / b",
    overflows=_overflow(_quotient_digits),
)
def divide(context: EvalContext, a: Value, b: Value) -> Value:
    left, right = context.arg_types
    result = context.result_type
    length = context.num_rows
    if result.root is _R.DECIMAL:
        x, valid_x = unscaled(a, length)
        y, valid_y = unscaled(b, length)
        valid = combine_valid(valid_x, valid_y)
        _zero_divisor(y, valid, length)
        y = np.where(np.asarray(y == 0, dtype=np.bool_), 1, y)
        shift = result.scale - left.scale + right.scale
        x = scaled_up(x, max(shift, 0))
        y = scaled_up(y, max(-shift, 0))
        if x.dtype != y.dtype:
            x, y = x.astype(object), y.astype(object)
        return _decimal(context, divide_half_up(x, y), valid)
    x, valid_x = numbers(a, length)
    y, valid_y = numbers(b, length)
    valid = combine_valid(valid_x, valid_y)
    if result.is_approximate:
        with np.errstate(all="ignore"):
            return from_numpy(x / y, valid, result.arrow, length)
    _zero_divisor(y, valid, length)
    return from_numpy(_truncated(x, y), valid, result.arrow, length)


def _truncated(x: Any, y: Any) -> Any:
    """Integer quotients toward zero; the least integer by -1 wraps."""
    y = np.where(y == 0, y.dtype.type(1), y)
    with np.errstate(over="ignore"):
        quotient = x // y
        return quotient + ((quotient * y != x) & ((x < 0) != (y < 0)))


@FAMILY.special(
    "%",
    _rest_rule,
    "The remainder; its sign is the dividend's.",
    form=("NUMERIC", "NUMERIC"),
    aliases=("MOD",),
    can_fail=True,
    syntax="a % b",
    overflows=_overflow(_rest_digits),
)
def remainder(context: EvalContext, a: Value, b: Value) -> Value:
    left, right = context.arg_types
    result = context.result_type
    length = context.num_rows
    if result.root is _R.DECIMAL:
        x, valid_x = unscaled(a, length)
        y, valid_y = unscaled(b, length)
        scale = max(left.scale, right.scale)
        x, y = scaled_up(x, scale - left.scale), scaled_up(y, scale - right.scale)
        valid = combine_valid(valid_x, valid_y)
        _zero_divisor(y, valid, length)
        rest = abs(x) % np.where(np.asarray(y == 0, dtype=np.bool_), 1, abs(y))
        return _decimal(context, rescaled(np.where(x < 0, -rest, rest), scale, result.scale), valid)
    x, valid_x = numbers(a, length)
    y, valid_y = numbers(b, length)
    valid = combine_valid(valid_x, valid_y)
    if result.is_approximate:
        with np.errstate(all="ignore"):
            return from_numpy(np.fmod(x, y), valid, result.arrow, length)
    _zero_divisor(y, valid, length)
    return from_numpy(np.fmod(x, np.where(y == 0, y.dtype.type(1), y)), valid, result.arrow, length)


def _negate_rule(types: CallTypes) -> _Typed | None:
    if len(types) != 1 or not (types[0].is_numeric or types[0].is_interval or types[0].root is _R.NULL):
        return None
    return (types[0],), types[0].undeclared()


@FAMILY.special(
    "NEGATE",
    _negate_rule,
    "The number or interval with its sign turned.",
    form=("NUMERIC",),
    can_fail=True,
    syntax="- a",
)
def negate(context: EvalContext, value: Value) -> Value:
    if context.result_type.is_interval:
        values, valid = numbers(value, context.num_rows)
        return _interval(context, -values.astype(np.int64), valid)
    return value if pa.types.is_null(value.type) else pc.negate(value)


def _between_moments(types: CallTypes) -> _Typed | None:
    if len(types) != 2:
        return None
    a, b = _untyped(types[0], types[1])
    dates = (_R.DATE, _R.TIMESTAMP, _R.TIMESTAMP_LTZ)
    if (a.root in dates and b.root in dates) or (a.root is _R.TIME and b.root is _R.TIME):
        return (a, b), INTERVAL_SECOND
    return None


@FAMILY.special(
    "MINUS_DATE",
    _between_moments,
    "The time between two points, in milliseconds.",
    form=("DATETIME", "DATETIME"),
    syntax="(a - b) DAY TO SECOND",
)
def minus_date(context: EvalContext, a: Value, b: Value) -> Value:
    return difference(context, a, b)


def _months_between(types: CallTypes) -> _Typed | None:
    typed = _between_moments(types)
    return None if typed is None else (typed[0], INTERVAL_MONTH)


@FAMILY.special(
    "MINUS_MONTHS",
    _months_between,
    "The whole months between two points.",
    form=("DATETIME", "DATETIME"),
    syntax="(a - b) YEAR TO MONTH",
)
def minus_months(context: EvalContext, a: Value, b: Value) -> Value:
    return months_between(context, a, b)
