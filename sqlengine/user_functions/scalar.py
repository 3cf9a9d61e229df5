"""Evaluation of Python functions of one row, and of functions of whole columns.

A plain function is called once a row: SQL forces that where nothing is known of a function but how to call it. Whoever
wants speed writes a function of whole columns (`func_type="arrow"`, `"numpy"` or `"pandas"`): it is called once a batch.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from runtime.core.errors import ExpressionError, SqlEngineError
from runtime.core.rooms import Room
from runtime.core.types import DataType, TypeRoot
from runtime.expr.columns import as_array
from runtime.expr.function import EvalContext, Value
from runtime.expr.given import given
from runtime.expr.time_range import OUT_OF_YEARS, has_times_outside
from sqlengine.api.rows import python_values
from sqlengine.user_functions.failures import failed_call

if TYPE_CHECKING:
    import sqlengine.user_functions.objects as _objects
else:
    _objects = Room("sqlengine.user_functions.objects")

__all__ = ["as_column", "called", "columns_of", "row_calls", "vector_calls"]


def row_calls(name: str, function: Callable[..., Any], *, is_async: bool = False) -> Callable[..., Value]:
    """An evaluation that calls the function with the values of each row, in order; NULL is None. The calls of an async
    function run side by side."""

    function = _objects.taking_objects(function)

    def evaluate(context: EvalContext, *args: Value) -> Value:
        columns = columns_of(args, context.arg_types, context.num_rows)
        rows = list(zip(*columns, strict=True)) if columns else [()] * context.num_rows
        if is_async:
            values = _side_by_side(name, function, rows)
        else:
            values = [called(name, function, row) for row in rows]
        return as_column(name, values, context.result_type)

    return evaluate


def vector_calls(name: str, function: Callable[..., Any], kind: str) -> Callable[..., Value]:
    """An evaluation that calls the function once, with whole columns as `kind`: arrow, numpy or pandas."""
    given = VECTORS[kind]

    def evaluate(context: EvalContext, *args: Value) -> Value:
        if context.num_rows == 0:
            return pa.nulls(0, context.result_type.arrow)
        arrays = [given(as_array(a, context.num_rows, t.arrow)) for a, t in zip(args, context.arg_types, strict=True)]
        result = called(name, function, arrays, shown=False)
        array = as_column(name, result, context.result_type)
        if len(array) != context.num_rows:
            raise ExpressionError(
                f"{name} gave {len(array)} values for {context.num_rows} rows",
                code="E2111",
                hint="a function of whole columns gives one value for each row",
            )
        return array

    return evaluate


def _numpy(array: pa.Array) -> np.ndarray:
    return array.to_numpy(zero_copy_only=False)


VECTORS: dict[str, Callable[[pa.Array], Any]] = {
    "arrow": lambda array: array,
    "numpy": _numpy,
    "pandas": lambda array: (
        pa.RecordBatch.from_struct_array(array).to_pandas() if pa.types.is_struct(array.type) else array.to_pandas()
    ),
}
"""How a column is given to a function of whole columns; rows are a DataFrame of pandas."""


def columns_of(args: Sequence[Value], types: Sequence[DataType], rows: int) -> list[list[Any]]:
    """Arguments as Python values."""
    return [python_values(as_array(a, rows, t.arrow), t) for a, t in zip(args, types, strict=True)]


def called(name: str, function: Callable[..., Any], row: Sequence[Any], *, shown: bool = True) -> Any:
    """The function's result; ExpressionError E2110 when it raises, with the arguments that it was called with and the
    places in the user's code."""
    try:
        return function(*row)
    except SqlEngineError:
        raise
    except Exception as error:
        raise _failed(name, error, row if shown else None) from error


def _failed(name: str, error: BaseException, row: Sequence[Any] | None) -> ExpressionError:
    return failed_call(name, error, "" if row is None else f" for ({', '.join(map(repr, row))})")


def as_column(name: str, values: Any, type_: DataType) -> pa.Array:
    """Results as a column of their declared type, which may be NULL whatever was declared; ExpressionError E2111 for values
    that are not of it, and for None in a part of a value that is NOT NULL."""
    array = _converted(name, values, type_)
    if type_.is_nested and _lacks_parts(array, type_.with_nullable(True)):
        raise ExpressionError(
            f"the Python function {name} gave None in a part that {type_.with_nullable(True)} declares NOT NULL",
            code="E2111",
            hint="declare the part without NOT NULL, or give it a value",
        )
    return array


def _lacks_parts(array: pa.Array, type_: DataType) -> bool:
    """Whether a value, or a part of one, is NULL where the type says NOT NULL."""
    if not type_.nullable and array.null_count:
        return True
    if not type_.is_nested or not len(array):
        return False
    known = array.drop_null()
    match type_.root:
        case TypeRoot.ARRAY:
            return _lacks_parts(known.flatten(), type_.children[0])
        case TypeRoot.MAP:
            return _lacks_parts(pa.ListArray.from_arrays(known.offsets, known.items).flatten(), type_.children[1])
        case TypeRoot.ROW:
            return any(_lacks_parts(known.field(i), f.type) for i, f in enumerate(type_.fields))
        case _:
            return False


def _converted(name: str, values: Any, type_: DataType) -> pa.Array:
    arrow = type_.arrow
    try:
        if isinstance(values, pa.ChunkedArray):
            values = values.combine_chunks()
        if isinstance(values, list) and _has_fields(type_):
            values = [_objects.of_objects(value) for value in values]
        values = given(values, type_)
        if not isinstance(values, list):
            return _within_years(_of_vector(values, arrow))
        return pa.array(values, arrow)
    except (pa.ArrowException, OverflowError, ValueError, TypeError) as error:
        raise ExpressionError(
            f"the Python function {name} gave values that are no {type_.with_nullable(True)}: "
            f"{str(error).splitlines()[0]}",
            code="E2111",
            hint="return values of the declared result type",
        ) from error


def _of_vector(values: Any, arrow: pa.DataType) -> pa.Array:
    """What a function of whole columns gave, as a column."""
    if isinstance(values, pa.Array):
        return values if values.type == arrow else values.cast(arrow)
    if type(values).__module__.partition(".")[0] == "pandas":
        if pa.types.is_struct(arrow) and hasattr(values, "columns"):
            return _rows_of_frame(values, arrow)
        return pa.array(values, arrow, from_pandas=True)
    return pa.array(values, arrow)


def _within_years(array: pa.Array) -> pa.Array:
    if has_times_outside(array):
        raise ValueError(OUT_OF_YEARS)
    return array


def _has_fields(type_: DataType) -> bool:
    return bool(type_.fields) or any(map(_has_fields, type_.children))


def _rows_of_frame(frame: Any, arrow: pa.DataType) -> pa.Array:
    """A DataFrame of pandas as rows: its columns are the fields, by position."""
    fields = list(arrow)
    if len(frame.columns) != len(fields):
        raise ValueError(f"a frame of {len(frame.columns)} columns for {len(fields)} fields")
    columns = [pa.array(frame.iloc[:, i], f.type, from_pandas=True) for i, f in enumerate(fields)]
    return pa.StructArray.from_arrays(columns, fields=fields)


def _side_by_side(name: str, function: Callable[..., Any], rows: Sequence[tuple[Any, ...]]) -> list[Any]:
    """The results of an async function for all rows, awaited together on an event loop of their own."""
    # Loaded here: whoever only imports the engine shall not wait for it.
    import asyncio

    results: list[Any] = []

    async def all_rows() -> list[Any]:
        return await asyncio.gather(*(function(*row) for row in rows), return_exceptions=True)

    # A thread of its own: the thread at hand may have a running loop.
    worker = threading.Thread(target=lambda: results.extend(asyncio.run(all_rows())))
    worker.start()
    worker.join()
    for row, result in zip(rows, results, strict=True):
        if isinstance(result, BaseException):
            raise _failed(name, result, row) from result
    return results


__all__ += ["VECTORS"]
