"""The connector `mysql`: a table or view of MySQL or MariaDB as source, sink and lookup table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from connectors.databases.asking import Asking, ServedTable
from connectors.databases.names import split_name
from connectors.databases.options import COMPATIBLE, PARALLEL, TABLE, TABLE_OPTIONS, read_delivering, read_partition
from connectors.formats.held import check_held
from connectors.kit.prefetch import Fetched
from connectors.mysql.address import ADDRESS_OPTIONS, Address, read_address
from connectors.mysql.asking import asking
from connectors.mysql.commits import MysqlCommits, MysqlTransactions
from connectors.mysql.connection import connected, literal
from connectors.mysql.reading import fetch
from connectors.options import TableOptions, physical_part
from runtime.core.rooms import Room
from runtime.spi.registry import ConnectorFactory, TableRequest

if TYPE_CHECKING:
    import connectors.mysql.catalog as _catalog
else:
    _catalog = Room("connectors.mysql.catalog")

__all__ = ["MYSQL", "OPTIONS", "MysqlTable", "mysql_table", "table_options"]

OPTIONS = (*ADDRESS_OPTIONS, *TABLE_OPTIONS)
_QUICK_SECONDS = 2
"""How long planning waits for a connection."""


@dataclass(frozen=True)
class MysqlTable(ServedTable):
    """A table of MySQL. `names`: database and table."""

    connector = "mysql"
    dialect = "mysql"

    address: Address = field(kw_only=True)

    def place(self) -> str:
        return f"{self.address.host}:{self.address.port}/{'.'.join(self.names)}"

    def counted(self) -> float | None:
        with connected(replace(self.address, timeout=_QUICK_SECONDS)) as connection:
            found = connection.asked(
                f"SELECT TABLE_ROWS FROM information_schema.TABLES WHERE TABLE_SCHEMA = {literal(self.names[0])} "
                f"AND TABLE_NAME = {literal(self.names[1])}"
            )
        return None if not found or found[0][0] is None else float(found[0][0])

    def fetched(self, position: Any, stop: Any) -> Iterator[Fetched]:
        return fetch(self, position, stop)

    def asking(self) -> Asking:
        return asking()

    def commits(self, job: str) -> MysqlCommits:
        return MysqlCommits(self, job)

    def transactions(self) -> MysqlTransactions:
        return MysqlTransactions(self)


def mysql_table(request: TableRequest, connector: str = "mysql") -> MysqlTable:
    """The table that options describe; raises OptionError."""
    check_held(f"connector '{connector}'", request.schema)
    options = table_options(request, connector)
    address = read_address(options)
    names = split_name(options.required(TABLE), address.database, "`")
    return MysqlTable(
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
    known = OPTIONS if connector == "mysql" else (*OPTIONS, *COMPATIBLE)
    return TableOptions(request.options, f"connector '{connector}'", known)


MYSQL = ConnectorFactory(
    name="mysql",
    document="a table of MySQL or MariaDB: read in one snapshot, written exactly once, looked up by key",
    source=mysql_table,
    sink=mysql_table,
    lookup=mysql_table,
    options=OPTIONS,
    check=mysql_table,
    infer=lambda request: _catalog.described_table(request),
)
