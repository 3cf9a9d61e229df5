"""Columns as files of columns (Parquet, ORC) have them, as the declared types."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runtime.core.errors import FormatError
from runtime.core.schema import Schema
from runtime.expr.columns import from_numpy, integers_of, validity
from runtime.expr.time_range import OUT_OF_YEARS, has_times_outside

__all__ = ["as_time", "fit_column", "fit_columns"]

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def fit_column(column: pa.Array | pa.ChunkedArray, type_: pa.DataType, name: str) -> pa.Array:
    """A column of a file as the declared type; raises FormatError E3205 when its type or a value does not fit."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
        column = pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column
    try:
        fitted = _fitted(column, type_)
        if has_times_outside(fitted):
            raise pa.ArrowInvalid(OUT_OF_YEARS)
        return fitted
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise FormatError(
            f"column {name} of the file is {column.type}, which does not fit the declared type: {error}",
            code="E3205",
            hint="declare the column with the type that the file has",
        ) from error


def _fitted(column: pa.Array, type_: pa.DataType) -> pa.Array:
    if type_ == (column.type.value_type if pa.types.is_dictionary(column.type) else column.type):
        return column
    if pa.types.is_boolean(type_) and not pa.types.is_null(column.type):
        raise pa.ArrowTypeError("only BOOLEAN is BOOLEAN")  # Arrow would take any number
    if pa.types.is_timestamp(type_) and pa.types.is_timestamp(column.type):
        return as_time(column, type_)
    return column.cast(type_)


def as_time(column: pa.Array, type_: pa.DataType) -> pa.Array:
    """Points in time in another unit. Finer fractions of a second are cut off, also before 1970; ArrowInvalid for a point
    that the unit does not reach."""
    there = column.cast(pa.timestamp(column.type.unit, type_.tz))
    factor, rest = divmod(_PER_SECOND[there.type.unit], _PER_SECOND[type_.unit])
    if rest or factor == 1:
        return there.cast(type_)
    return from_numpy(np.floor_divide(integers_of(there), factor), validity(there), type_)


def fit_columns(rows: pa.Table | pa.RecordBatch, schema: Schema) -> list[pa.Array]:
    """The columns of the schema by name; those that the file lacks are NULL."""
    there = set(rows.schema.names)
    return [
        fit_column(rows.column(f.name), f.type.arrow, f.name)
        if f.name in there
        else pa.nulls(rows.num_rows, f.type.arrow)
        for f in schema
    ]
