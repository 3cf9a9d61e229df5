"""Flink's catalog `jdbc`: the databases of a server of PostgreSQL, MySQL or MariaDB. In PostgreSQL, a table of the schema `public`
is called by its name, one of another schema `schema.table`.

    CREATE CATALOG pg WITH ('type' = 'jdbc', 'base-url' = 'jdbc:postgresql://host:5432', 'default-database' = 'shop',
                            'username' = 'me', 'password' = '..')
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from connectors.databases.making import cannot_change
from connectors.databases.names import split_name
from connectors.databases.options import TABLE
from connectors.options import TableOptions
from connectors.postgres.address import PASSWORD, URL, USERNAME, read_address
from connectors.postgres.catalog import Database, foreign
from runtime.core.options import text_option
from runtime.core.rooms import Room
from runtime.spi.catalog import CatalogFactory, CatalogRequest, ForeignTable

if TYPE_CHECKING:
    import connectors.mysql.catalog as _mysql
else:
    _mysql = Room("connectors.mysql.catalog")

__all__ = ["JDBC_CATALOG", "JdbcCatalog"]

PUBLIC = "public"
DEFAULT_DATABASE = text_option("default-database", "", "the database that USE CATALOG makes the current one")
BASE_URL = text_option(
    "base-url", "", "the server, without a database: 'jdbc:postgresql://host:5432' or 'jdbc:mysql://host:3306'"
)
_LOGIN = (USERNAME, PASSWORD)
_OPTIONS = (BASE_URL, DEFAULT_DATABASE, *_LOGIN)


class JdbcCatalog:
    """A server."""

    default_database: str

    def __init__(self, base: str, options: TableOptions) -> None:
        self._base = base.rstrip("/")
        self._login = {o.key: options.get(o) for o in (USERNAME, PASSWORD)}
        self._open: dict[str, Database] = {}
        self.default_database = options.required(DEFAULT_DATABASE)

    def databases(self) -> list[str]:
        found = self._database(self.default_database).rows(
            "SELECT datname FROM pg_database WHERE NOT datistemplate AND datallowconn "
            "AND has_database_privilege(oid, 'CONNECT') ORDER BY 1"
        )
        return [name for (name,) in found]

    def tables(self, database: str) -> list[str]:
        there = self._database(database)
        return [self.listed(f"{schema}.{name}") for schema in there.schemas() for name in there.tables(schema)]

    def listed(self, name: str) -> str:
        """`public` is left out."""
        return name.removeprefix(f"{PUBLIC}.")

    def table(self, database: str, name: str) -> ForeignTable:
        there = self._database(database)
        options = {"connector": "jdbc", URL.key: self._url(database), TABLE.key: name, **self._login}
        return foreign(there.table(*split_name(name, PUBLIC, '"')), options)

    def create_table(self, database: str, name: str, table: ForeignTable) -> None:
        self._database(database).create(*split_name(name, PUBLIC, '"'), table)

    def create_database(self, name: str) -> None:
        raise cannot_change("PostgreSQL", "databases")

    def drop_database(self, name: str) -> None:
        raise cannot_change("PostgreSQL", "databases")

    def change_table(self, database: str, name: str, before: ForeignTable, after: ForeignTable) -> None:
        raise cannot_change("PostgreSQL", "columns of tables")

    def drop_table(self, database: str, name: str) -> None:
        self._database(database).drop(*split_name(name, PUBLIC, '"'))

    def _url(self, database: str) -> str:
        return f"{self._base}/{quote(database, safe='')}"

    def _database(self, name: str) -> Database:
        if name not in self._open:
            options = TableOptions(
                {URL.key: self._url(name), **self._login}, "catalog type 'jdbc'", (URL, USERNAME, PASSWORD)
            )
            self._open[name] = Database(read_address(options))
        return self._open[name]


def _open(request: CatalogRequest) -> JdbcCatalog | _mysql.MysqlCatalog:
    given = {k: v for k, v in request.options.items() if k != "type"}
    options = TableOptions(given, "catalog type 'jdbc'", _OPTIONS)
    base = options.required(BASE_URL)
    if base.startswith(("jdbc:mysql:", "jdbc:mariadb:")):
        return _mysql.of_server(
            base, options.required(DEFAULT_DATABASE), {o.key: given[o.key] for o in _LOGIN if o.key in given}
        )
    catalog = JdbcCatalog(base, options)
    catalog.databases()
    return catalog


JDBC_CATALOG = CatalogFactory(
    name="jdbc",
    document="the databases of a server of PostgreSQL, MySQL or MariaDB, as in Flink, to read, write and look up",
    open=_open,
    options=_OPTIONS,
)
