"""Functions of BITMAP, as of Flink 2.3. The values are those of `runtime/expr/bitmaps.py`; a function of two bitmaps is
called once for each different pair.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from runtime.core.rooms import Room
from runtime.core.types import BIGINT, BITMAP, BYTES, INT, STRING, DataType, TypeRoot, array
from runtime.expr.columns import as_array
from runtime.expr.distinct import map_distinct
from runtime.expr.function import ArgumentType, EvalContext, Value
from runtime.expr.library.declare import BINARY_, BITMAP_, Family

if TYPE_CHECKING:
    import runtime.expr.bitmaps as _bitmaps
else:
    _bitmaps = Room("runtime.expr.bitmaps")

__all__ = ["FAMILY"]

FAMILY = Family("bitmap")


def _integers(given: DataType) -> DataType | None:
    if given.root is TypeRoot.NULL:
        return array(INT)
    if given.root is TypeRoot.ARRAY and given.children[0].root in (
        TypeRoot.TINYINT,
        TypeRoot.SMALLINT,
        TypeRoot.INT,
        TypeRoot.NULL,
    ):
        return given.with_(children=(INT.with_nullable(given.children[0].nullable),))
    return None


_INTEGERS = ArgumentType(
    "ARRAY<INT>", lambda t: t.root is TypeRoot.ARRAY and t.children[0].root is TypeRoot.INT, _integers
)


def _column(function: Callable[[pa.Array], pa.Array], value: Value, context: EvalContext) -> Value:
    """`function` of a column, or of the only value."""
    if isinstance(value, pa.Scalar):
        return function(as_array(value, 1))[0]
    return function(as_array(value, context.num_rows))


@FAMILY.scalar(
    "BITMAP_BUILD", [_INTEGERS], BITMAP, "The set of the integers of an array, without NULLs; -1 is the greatest."
)
def bitmap_build(context: EvalContext, integers: Value) -> Value:
    return _column(lambda column: _bitmaps.bitmaps_of(column), integers, context)


@FAMILY.scalar(
    "BITMAP_FROM_BYTES",
    [BINARY_],
    BITMAP,
    "The set that bytes in the portable format of 32-bit Roaring bitmaps hold.",
    can_fail=True,
)
def bitmap_from_bytes(context: EvalContext, data: Value) -> Value:
    return _column(lambda column: _bitmaps.each(column, _bitmaps.checked, pa.binary()), data, context)


@FAMILY.scalar("BITMAP_TO_BYTES", [BITMAP_], BYTES, "The set in the portable format of 32-bit Roaring bitmaps.")
def bitmap_to_bytes(context: EvalContext, value: Value) -> Value:
    return value


@FAMILY.scalar("BITMAP_TO_ARRAY", [BITMAP_], array(INT), "The integers of the set; negative ones come last.")
def bitmap_to_array(context: EvalContext, value: Value) -> Value:
    return _column(lambda column: _bitmaps.elements_of(column).cast(context.result_type.arrow), value, context)


@FAMILY.scalar(
    "BITMAP_TO_STRING",
    [BITMAP_],
    STRING,
    "The set as text, `{1,2}`, its integers without sign; cut with `...` when it is longer than 524,288 characters.",
)
def bitmap_to_string(context: EvalContext, value: Value) -> Value:
    return _column(lambda column: _bitmaps.bitmaps_text(column), value, context)


@FAMILY.scalar("BITMAP_CARDINALITY", [BITMAP_], BIGINT, "How many integers the set has.")
def bitmap_cardinality(context: EvalContext, value: Value) -> Value:
    return _column(
        lambda column: _bitmaps.each(column, lambda data: len(_bitmaps.bitmap(data)), pa.int64()),
        value,
        context,
    )


def _declare(name: str, combine: Callable[[Any, Any], Any], document: str) -> None:
    @FAMILY.scalar(name, [BITMAP_, BITMAP_], BITMAP, document)
    def evaluate(context: EvalContext, left: Value, right: Value) -> Value:
        return map_distinct(
            lambda a, b: _bitmaps.carried(combine(_bitmaps.bitmap(a), _bitmaps.bitmap(b))),
            [left, right],
            pa.binary(),
            context.num_rows,
        )


_declare("BITMAP_AND", lambda a, b: a & b, "The integers that are in both sets.")
_declare("BITMAP_ANDNOT", lambda a, b: a - b, "The integers of the first set that are not in the second.")
_declare("BITMAP_OR", lambda a, b: a | b, "The integers that are in one of the sets or in both.")
_declare("BITMAP_XOR", lambda a, b: a ^ b, "The integers that are in one of the sets, and not in both.")
