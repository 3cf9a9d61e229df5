"""Evaluation of Python table functions: each row gives an array of rows, which LATERAL takes apart as UNNEST does."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from runtime.core.rooms import Room
from runtime.core.types import DataType, array
from runtime.expr.function import EvalContext, Value
from sqlengine.user_functions.limits import TimeLimit
from sqlengine.user_functions.scalar import as_rows, each_row, rows_of
from sqlengine.values.rows import Row

if TYPE_CHECKING:
    import sqlengine.user_functions.objects as _objects
else:
    _objects = Room("sqlengine.user_functions.objects")

__all__ = ["cells_of", "columns_of", "rows_as_structs", "table_calls"]

_SINGLE = frozenset({int, float, bool, str, bytes, Decimal, dt.date, dt.datetime, dt.time, dt.timedelta, type(None)})
"""Types of values that are never a row of several columns."""
_OF_VALUES = frozenset({tuple, list, Row})


def table_calls(
    name: str, function: Callable[..., Any], row: DataType, limit: TimeLimit | None
) -> Callable[..., Value]:
    """An evaluation that calls the function with the values of each row, in order (SQL forces that), and collects the
    rows that it returns or yields: tuples, or single values where rows have one column. None is no row."""
    result = array(row)
    function = _objects.taking_objects(function)

    def rows_for(*values: Any) -> list[Any]:
        return rows_as_structs(function(*values), row)

    def evaluate(context: EvalContext, *args: Value) -> Value:
        found = each_row(name, rows_for, rows_of(args, context), limit, context.failed)
        return as_rows(name, found, result, context.failed)

    return evaluate


def rows_as_structs(given: Any, row: DataType) -> list[Any]:
    """The rows that a function has given, each as a dict by field name."""
    if given is None:
        return []
    names = [f.name for f in row.fields]
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable):
        given = [given]
    return [dict(zip(names, cells_of(one, names), strict=True)) for one in given]


def columns_of(rows: list[Any], names: Sequence[str]) -> list[list[Any]]:
    """The values of rows that a function has given (at least one), by column; each row as in `cells_of`, which looks at
    each by itself.

    Raises:
        ValueError: another number of values, or a name that is no column.
    """
    kinds = set(map(type, rows))
    if len(names) == 1 and kinds <= _SINGLE:
        return [rows]
    cells: list[Any] = rows
    if not kinds <= _OF_VALUES or set(map(len, rows)) != {len(names)}:
        cells = [cells_of(one, names) for one in rows]
    return [list(column) for column in zip(*cells, strict=True)]


def cells_of(one: Any, names: Sequence[str]) -> Sequence[Any]:
    """The values of a row that a function has given, by column: of a dict those under their names, None where it has none;
    of a single value that.

    Raises:
        ValueError: another number of values, or a name that is no column.
    """
    fields = _objects.fields_of(one)
    if fields is not None:
        one = fields
    if isinstance(one, Mapping):
        for name in one:
            if name not in names:
                raise ValueError(f"a row with the column {name!r}, and the columns are {', '.join(names)}")
        return [one.get(name) for name in names]
    values = one if isinstance(one, (tuple, list)) else (one,)
    if len(values) != len(names):
        raise ValueError(f"a row of {len(values)} values for the columns {', '.join(names)}")
    return values
