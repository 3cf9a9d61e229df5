"""The connector `mysql-cdc`: the changes of a table of MySQL or MariaDB, by the binary log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from connectors.databases.followed import UNHELD, FollowedTable, check_followed
from connectors.databases.parts import ColumnThere
from connectors.formats.held import check_held
from connectors.mysql.cdc.options import CDC_OPTIONS, CdcOptions, read_options
from connectors.mysql.cdc.reader import MysqlCdcReader
from connectors.options import TableOptions, physical_part
from runtime.core.errors import ConnectorError
from runtime.core.types import STRING, DataType, timestamp_ltz
from runtime.spi.reader import ReadContext
from runtime.spi.registry import ConnectorFactory, TableRequest
from runtime.spi.source import Split

__all__ = ["MYSQL_CDC", "MysqlCdcSource"]

METADATA: dict[str, DataType] = {
    "database_name": STRING.not_null(),
    "table_name": STRING.not_null(),
    "op_ts": timestamp_ltz(3).not_null(),
    "row_kind": STRING.not_null(),
}


@dataclass(frozen=True)
class MysqlCdcSource(FollowedTable):
    """A table, or all whose names match."""

    options: CdcOptions
    connector = "mysql-cdc"

    def constants_of(self, name: tuple[str, str]) -> dict[str, str]:
        """Metadata that is the same in all rows of a table."""
        return dict(zip(("database_name", "table_name"), name, strict=True))

    @property
    def place(self) -> str:
        """The table there, or the tables, for messages."""
        return f"{self.options.databases.text}.{self.options.tables.text}"

    def open(self, split: Split, context: ReadContext) -> MysqlCdcReader:
        return MysqlCdcReader(self, context)

    def check_columns(self, place: str, there: Callable[[str], ColumnThere]) -> None:
        """Raises ConnectorError E3163 for columns that a table there does not have so."""
        for field in self.physical:
            column = there(field.name)
            if not column.may_be(field.type):
                raise ConnectorError(
                    f"column {field.name} of {place} is {column.declared} there, which cannot be read as {field.type}",
                    code="E3163",
                    hint="declare the type that the column has there; columns of shapes are left out",
                )


def _source(request: TableRequest) -> MysqlCdcSource:
    check_held("connector 'mysql-cdc'", request.schema, UNHELD)
    options = read_options(TableOptions(request.options, "connector 'mysql-cdc'", CDC_OPTIONS))
    check_followed("mysql-cdc", request, METADATA, upsert=options.upsert, bounded=options.start == "snapshot")
    physical = physical_part(request)
    return MysqlCdcSource(request.name, physical, request.schema, request.primary_key, request.metadata, options)


MYSQL_CDC = ConnectorFactory(
    name="mysql-cdc",
    document="the rows of a table of MySQL or MariaDB, and all of its changes",
    source=_source,
    metadata=METADATA,
    options=CDC_OPTIONS,
)
