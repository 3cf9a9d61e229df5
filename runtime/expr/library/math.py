"""Functions of numbers: roots, logarithms, trigonometry, signs, and numbers in other bases.

What is not defined is NaN or Infinity, never an error, as in Java's `Math`. ABS of the least integer is itself (it
wraps).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.core.types import BYTES, DOUBLE, STRING, TypeRoot
from runtime.expr.columns import combine_valid, from_numpy, numbers
from runtime.expr.decimals import from_unscaled, scaled_up, unscaled
from runtime.expr.function import EvalContext, Nulls, Value
from runtime.expr.library.declare import BIGINT_, CHARACTER, DOUBLE_, NUMERIC, Family, same

__all__ = ["FAMILY"]

FAMILY = Family("math")


def _of_doubles(name: str, document: str, compute: Callable[..., Any], count: int = 1) -> None:
    """Declares a function of DOUBLEs that numpy computes."""

    def evaluate(context: EvalContext, *args: Value) -> Value:
        pairs = [numbers(a, context.num_rows) for a in args]
        with np.errstate(all="ignore"):
            result = compute(*(v for v, _ in pairs))
        return from_numpy(result, combine_valid(*(m for _, m in pairs)), pa.float64(), context.num_rows)

    FAMILY.scalar(name, [DOUBLE_] * count, DOUBLE, document)(evaluate)


_of_doubles("POWER", "a to the power of b.", np.power, 2)
_of_doubles("SQRT", "The square root.", np.sqrt)
_of_doubles("LN", "The natural logarithm.", np.log)
_of_doubles("LOG10", "The logarithm to base 10.", np.log10)
_of_doubles("LOG2", "The logarithm to base 2.", lambda x: np.log(x) / math.log(2.0))
_of_doubles("EXP", "e to the power of a.", np.exp)
_of_doubles("SIN", "The sine.", np.sin)
_of_doubles("SINH", "The hyperbolic sine.", np.sinh)
_of_doubles("COS", "The cosine.", np.cos)
_of_doubles("COSH", "The hyperbolic cosine.", np.cosh)
_of_doubles("TAN", "The tangent.", np.tan)
_of_doubles("TANH", "The hyperbolic tangent.", np.tanh)
_of_doubles("COT", "The cotangent.", lambda x: 1.0 / np.tan(x))
_of_doubles("ASIN", "The arc sine.", np.arcsin)
_of_doubles("ACOS", "The arc cosine.", np.arccos)
_of_doubles("ATAN", "The arc tangent.", np.arctan)
_of_doubles("ATAN2", "The angle of the point (x, y), given y and x.", np.arctan2, 2)
_of_doubles("DEGREES", "Radians in degrees.", lambda x: x * (180.0 / math.pi))
_of_doubles("RADIANS", "Degrees in radians.", lambda x: x / 180.0 * math.pi)


@FAMILY.scalar(
    "LOG",
    [DOUBLE_],
    DOUBLE,
    "The natural logarithm of x, or with two arguments that of x to base b: LOG(b, x).",
    also=[([DOUBLE_, DOUBLE_], DOUBLE)],
)
def log(context: EvalContext, *args: Value) -> Value:
    pairs = [numbers(a, context.num_rows) for a in args]
    with np.errstate(all="ignore"):
        logarithms = [np.log(v) for v, _ in pairs]
        result = logarithms[0] if len(pairs) == 1 else logarithms[1] / logarithms[0]
    return from_numpy(result, combine_valid(*(m for _, m in pairs)), pa.float64(), context.num_rows)


@FAMILY.scalar("PI", [], DOUBLE, "The number pi.", nulls=Nulls.NEVER)
def pi(_: EvalContext) -> Value:
    return pa.scalar(math.pi, pa.float64())


@FAMILY.scalar("E", [], DOUBLE, "The number e.", nulls=Nulls.NEVER)
def e(_: EvalContext) -> Value:
    return pa.scalar(math.e, pa.float64())


@FAMILY.scalar("ABS", [NUMERIC], same(0), "The magnitude.")
def absolute(_: EvalContext, value: Value) -> Value:
    return pc.abs(value)


@FAMILY.scalar(
    "SIGN",
    [NUMERIC],
    same(0),
    "-1, 0 or 1, in the argument's type; NULL where that has no digit before the point.",
    overflows=lambda types, result: result.root is TypeRoot.DECIMAL and result.precision == result.scale,
)
def sign(context: EvalContext, value: Value) -> Value:
    result = context.result_type
    if result.root is TypeRoot.DECIMAL:
        digits, valid = unscaled(value, context.num_rows)
        signs = np.asarray(digits > 0, np.int64) - np.asarray(digits < 0, np.int64)
        return from_unscaled(scaled_up(signs, result.scale), valid, result.arrow, context.num_rows)
    signs = pc.sign(value)
    return signs if signs.type == value.type else pc.cast(signs, value.type)


FAMILY.sql_scalar("BIN", [BIGINT_], STRING, "bin({0})", "The binary digits of an integer (two's complement).")
FAMILY.sql_scalar(
    "UNHEX",
    [CHARACTER],
    BYTES,
    "CASE WHEN regexp_full_match({0}, '[0-9A-Fa-f]*') "
    "THEN unhex(CASE WHEN length({0}) % 2 = 1 THEN '0' || {0} ELSE {0} END) END",
    "The bytes of hexadecimal digits; NULL when they are none.",
    nulls=Nulls.MAYBE,
)
FAMILY.sql_scalar(
    "HEX",
    [BIGINT_],
    STRING,
    "hex({0})",
    "An integer, or the bytes of a text, in hexadecimal digits.",
    also=[([CHARACTER], STRING)],
)
