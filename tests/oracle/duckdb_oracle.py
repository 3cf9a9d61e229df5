"""DuckDB as the judge: the batch answer over the same rows, and how two answers are compared.

Where Flink's meaning differs from DuckDB's, Flink's is right for us; what stands here makes DuckDB answer in Flink's
way:

- AVG of DECIMAL is a DECIMAL of scale 6 that is rounded half up (DuckDB: DOUBLE): `flink_avg`.
- AVG of integers is an integer, cut off towards zero (DuckDB: DOUBLE): `flink_avg_int`.
- A quotient of DECIMALs is a DECIMAL (DuckDB: DOUBLE): cast to the type of our column before comparing.
- NULL sorts before all values, ascending and descending turned around: `default_null_order`.
- An aggregate without GROUP BY over no rows gives no row (DuckDB: one): HAVING COUNT(*) > 0 in the rewritten query.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import duckdb
import pyarrow as pa

from sqlengine.verify import reference

__all__ = ["assert_same_rows", "connect", "duckdb_text", "rows_like", "view_query"]

_MACROS = """
CREATE MACRO exact_cents(x) AS CAST(SUM(x) * 100 AS HUGEINT);
CREATE MACRO half_up(number, divisor) AS sign(number) * ((2 * abs(number) + divisor) // (2 * divisor));
CREATE MACRO flink_avg(x) AS CAST(half_up(exact_cents(x) * 10000, COUNT(x)) AS DECIMAL(38, 0)) * 0.000001;
CREATE MACRO flink_avg_int(x) AS CAST(trunc(SUM(x) / COUNT(x)) AS BIGINT);
"""


def connect() -> duckdb.DuckDBPyConnection:
    """A fresh DuckDB in memory with the macros above; it sorts NULLs as Flink does."""
    connection = reference.connect()
    connection.execute(_MACROS)
    return connection


def view_query(script: str) -> str:
    """The query of the first CREATE MATERIALIZED VIEW of a script."""
    found = re.search(r"CREATE MATERIALIZED VIEW \w+ AS\n(.*?);", script, re.DOTALL)
    assert found is not None, "the script has no materialized view"
    return found[1]


def duckdb_text(query: str, changes: Iterable[tuple[str, str]] = ()) -> str:
    """The query as DuckDB takes it: other quotes, then `changes` (each must be found)."""
    text = query.replace("`", '"').replace("AVG(", "flink_avg(")
    for old, new in changes:
        assert old in text, f"nothing to rewrite: {old!r} is not in the query"
        text = text.replace(old, new)
    return text


def rows_like(table: pa.Table, expected: pa.Schema) -> list[tuple[Any, ...]]:
    """The rows as tuples, columns cast to the types of `expected` (a DOUBLE to a DECIMAL rounds half away from
    zero)."""
    assert table.num_columns == len(expected), f"{table.column_names} instead of {expected.names}"
    columns = [_cast(c, f.type).to_pylist() for c, f in zip(table.columns, expected, strict=True)]
    return list(zip(*columns, strict=True))


def _cast(column: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_floating(column.type) and pa.types.is_decimal(type_):
        scale = type_.scale
        texts = [
            None if v is None else f"{math.copysign(math.floor(abs(v) * 10**scale + 0.5) / 10**scale, v):.{scale}f}"
            for v in column.to_pylist()
        ]
        return pa.chunked_array([pa.array(texts, pa.string()).cast(type_)])
    return column.cast(type_)


def assert_same_rows(actual: Sequence[tuple[Any, ...]], expected: Sequence[tuple[Any, ...]], what: str) -> None:
    """Equal as bags; floats to nine digits."""
    left, right = Counter(map(_comparable, actual)), Counter(map(_comparable, expected))
    if left != right:
        missing, extra = list((right - left).elements())[:5], list((left - right).elements())[:5]
        raise AssertionError(
            f"{what}: {len(actual)} rows, DuckDB has {len(expected)}\n  missing: {missing}\n  wrong:   {extra}"
        )


def _comparable(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(float(f"{v:.9g}") if isinstance(v, float) else v for v in row)
