"""The catalog `postgres`: the schemas of a database are databases, its tables and views tables.

    CREATE CATALOG shop WITH ('type' = 'postgres', 'url' = 'postgresql://host/shop', 'username' = 'me', 'password' = '..')

Types, NOT NULL, primary keys and comments are those of the database.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from connectors.databases.making import cannot_change, column_definitions
from connectors.databases.one_connection import OneConnection
from connectors.databases.options import TABLE
from connectors.options import TableOptions
from connectors.postgres.address import ADDRESS_OPTIONS, Address, read_address
from connectors.postgres.columns import spelled
from connectors.postgres.commits import EPOCHS
from connectors.postgres.connection import connected, literal, quoted, run, telling
from connectors.postgres.described import Relation, described
from connectors.postgres.table import SCHEMA, table_names, table_options
from runtime.core.options import text_option
from runtime.core.schema import Field, Schema
from runtime.spi.catalog import CatalogFactory, CatalogRequest, ForeignTable
from runtime.spi.registry import TableRequest

__all__ = ["POSTGRES_CATALOG", "Database", "PostgresCatalog", "described_table", "foreign"]

DEFAULT_DATABASE = text_option("default-database", "public", "the schema that USE CATALOG makes the current database")
T = TypeVar("T")
_NOT_OURS = "n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg\\_%%'"


class Database:
    """Questions about names."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._connection: OneConnection[Any] = OneConnection(lambda: connected(address))

    def ask(self, question: Callable[[Any], T]) -> T:
        """The answer to what is asked with a connection."""

        def asked(connection: Any) -> T:
            with telling(self.address):
                return question(connection)

        return self._connection.ask(asked)

    def rows(self, query: str, arguments: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self.ask(lambda connection: run(connection, query, arguments).fetchall())

    def schemas(self) -> list[str]:
        return [
            name for (name,) in self.rows(f"SELECT n.nspname FROM pg_namespace AS n WHERE {_NOT_OURS} ORDER BY 1", [])
        ]

    def tables(self, schema: str) -> list[str]:
        """Tables and views; a partition is a part of its table."""
        found = self.rows(
            "SELECT c.relname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE n.nspname = %s "
            "AND c.relkind IN ('r', 'v', 'm', 'f', 'p') AND NOT c.relispartition AND c.relname <> %s ORDER BY 1",
            [schema, EPOCHS],
        )
        return [name for (name,) in found]

    def table(self, schema: str, name: str) -> Relation:
        return self.ask(lambda connection: described(connection, schema, name))

    def create(self, schema: str, name: str, table: ForeignTable) -> None:
        """Make a table, with its comments, or nothing of it."""
        place = f"{quoted(schema)}.{quoted(name)}"
        columns = column_definitions("PostgreSQL", table, quoted, spelled)
        comments = {f"TABLE {place}": table.comment} if table.comment else {}
        comments |= {f"COLUMN {place}.{quoted(column)}": text for column, text in table.column_comments.items()}

        def made(connection: Any) -> None:
            with connection.transaction():
                run(connection, f"CREATE TABLE {place} ({columns})")
                for what, text in comments.items():
                    run(connection, f"COMMENT ON {what} IS {literal(text)}")

        self.ask(made)

    def drop(self, schema: str, name: str) -> None:
        self.run(f"DROP TABLE IF EXISTS {quoted(schema)}.{quoted(name)}")

    def run(self, statement: str) -> None:
        self.ask(lambda connection: run(connection, statement))


def foreign(relation: Relation, options: Mapping[str, str]) -> ForeignTable:
    """A table of the database as one of the engine."""
    fields = [Field(c.name, c.type.with_nullable(c.nullable and c.name not in relation.key)) for c in relation.columns]
    comments = {c.name: c.comment for c in relation.columns if c.comment}
    return ForeignTable(Schema(tuple(fields)), options, relation.key, relation.comment, comments)


class PostgresCatalog:
    """A database."""

    default_database: str

    def __init__(self, database: Database, options: Mapping[str, str], default_database: str) -> None:
        self._database = database
        self._options = options
        self.default_database = default_database

    def databases(self) -> list[str]:
        return self._database.schemas()

    def tables(self, database: str) -> list[str]:
        return self._database.tables(database)

    def table(self, database: str, name: str) -> ForeignTable:
        options = {"connector": "postgres", **self._options, SCHEMA.key: database, TABLE.key: name}
        return foreign(self._database.table(database, name), options)

    def create_database(self, name: str) -> None:
        self._database.run(f"CREATE SCHEMA {quoted(name)}")

    def drop_database(self, name: str) -> None:
        self._database.run(f"DROP SCHEMA {quoted(name)}")

    def create_table(self, database: str, name: str, table: ForeignTable) -> None:
        self._database.create(database, name, table)

    def drop_table(self, database: str, name: str) -> None:
        self._database.drop(database, name)

    def change_table(self, database: str, name: str, before: ForeignTable, after: ForeignTable) -> None:
        raise cannot_change("PostgreSQL", "columns of tables")


def described_table(request: TableRequest, connector: str = "postgres") -> ForeignTable:
    """A table that is declared without columns, as the database describes it."""
    address, names = table_names(table_options(request, connector))
    with telling(address), connected(address) as connection:
        return foreign(described(connection, *names), request.options)


def _open(request: CatalogRequest) -> PostgresCatalog:
    given = {k: v for k, v in request.options.items() if k != "type"}
    options = TableOptions(given, "catalog type 'postgres'", (*ADDRESS_OPTIONS, DEFAULT_DATABASE))
    database = Database(read_address(options))
    catalog = PostgresCatalog(
        database, {k: v for k, v in given.items() if k != DEFAULT_DATABASE.key}, options.get(DEFAULT_DATABASE)
    )
    catalog.databases()
    return catalog


POSTGRES_CATALOG = CatalogFactory(
    name="postgres",
    document="the tables of a database of PostgreSQL, to read, write and look up",
    open=_open,
    options=(*ADDRESS_OPTIONS, DEFAULT_DATABASE),
)
