"""DuckDB as the judge: the answer to a bound plan over the rows so far."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from inspect import Parameter, Signature
from typing import Any, Protocol

import pyarrow as pa

from planner.logical import nodes as n
from planner.logical.nodes import LogicalNode
from runtime.core.types import INT, DataType
from runtime.eval.duckdb_plans.types import WRONG_OPTIMIZERS
from runtime.eval.evaluator import BatchContext, Evaluator
from runtime.expr.columns import as_array
from runtime.expr.function import FunctionRegistry
from runtime.expr.nodes import Expr
from runtime.spi.source import SourceTable
from sqlengine.verify.logs import LATE
from sqlengine.verify.relations import TIES, Relations
from sqlengine.verify.rows import Row, rows_of
from sqlengine.verify.texts import CannotVerify, duck_type

__all__ = ["WRONG_OPTIMIZERS", "Given", "Reference", "connect"]


def connect() -> Any:
    """A fresh DuckDB in memory that sorts NULLs as Flink does."""
    import duckdb

    connection = duckdb.connect(config={"threads": 1, "disabled_optimizers": WRONG_OPTIMIZERS})
    connection.execute("SET default_null_order = 'nulls_first_on_asc_last_on_desc'")
    return connection


class Given(Protocol):
    """The input so far."""

    def contents(self, table: SourceTable) -> pa.Table:
        """The rows of a table."""
        ...

    def history(self, table: SourceTable) -> pa.Table:
        """Its log: its columns, and `$arrival`, `$came`, `$gone`."""
        ...

    def marks(self, place: int) -> pa.Table:
        """`came` and `known`: the watermark of one of the `windows` before each epoch."""
        ...


class Reference:
    """One plan as DuckDB answers it.

    Raises CannotVerify, when it is made, for a plan that DuckDB cannot answer as the engine must.
    """

    def __init__(self, plan: LogicalNode, functions: FunctionRegistry, time_zone: str) -> None:
        self._functions = functions
        self._time_zone = time_zone
        self._own_names: dict[Expr, tuple[str, tuple[DataType, ...]]] = {}
        self._tables: dict[SourceTable, str] = {}
        self.histories: dict[SourceTable, str] = {}
        """The tables of which the log is asked for."""
        self.windows: list[LogicalNode] = []
        """Plans of window functions whose groups close, and of temporal joins; `$watermark0$` and so on in the text stand
        for their watermarks."""
        text, self.unordered = Relations(functions, self).whole(plan)
        columns = ", ".join(f"c{c.id}" for c in plan.columns)
        self.text = f"SELECT {columns} FROM ({text})"

    @property
    def tables(self) -> tuple[SourceTable, ...]:
        """The tables that the plan reads."""
        return tuple({**self._tables, **self.histories})

    def rows(self, given: Given, watermarks: Mapping[int, int]) -> list[Row] | None:
        """The answer, or None where several are right; `watermarks` by the place in `windows`, milliseconds."""
        text = self.text
        for place, mark in watermarks.items():
            text = text.replace(f"$watermark{place}$", f"CAST('{mark}' AS BIGINT)")
        # A connection of its own each time: one that is kept with functions of Python is never let go.
        connection = connect()
        try:
            tables = {name: given.contents(table) for table, name in self._tables.items()}
            tables |= {name: given.history(table) for table, name in self.histories.items()}
            if self.histories:
                tables |= {f"marks{place}": given.marks(place) for place in range(len(self.windows))}
            for name, rows in tables.items():
                connection.register(f"{name}_rows", rows)
                connection.execute(f"CREATE TABLE {name} AS SELECT * FROM {name}_rows")
            for expr, (name, types) in self._own_names.items():
                self._create(connection, name, expr, types)
            return rows_of(connection.sql(text).to_arrow_table())
        except Exception as error:
            if TIES in str(error) or "Overflow" in str(error) or "out of range" in str(error):
                return None
            if LATE in str(error):
                raise CannotVerify("versions that came late: what was answered before they came stays") from error
            raise CannotVerify(f"what DuckDB refuses ({str(error).splitlines()[0]})") from error
        finally:
            for name, _ in self._own_names.values():
                with suppress(Exception):
                    connection.remove_function(name)
            connection.close()

    def table(self, scan: n.Scan) -> str:
        """See `Asked`."""
        assert scan.table is not None
        _check_types(scan.table)
        return self._tables.setdefault(scan.table, f"t{len(self._tables)}")

    def history(self, scan: n.Scan) -> str:
        """See `Asked`."""
        assert scan.table is not None
        _check_types(scan.table)
        return self.histories.setdefault(scan.table, f"log{len(self.histories)}")

    def closed(self, plan: LogicalNode) -> str:
        """See `Asked`."""
        return f"$watermark{self._place(plan)}$"

    def marks(self, plan: LogicalNode) -> str:
        """See `Asked`."""
        return f"marks{self._place(plan)}"

    def _place(self, plan: LogicalNode) -> int:
        if plan not in self.windows:
            self.windows.append(plan)
        return self.windows.index(plan)

    def own(self, expr: Expr, types: tuple[DataType, ...]) -> str:
        """See `Asked`: an expression of the engine that DuckDB may call by name, over columns of some types."""
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


def _check_types(table: SourceTable) -> None:
    for field in table.schema:
        duck_type(field.type)


def _plain(column: Any) -> pa.Array:
    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
