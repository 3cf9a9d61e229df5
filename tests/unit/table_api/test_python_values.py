"""Dates and times as Python values are those that Arrow gives, NULLs, ends of the years and zones as well."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from runtime.core.types import DATE, DataType, timestamp, timestamp_ltz
from sqlengine import Row
from sqlengine.user_functions.table import columns_of
from sqlengine.values.rows import python_values

MOMENTS = [None, dt.datetime.min, dt.datetime(1969, 12, 31, 23, 59, 59, 999000), dt.datetime(9999, 12, 31, 23, 59, 59)]


@pytest.mark.parametrize("type_", [DATE, timestamp(0), timestamp(3), timestamp(6), timestamp_ltz(3), timestamp_ltz(6)])
@pytest.mark.parametrize("given", [MOMENTS, MOMENTS[1:], [None], []])
def test_values_are_those_of_arrow(type_: DataType, given: list[dt.datetime | None]) -> None:
    column = pa.array(given, pa.timestamp("us")).cast(type_.arrow)
    found = python_values(column, type_)
    assert found == column.to_pylist()
    assert list(map(type, found)) == list(map(type, column.to_pylist()))
    assert [getattr(v, "tzinfo", None) for v in found] == [getattr(v, "tzinfo", None) for v in column.to_pylist()]


@pytest.mark.parametrize("type_", [DATE, timestamp(3), timestamp_ltz(6)])
@pytest.mark.parametrize("far", [1 << 30, -(1 << 63)])
def test_a_year_that_python_has_not_is_an_error(type_: DataType, far: int) -> None:
    numbers = pa.int32() if type_ is DATE else pa.int64()
    far = max(far, -(1 << 31)) if type_ is DATE else far << 30 if far > 0 else far
    with pytest.raises((OverflowError, ValueError)):
        python_values(pa.array([0, far], numbers).cast(type_.arrow), type_)


@pytest.mark.parametrize(
    ("rows", "names", "columns"),
    [
        ([1, None, "a"], "n", [[1, None, "a"]]),
        ([1, (2,), {"n": 3}, Row(4), [5], {}], "n", [[1, 2, 3, 4, 5, None]]),
        ([(1, "a"), Row(2, "b"), [3, None]], "nm", [[1, 2, 3], ["a", "b", None]]),
        ([(1, "a"), {"m": "b"}], "nm", [[1, None], ["a", "b"]]),
    ],
)
def test_rows_of_functions_become_columns(rows: list[object], names: str, columns: list[list[object]]) -> None:
    assert columns_of(rows, list(names)) == columns


@pytest.mark.parametrize("rows", [[(1, 2), (3,)], [(1,), (2,)], [1], [{"x": 1}]])
def test_a_row_of_other_columns_is_refused(rows: list[object]) -> None:
    with pytest.raises(ValueError, match="for the columns n, m|with the column 'x'"):
        columns_of(rows, ["n", "m"])
