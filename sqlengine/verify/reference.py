"""DuckDB as the judge: the answer to a bound plan over the rows so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from inspect import Parameter, Signature
from typing import Any

import pyarrow as pa

from planner.logical import nodes as n
from planner.logical.nodes import LogicalNode
from runtime.core.types import INT, DataType
from runtime.eval.evaluator import BatchContext, Evaluator
from runtime.expr.columns import as_array
from runtime.expr.function import FunctionRegistry
from runtime.expr.nodes import Expr
from runtime.spi.table import SourceTable
from sqlengine.verify.relations import TIES, Relations
from sqlengine.verify.rows import Row, rows_of
from sqlengine.verify.texts import CannotVerify, duck_type

__all__ = ["WRONG_OPTIMIZERS", "Reference", "connect"]

WRONG_OPTIMIZERS = "common_subplan"
"""Optimizers of DuckDB that must be off. `common_subplan` (2.0.0) takes a part of a query for another one that differs in a
filter: a join of a view with itself and with a third table, below a UNION ALL with another join of that view, had too many
rows."""


def connect() -> Any:
    """A fresh DuckDB in memory that sorts NULLs as Flink does."""
    import duckdb

    connection = duckdb.connect(config={"threads": 1, "disabled_optimizers": WRONG_OPTIMIZERS})
    connection.execute("SET default_null_order = 'nulls_first_on_asc_last_on_desc'")
    return connection


class Reference:
    """One plan as DuckDB answers it.

    Raises CannotVerify, when it is made, for a plan that DuckDB cannot answer as the engine must.
    """

    def __init__(self, plan: LogicalNode, functions: FunctionRegistry, time_zone: str) -> None:
        self._functions = functions
        self._time_zone = time_zone
        self._own_names: dict[Expr, tuple[str, tuple[DataType, ...]]] = {}
        self._tables: dict[SourceTable, str] = {}
        self.windows: list[LogicalNode] = []
        """Plans of window functions whose groups close; `$0`, `$1` in the text stand for their watermarks."""
        text, self.unordered = Relations(functions, self._own, self._table, self._closed).whole(plan)
        columns = ", ".join(f"c{c.id}" for c in plan.columns)
        self.text = f"SELECT {columns} FROM ({text})"

    @property
    def tables(self) -> tuple[SourceTable, ...]:
        """The tables that the plan reads."""
        return tuple(self._tables)

    def rows(self, contents: Callable[[SourceTable], pa.Table], watermarks: Mapping[int, int]) -> list[Row] | None:
        """The answer, or None where several are right; `watermarks` by the place in `windows`, milliseconds."""
        text = self.text
        for place, mark in watermarks.items():
            text = text.replace(f"$watermark{place}$", f"CAST('{mark}' AS BIGINT)")
        # A connection of its own each time: one that is kept with functions of Python is never let go.
        connection = connect()
        try:
            for table, name in self._tables.items():
                connection.register(f"{name}_rows", contents(table))
                connection.execute(f"CREATE TABLE {name} AS SELECT * FROM {name}_rows")
            for expr, (name, types) in self._own_names.items():
                self._create(connection, name, expr, types)
            return rows_of(connection.sql(text).to_arrow_table())
        except Exception as error:
            if TIES in str(error) or "Overflow" in str(error) or "out of range" in str(error):
                return None
            raise CannotVerify(f"what DuckDB refuses ({str(error).splitlines()[0]})") from error
        finally:
            for name, _ in self._own_names.values():
                with suppress(Exception):
                    connection.remove_function(name)
            connection.close()

    def _table(self, scan: n.Scan) -> str:
        assert scan.table is not None
        for field in scan.table.schema:
            duck_type(field.type)
        return self._tables.setdefault(scan.table, f"t{len(self._tables)}")

    def _closed(self, window: LogicalNode) -> str:
        if window not in self.windows:
            self.windows.append(window)
        return f"$watermark{self.windows.index(window)}$"

    def _own(self, expr: Expr, types: tuple[DataType, ...]) -> str:
        """An expression of the engine that DuckDB may call by name, over columns of some types."""
        duck_type(expr.type)
        for type_ in types:
            duck_type(type_)
        return self._own_names.setdefault(expr, (f"own{len(self._own_names)}", types))[0]

    def _create(self, connection: Any, name: str, expr: Expr, types: tuple[DataType, ...]) -> None:
        evaluator = Evaluator((expr,), self._functions)
        zone, given = self._time_zone, types or (INT,)

        def call(*columns: pa.ChunkedArray) -> pa.Array:
            count = len(columns[0])
            typed = [_plain(column).cast(t.arrow) for column, t in zip(columns, given, strict=True)]
            rows = pa.RecordBatch.from_arrays(typed, names=[f"a{i}" for i in range(len(typed))])
            (value,) = evaluator.evaluate(rows, BatchContext(count, zone))
            return as_array(value, count, expr.type.arrow)

        # DuckDB counts the parameters that a function names.
        call.__signature__ = Signature(  # type: ignore[attr-defined]
            [Parameter(f"a{i}", Parameter.POSITIONAL_ONLY) for i in range(len(given))]
        )
        connection.create_function(
            name, call, [duck_type(t) for t in given], duck_type(expr.type), type="arrow", null_handling="special"
        )


def _plain(column: Any) -> pa.Array:
    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
