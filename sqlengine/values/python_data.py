"""Rows that Python has, as Arrow of SQL types: lists of tuples, Arrow tables, data frames of other libraries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from runtime.core.errors import TypeMismatchError
from runtime.core.schema import Schema
from runtime.core.types import DataType, TypeRoot, from_arrow
from runtime.expr.given import given
from runtime.expr.time_range import OUT_OF_YEARS, has_times_outside
from sqlengine.values.data_types import column_types, schema_of

__all__ = ["arrow_of_frame", "carried", "elements"]


def elements(rows: Sequence[Any], schema: Any = None) -> tuple[Schema, pa.Table]:
    """Python rows (tuples, lists, dicts, or single values for one column) as a table.

    Types that `schema` does not give follow from the values; without a schema columns are `_1`, `_2`, .. or the keys of
    the first dict. Raises TypeMismatchError E1325 for rows of different lengths and values that do not fit.
    """
    given = list(rows)
    if not given and schema is None:
        raise TypeMismatchError(
            "no rows and no schema", code="E1325", hint='say what the columns are: schema={"id": "BIGINT"}'
        )
    names: list[str]
    types: list[DataType | None]
    if schema is not None:
        names, types = column_types(schema)
    elif isinstance(given[0], Mapping):
        names = list(given[0])
        types = [None] * len(names)
    else:
        width = len(given[0]) if isinstance(given[0], (tuple, list)) else 1
        names, types = [f"_{i + 1}" for i in range(width)], [None] * width
    columns = _by_column(given, names)
    arrays: list[pa.Array] = []
    found: list[DataType] = []
    for name, type_, values in zip(names, types, columns, strict=True):
        array, kind = _column(name, type_, values)
        arrays.append(array)
        found.append(kind)
    return schema_of(names, found), pa.Table.from_arrays(arrays, names=names)


def _by_column(rows: list[Any], names: list[str]) -> list[list[Any]]:
    width = len(names)
    tuples: list[Sequence[Any]] = []
    for number, row in enumerate(rows):
        if isinstance(row, Mapping):
            unknown = [str(key) for key in row if key not in names]
            if unknown:
                raise TypeMismatchError(
                    f'row {number + 1} has a key "{unknown[0]}" that is no column',
                    code="E1325",
                    hint=f"the columns are {', '.join(names)}",
                )
            values: Sequence[Any] = [row.get(name) for name in names]
        else:
            values = row if isinstance(row, (tuple, list)) else (row,)
        if len(values) != width:
            raise TypeMismatchError(
                f"row {number + 1} has {len(values)} values for {width} columns",
                code="E1325",
                hint=f"the columns are {', '.join(names)}",
            )
        tuples.append(values)
    return [list(column) for column in zip(*tuples, strict=True)] if tuples else [[] for _ in names]


def _column(name: str, type_: DataType | None, values: list[Any]) -> tuple[pa.Array, DataType]:
    try:
        if type_ is None:
            array = pa.array(values)
            type_ = from_arrow(array.type)
            if type_.root is TypeRoot.NULL:
                raise TypeMismatchError(
                    f'the column "{name}" has no value to tell its type',
                    code="E1325",
                    hint=f'give its type: schema={{"{name}": "STRING"}}',
                )
        else:
            array = pa.array(given(values, type_), type_.arrow, from_pandas=True)
    except (
        pa.ArrowInvalid,
        pa.ArrowTypeError,
        pa.ArrowNotImplementedError,
        OverflowError,
        ValueError,
        TypeError,
    ) as error:
        wanted = "one type" if type_ is None else str(type_)
        raise TypeMismatchError(
            f'values of the column "{name}" do not fit {wanted}: {str(error).splitlines()[0]}',
            code="E1325",
            hint="give the column's type in the schema, or convert the values",
        ) from error
    return carried(array, type_), type_


def carried(array: pa.Array | pa.ChunkedArray, type_: DataType) -> pa.Array:
    """A column as the Arrow type that carries its SQL type."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    made = array if array.type == type_.arrow else array.cast(type_.arrow)
    if has_times_outside(made):
        raise pa.ArrowInvalid(OUT_OF_YEARS)
    return made


def arrow_of_frame(rows: Any, schema: Any = None) -> tuple[Schema, pa.Table]:
    """An Arrow table, record batch or reader (anything with `__arrow_c_stream__`) with its SQL types.

    `schema` names the columns, or gives their types, too. Raises TypeMismatchError E1325 for types that do not fit.
    """
    table = _table(rows)
    names = list(table.column_names)
    types: list[DataType | None] = [None] * len(names)
    if schema is not None:
        names, types = column_types(schema)
        if len(names) != table.num_columns:
            raise TypeMismatchError(
                f"the rows have {table.num_columns} columns, and the schema {len(names)}",
                code="E1325",
                hint=f"the columns are {', '.join(table.column_names)}",
            )
    arrays: list[pa.Array] = []
    found: list[DataType] = []
    for name, type_, column in zip(names, types, table.columns, strict=True):
        plain = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        known = type_ or _known(plain)
        try:
            arrays.append(carried(given(column, known), known))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, TypeError) as error:
            raise TypeMismatchError(
                f'the column "{name}" of Arrow type {column.type} does not fit {known}: {str(error).splitlines()[0]}',
                code="E1325",
                hint="cast it before, or give another type",
            ) from error
        found.append(known)
    return schema_of(names, found), pa.Table.from_arrays(arrays, names=names)


_UNSIGNED = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
}


def _known(arrow: pa.DataType) -> DataType:
    """The SQL type of an Arrow type that may be one that carries none: it is cast to that which holds its values."""
    if arrow in _UNSIGNED:
        return from_arrow(_UNSIGNED[arrow])
    if pa.types.is_float16(arrow):
        return from_arrow(pa.float32())
    if pa.types.is_date(arrow):
        return from_arrow(pa.date32())
    if pa.types.is_time(arrow):
        return from_arrow(pa.time32("ms"))
    if pa.types.is_timestamp(arrow):
        kind = from_arrow(arrow)
        return kind.with_(precision={"s": 0, "ms": 3}.get(arrow.unit, kind.precision))
    return from_arrow(arrow)


def _table(rows: Any) -> pa.Table:
    if isinstance(rows, pa.Table):
        return rows
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    if isinstance(rows, pa.RecordBatchReader):
        return rows.read_all()
    if hasattr(rows, "__arrow_c_stream__"):
        return pa.table(rows)
    if hasattr(rows, "to_arrow"):
        return rows.to_arrow()
    raise TypeMismatchError(
        f"{type(rows).__name__} is nothing that Arrow can take",
        code="E1325",
        hint="from_elements takes Python rows, from_arrow Arrow tables, from_pandas and from_polars data frames",
    )
