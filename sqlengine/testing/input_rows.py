"""Lines of a test file, or Python tuples, as changes of a table.

A line is written as results are: a row kind (none is `+I`) and cells with ` | ` between them.

    +I 1 | ann | 9.50
    -D 2 | NULL | 3
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from runtime.core.changelog import DELETE, KIND_NAMES, ChangelogBatch
from runtime.core.errors import FormatError, did_you_mean
from runtime.core.schema import Field, Schema
from runtime.core.types import DataType
from sqlengine.api.environment import TableEnvironment

__all__ = ["InputRow", "changes_of"]

InputRow = str | Sequence[Any] | Any
"""A line as above, or the values of a row, a row kind before them or not; the value of the only column alone will do."""

_KINDS = {name: number for number, name in enumerate(KIND_NAMES)}
_EMPTY = "(empty)"


def changes_of(
    environment: TableEnvironment,
    table: str,
    schema: Schema,
    key: Sequence[str],
    names: Sequence[str],
    rows: Sequence[InputRow],
) -> ChangelogBatch:
    """The changes that some rows are. A delete of a table with a key needs the key alone.

    Args:
        schema: the columns of the table.
        key: its primary key, nothing for none.
        names: the columns that the rows give, none for all; the others are NULL.
    Raises:
        FormatError: E3304, the row and the column of what is no value, of a NULL where none may be, of too many cells.
    """
    for name in names:
        if name not in schema.names:
            raise FormatError(f'{table} has no column "{name}"', code="E3304", hint=did_you_mean(name, schema.names))
    given = [schema[schema.index_of(n)] for n in names] or list(schema)
    kinds = np.zeros(len(rows), dtype=np.int8)
    cells: list[list[Any]] = [[] for _ in given]
    for number, row in enumerate(rows):
        kinds[number], values = _split(row, len(given))
        if len(values) != len(given):
            raise FormatError(
                f"row {number + 1} for {table} has {len(values)} values for {len(given)} columns",
                code="E3304",
                hint="they are: " + " | ".join(f.name for f in given),
            )
        for column, value in zip(cells, values, strict=True):
            column.append(value)
    columns = {f.name: _column(environment, table, f, values) for f, values in zip(given, cells, strict=True)}
    whole = [columns.get(f.name, pa.nulls(len(rows), f.type.arrow)) for f in schema]
    keyed_deletes = (kinds == DELETE) & bool(key)
    for field, column in zip(schema, whole, strict=True):
        if field.type.nullable or not column.null_count:
            continue
        missing = np.asarray(column.is_null()) & ~(keyed_deletes & (field.name not in key))
        if missing.any():
            raise FormatError(
                f'column "{field.name}" of {table} is NOT NULL, and row {int(missing.argmax()) + 1} has no value for it',
                code="E3304",
                hint="give it one",
            )
    return ChangelogBatch.of(whole, schema, kinds if kinds.any() else None)


def _split(row: InputRow, width: int) -> tuple[int, list[Any]]:
    """Kind and values of a row; the cells of a line are texts, NULL is None."""
    if isinstance(row, str):
        kind, _, rest = row.strip().partition(" ")
        if kind not in _KINDS:
            kind, rest = "+I", row
        return _KINDS[kind], [_text(cell.strip()) for cell in rest.split(" | ")]
    if not isinstance(row, Sequence) or isinstance(row, bytes):
        row = (row,)
    values = list(row)
    if len(values) == width + 1 and values[0] in _KINDS:
        return _KINDS[values[0]], values[1:]
    return 0, values


def _text(cell: str) -> str | None:
    if cell == "NULL":
        return None
    return "" if cell == _EMPTY else cell.replace("\\n", "\n")


def _column(environment: TableEnvironment, table: str, field: Field, values: list[Any]) -> pa.Array:
    """The values of a column: Python values as they are, texts as CAST(.. AS type) reads them."""
    arrow = field.type.arrow
    if pa.types.is_string(arrow):
        return pa.array([None if v is None else str(v) for v in values], arrow)
    if not any(isinstance(v, str) for v in values):
        try:
            return pa.array(values, arrow)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise _no_value(table, field, values, error) from error
    if not _read_by_arrow(arrow):
        return _cast_by_sql(environment, table, field, values)
    try:
        return pa.array([None if v is None else str(v) for v in values], pa.string()).cast(arrow)
    except pa.ArrowException as error:
        if field.type.is_numeric:
            wrong = next(v for v in values if v is not None and not _fits(str(v), arrow))
            raise _not_of_type(table, field, values.index(wrong), wrong) from error
        return _cast_by_sql(environment, table, field, values)


def _fits(text: str, arrow: pa.DataType) -> bool:
    try:
        pa.scalar(text).cast(arrow)
    except pa.ArrowException:
        return False
    return True


def _read_by_arrow(arrow: pa.DataType) -> bool:
    """Whether Arrow reads texts of a type as SQL does; where it refuses one SQL is asked."""
    plain = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_date)
    return any(test(arrow) for test in plain) or (pa.types.is_timestamp(arrow) and arrow.tz is None)


def _cast_by_sql(environment: TableEnvironment, table: str, field: Field, values: list[Any]) -> pa.Array:
    """Texts of a type, each one cast; cells of arrays, maps, rows and bytes are SQL expressions."""
    as_is = field.type.is_nested or field.type.is_binary
    done: list[pa.Array] = []
    for number, value in enumerate(values):
        written = "NULL" if value is None else str(value) if as_is else "'" + str(value).replace("'", "''") + "'"
        try:
            rows = environment.execute_sql(f"SELECT CAST({written} AS {_nullable(field.type)})").to_arrow()
        except Exception as error:
            raise _not_of_type(table, field, number, value) from error
        done.append(rows.column(0).combine_chunks().cast(field.type.arrow))
    return pa.concat_arrays(done) if done else pa.array([], field.type.arrow)


def _not_of_type(table: str, field: Field, number: int, value: Any) -> FormatError:
    as_is = field.type.is_nested or field.type.is_binary
    return FormatError(
        f'row {number + 1} for {table}: "{value}" is no {_nullable(field.type)} for column "{field.name}"',
        code="E3304",
        hint="write it as in SQL, such as ARRAY[1, 2] or x'0a'" if as_is else "write NULL for no value",
    )


def _nullable(type_: DataType) -> DataType:
    return type_.materialized().with_nullable(True)


def _no_value(table: str, field: Field, values: list[Any], error: Exception) -> FormatError:
    return FormatError(
        f'{values} are no values for column "{field.name}" {field.type} of {table}: {error}',
        code="E3304",
        hint="give values of that type, or their text",
    )
