"""The catalog `clickhouse`: the databases of a server, their tables and views.

    CREATE CATALOG events WITH ('type' = 'clickhouse', 'url' = 'http://host:8123/web', 'username' = 'me', 'password' = '..')

The sorting key of a ReplacingMergeTree is the PRIMARY KEY here, because rows replace each other by it. Columns of versions and deletes
are the engine's, and are not shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from connectors.clickhouse.columns import quoted, spelled, text_literal
from connectors.clickhouse.described import Relation, described, names_of
from connectors.clickhouse.server import ADDRESS_OPTIONS, Server, read_server
from connectors.clickhouse.table import table_options
from connectors.databases.making import cannot_change, column_definitions
from connectors.databases.names import split_name
from connectors.databases.options import TABLE
from connectors.options import TableOptions
from runtime.core.schema import Field, Schema
from runtime.spi.catalog import CatalogFactory, CatalogRequest, ForeignTable
from runtime.spi.registry import TableRequest

__all__ = ["CLICKHOUSE_CATALOG", "ClickHouseCatalog", "described_table"]

_OWN = frozenset({"INFORMATION_SCHEMA", "information_schema", "system"})
_VERSION, _DELETED = "version", "is_deleted"


def foreign(relation: Relation, options: Mapping[str, str]) -> ForeignTable:
    """A table there as one of the engine. Raises ConnectorError E3164 for a column of which there is no type here."""
    replacing = relation.kind == "ReplacingMergeTree"
    hidden = relation.arguments if replacing else []
    shown = [c for c in relation.columns if c.name not in hidden]
    names = [c.name for c in shown]
    key = tuple(relation.sorted_by) if replacing and set(relation.sorted_by) <= set(names) else ()
    fields = [Field(c.name, c.type.with_nullable(c.nullable and c.name not in key)) for c in shown]
    comments = {c.name: c.comment for c in shown if c.comment}
    return ForeignTable(Schema(tuple(fields)), options, key, relation.comment or None, comments)


class ClickHouseCatalog:
    """A server. `options`: of its tables, without a database and a table."""

    def __init__(self, server: Server, options: Mapping[str, str]) -> None:
        self._server = server
        self._options = {"connector": "clickhouse", **options}
        self.default_database = server.database

    def databases(self) -> list[str]:
        found = self._server.asked("SELECT name FROM system.databases ORDER BY name")
        return [name for row in found if (name := row["name"].decode()) not in _OWN]

    def tables(self, database: str) -> list[str]:
        return names_of(self._server, database)

    def table(self, database: str, name: str) -> ForeignTable:
        # The table is named with its database, whatever the URL says.
        named = ".".join(f"`{part}`" if "." in part else part for part in (database, name))
        return foreign(described(self._server, database, name), {**self._options, TABLE.key: named})

    def create_database(self, name: str) -> None:
        self._server.run(f"CREATE DATABASE {quoted(name)}")

    def drop_database(self, name: str) -> None:
        self._server.run(f"DROP DATABASE {quoted(name)}")

    def create_table(self, database: str, name: str, table: ForeignTable) -> None:
        """Rows of a PRIMARY KEY replace each other; others are only added, each insert once."""
        columns = column_definitions("ClickHouse", replace(table, primary_key=()), quoted, spelled, _tails(table))
        engine, order = "MergeTree", "tuple()"
        settings = " SETTINGS non_replicated_deduplication_window = 10000"
        if table.primary_key:
            columns += f", {quoted(_VERSION)} UInt64, {quoted(_DELETED)} UInt8"
            engine = f"ReplacingMergeTree({quoted(_VERSION)}, {quoted(_DELETED)})"
            order, settings = f"({', '.join(map(quoted, table.primary_key))})", ""
        comment = f" COMMENT {text_literal(table.comment)}" if table.comment else ""
        self._server.run(
            f"CREATE TABLE {quoted(database)}.{quoted(name)} ({columns}) ENGINE = {engine} ORDER BY {order}{settings}{comment}"
        )

    def drop_table(self, database: str, name: str) -> None:
        self._server.run(f"DROP TABLE IF EXISTS {quoted(database)}.{quoted(name)}")

    def change_table(self, database: str, name: str, before: ForeignTable, after: ForeignTable) -> None:
        raise cannot_change("ClickHouse", "columns of tables")


def _tails(table: ForeignTable) -> Mapping[str, str]:
    return {name: f" COMMENT {text_literal(text)}" for name, text in table.column_comments.items()}


def described_table(request: TableRequest) -> ForeignTable:
    """A table that is declared without columns, as the server describes it."""
    options = table_options(request)
    server = read_server(options)
    return foreign(described(server, *split_name(options.required(TABLE), server.database, "`")), request.options)


def _open(request: CatalogRequest) -> ClickHouseCatalog:
    given = {k: v for k, v in request.options.items() if k != "type"}
    server = read_server(TableOptions(given, "catalog type 'clickhouse'", ADDRESS_OPTIONS))
    catalog = ClickHouseCatalog(server, given)
    catalog.databases()
    return catalog


CLICKHOUSE_CATALOG = CatalogFactory(
    name="clickhouse",
    document="the databases of a server of ClickHouse, to read, write and look up",
    open=_open,
    options=ADDRESS_OPTIONS,
)
