"""Functions that DuckDB computes: one SELECT for all of them over the batch, a large one in slices.

One in-memory connection per thread, opened when the first such function is called; `import duckdb` is left until then
because it is the slowest import of the engine.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from runtime.core.errors import ExpressionError
from runtime.core.types import DataType, TypeRoot
from runtime.eval.slices import slices
from runtime.expr.columns import as_array
from runtime.expr.function import Value

__all__ = ["DuckCall", "evaluate_in_duckdb"]

_local = threading.local()


@dataclass(frozen=True, slots=True)
class DuckCall:
    """One call: the template, its arguments (arrays or scalars), their SQL types, and the type of the result."""

    function: str
    template: str
    args: Sequence[Value]
    arg_types: tuple[DataType, ...]
    result: DataType


def evaluate_in_duckdb(calls: Sequence[DuckCall], num_rows: int, time_zone: str) -> list[Value]:
    """The results of all calls, of exactly their types, in one query. Scalars give scalars' arrays of the batch's
    length."""
    if num_rows == 0:
        return [pa.nulls(0, c.result.arrow) for c in calls]
    columns: list[pa.Array] = []
    positions: dict[int, int] = {}
    selected: list[str] = []
    for call in calls:
        texts = [_argument(a, t, columns, positions, num_rows) for a, t in zip(call.args, call.arg_types, strict=True)]
        selected.append(_fill(call.template, texts))
    if not columns:
        columns.append(pa.nulls(num_rows, pa.int8()))
    table = pa.table(columns, names=[f"c{i}" for i in range(len(columns))])
    query = "SELECT " + ", ".join(f"{text} AS r{i}" for i, text in enumerate(selected)) + " FROM batch"
    answers: list[pa.Table] = []
    try:
        for at, height in slices(num_rows, table.nbytes):
            answers.append(_answer(query, table.slice(at, height), time_zone))
    except Exception as error:
        functions = ", ".join(dict.fromkeys(c.function for c in calls))
        raise ExpressionError(f"{functions} failed: {str(error).splitlines()[0]}", code="E2001") from error
    answer = answers[0] if len(answers) == 1 else pa.concat_tables(answers)
    return [_exact(answer.column(i), c.result.arrow) for i, c in enumerate(calls)]


def _answer(query: str, batch: pa.Table, time_zone: str) -> pa.Table:
    connection = _connection(time_zone)
    connection.register("batch", batch)
    try:
        return connection.sql(query).to_arrow_table()
    finally:
        connection.unregister("batch")


def _connection(time_zone: str) -> Any:
    connection = getattr(_local, "connection", None)
    if connection is None:
        import duckdb

        connection = _local.connection = duckdb.connect(":memory:", config={"threads": 1})
        _local.time_zone = None
    if _local.time_zone != time_zone:
        connection.execute(f"SET TimeZone = {_quoted(time_zone)}")
        _local.time_zone = time_zone
    return connection


def _fill(template: str, texts: Sequence[str]) -> str:
    return template.format(*texts, args=", ".join(texts))


def _argument(value: Value, type_: DataType, columns: list[pa.Array], positions: dict[int, int], num_rows: int) -> str:
    if isinstance(value, pa.Scalar):
        constant = _constant(value, type_)
        if constant is not None:
            return constant
    position = positions.get(id(value))
    if position is None:
        position = positions[id(value)] = len(columns)
        columns.append(as_array(value, num_rows))
    return f"c{position}"


def _constant(scalar: pa.Scalar, type_: DataType) -> str | None:
    """A constant as SQL text, so that DuckDB compiles a pattern once; None for types that are simpler as a column."""
    if not scalar.is_valid:
        return "CAST(NULL AS VARCHAR)" if type_.is_character else None
    value = scalar.as_py()
    match type_.root:
        case TypeRoot.CHAR | TypeRoot.VARCHAR if "\0" not in value:
            return _quoted(value)
        case TypeRoot.BOOLEAN:
            return "true" if value else "false"
        case TypeRoot.TINYINT | TypeRoot.SMALLINT | TypeRoot.INT | TypeRoot.BIGINT:
            return f"CAST({value} AS {type_.root.value})"
        case _:
            return None


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _exact(column: pa.ChunkedArray, type_: pa.DataType) -> pa.Array:
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.nulls(0, array.type)
    return array if array.type == type_ else pc.cast(array, type_)
