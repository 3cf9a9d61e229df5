"""TYPEOF and checks of UTF-8; CAST and TRY_CAST are expressions of their own (`runtime/expr/cast`)."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from runtime.core.types import BOOLEAN, STRING
from runtime.expr.cast.text import bytes_as_text
from runtime.expr.columns import as_array
from runtime.expr.function import EvalContext, Nulls, Value
from runtime.expr.library.declare import ANY, BINARY_, BOOLEAN_, Family, optional

__all__ = ["FAMILY"]

FAMILY = Family("conversion")


@FAMILY.scalar(
    "TYPEOF", [ANY, optional(BOOLEAN_)], STRING, "The type of an expression, as DDL would write it.", nulls=Nulls.MAYBE
)
def typeof(context: EvalContext, *_: Value) -> Value:
    return pa.scalar(context.arg_types[0].summary)


@FAMILY.scalar("MAKE_VALID_UTF8", [BINARY_], STRING, "The bytes as text; what is not UTF-8 becomes U+FFFD.")
def make_valid_utf8(context: EvalContext, value: Value) -> Value:
    return bytes_as_text(as_array(value, context.num_rows))


@FAMILY.scalar("IS_VALID_UTF8", [BINARY_], BOOLEAN, "Whether the bytes are UTF-8.")
def is_valid_utf8(context: EvalContext, value: Value) -> Value:
    array = as_array(value, context.num_rows)
    return pc.equal(bytes_as_text(array).cast(pa.binary()), array)
