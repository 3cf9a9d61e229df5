"""Conditional functions: IF, COALESCE, IFNULL, NULLIF, GREATEST, LEAST and tests of texts. CASE is an expression of
its own.

Arguments that are not reached are not computed where they could fail: `runtime/eval/guarded.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.core.types import BOOLEAN, DataType, TypeRoot
from runtime.expr.cast import cast_array
from runtime.expr.cast.parse_numbers import text_to_number
from runtime.expr.columns import as_array
from runtime.expr.compare import equal
from runtime.expr.function import CallTypes, EvalContext, Nulls, Value
from runtime.expr.library.declare import TEXT_OR_NUMBER, Family
from runtime.expr.nullability import cast_type
from runtime.expr.typing import common_type, comparison_type

__all__ = ["FAMILY"]

FAMILY = Family("conditional")
_INTEGERS = frozenset({TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT})
_Typed = tuple[tuple[DataType, ...], DataType]


def _choose(condition: Value, yes: Value, no: Value, length: int) -> Value:
    if pa.types.is_nested(yes.type):
        yes, no = as_array(yes, length), as_array(no, length)
        condition = as_array(condition, length)
        source = pa.concat_arrays([yes, no])
        rows = pa.array(np.arange(length, dtype=np.int64))
        return source.take(pc.if_else(condition, rows, pc.add(rows, length)))
    return pc.if_else(condition, yes, no)


def _if_rule(types: CallTypes) -> _Typed | None:
    if len(types) != 3 or types[0].root not in (TypeRoot.BOOLEAN, TypeRoot.NULL):
        return None
    common = common_type(types[1:])
    if common is None:
        return None
    # As in Flink, a condition that may be NULL makes the result nullable, too.
    result = common.with_nullable(common.nullable or types[0].nullable)
    return (BOOLEAN.with_nullable(types[0].nullable), *(cast_type(t, common) for t in types[1:])), result


@FAMILY.special(
    "IF",
    _if_rule,
    "The second argument where the first is TRUE, else the third.",
    form=("BOOLEAN", "ANY", "ANY"),
    nulls=Nulls.RULE,
)
def if_(context: EvalContext, condition: Value, yes: Value, no: Value) -> Value:
    return _choose(pc.fill_null(condition, False), yes, no, context.num_rows)


def _coalesce_rule(types: CallTypes) -> _Typed | None:
    common = common_type(types) if types else None
    if common is None:
        return None
    given = tuple(cast_type(t, common) for t in types)
    return given, common.with_nullable(all(t.nullable for t in given))


def _first_known(context: EvalContext, *args: Value) -> Value:
    return functools.reduce(lambda a, b: _choose(pc.is_valid(a), a, b, context.num_rows), args)


@FAMILY.special(
    "COALESCE", _coalesce_rule, "The first argument that is not NULL.", form=("ANY", "ANY?"), nulls=Nulls.RULE
)
def coalesce(context: EvalContext, *args: Value) -> Value:
    return _first_known(context, *args)


def _ifnull_rule(types: CallTypes) -> _Typed | None:
    if len(types) != 2:
        return None
    if not types[0].nullable:
        return tuple(types), types[0]
    return _coalesce_rule(types)


@FAMILY.special("IFNULL", _ifnull_rule, "The first argument, or the second where that is NULL.", nulls=Nulls.RULE)
def ifnull(context: EvalContext, value: Value, otherwise: Value) -> Value:
    if not context.arg_types[0].nullable:
        return value
    return _first_known(context, value, otherwise)


def _nullif_rule(types: CallTypes) -> _Typed | None:
    if len(types) != 2 or comparison_type(types[0], types[1]) is None:
        return None
    return tuple(types), types[0].with_nullable(True)


@FAMILY.special(
    "NULLIF", _nullif_rule, "The first argument, NULL where it equals the second.", nulls=Nulls.RULE, can_fail=True
)
def nullif(context: EvalContext, value: Value, other: Value) -> Value:
    left, right = context.arg_types
    common = comparison_type(left, right)
    assert common is not None
    same = equal(
        cast_array(value, left, common, False, context),
        cast_array(other, right, common, False, context),
        context.num_rows,
    )
    return _choose(pc.fill_null(same, False), pa.scalar(None, value.type), value, context.num_rows)


def _extreme_rule(types: CallTypes) -> _Typed | None:
    common = common_type(types) if types else None
    if common is None or common.is_unordered or common.root is TypeRoot.NULL:
        return None
    return tuple(cast_type(t, common) for t in types), common


@FAMILY.special(
    "GREATEST",
    _extreme_rule,
    "The greatest argument; NULL when one is NULL, NaN when the first is.",
    form=("ANY", "ANY?"),
)
def greatest(_: EvalContext, *args: Value) -> Value:
    if pa.types.is_boolean(args[0].type):
        return functools.reduce(pc.or_, args)
    if pa.types.is_floating(args[0].type):
        return functools.reduce(lambda most, arg: pc.if_else(pc.greater(arg, most), arg, most), args)
    return pc.max_element_wise(*args, skip_nulls=False)


@FAMILY.special(
    "LEAST", _extreme_rule, "The least argument; NULL when one is NULL, NaN when the first is.", form=("ANY", "ANY?")
)
def least(_: EvalContext, *args: Value) -> Value:
    if pa.types.is_boolean(args[0].type):
        return functools.reduce(pc.and_, args)
    if pa.types.is_floating(args[0].type):
        return functools.reduce(lambda most, arg: pc.if_else(pc.less(arg, most), arg, most), args)
    return pc.min_element_wise(*args, skip_nulls=False)


def _is(context: EvalContext, given: Value, test: Callable[[Value], Value], true_of: frozenset[TypeRoot]) -> Value:
    """A test of texts. Of a number its type alone is asked, NULL or not, as in Flink."""
    type_ = context.arg_types[0]
    return pc.fill_null(test(given), False) if type_.is_character else pa.scalar(type_.root in true_of, pa.bool_())


@FAMILY.scalar(
    "IS_ALPHA",
    [TEXT_OR_NUMBER],
    BOOLEAN,
    "Whether all characters are letters; FALSE for NULL, '' and numbers.",
    nulls=Nulls.NEVER,
)
def is_alpha(context: EvalContext, text: Value) -> Value:
    return _is(context, text, pc.utf8_is_alpha, frozenset())


@FAMILY.scalar(
    "IS_DIGIT",
    [TEXT_OR_NUMBER],
    BOOLEAN,
    "Whether all characters are digits; FALSE for NULL and ''. Of numbers TRUE for the integer types.",
    nulls=Nulls.NEVER,
)
def is_digit(context: EvalContext, text: Value) -> Value:
    return _is(context, text, pc.utf8_is_digit, _INTEGERS)


@FAMILY.scalar(
    "IS_DECIMAL",
    [TEXT_OR_NUMBER],
    BOOLEAN,
    "Whether the text reads as a number; FALSE for NULL. Of numbers TRUE for all types but DECIMAL, as in Flink.",
    nulls=Nulls.NEVER,
)
def is_decimal(context: EvalContext, text: Value) -> Value:
    def reads(text: Value) -> Value:
        array = as_array(text, context.num_rows)
        read = text_to_number(array, context.arg_types[0], DataType(TypeRoot.DOUBLE), context.time_zone)
        return pc.is_valid(read.values)

    return _is(context, text, reads, _INTEGERS | {TypeRoot.FLOAT, TypeRoot.DOUBLE})
