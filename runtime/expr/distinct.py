"""Functions that nothing vectorises, computed once per distinct value of a column.

Java's formatting, JSON paths, charsets: Arrow has no kernel for them and DuckDB's differ. Their columns are
dictionary-encoded, the Python function sees each distinct value (or combination of values) once, and the results are
taken back to the rows. Functions with a kernel for the usual case (a constant pattern) come here for the rest only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from runtime.expr.columns import as_array
from runtime.expr.function import EvalContext, Value

__all__ = ["all_constant", "map_distinct", "per_constant"]


def all_constant(values: Sequence[Value]) -> bool:
    """Whether every value is a constant."""
    return all(isinstance(v, pa.Scalar) for v in values)


def map_distinct(
    function: Callable[..., Any], values: Sequence[Value], type_: pa.DataType, length: int, *, sees_nulls: bool = False
) -> Value:
    """`function(*values)` for each row, called once per distinct combination; the result has the Arrow type `type_`.

    NULL where an argument is NULL, unless the function `sees_nulls` (as None). Constants stay constants.
    """
    if all_constant(values):
        return pa.scalar(_call(function, [v.as_py() for v in values], sees_nulls), type_)
    columns = [v for v in values if not isinstance(v, pa.Scalar)]
    codes, distinct = _distinct([as_array(c, length) for c in columns])
    results: list[Any] = []
    for row in distinct:
        given = iter(row)
        results.append(
            _call(function, [v.as_py() if isinstance(v, pa.Scalar) else next(given) for v in values], sees_nulls)
        )
    return pa.array(results, type_).take(pa.array(codes))


def per_constant(context: EvalContext, compute: Callable[..., pa.Array], column: Value, *constants: Value) -> Value:
    """`compute(column, *texts)` with the further arguments constant: directly, or once for each distinct combination of
    them, because what computes (a pattern, a format) takes them as constants only."""
    length = 1 if all_constant([column, *constants]) else context.num_rows
    if all_constant(constants):
        if any(not c.is_valid for c in constants):
            return pa.scalar(None, context.result_type.arrow)
        result = compute(as_array(column, length), *(c.as_py() for c in constants))
        return result[0] if isinstance(column, pa.Scalar) else result
    values = as_array(column, length)
    given = pa.table(
        {str(i): as_array(c, length) for i, c in enumerate(constants)} | {"row": pa.array(np.arange(length))}
    )
    groups = given.group_by([str(i) for i in range(len(constants))]).aggregate([("row", "list")])
    rows_of = groups["row_list"].combine_chunks()
    parts: list[pa.Array] = []
    order: list[Any] = []
    combinations = zip(*(groups[str(i)].to_pylist() for i in range(len(constants))), strict=True)
    for number, texts in enumerate(combinations):
        rows = rows_of[number].values.to_numpy()
        order.append(rows)
        if None in texts:
            parts.append(pa.nulls(len(rows), context.result_type.arrow))
        else:
            parts.append(compute(values.take(pa.array(order[-1])), *texts))
    back = np.empty(length, np.int64)
    back[np.concatenate(order) if order else []] = np.arange(length)
    if not parts:
        return pa.nulls(length, context.result_type.arrow)
    return pa.concat_arrays([p.cast(context.result_type.arrow) for p in parts]).take(pa.array(back))


def _call(function: Callable[..., Any], args: list[Any], sees_nulls: bool) -> Any:
    if not sees_nulls and any(a is None for a in args):
        return None
    return function(*args)


def _distinct(columns: list[pa.Array]) -> tuple[Any, list[tuple[Any, ...]]]:
    """The number of each row's combination, and the combinations."""
    if len(columns) == 1:
        codes, values = _encode(columns[0])
        return codes, [(v,) for v in values]
    encoded = [_encode(c) for c in columns]
    combined = np.zeros(len(columns[0]), np.int64)
    for codes, values in encoded:
        # Renumbered after every column, so that the numbers never outgrow 64 bits.
        combined = np.unique(combined * len(values) + codes, return_inverse=True)[1]
    _, first, numbers = np.unique(combined, return_index=True, return_inverse=True)
    chosen = [[values[i] for i in codes[first]] for codes, values in encoded]
    return numbers, list(zip(*chosen, strict=True))


def _encode(column: pa.Array) -> tuple[Any, list[Any]]:
    if pa.types.is_nested(column.type):
        return np.arange(len(column)), column.to_pylist()
    encoded = column.dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), encoded.dictionary.to_pylist()
