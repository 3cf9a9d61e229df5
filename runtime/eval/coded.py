"""Expressions over coded text columns: computed once for each distinct value, not for each row.

A column that comes as an Arrow dictionary has few values and many rows. A part of an expression that reads nothing but
that column is computed on the dictionary, and its results are spread over the rows by the codes.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from runtime.expr.function import FunctionRegistry, ScalarFunction, Value
from runtime.expr.nodes import Call, Expr, InputRef, Lambda, LambdaVariable, children

__all__ = ["few_values", "spread", "text_parts"]

_MIXED = -1


def text_parts(expressions: Sequence[Expr], functions: FunctionRegistry) -> dict[Expr, int]:
    """The largest parts that read one text column and nothing else, and the position of that column.

    The column alone is no part. A part is deterministic: equal values have equal results.
    """
    found: dict[Expr, int] = {}

    def visit(expr: Expr) -> int | None:
        # The column that an expression reads; None for a constant.
        match expr:
            case InputRef(index=index, type=type_):
                return index if type_.arrow == pa.string() else _MIXED
            case Lambda() | LambdaVariable():
                return _MIXED
            case _:
                pass
        read = [visit(child) for child in children(expr)]
        columns = {column for column in read if column is not None}
        if len(columns) <= 1 and _MIXED not in columns and _is_deterministic(expr, functions):
            return next(iter(columns), None)
        note(children(expr), read)
        return _MIXED

    def note(parts: Sequence[Expr], read: Sequence[int | None]) -> None:
        for part, column in zip(parts, read, strict=True):
            if column is not None and column != _MIXED and not isinstance(part, InputRef):
                found[part] = column

    note(expressions, [visit(expr) for expr in expressions])
    return found


def _is_deterministic(expr: Expr, functions: FunctionRegistry) -> bool:
    if not isinstance(expr, Call):
        return True
    function = functions.find(expr.function)
    return isinstance(function, ScalarFunction) and function.deterministic and not function.rejects


def few_values(column: pa.Array) -> bool:
    """Whether a column is coded, without NULLs, and has so few values that it pays to compute on those."""
    return pa.types.is_dictionary(column.type) and not column.null_count and 2 * len(column.dictionary) <= len(column)


def spread(value: Value, column: pa.DictionaryArray, *, coded: bool) -> Value:
    """The results for a column's distinct values, for its rows; texts stay `coded` if asked for."""
    if isinstance(value, pa.Scalar):
        return value
    if coded and value.type == pa.string() and not value.null_count:
        return pa.DictionaryArray.from_arrays(column.indices, value)
    return value.take(column.indices)
