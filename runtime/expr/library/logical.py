"""AND, OR, NOT and the tests of truth, with SQL's three values."""

from __future__ import annotations

import functools

import pyarrow.compute as pc

from runtime.core.types import BOOLEAN, DataType
from runtime.expr.constants import FALSE, TRUE
from runtime.expr.function import CallTypes, EvalContext, Nulls, Value
from runtime.expr.library.declare import BOOLEAN_, Family

__all__ = ["FAMILY"]

FAMILY = Family("logical")


def _three_valued(types: CallTypes) -> DataType:
    return BOOLEAN.with_nullable(any(t.nullable for t in types))


@FAMILY.scalar(
    "AND",
    [BOOLEAN_, BOOLEAN_],
    _three_valued,
    "TRUE when all are TRUE, FALSE when one is FALSE, else UNKNOWN.",
    variadic=True,
    nulls=Nulls.RULE,
    syntax="a AND b",
)
def and_(_: EvalContext, *args: Value) -> Value:
    return functools.reduce(pc.and_kleene, args)


@FAMILY.scalar(
    "OR",
    [BOOLEAN_, BOOLEAN_],
    _three_valued,
    "TRUE when one is TRUE, FALSE when all are FALSE, else UNKNOWN.",
    variadic=True,
    nulls=Nulls.RULE,
    syntax="a OR b",
)
def or_(_: EvalContext, *args: Value) -> Value:
    return functools.reduce(pc.or_kleene, args)


@FAMILY.scalar("NOT", [BOOLEAN_], BOOLEAN, "The opposite; UNKNOWN stays UNKNOWN.", syntax="NOT a")
def not_(_: EvalContext, value: Value) -> Value:
    return pc.invert(value)


_TRUE = TRUE
_FALSE = FALSE


@FAMILY.scalar(
    "IS TRUE", [BOOLEAN_], BOOLEAN, "Whether the value is TRUE; never UNKNOWN.", nulls=Nulls.NEVER, syntax="a IS TRUE"
)
def is_true(_: EvalContext, value: Value) -> Value:
    return pc.fill_null(value, _FALSE)


@FAMILY.scalar(
    "IS NOT TRUE",
    [BOOLEAN_],
    BOOLEAN,
    "Whether the value is FALSE or UNKNOWN.",
    nulls=Nulls.NEVER,
    syntax="a IS NOT TRUE",
)
def is_not_true(_: EvalContext, value: Value) -> Value:
    return pc.invert(pc.fill_null(value, _FALSE))


@FAMILY.scalar(
    "IS FALSE",
    [BOOLEAN_],
    BOOLEAN,
    "Whether the value is FALSE; never UNKNOWN.",
    nulls=Nulls.NEVER,
    syntax="a IS FALSE",
)
def is_false(_: EvalContext, value: Value) -> Value:
    return pc.invert(pc.fill_null(value, _TRUE))


@FAMILY.scalar(
    "IS NOT FALSE",
    [BOOLEAN_],
    BOOLEAN,
    "Whether the value is TRUE or UNKNOWN.",
    nulls=Nulls.NEVER,
    syntax="a IS NOT FALSE",
)
def is_not_false(_: EvalContext, value: Value) -> Value:
    return pc.fill_null(value, _TRUE)


@FAMILY.scalar(
    "IS UNKNOWN", [BOOLEAN_], BOOLEAN, "Whether the value is UNKNOWN (NULL).", nulls=Nulls.NEVER, syntax="a IS UNKNOWN"
)
def is_unknown(_: EvalContext, value: Value) -> Value:
    return pc.is_null(value)


@FAMILY.scalar(
    "IS NOT UNKNOWN",
    [BOOLEAN_],
    BOOLEAN,
    "Whether the value is TRUE or FALSE.",
    nulls=Nulls.NEVER,
    syntax="a IS NOT UNKNOWN",
)
def is_not_unknown(_: EvalContext, value: Value) -> Value:
    return pc.is_valid(value)
