"""Bound expressions for tests, and their values over one row or over columns."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa

from runtime.core.types import BIGINT, DOUBLE, INT, STRING, DataType, TypeRoot, char, decimal
from runtime.eval.constant import fold_constant
from runtime.eval.evaluator import BatchContext, Evaluator
from runtime.eval.literal import literal_scalar
from runtime.expr.library import builtin_functions
from runtime.expr.nodes import Call, Cast, Expr, InputRef, Literal, transform
from runtime.expr.typing import resolve_call

FUNCTIONS = builtin_functions()


def lit(value: Any, type_: DataType | None = None) -> Literal:
    """A literal; ints are INT, floats DOUBLE, texts CHAR(n), Decimals DECIMAL with their digits, unless a type is
    given."""
    if type_ is None:
        match value:
            case int():
                type_ = INT
            case float():
                type_ = DOUBLE
            case str():
                type_ = char(len(value))
            case Decimal():
                digits, scale = value.as_tuple().digits, -int(value.as_tuple().exponent)
                type_ = decimal(max(len(digits), scale), scale)
    assert type_ is not None
    return Literal(value, type_.with_nullable(value is None))


def big(value: int) -> Literal:
    return lit(value, BIGINT)


def dec(text: str, precision: int, scale: int) -> Literal:
    return lit(Decimal(text), decimal(precision, scale))


def call(name: str, *args: Any) -> Call:
    """A call as the binder makes it: arguments cast to what the signature asks for."""
    exprs = [a if isinstance(a, Expr) else lit(a) for a in args]
    literals = [e if isinstance(e, Literal) else None for e in exprs]
    wanted, result = resolve_call(FUNCTIONS.scalar(name), [e.type for e in exprs], literals)
    cast_args = tuple(e if e.type == t else Cast(e, t) for e, t in zip(exprs, wanted, strict=True))
    return Call(name, cast_args, result)


def cast(value: Any, target: DataType, *, safe: bool = False) -> Cast:
    expr = value if isinstance(value, Expr) else lit(value)
    return Cast(expr, target.with_nullable(expr.type.nullable or safe), safe)


def value(expr: Expr, time_zone: str = "UTC") -> Any:
    """The Python value, computed once from constants and once from columns of three rows; both must agree."""
    folded = fold_constant(expr, FUNCTIONS, time_zone, 0).value
    columns: list[Literal] = []

    def as_column(e: Expr) -> Expr:
        if isinstance(e, Literal) and e.type.root is not TypeRoot.NULL:
            columns.append(e)
            return InputRef(len(columns) - 1, e.type)
        return e

    over_columns = transform(expr, as_column)
    if columns:
        arrays = [pa.repeat(literal_scalar(c), 3) for c in columns]
        rows = pa.RecordBatch.from_arrays(arrays, names=[f"c{i}" for i in range(len(columns))])
        (result,) = Evaluator([over_columns], FUNCTIONS).evaluate(rows, BatchContext(3, time_zone))
        assert result.type == expr.type.arrow
        expected = pa.repeat(literal_scalar(Literal(folded, expr.type)), 3)
        assert result.to_pylist() == expected.to_pylist() or folded != folded
    return folded


def text(expr: Expr, time_zone: str = "UTC") -> str | None:
    """CAST(expr AS STRING): what the recorded answers of Flink show."""
    return value(Cast(expr, STRING.with_nullable(expr.type.nullable)), time_zone)
