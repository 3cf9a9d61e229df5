"""The connector `postgres`: a table or view of PostgreSQL as source, sink and lookup table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from connectors.databases.asking import Asking, ServedTable
from connectors.databases.names import split_name
from connectors.databases.options import COMPATIBLE, PARALLEL, TABLE, TABLE_OPTIONS, read_delivering, read_partition
from connectors.formats.held import check_held
from connectors.kit.prefetch import Fetched, PrefetchingReader
from connectors.options import TableOptions, physical_part
from connectors.postgres.address import ADDRESS_OPTIONS, Address, read_address
from connectors.postgres.asking import asking
from connectors.postgres.commits import PostgresCommits, PostgresTransactions
from connectors.postgres.connection import answered
from connectors.postgres.reading import TableReader, fetch
from runtime.core.options import text_option
from runtime.core.rooms import Room
from runtime.spi.reader import ReadContext
from runtime.spi.registry import ConnectorFactory, TableRequest
from runtime.spi.source import Split

if TYPE_CHECKING:
    import connectors.postgres.catalog as _catalog
else:
    _catalog = Room("connectors.postgres.catalog")

__all__ = ["OPTIONS", "POSTGRES", "SCHEMA", "PostgresTable", "postgres_table"]

SCHEMA = text_option("schema-name", "", "the schema of the table; without it that of 'table-name', or 'public'")
OPTIONS = (*ADDRESS_OPTIONS, SCHEMA, *TABLE_OPTIONS)
_QUICK_SECONDS = 2
"""How long planning waits for a connection."""


@dataclass(frozen=True)
class PostgresTable(ServedTable):
    """A table of PostgreSQL. `names`: schema and table."""

    connector = "postgres"
    dialect = "postgres"

    address: Address = field(kw_only=True)

    def place(self) -> str:
        return f"{self.address}/{'.'.join(self.names)}"

    def counted(self) -> float | None:
        found = answered(
            replace(self.address, timeout=_QUICK_SECONDS),
            "SELECT sum(c.reltuples)::float8 FROM pg_class AS c WHERE c.reltuples >= 0 AND c.oid IN (WITH RECURSIVE tree AS ("
            "SELECT c.oid FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace "
            "WHERE n.nspname = %s AND c.relname = %s AND c.relkind IN ('r', 'm', 'p') UNION "
            "SELECT i.inhrelid FROM pg_inherits AS i JOIN tree AS t ON i.inhparent = t.oid) SELECT oid FROM tree)",
            self.names,
        )
        return found[0][0]

    def open(self, split: Split, context: ReadContext) -> PrefetchingReader:
        return TableReader(self.place(), self.fetched, context, bounded=True)

    def fetched(self, position: Any, stop: Any) -> Iterator[Fetched]:
        return fetch(self, position, stop)

    def asking(self) -> Asking:
        return asking()

    def commits(self, job: str) -> PostgresCommits:
        return PostgresCommits(self, job)

    def transactions(self) -> PostgresTransactions:
        return PostgresTransactions(self)


def postgres_table(request: TableRequest, connector: str = "postgres") -> PostgresTable:
    """The table that options describe; raises OptionError."""
    check_held(f"connector '{connector}'", request.schema)
    options = table_options(request, connector)
    address, names = table_names(options)
    return PostgresTable(
        schema=physical_part(request),
        primary_key=request.primary_key,
        name=request.name,
        table=".".join(names),
        partition=read_partition(options),
        parallel=max(1, options.get(PARALLEL)),
        delivering=read_delivering(options),
        address=address,
        names=names,
    )


def table_options(request: TableRequest, connector: str) -> TableOptions:
    """The options of a table; those of Flink's `jdbc` that mean nothing here are for that connector alone."""
    known = OPTIONS if connector == "postgres" else (*OPTIONS, *COMPATIBLE)
    return TableOptions(request.options, f"connector '{connector}'", known)


def table_names(options: TableOptions) -> tuple[Address, tuple[str, str]]:
    """The database, and schema and name of the table."""
    address, name = read_address(options), options.required(TABLE)
    schema = options.get(SCHEMA)
    return address, (schema, name) if schema else split_name(name, address.schema, '"')


POSTGRES = ConnectorFactory(
    name="postgres",
    document="a table of PostgreSQL: read in one snapshot, written exactly once, looked up by key",
    source=postgres_table,
    sink=postgres_table,
    lookup=postgres_table,
    options=OPTIONS,
    check=postgres_table,
    infer=lambda request: _catalog.described_table(request),
)
