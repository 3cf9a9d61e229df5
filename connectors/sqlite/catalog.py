"""The catalog `sqlite`: the tables and views of a file, in the database `main`.

CREATE CATALOG shop WITH ('type' = 'sqlite', 'path' = 'shop.db')
"""

from __future__ import annotations

from connectors.databases.making import cannot_change, column_definitions
from connectors.databases.options import TABLE
from connectors.options import TableOptions
from connectors.sqlite.columns import quoted, spelled
from connectors.sqlite.database import Relation, connected, described, table_names, telling
from connectors.sqlite.table import PATH, sqlite_options
from runtime.core.schema import Field, Schema
from runtime.spi.catalog import CatalogFactory, CatalogRequest, ForeignTable
from runtime.spi.registry import TableRequest

__all__ = ["SQLITE_CATALOG", "SqliteCatalog", "described_table"]

MAIN = "main"


class SqliteCatalog:
    """A file. It is opened for each question, which takes less than a millisecond."""

    default_database = MAIN

    def __init__(self, path: str) -> None:
        self._path = path

    def databases(self) -> list[str]:
        return [MAIN]

    def tables(self, database: str) -> list[str]:
        with telling(self._path), connected(self._path) as connection:
            return table_names(connection) if database == MAIN else []

    def table(self, database: str, name: str) -> ForeignTable:
        return _foreign(self._path, name, {"connector": "sqlite", PATH.key: self._path, TABLE.key: name})

    def create_table(self, database: str, name: str, table: ForeignTable) -> None:
        columns = column_definitions("SQLite", table, quoted, spelled)
        with telling(self._path), connected(self._path, "rw") as connection:
            connection.execute(f"CREATE TABLE {quoted(name)} ({columns})")

    def create_database(self, name: str) -> None:
        raise cannot_change("SQLite", "databases")

    def drop_database(self, name: str) -> None:
        raise cannot_change("SQLite", "databases")

    def change_table(self, database: str, name: str, before: ForeignTable, after: ForeignTable) -> None:
        raise cannot_change("SQLite", "columns of tables")

    def drop_table(self, database: str, name: str) -> None:
        with telling(self._path), connected(self._path, "rw") as connection:
            connection.execute(f"DROP TABLE IF EXISTS {quoted(name)}")


def _foreign(path: str, name: str, options: dict[str, str]) -> ForeignTable:
    with telling(path), connected(path) as connection:
        relation: Relation = described(connection, name)
    fields = [Field(c.name, c.type.with_nullable(c.nullable and c.name not in relation.key)) for c in relation.columns]
    return ForeignTable(Schema(tuple(fields)), options, relation.key)


def described_table(request: TableRequest, connector: str = "sqlite") -> ForeignTable:
    """A table that is declared without columns, as the file describes it."""
    options, path = sqlite_options(request, connector)
    return _foreign(path, options.required(TABLE), dict(request.options))


def _open(request: CatalogRequest) -> SqliteCatalog:
    given = {k: v for k, v in request.options.items() if k != "type"}
    options = TableOptions(given, "catalog type 'sqlite'", (PATH,))
    catalog = SqliteCatalog(options.required(PATH))
    catalog.tables(MAIN)
    return catalog


SQLITE_CATALOG = CatalogFactory(
    name="sqlite",
    document="the tables of a file of SQLite, to read, write and look up",
    open=_open,
    options=(PATH,),
)
