"""What PostgreSQL computes with other types than Flink: quotients of numeric, and aggregates of integers.

Source: PostgreSQL 15, "Mathematical Functions" and "Aggregate Functions". There numeric has as many digits as a value
needs; here a quotient has 16 behind the point where 38 digits allow it, and so has an average.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow.compute as pc

from runtime.core.types import BIGINT, DOUBLE, DataType, TypeRoot, decimal
from runtime.expr.digits import as_decimal
from runtime.expr.function import (
    AggregateFunction,
    ArgumentType,
    CallTypes,
    EvalContext,
    Signature,
    Value,
    register_form,
)
from runtime.expr.library import aggregate
from runtime.expr.library.arithmetic import divide
from runtime.expr.library.declare import APPROX, Family, same

__all__ = ["FAMILY"]

FAMILY = Family("postgres")
_R = TypeRoot
_MAX = 38
_SCALE = 16
_LEAST = 6


def _quotient(types: CallTypes) -> tuple[tuple[DataType, ...], DataType] | None:
    if len(types) != 2 or not all(t.is_exact_numeric or t.root is _R.NULL for t in types):
        return None
    a, b = (as_decimal(t) if t.root is not _R.NULL else decimal(10, 0) for t in types)
    whole = a.precision - a.scale + b.scale
    scale = max(_LEAST, min(max(_SCALE, a.scale, b.scale), _MAX - whole))
    return (types[0], types[1]), decimal(min(whole + scale, _MAX), scale)


def _overflows(types: CallTypes, result: DataType) -> bool:
    if any(t.root is _R.NULL for t in types):
        return False
    a, b = as_decimal(types[0]), as_decimal(types[1])
    return a.precision - a.scale + b.scale > result.precision - result.scale


@FAMILY.special(
    "PG_DIVIDE",
    _quotient,
    "The quotient of exact numbers with 16 digits behind the point, as PostgreSQL's numeric.",
    form=("NUMERIC", "NUMERIC"),
    can_fail=True,
    syntax="PG_DIVIDE(a, b)",
    overflows=_overflows,
)
def quotient(context: EvalContext, a: Value, b: Value) -> Value:
    return divide(context, a, b)


@FAMILY.scalar("PG_ROUND_EVEN", [APPROX], same(0), "The nearest whole number, halves to the even one.")
def round_even(context: EvalContext, value: Value) -> Value:
    return pc.round(value, 0, "half_to_even")


_DIGITS = {_R.TINYINT: 3, _R.SMALLINT: 5, _R.INT: 10, _R.BIGINT: 19}


def _summed(t: DataType) -> DataType | None:
    """Integers up to INT add up in BIGINT, BIGINT in DECIMAL."""
    if t.root in (_R.TINYINT, _R.SMALLINT, _R.INT, _R.NULL):
        return BIGINT.with_nullable(t.nullable)
    return decimal(19, 0).with_nullable(t.nullable) if t.root is _R.BIGINT else t if t.is_numeric else None


def _averaged(t: DataType) -> DataType | None:
    """Exact numbers have 16 digits behind the point, others are DOUBLE."""
    if t.root in _DIGITS:
        return decimal(_DIGITS[t.root] + _SCALE, _SCALE).with_nullable(t.nullable)
    if t.root is _R.DECIMAL:
        whole = t.precision - t.scale
        scale = max(t.scale, min(_SCALE, _MAX - whole))
        return decimal(whole + scale, scale).with_nullable(t.nullable)
    return DOUBLE.with_nullable(t.nullable) if t.is_numeric or t.root is _R.NULL else None


def _spread(t: DataType) -> DataType | None:
    return DOUBLE.with_nullable(t.nullable) if t.is_numeric or t.root is _R.NULL else None


def _taking(function: AggregateFunction, coerce: Callable[[DataType], DataType | None]) -> AggregateFunction:
    """The aggregate over arguments that are cast first."""
    (signature,) = function.signatures

    def accepts(t: DataType) -> bool:
        return coerce(t) == t

    argument = ArgumentType("NUMERIC", accepts, coerce)
    return replace(function, signatures=(Signature((argument,), signature.returns),))


_FORMS: dict[str, Callable[[DataType], DataType | None]] = {
    "SUM": _summed,
    "AVG": _averaged,
    **dict.fromkeys(("STDDEV", "STDDEV_POP", "STDDEV_SAMP", "VARIANCE", "VAR_POP", "VAR_SAMP"), _spread),
}
for _function in aggregate.FUNCTIONS:
    if _function.name in _FORMS:
        register_form(f"PG_{_function.name}", _taking(_function, _FORMS[_function.name]))
