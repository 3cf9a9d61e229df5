"""Columns as files of columns (Parquet, ORC) have them, as the declared types."""

from __future__ import annotations

import pyarrow as pa

from runtime.core.errors import FormatError
from runtime.core.schema import Schema

__all__ = ["fit_column", "fit_columns"]


def fit_column(column: pa.Array | pa.ChunkedArray, type_: pa.DataType, name: str) -> pa.Array:
    """A column of a file as the declared type; raises FormatError E3205 when its type or a value does not fit."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
        column = pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column
    if type_ == (column.type.value_type if pa.types.is_dictionary(column.type) else column.type):
        return column
    try:
        if pa.types.is_boolean(type_) and not pa.types.is_null(column.type):
            raise pa.ArrowTypeError("only BOOLEAN is BOOLEAN")  # Arrow would take any number
        # Finer fractions of a second are cut off; nothing else may be lost.
        return column.cast(type_, safe=not pa.types.is_timestamp(type_))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise FormatError(
            f"column {name} of the file is {column.type}, which does not fit the declared type: {error}",
            code="E3205",
            hint="declare the column with the type that the file has",
        ) from error


def fit_columns(rows: pa.Table | pa.RecordBatch, schema: Schema) -> list[pa.Array]:
    """The columns of the schema by name; those that the file lacks are NULL."""
    there = set(rows.schema.names)
    return [
        fit_column(rows.column(f.name), f.type.arrow, f.name)
        if f.name in there
        else pa.nulls(rows.num_rows, f.type.arrow)
        for f in schema
    ]
