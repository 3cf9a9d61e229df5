"""A table or view of a DuckDB database file: read once from its beginning to its end, or asked for the rows of keys.

Values come with the types that the table is declared with; DuckDB casts them, and a value that does not fit fails the
query. The rows come in DuckDB's order, which is that of their insertion.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from connectors.duckdb_file.database import ask, check_sql, column_sql, database_stamp, opened, quoted, telling
from connectors.formats.held import check_held
from connectors.kit import predicates
from connectors.kit.aggregates import Aggregation, as_aggregation, check_fits, question
from connectors.options import TableOptions, physical_part
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import ConnectorError, FormatError
from runtime.core.options import text_option
from runtime.core.rooms import Room
from runtime.core.schema import Schema
from runtime.core.strict_json import counts_of
from runtime.expr.nodes import Expr
from runtime.expr.time_range import OUT_OF_YEARS, has_times_outside
from runtime.spi.abilities import AskedAggregate
from runtime.spi.reader import ReadContext
from runtime.spi.registry import ConnectorFactory, TableRequest
from runtime.spi.source import EndingInserts, Split
from runtime.spi.statistics import TableStatistics

if TYPE_CHECKING:
    import connectors.duckdb_file.catalog as _catalog
else:
    _catalog = Room("connectors.duckdb_file.catalog")

__all__ = ["DUCKDB", "PATH", "SCHEMA", "TABLE", "DuckdbTable"]

CONNECTOR = "duckdb"
PATH = text_option("path", "", "the file of the DuckDB database")
SCHEMA = text_option("schema-name", "main", "the schema of the table")
TABLE = text_option("table-name", "", "the name of the table or view in the database")
_BATCH = 65_536


@dataclass(frozen=True)
class DuckdbTable(EndingInserts):
    """One table. `limit`: the most rows that are read; `conditions`: what they must be; `aggregation`: what is asked for
    instead of them."""

    schema: Schema
    path: str
    database_schema: str
    table: str
    limit: int | None = None
    conditions: tuple[predicates.Condition, ...] = ()
    aggregation: Aggregation | None = None

    def statistics(self) -> TableStatistics:
        if self.aggregation is not None:
            return TableStatistics() if self.aggregation.group else TableStatistics(rows=1.0)
        rows = ask(
            self.path,
            "SELECT estimated_size FROM duckdb_tables() WHERE database_name = current_database() "
            "AND schema_name = ? AND table_name = ?",
            self.database_schema,
            self.table,
        )
        return TableStatistics(rows=float(rows[0][0]) if rows else None)

    def splits(self) -> list[Split]:
        return [Split("table")]

    def open(self, split: Split, context: ReadContext) -> DuckdbReader:
        return DuckdbReader(self)

    def with_columns(self, names: Sequence[str]) -> DuckdbTable:
        return replace(self, schema=self.schema.select(tuple(self.schema.index_of(n) for n in names)))

    def with_filters(self, filters: Sequence[Expr]) -> tuple[DuckdbTable, list[Expr]]:
        if self.limit is not None or self.aggregation is not None:
            return self, list(filters)
        taken, left = predicates.as_conditions(filters, self.schema, "duckdb", self.conditions)
        return replace(self, conditions=taken), left

    def with_limit(self, rows: int) -> DuckdbTable:
        return replace(self, limit=rows if self.limit is None else min(rows, self.limit))

    def with_aggregates(self, group: Sequence[str], calls: Sequence[AskedAggregate]) -> DuckdbTable | None:
        if self.limit is not None or self.aggregation is not None or not all(c.exact for c in self.conditions):
            return None
        found = as_aggregation(self.schema, "duckdb", group, calls)
        return None if found is None else replace(self, schema=found.schema, aggregation=found)

    def aggregated(self) -> tuple[Sequence[str], Sequence[AskedAggregate]] | None:
        return None if self.aggregation is None else (self.aggregation.group, self.aggregation.calls)

    def pushed(self, schema: Schema) -> tuple[list[Expr], int | None]:
        return [c.over(schema) for c in self.conditions], self.limit

    def describe(self) -> dict[str, Any]:
        pushed: dict[str, Any] = {"filters": [c.sql for c in self.conditions]} if self.conditions else {}
        if self.limit is not None:
            pushed["limit"] = self.limit
        if self.aggregation is not None:
            pushed |= self.aggregation.describe()
        return {
            "connector": CONNECTOR,
            "table": f"{self.database_schema}.{self.table}",
            "columns": list(self.schema.names),
            **pushed,
            "options": {"path": self.path, "table": f"{self.database_schema}.{self.table}"},
        }

    @property
    def place(self) -> str:
        """The table as DuckDB reads it."""
        return f"{quoted(self.database_schema)}.{quoted(self.table)}"

    @property
    def columns(self) -> str:
        """The columns as DuckDB is asked for them; a constant where none is wanted."""
        return ", ".join(column_sql(f.name, f.type) for f in self.schema) or "1"

    @property
    def query(self) -> str:
        """The rows as DuckDB is asked for them."""
        columns = self.schema if self.aggregation is None else self.aggregation.rows
        if not self.conditions and self.aggregation is None:
            return f"SELECT {self.columns} FROM {self.place}"
        wanted = {f.name: f.type for f in columns}
        for condition in self.conditions:
            wanted = {**condition.columns, **wanted}
        inner = ", ".join(column_sql(name, type_) for name, type_ in wanted.items()) or "1"
        names = ", ".join(quoted(n) for n in columns.names) or "1"
        rows = f"SELECT {names} FROM (SELECT {inner} FROM {self.place}){predicates.where(self.conditions)}"
        return rows if self.aggregation is None else question(self.aggregation, "duckdb", rows, self._checks())

    def _checks(self) -> dict[str, str | None]:
        """DuckDB's casts fail for all that does not fit, but for years that there are only there."""
        assert self.aggregation is not None
        return {f.name: check_sql(f.name, f.type) for f in self.aggregation.checked}

    def typed(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of DuckDB as the Arrow types of the schema."""
        if not len(self.schema):
            return rows.select([])
        width = len(self.schema)
        if self.aggregation is not None:
            check_fits(rows.columns[width:], self.aggregation, self._checks(), self.place)
        columns = [
            c if c.type == f.type.arrow else c.cast(f.type.arrow)
            for c, f in zip(rows.columns[:width], self.schema, strict=True)
        ]
        for column, field in zip(columns, self.schema, strict=True):
            if has_times_outside(column):
                raise FormatError(
                    f"in column {field.name} of {self.place} {OUT_OF_YEARS}",
                    code="E3205",
                    hint="read a view of DuckDB that leaves such rows out, and infinity",
                )
        return pa.RecordBatch.from_arrays(columns, names=list(self.schema.names))

    def lookup(self, key_columns: Sequence[str], keys: pa.RecordBatch) -> tuple[pa.Array, pa.RecordBatch]:
        """The rows that match each key, as they are in the database now: one query for all keys. NULL equals nothing."""
        names = [f"k{i}" for i in range(len(key_columns))]
        places = pa.array(range(keys.num_rows), pa.int64())
        asked = pa.Table.from_arrays([*keys.columns[: len(names)], places], names=[*names, "place"])
        on = " AND ".join(f"r.{quoted(c)} = k.{k}" for c, k in zip(key_columns, names, strict=True))
        with opened(self.path) as connection:
            connection.register("asked", asked)
            found = connection.sql(
                f"SELECT k.place, r.* FROM asked AS k JOIN (SELECT {self.columns} FROM {self.place}) AS r ON {on} "
                "ORDER BY k.place"
            ).to_arrow_table()
        rows = found.combine_chunks().to_batches()
        if not rows:
            empty = [pa.array([], f.type.arrow) for f in self.schema]
            return pa.array([], pa.int64()), pa.RecordBatch.from_arrays(empty, names=list(self.schema.names))
        return rows[0].column(0).cast(pa.int64()), self.typed(rows[0].select(range(1, found.num_columns)))


class DuckdbReader:
    """Reads the table while it keeps the database open. A position is the number of rows given and the state of the
    file that they are of: from another one nothing can be gone on with."""

    def __init__(self, table: DuckdbTable) -> None:
        self._table = table
        self._stamp = database_stamp(table.path)
        self._at = 0
        self._open = ExitStack()
        self._batches: pa.RecordBatchReader | None = None
        self._rest: pa.RecordBatch | None = None
        self._finished = False

    def poll(self, max_rows: int) -> ChangelogBatch | None:
        if self._finished or max_rows < 1:
            return None
        if self._batches is None:
            self._batches = self._begun()
        if self._rest is None or not self._rest.num_rows:
            self._rest = self._next()
            if self._rest is None:
                self._end()
                return None
        part = self._rest.slice(0, max_rows)
        rest = self._rest.slice(part.num_rows)
        self._at += part.num_rows
        self._rest = rest if rest.num_rows else self._next()
        if self._rest is None:
            self._end()
        return ChangelogBatch(part)

    def _begun(self) -> pa.RecordBatchReader:
        table = self._table
        limit = "" if table.limit is None else f" LIMIT {max(table.limit - self._at, 0)}"
        query = f"{table.query}{limit} OFFSET {self._at}"
        connection = self._open.enter_context(opened(table.path))
        with telling(table.path):
            return connection.sql(query).to_arrow_reader(_BATCH)

    def _next(self) -> pa.RecordBatch | None:
        assert self._batches is not None
        with telling(self._table.path):
            for batch in self._batches:
                if batch.num_rows:
                    return self._table.typed(batch)
        return None

    def _end(self) -> None:
        self._finished = True
        self.close()

    @property
    def finished(self) -> bool:
        return self._finished

    def position(self) -> Any:
        return {"rows": self._at, "file": self._stamp}

    def seek(self, position: Any) -> None:
        (rows,) = counts_of(position, "rows")
        if position["file"] != self._stamp:
            raise ConnectorError(
                f"{self._table.path} is not as it was when it was last read",
                code="E3105",
                hint="begin anew: a table that others write to cannot be gone on with",
            )
        self._at = rows

    def close(self) -> None:
        self._batches = None
        self._open.close()


def _table(request: TableRequest) -> DuckdbTable:
    check_held("connector 'duckdb'", request.schema)
    options = TableOptions(request.options, "connector 'duckdb'", (PATH, SCHEMA, TABLE))
    return DuckdbTable(physical_part(request), options.required(PATH), options.get(SCHEMA), options.required(TABLE))


DUCKDB = ConnectorFactory(
    name=CONNECTOR,
    document="a table of a DuckDB database file, read once or looked up by key",
    source=_table,
    lookup=_table,
    options=(PATH, SCHEMA, TABLE),
    infer=lambda request: _catalog.described_table(request),
)
