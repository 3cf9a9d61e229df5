"""The catalog `mysql`: the databases of a server of MySQL or MariaDB, their tables and views.

    CREATE CATALOG shop WITH ('type' = 'mysql', 'url' = 'mysql://host/shop', 'username' = 'me', 'password' = '..')

Types, NOT NULL, primary keys and comments are those of the server. The database of the URL is the one that USE CATALOG makes the
current one.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from connectors.databases.making import cannot_change, column_definitions
from connectors.databases.names import split_name
from connectors.databases.one_connection import OneConnection
from connectors.databases.options import TABLE
from connectors.mysql.address import ADDRESS_OPTIONS, URL, Address, read_address
from connectors.mysql.columns import spelled
from connectors.mysql.connection import Connection, connected, literal, quoted
from connectors.mysql.described import Relation, described, table_names
from connectors.mysql.table import table_options
from connectors.options import TableOptions
from runtime.core.schema import Field, Schema
from runtime.core.types import TypeRoot
from runtime.spi.catalog import CatalogFactory, CatalogRequest, ForeignTable
from runtime.spi.registry import TableRequest

__all__ = ["MYSQL_CATALOG", "MysqlCatalog", "described_table", "foreign", "of_server"]

_OWN = frozenset({"information_schema", "mysql", "performance_schema", "sys"})


def foreign(relation: Relation, options: Mapping[str, str]) -> ForeignTable:
    """A table there as one of the engine. Raises ConnectorError E3164 for a column of which there is no type here."""
    fields = [Field(c.name, c.type.with_nullable(c.nullable and c.name not in relation.key)) for c in relation.columns]
    comments = {c.name: c.comment for c in relation.columns if c.comment}
    return ForeignTable(Schema(tuple(fields)), options, relation.key, relation.comment, comments)


class MysqlCatalog:
    """A server. `options`: of its tables, with a URL that names a database, which is left out and put in again."""

    default_database: str

    def __init__(self, address: Address, options: Mapping[str, str], connector: str = "mysql") -> None:
        self._connection: OneConnection[Connection] = OneConnection(lambda: Connection(address))
        self._options = {"connector": connector, **options}
        self.default_database = address.database

    def databases(self) -> list[str]:
        found = self._connection.ask(
            lambda c: c.asked("SELECT SCHEMA_NAME FROM information_schema.SCHEMATA ORDER BY 1")
        )
        return [name for (name,) in found if name.lower() not in _OWN]

    def tables(self, database: str) -> list[str]:
        return self._connection.ask(lambda c: table_names(c, database))

    def table(self, database: str, name: str) -> ForeignTable:
        before, _, parameters = self._options[URL.key].partition("?")
        url = before.rpartition("/")[0] + "/" + quote(database, safe="") + ("?" if parameters else "") + parameters
        # A name with a dot would be read as that of a database and a table.
        named = f"{quoted(database)}.{quoted(name)}" if "." in name or "`" in name else name
        relation = self._connection.ask(lambda c: described(c, database, name))
        return foreign(relation, {**self._options, URL.key: url, TABLE.key: named})

    def create_database(self, name: str) -> None:
        self._run(f"CREATE DATABASE {quoted(name)}")

    def drop_database(self, name: str) -> None:
        self._run(f"DROP DATABASE {quoted(name)}")

    def create_table(self, database: str, name: str, table: ForeignTable) -> None:
        columns = column_definitions("MySQL", table, quoted, spelled, _tails(table))
        comment = f" COMMENT = {literal(table.comment)}" if table.comment else ""
        self._run(f"CREATE TABLE {quoted(database)}.{quoted(name)} ({columns}) ENGINE = InnoDB{comment}")

    def drop_table(self, database: str, name: str) -> None:
        self._run(f"DROP TABLE IF EXISTS {quoted(database)}.{quoted(name)}")

    def change_table(self, database: str, name: str, before: ForeignTable, after: ForeignTable) -> None:
        raise cannot_change("MySQL", "columns of tables")

    def _run(self, statement: str) -> None:
        self._connection.ask(lambda c: c.run(statement))


def _tails(table: ForeignTable) -> Mapping[str, str]:
    """What is said of columns behind their types."""
    # Without NULL, old servers make the first TIMESTAMP one that is never NULL.
    found = {f.name: " NULL" for f in table.schema if f.type.root is TypeRoot.TIMESTAMP_LTZ and f.type.nullable}
    for name, text in table.column_comments.items():
        found[name] = f"{found.get(name, '')} COMMENT {literal(text)}"
    return found


def described_table(request: TableRequest, connector: str = "mysql") -> ForeignTable:
    """A table that is declared without columns, as the database describes it."""
    options = table_options(request, connector)
    address = read_address(options)
    with connected(address) as connection:
        return foreign(
            described(connection, *split_name(options.required(TABLE), address.database, "`")), request.options
        )


def _open(request: CatalogRequest) -> MysqlCatalog:
    given = {k: v for k, v in request.options.items() if k != "type"}
    address = read_address(TableOptions(given, "catalog type 'mysql'", ADDRESS_OPTIONS))
    catalog = MysqlCatalog(address, given)
    catalog.databases()
    return catalog


def of_server(base: str, database: str, login: Mapping[str, str]) -> MysqlCatalog:
    """Flink's catalog `jdbc` of a server, with tables of the connector `jdbc`.

    Args:
        base: the URL without a database.
        database: the current one.
        login: user and password, as options.
    """
    given = {URL.key: f"{base.rstrip('/')}/{quote(database, safe='')}", **login}
    catalog = MysqlCatalog(read_address(TableOptions(given, "catalog type 'jdbc'", ADDRESS_OPTIONS)), given, "jdbc")
    catalog.databases()
    return catalog


MYSQL_CATALOG = CatalogFactory(
    name="mysql",
    document="the databases of a server of MySQL or MariaDB, to read, write and look up",
    open=_open,
    options=ADDRESS_OPTIONS,
)
