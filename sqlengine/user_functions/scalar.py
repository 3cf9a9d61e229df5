"""Evaluation of Python functions of one row, and of functions of whole columns.

A plain function is called once a row: SQL forces that where nothing is known of a function but how to call it. Whoever
wants speed writes a function of whole columns (`func_type="arrow"`, `"numpy"` or `"pandas"`): it is called once a batch.
"""

from __future__ import annotations

import functools
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
from sqlengine.user_functions.failures import failure_of
from sqlengine.user_functions.limits import Mark, TimedOut, TimeLimit
from sqlengine.values.rows import python_values

if TYPE_CHECKING:
    import sqlengine.user_functions.asynchronous as _asynchronous
    import sqlengine.user_functions.objects as _objects
    from sqlengine.user_functions.asynchronous import AsyncCalls
else:
    _asynchronous = Room("sqlengine.user_functions.asynchronous")
    _objects = Room("sqlengine.user_functions.objects")

__all__ = ["as_column", "as_rows", "called", "columns_of", "each_row", "row_calls", "rows_of", "vector_calls"]


def row_calls(
    name: str, function: Callable[..., Any], limit: TimeLimit | None, asynchronous: AsyncCalls | None = None
) -> Callable[..., Value]:
    """An evaluation that calls the function with the values of each row, in order; NULL is None. The calls of an async
    function run side by side."""

    function = _objects.taking_objects(function)

    def evaluate(context: EvalContext, *args: Value) -> Value:
        rows = rows_of(args, context)
        if asynchronous is not None:
            values = _asynchronous.side_by_side(name, function, rows, asynchronous, context.failed)
        else:
            values = each_row(name, function, rows, limit, context.failed)
        return as_rows(name, values, context.result_type, context.failed)

    return evaluate


def each_row(
    name: str,
    function: Callable[..., Any],
    rows: Sequence[tuple[Any, ...]],
    limit: TimeLimit | None,
    failed: list[tuple[int, ExpressionError]] | None,
) -> list[Any]:
    """What the function gives for each row, in order (SQL forces that). Rows for which it fails are noted in `failed` and
    have None; without `failed` the first of them raises."""
    if failed is None and limit is None:
        return [called(name, function, row) for row in rows]
    found: list[Any] = []
    while len(found) < len(rows):
        # A thread that is left behind writes into what was its own.
        done: list[Any] = []
        work = functools.partial(_calls, name, function, rows, len(found), done)
        try:
            if limit is None:
                work(None)
            else:
                limit.run(work)
        except ExpressionError as error:
            if failed is None:
                raise
            good = error.index - len(found) if isinstance(error, TimedOut) else len(done)
            found += done[:good]
            failed.append((len(found), error))
            found.append(None)
        else:
            found += done
    return found


def _calls(
    name: str,
    function: Callable[..., Any],
    rows: Sequence[tuple[Any, ...]],
    start: int,
    done: list[Any],
    mark: Mark | None,
) -> None:
    for index in range(start, len(rows)):
        row = rows[index]
        if mark is not None:
            mark.begin(index, row)
        done.append(called(name, function, row))
    if mark is not None:
        mark.end()


def vector_calls(name: str, function: Callable[..., Any], kind: str, limit: TimeLimit | None) -> Callable[..., Value]:
    """An evaluation that calls the function once, with whole columns as `kind`: arrow, numpy or pandas. Where rows may
    fail it is called again with halves of what fails, until the rows are found."""
    given = VECTORS[kind]

    def evaluate(context: EvalContext, *args: Value) -> Value:
        if context.num_rows == 0:
            return pa.nulls(0, context.result_type.arrow)
        columns = [as_array(a, context.num_rows, t.arrow) for a, t in zip(args, context.arg_types, strict=True)]
        if context.failed is None:
            return call(context.result_type, columns, context.num_rows)
        return _found_by_halves(context, lambda at, count: call(context.result_type, cut(columns, at, count), count))

    def cut(columns: list[pa.Array], at: int, count: int) -> list[pa.Array]:
        return [c.slice(at, count) for c in columns]

    def call(type_: DataType, columns: list[pa.Array], count: int) -> pa.Array:
        vectors = [given(c) for c in columns]
        result = limited(name, function, vectors, limit, shown=False)
        array = as_column(name, result, type_)
        if len(array) != count:
            raise _WrongLength(
                f"{name} gave {len(array)} values for {count} rows",
                code="E2111",
                hint="a function of whole columns gives one value for each row",
            )
        return array

    return evaluate


class _WrongLength(ExpressionError):
    """A mistake of the function, not of a row."""


def _found_by_halves(context: EvalContext, call: Callable[[int, int], pa.Array]) -> pa.Array:
    """The values of all rows, from calls for ranges of them; those for which a call of a single row fails are noted."""
    assert context.failed is not None
    waiting, found = [(0, context.num_rows)], []
    while waiting:
        at, count = waiting.pop()
        try:
            found.append(call(at, count))
        except _WrongLength:
            raise
        except ExpressionError as error:
            if count > 1:
                half = count // 2
                waiting += [(at + half, count - half), (at, half)]
                continue
            context.failed.append((at, error))
            found.append(pa.nulls(1, context.result_type.arrow))
    return pa.concat_arrays(found)


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


def rows_of(args: Sequence[Value], context: EvalContext) -> list[tuple[Any, ...]]:
    """Arguments as a tuple of Python values for each row."""
    columns = columns_of(args, context.arg_types, context.num_rows)
    return list(zip(*columns, strict=True)) if columns else [()] * context.num_rows


def called(name: str, function: Callable[..., Any], row: Sequence[Any], *, shown: bool = True) -> Any:
    """The function's result; ExpressionError E2110 when it raises, with the arguments that it was called with and the
    places in the user's code."""
    try:
        return function(*row)
    except SqlEngineError:
        raise
    except Exception as error:
        raise failure_of(name, error, row if shown else None) from error


def limited(
    name: str, function: Callable[..., Any], row: Sequence[Any], limit: TimeLimit | None, *, shown: bool = True
) -> Any:
    """The same, of a call that may have a limit in time."""
    if limit is None:
        return called(name, function, row, shown=shown)

    def work(mark: Mark) -> Any:
        mark.begin(0, row if shown else None)
        return called(name, function, row, shown=shown)

    return limit.run(work)


def as_rows(
    name: str, values: list[Any], type_: DataType, failed: list[tuple[int, ExpressionError]] | None
) -> pa.Array:
    """Results as a column; rows whose value is not of the type are noted in `failed` and have NULL, or (None) raise."""
    try:
        return as_column(name, values, type_)
    except ExpressionError:
        if failed is None:
            raise
    for index, value in enumerate(values):
        try:
            as_column(name, [value], type_)
        except ExpressionError as error:
            failed.append((index, error))
            values[index] = None
    return as_column(name, values, type_)


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
        reason = f"the Python function {name} gave values that are no {type_.with_nullable(True)}"
        made = ExpressionError(
            f"{reason}: {str(error).splitlines()[0]}",
            code="E2111",
            hint="return values of the declared result type",
        )
        made.reason = reason
        raise made from error


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


__all__ += ["VECTORS", "limited", "rows_of"]
