"""The catalog `duckdb`: the schemas of a DuckDB database file are databases, its tables and views tables.

    CREATE CATALOG shop WITH ('type' = 'duckdb', 'path' = 'shop.duckdb')

Types, NOT NULL, primary keys and comments are those of the database.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

from connectors.duckdb_file.database import ask, database_stamp, opened, quoted, sql_type
from connectors.duckdb_file.table import CONNECTOR, PATH, SCHEMA, TABLE
from connectors.options import TableOptions
from runtime.core.options import text_option
from runtime.core.schema import Field, Schema
from runtime.spi.catalog import CatalogFactory, CatalogRequest, ForeignTable
from runtime.spi.registry import TableRequest

__all__ = ["DUCKDB_CATALOG", "DuckdbCatalog", "described_table"]

DEFAULT_DATABASE = text_option("default-database", "main", "the schema that USE CATALOG makes the current database")


T = TypeVar("T")


class DuckdbCatalog:
    """What a database file holds. The file is asked again when it, or the log of changes beside it, is another than
    before: opening it takes some ten milliseconds, and a statement has many names."""

    default_database: str

    def __init__(self, path: str, default_database: str) -> None:
        self._path = path
        self.default_database = default_database
        self._stamp: object = None
        self._told: dict[tuple[str, ...], Any] = {}

    def _once(self, question: tuple[str, ...], answer: Callable[[], T]) -> T:
        stamp = [database_stamp(p) for p in (self._path, self._path + ".wal") if os.path.exists(p)]
        if stamp != self._stamp:
            self._told.clear()
            self._stamp = stamp
        if question not in self._told:
            self._told[question] = answer()
        return self._told[question]

    def databases(self) -> list[str]:
        """The schemas."""
        return self._once((), self._databases)

    def _databases(self) -> list[str]:
        found = ask(
            self._path,
            "SELECT schema_name FROM duckdb_schemas() WHERE database_name = current_database() "
            "AND schema_name NOT IN ('information_schema', 'pg_catalog') ORDER BY 1",
        )
        return [name for (name,) in found]

    def tables(self, database: str) -> list[str]:
        """Tables and views of a schema."""
        return self._once((database,), lambda: self._tables(database))

    def _tables(self, database: str) -> list[str]:
        found = ask(
            self._path,
            "SELECT table_name FROM duckdb_tables() WHERE database_name = current_database() AND schema_name = $1 "
            "UNION SELECT view_name FROM duckdb_views() WHERE database_name = current_database() AND schema_name = $1 "
            "ORDER BY 1",
            database,
        )
        return [name for (name,) in found]

    def table(self, database: str, name: str) -> ForeignTable:
        """Columns, key and comments of one; ConnectorError E3104 for a view that is broken."""
        return self._once((database, name), lambda: self._table(database, name))

    def _table(self, database: str, name: str) -> ForeignTable:
        with opened(self._path) as connection:
            where = "database_name = current_database() AND schema_name = $1"
            arrow = connection.sql(f"SELECT * FROM {quoted(database)}.{quoted(name)} LIMIT 0").to_arrow_table().schema
            columns = connection.execute(
                f"SELECT column_name, is_nullable, comment FROM duckdb_columns() WHERE {where} AND table_name = $2",
                [database, name],
            ).fetchall()
            keys = connection.execute(
                f"SELECT constraint_column_names FROM duckdb_constraints() WHERE {where} AND table_name = $2 "
                "AND constraint_type = 'PRIMARY KEY'",
                [database, name],
            ).fetchall()
            comments = connection.execute(
                f"SELECT comment FROM duckdb_tables() WHERE {where} AND table_name = $2 UNION ALL "
                f"SELECT comment FROM duckdb_views() WHERE {where} AND view_name = $2",
                [database, name],
            ).fetchall()
        key = tuple(keys[0][0]) if keys else ()
        told = {column: (nullable, comment) for column, nullable, comment in columns}
        fields = [
            Field(f.name, sql_type(f.type).with_nullable(told.get(f.name, (True, None))[0] and f.name not in key))
            for f in arrow
        ]
        return ForeignTable(
            Schema(tuple(fields)),
            {"connector": CONNECTOR, PATH.key: self._path, SCHEMA.key: database, TABLE.key: name},
            key,
            comments[0][0] if comments else None,
            {column: comment for column, (_, comment) in told.items() if comment},
        )


def described_table(request: TableRequest) -> ForeignTable:
    """A table that is declared without columns, as the database describes it."""
    options = TableOptions(request.options, "connector 'duckdb'", (PATH, SCHEMA, TABLE))
    found = DuckdbCatalog(options.required(PATH), options.get(SCHEMA)).table(
        options.get(SCHEMA), options.required(TABLE)
    )
    return ForeignTable(found.schema, request.options, found.primary_key, found.comment, found.column_comments)


def _open(request: CatalogRequest) -> DuckdbCatalog:
    given = {k: v for k, v in request.options.items() if k != "type"}
    options = TableOptions(given, "catalog type 'duckdb'", (PATH, DEFAULT_DATABASE))
    catalog = DuckdbCatalog(options.required(PATH), options.get(DEFAULT_DATABASE))
    catalog.databases()
    return catalog


DUCKDB_CATALOG = CatalogFactory(
    name=CONNECTOR,
    document="the tables of a DuckDB database file, read only",
    open=_open,
    options=(PATH, DEFAULT_DATABASE),
)
