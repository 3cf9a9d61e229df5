"""Evaluation of Python table functions: each row gives an array of rows, which LATERAL takes apart as UNNEST does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from runtime.core.types import DataType, array
from runtime.expr.function import EvalContext, Value
from sqlengine.user_functions.scalar import as_column, called, columns_of

__all__ = ["rows_as_structs", "table_calls"]


def table_calls(name: str, function: Callable[..., Any], row: DataType) -> Callable[..., Value]:
    """An evaluation that calls the function with the values of each row, in order (SQL forces that), and collects the
    rows that it returns or yields: tuples, or single values where rows have one column. None is no row."""
    result = array(row)

    def evaluate(context: EvalContext, *args: Value) -> Value:
        columns = columns_of(args, context.arg_types, context.num_rows)
        rows = list(zip(*columns, strict=True)) if columns else [()] * context.num_rows
        found = [called(name, lambda *a: rows_as_structs(function(*a), row), values) for values in rows]
        return as_column(name, found, result)

    return evaluate


def rows_as_structs(given: Any, row: DataType) -> list[Any]:
    """The rows that a function has given, each as a dict by field name."""
    if given is None:
        return []
    names = [f.name for f in row.fields]
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable):
        given = [given]
    return [_struct(one, names) for one in given]


def _struct(one: Any, names: list[str]) -> dict[str, Any]:
    if isinstance(one, Mapping):
        return dict(one)
    values = one if isinstance(one, (tuple, list)) else (one,)
    if len(values) != len(names):
        raise ValueError(f"a row of {len(values)} values for {len(names)} columns")
    return dict(zip(names, values, strict=True))
