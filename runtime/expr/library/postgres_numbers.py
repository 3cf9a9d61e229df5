"""Numbers of PostgreSQL: those that fit into narrower types, and functions that Flink has not.

Source: PostgreSQL 15, "Value Storage" and "Mathematical Functions and Operators".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.core.errors import ExpressionError
from runtime.core.types import DOUBLE, INT, STRING, TypeRoot, decimal
from runtime.expr.columns import as_array, combine_valid, from_numpy, numbers
from runtime.expr.digits import as_decimal
from runtime.expr.distinct import map_distinct, per_constant
from runtime.expr.function import ArgumentType, EvalContext, Nulls, Value
from runtime.expr.library.declare import APPROX, CHARACTER, DOUBLE_, INTEGER, NUMERIC, Family, same
from runtime.expr.library.postgres import wider

__all__ = ["FAMILY"]

FAMILY = Family("postgres_numbers")
_INTEGERS = {8: "tinyint", 16: "smallint", 32: "integer", 64: "bigint"}
_WIDE = Context(prec=76)
_MAX = 38
_LARGEST_FACTORIAL = 33
"""The factorial of the next number has more than 38 digits."""
_DECIMAL = ArgumentType(
    "DECIMAL", lambda t: t.root is TypeRoot.DECIMAL, lambda t: as_decimal(t) if t.is_integer else None
)


def _checked(values: pa.Array, wrong: pa.Array, what: str) -> pa.Array:
    """The numbers as they are. Raises ExpressionError E2104 for the first that is wrong."""
    wrong = pc.fill_null(wrong, False)
    if pc.any(wrong).as_py():
        raise ExpressionError(
            f"{values.filter(wrong)[0].as_py()} is out of the range of {what}",
            code="E2104",
            hint="take a wider type, or leave such rows out with WHERE",
        )
    return values


def _exact(values: pa.Array, scale: int) -> pa.Array:
    """Exact numbers with as many digits behind the point at least, and room before it."""
    return values.cast(pa.decimal256(76, max(scale, values.type.scale if pa.types.is_decimal(values.type) else 0)))


@FAMILY.scalar(
    "PG_IN_INTEGER",
    [NUMERIC, INTEGER],
    same(0),
    "A whole number that an integer of so many bits holds; another one is an error.",
    can_fail=True,
)
def in_integer(context: EvalContext, value: Value, bits: Value) -> Value:
    def checked(values: pa.Array, size: int) -> pa.Array:
        if size not in _INTEGERS:
            raise ExpressionError(f"no integer has {size} bits", code="E2001", hint="8, 16, 32 or 64")
        end = 1 << size - 1
        if pa.types.is_floating(values.type):
            # NaN is not within.
            wrong = pc.invert(pc.and_(pc.greater_equal(values, -float(end)), pc.less(values, float(end))))
        else:
            numbers = _exact(values, 0)
            least, most = (pa.scalar(Decimal(n), numbers.type) for n in (-end, end - 1))
            wrong = pc.or_(pc.less(numbers, least), pc.greater(numbers, most))
        return _checked(values, wrong, _INTEGERS[size])

    return per_constant(context, checked, value, bits)


@FAMILY.scalar(
    "PG_IN_NUMERIC",
    [NUMERIC, INTEGER, INTEGER],
    same(0),
    "A number that a numeric of so many digits, and so many behind the point, holds rounded; another one is an error.",
    can_fail=True,
)
def in_numeric(context: EvalContext, value: Value, precision: Value, scale: Value) -> Value:
    def checked(values: pa.Array, digits: int, behind: int) -> pa.Array:
        if not 0 <= behind <= digits <= _MAX or not digits:
            raise ExpressionError(
                f"there is no numeric({digits}, {behind})",
                code="E2001",
                hint=f"from 1 to {_MAX} digits, 0 or more behind the point",
            )
        # The least number that is rounded to one with too many digits.
        end = Decimal(10) ** (digits - behind) - Decimal(5).scaleb(-behind - 1)
        if pa.types.is_floating(values.type):
            wrong = pc.invert(pc.less(pc.abs(values), float(end)))
        else:
            numbers = _exact(values, behind + 1)
            end = end.quantize(Decimal(1).scaleb(-numbers.type.scale), context=_WIDE)
            wrong = pc.greater_equal(pc.abs(numbers), pa.scalar(end, numbers.type))
        return _checked(values, wrong, f"numeric({digits}, {behind})")

    return per_constant(context, checked, value, precision, scale)


@FAMILY.scalar("PG_IN_REAL", [APPROX], same(0), "A number that real holds; another one is an error.", can_fail=True)
def in_real(context: EvalContext, value: Value) -> Value:
    values = as_array(value, 1 if isinstance(value, pa.Scalar) else context.num_rows)
    infinite = pc.is_inf(values.cast(pa.float32(), safe=False))
    _checked(values, pc.and_(infinite, pc.is_finite(values)), "real")
    return value


@FAMILY.scalar(
    "PG_IN_TEXT",
    [CHARACTER, INTEGER],
    same(0),
    "A text of at most so many characters, blanks at its end left out; a longer one is an error.",
    can_fail=True,
)
def in_text(context: EvalContext, text: Value, length: Value) -> Value:
    def checked(texts: pa.Array, most: int) -> pa.Array:
        long = pc.fill_null(pc.greater(pc.utf8_length(texts), most), False)
        if pc.any(long).as_py():
            kept = pc.utf8_rtrim(texts.filter(long), " ")
            kept = kept.filter(pc.greater(pc.utf8_length(kept), most))
            if len(kept):
                shown = kept[0].as_py()
                raise ExpressionError(
                    f"'{shown[:40]}{'..' if len(shown) > 40 else ''}' has {len(shown)} characters, and {most} is the most",
                    code="E2105",
                    hint="take a longer type, or cut it: LEFT(text, n)",
                )
        return texts

    return per_constant(context, checked, text, length)


def _divisors(name: str, document: str, compute: Callable[..., Any]) -> None:
    """Declares a function of two integers in the wider type."""

    @FAMILY.special(
        name, wider, document, form=("INTEGER", "INTEGER"), nulls=Nulls.STRICT, can_fail=True, syntax=f"{name}(a, b)"
    )
    def divisors(context: EvalContext, a: Value, b: Value) -> Value:
        (first, valid), (second, valid_too) = numbers(a, context.num_rows), numbers(b, context.num_rows)
        given = np.broadcast_arrays(np.asarray(first, np.int64), np.asarray(second, np.int64))
        found = compute(*given)
        both = combine_valid(valid, valid_too)
        size = 8 * np.dtype(context.result_type.arrow.to_pandas_dtype()).itemsize
        wrong = (found < 0) | (found > np.iinfo(f"i{size // 8}").max)
        wrong = wrong if both is None else wrong & both
        if wrong.any():
            one, other = (np.broadcast_to(side, wrong.shape)[wrong][0] for side in given)
            raise ExpressionError(
                f"{name.removeprefix('PG_')} of {one} and {other} is out of the range of {_INTEGERS[size]}",
                code="E2104",
                hint="take a wider type: CAST(.. AS BIGINT)",
            )
        return from_numpy(found, both, context.result_type.arrow, context.num_rows)


def _multiple(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The least common multiple; -1 where 64 bits do not hold it."""
    with np.errstate(all="ignore"):
        divisor = np.gcd(a, b)
        part = np.abs(a // np.where(divisor == 0, 1, divisor))
        found = part * np.abs(b)
        exact = np.abs(part.astype(np.float64) * np.abs(b).astype(np.float64)) < 2.0**63
    return np.where(exact, found, -1)


_divisors("PG_GCD", "The greatest common divisor of two integers.", np.gcd)
_divisors("PG_LCM", "The least common multiple of two integers.", _multiple)


def _factorial(number: int) -> Decimal:
    if number < 0:
        raise ExpressionError(f"{number} has no factorial", code="E2104", hint="numbers from 0 on have one")
    if number > _LARGEST_FACTORIAL:
        raise ExpressionError(
            f"the factorial of {number} has more than 38 digits", code="E2104", hint=f"{_LARGEST_FACTORIAL} is the most"
        )
    return Decimal(math.factorial(number))


@FAMILY.scalar("PG_FACTORIAL", [INTEGER], decimal(38, 0), "The product of all numbers from 1 on.", can_fail=True)
def factorial(context: EvalContext, number: Value) -> Value:
    given = number if isinstance(number, pa.Scalar) else as_array(number, context.num_rows)
    return map_distinct(_factorial, [given], pa.decimal128(38, 0), context.num_rows)


def _digits_behind(value: Decimal) -> int:
    return max(0, -int(value.normalize(_WIDE).as_tuple().exponent)) if value else 0


@FAMILY.scalar("PG_MIN_SCALE", [_DECIMAL], INT, "How many digits behind the point a number needs.")
def min_scale(context: EvalContext, value: Value) -> Value:
    given = value if isinstance(value, pa.Scalar) else as_array(value, context.num_rows)
    return map_distinct(_digits_behind, [given], pa.int32(), context.num_rows)


def _within(name: str, document: str, compute: Callable[..., Any], least: float, most: float) -> None:
    """Declares a function of double precision; numbers outside its domain are errors."""

    @FAMILY.scalar(name, [DOUBLE_], DOUBLE, document, can_fail=True)
    def within(context: EvalContext, value: Value) -> Value:
        given, valid = numbers(value, context.num_rows)
        outside = (np.asarray(given) < least) | (np.asarray(given) > most)
        if valid is not None:
            outside &= valid
        if outside.any():
            shown = np.asarray(given)[outside].flat[0]
            raise ExpressionError(
                f"{shown} is out of the range of {name.removeprefix('PG_')}",
                code="E2104",
                hint=f"numbers from {least} to {most} are in it"
                if math.isfinite(most)
                else f"numbers from {least} on are in it",
            )
        with np.errstate(all="ignore"):
            return from_numpy(compute(given), valid, pa.float64(), context.num_rows)


_within("PG_ASINH", "The inverse hyperbolic sine.", np.arcsinh, -math.inf, math.inf)
_within("PG_ACOSH", "The inverse hyperbolic cosine.", np.arccosh, 1, math.inf)
_within("PG_ATANH", "The inverse hyperbolic tangent.", np.arctanh, -1, 1)


@FAMILY.scalar("PG_TO_HEX", [INTEGER], STRING, "The hexadecimal digits of an integer; of a negative one, of its bits.")
def to_hex(context: EvalContext, value: Value) -> Value:
    mask = (1 << (64 if context.arg_types[0].root is TypeRoot.BIGINT else 32)) - 1
    given = value if isinstance(value, pa.Scalar) else as_array(value, context.num_rows)
    return map_distinct(lambda number: f"{number & mask:x}", [given], pa.string(), context.num_rows)


# Angles in degrees, exact where the result is: sind(30) is 0.5


def _sin_to_30(x: np.ndarray) -> np.ndarray:
    return np.sin(np.radians(x)) / math.sin(math.radians(30.0)) / 2.0


def _cos_to_60(x: np.ndarray) -> np.ndarray:
    return 1.0 - (1.0 - np.cos(np.radians(x))) / (1.0 - math.cos(math.radians(60.0))) / 2.0


def _sin_to_90(x: np.ndarray) -> np.ndarray:
    return np.where(x <= 30.0, _sin_to_30(x), _cos_to_60(90.0 - x))


def _cos_to_90(x: np.ndarray) -> np.ndarray:
    return np.where(x <= 60.0, _cos_to_60(x), _sin_to_30(90.0 - x))


def _folded(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The angle from 0 to 90 with the same sine and cosine but for their signs, and those of both."""
    sign = np.where(x < 0, -1.0, 1.0)
    x = np.fmod(np.abs(x), 360.0)
    over = x > 180.0
    x, sine = np.where(over, 360.0 - x, x), np.where(over, -sign, sign)
    obtuse = x > 90.0
    return np.where(obtuse, 180.0 - x, x), sine, np.where(obtuse, -1.0, 1.0)


def _sind(x: np.ndarray) -> np.ndarray:
    angle, sine, _ = _folded(x)
    return sine * _sin_to_90(angle)


def _cosd(x: np.ndarray) -> np.ndarray:
    angle, _, cosine = _folded(x)
    return cosine * _cos_to_90(angle)


_45 = np.array(45.0)


def _tand(x: np.ndarray) -> np.ndarray:
    angle, sine, cosine = _folded(x)
    found = sine * cosine * _sin_to_90(angle) / _cos_to_90(angle) / (_sin_to_90(_45) / _cos_to_90(_45))
    return np.where(found == 0.0, 0.0, found)


def _cotd(x: np.ndarray) -> np.ndarray:
    angle, sine, cosine = _folded(x)
    found = sine * cosine * _cos_to_90(angle) / _sin_to_90(angle) / (_cos_to_90(_45) / _sin_to_90(_45))
    return np.where(found == 0.0, 0.0, found)


def _asin_to_90(x: np.ndarray) -> np.ndarray:
    low = np.arcsin(x) / math.asin(0.5) * 30.0
    return np.where(x <= 0.5, low, 90.0 - np.arccos(x) / math.acos(0.5) * 60.0)


def _acos_to_90(x: np.ndarray) -> np.ndarray:
    low = 90.0 - np.arcsin(x) / math.asin(0.5) * 30.0
    return np.where(x <= 0.5, low, np.arccos(x) / math.acos(0.5) * 60.0)


def _asind(x: np.ndarray) -> np.ndarray:
    return np.where(x >= 0.0, _asin_to_90(np.abs(x)), -_asin_to_90(np.abs(x)))


def _acosd(x: np.ndarray) -> np.ndarray:
    return np.where(x >= 0.0, _acos_to_90(np.abs(x)), 90.0 + _asin_to_90(np.abs(x)))


def _atand(x: np.ndarray) -> np.ndarray:
    return np.arctan(x) / math.atan(1.0) * 45.0


def _of_degrees(
    name: str, document: str, compute: Callable[..., np.ndarray], wrong: Callable[[np.ndarray], Any]
) -> None:
    """Declares a function of one number; `wrong` tells those that it does not take."""

    @FAMILY.scalar(f"PG_{name}", [DOUBLE_], DOUBLE, document, can_fail=True)
    def evaluate(context: EvalContext, value: Value) -> Value:
        given, valid = numbers(value, context.num_rows)
        given = np.asarray(given, np.float64)
        refused = wrong(given) if valid is None else wrong(given) & valid
        if np.any(refused):
            raise ExpressionError(
                f"{name} does not take {np.broadcast_to(given, refused.shape)[refused].flat[0]}",
                code="E2104",
                hint="it is out of its range",
            )
        with np.errstate(all="ignore"):
            found = compute(given)
        return from_numpy(found, valid, pa.float64(), context.num_rows)


for _name, _document, _compute in (
    ("SIND", "The sine of an angle in degrees.", _sind),
    ("COSD", "The cosine of an angle in degrees.", _cosd),
    ("TAND", "The tangent of an angle in degrees.", _tand),
    ("COTD", "The cotangent of an angle in degrees.", _cotd),
):
    _of_degrees(_name, _document, _compute, np.isinf)
for _name, _document, _compute in (
    ("ASIND", "The angle in degrees with this sine.", _asind),
    ("ACOSD", "The angle in degrees with this cosine.", _acosd),
):
    _of_degrees(_name, _document, _compute, lambda x: np.abs(x) > 1.0)
_of_degrees("ATAND", "The angle in degrees with this tangent.", _atand, lambda x: np.zeros(np.shape(x), np.bool_))


@FAMILY.scalar("PG_ATAN2D", [DOUBLE_, DOUBLE_], DOUBLE, "The angle in degrees of the point (x, y), given y and x.")
def atan2d(context: EvalContext, y: Value, x: Value) -> Value:
    (above, valid), (right, valid_right) = numbers(y, context.num_rows), numbers(x, context.num_rows)
    found = np.arctan2(np.asarray(above, np.float64), np.asarray(right, np.float64)) / math.atan(1.0) * 45.0
    return from_numpy(found, combine_valid(valid, valid_right), pa.float64(), context.num_rows)
