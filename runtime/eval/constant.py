"""Constants: a literal as an Arrow scalar, and a constant expression as a literal."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from runtime.core.errors import BindError
from runtime.core.types import DataType, TypeRoot
from runtime.eval.context import BatchContext
from runtime.eval.evaluator import Evaluator
from runtime.eval.literal import literal_scalar
from runtime.expr.analysis import is_dynamic
from runtime.expr.function import FunctionRegistry
from runtime.expr.nodes import Expr, Literal

__all__ = ["fold_constant", "literal_scalar", "literal_value"]


def fold_constant(expr: Expr, functions: FunctionRegistry, time_zone: str, now: int | None) -> Literal:
    """The value of an expression without columns, of exactly its type.

    Args:
        now: what the time is, milliseconds since 1970, for expressions that ask for it; None where these are no constants.
    Raises:
        BindError: E1230 it asks for the time, and there is none.
        ExpressionError: evaluation fails.
    """
    if isinstance(expr, Literal):
        return expr
    if now is None and is_dynamic(expr, functions):
        raise BindError(
            "a constant is wanted, and the time now is another one later",
            code="E1230",
            span=getattr(expr, "span", None),
            hint="write the time itself, such as TIMESTAMP '2024-01-01 00:00:00'",
        )
    one = pa.RecordBatch.from_arrays([pa.array([True])], names=["one"])
    (result,) = Evaluator([expr], functions).evaluate(one, BatchContext(1, time_zone, now or 0))
    return Literal(literal_value(result[0], expr.type), expr.type)


def literal_value(scalar: pa.Scalar, type_: DataType) -> Any:
    """The Python value of `Literal` for a scalar: hashable, without loss of digits.

    Nested values are tuples (ARRAY and ROW of values, MAP of pairs); nanoseconds stand as the stored integer.
    """
    if not scalar.is_valid:
        return None
    if type_.is_timestamp and type_.precision > 6:
        return scalar.value
    if type_.root is TypeRoot.INTERVAL_SECOND:
        return scalar.value
    match type_.root:
        case TypeRoot.ARRAY:
            return tuple(literal_value(item, type_.children[0]) for item in scalar.values)
        case TypeRoot.MAP | TypeRoot.MULTISET:
            value_type = type_.children[-1] if type_.root is TypeRoot.MAP else DataType(TypeRoot.INT)
            pairs = scalar.values
            return tuple(
                (literal_value(p["key"], type_.children[0]), literal_value(p["value"], value_type)) for p in pairs
            )
        case TypeRoot.ROW:
            return tuple(literal_value(scalar[i], f.type) for i, f in enumerate(type_.fields))
        case _:
            return scalar.as_py()
