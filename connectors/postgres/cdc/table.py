"""The connector `postgres-cdc`: the changes of a table of PostgreSQL, by logical replication."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from connectors.databases.followed import UNHELD, FollowedTable, check_followed
from connectors.formats.held import check_held
from connectors.options import TableOptions, physical_part
from connectors.postgres.cdc.cells import fits
from connectors.postgres.cdc.options import CDC_OPTIONS, CdcOptions, read_options
from connectors.postgres.cdc.reader import PostgresCdcReader
from connectors.postgres.cdc.setup import Followed, drop_slot
from runtime.core.changelog import ChangelogBatch, Kinds
from runtime.core.errors import ConnectorError, did_you_mean
from runtime.core.types import STRING, DataType, timestamp_ltz
from runtime.spi.reader import ReadContext
from runtime.spi.registry import ConnectorFactory, TableRequest
from runtime.spi.source import Split

__all__ = ["POSTGRES_CDC", "PostgresCdcSource"]

METADATA: dict[str, DataType] = {
    "database_name": STRING.not_null(),
    "schema_name": STRING.not_null(),
    "table_name": STRING.not_null(),
    "op_ts": timestamp_ltz(3).not_null(),
    "row_kind": STRING.not_null(),
}
_2000_MICROS = 946_684_800_000_000


@dataclass(frozen=True)
class PostgresCdcSource(FollowedTable):
    """One table."""

    options: CdcOptions
    connector = "postgres-cdc"

    @property
    def constants(self) -> dict[str, str]:
        """Metadata that is the same in all rows."""
        return {
            "database_name": self.options.address.database,
            "schema_name": self.options.schema,
            "table_name": self.options.table,
        }

    @property
    def readable_again(self) -> bool:
        """A slot gives its changes once."""
        return self.bounded

    @property
    def place(self) -> str:
        """The table there, for messages."""
        return f"{self.options.schema}.{self.options.table}"

    def open(self, split: Split, context: ReadContext) -> PostgresCdcReader:
        return PostgresCdcReader(self, context)

    def release(self) -> list[tuple[str, str]]:
        """Remove the slot, and the publication that was made with it."""
        options = self.options
        return drop_slot(options.address, options.slot, None if options.publication else options.published)

    def check_columns(self, found: Followed) -> None:
        """Raises ConnectorError E3163 for columns that the table there does not have so, E3171 for a key that is not its."""
        for field in self.physical:
            if field.name not in found.types:
                raise ConnectorError(
                    f"{self.place} has no column {field.name}",
                    code="E3163",
                    hint=did_you_mean(field.name, list(found.types)) or "declare the columns that the table has",
                )
            if not fits(field.type, found.types[field.name]):
                raise ConnectorError(
                    f"column {field.name} of {self.place} is declared as {field.type}, which does not hold its values",
                    code="E3163",
                    hint="declare the type that the column has there, or STRING",
                )
        if self.options.upsert and not self.bounded and found.identity is not None and {*found.identity} != {*self.key}:
            raise ConnectorError(
                f"{self.place} has the key ({', '.join(found.identity)}), not ({', '.join(self.key)})",
                code="E3171",
                hint="declare PRIMARY KEY (..) NOT ENFORCED as it is there, or use REPLICA IDENTITY FULL",
            )

    def changed(
        self, columns: dict[str, pa.Array], count: int, micros: npt.NDArray[np.int64], kinds: Kinds
    ) -> ChangelogBatch:
        """Changes. `micros`: when each was committed, since 2000."""
        return self.batch(columns, count, micros + _2000_MICROS, kinds, self.constants)


def _source(request: TableRequest) -> PostgresCdcSource:
    check_held("connector 'postgres-cdc'", request.schema, UNHELD)
    options = read_options(TableOptions(request.options, "connector 'postgres-cdc'", CDC_OPTIONS))
    check_followed("postgres-cdc", request, METADATA, upsert=options.upsert, bounded=options.start == "snapshot")
    physical = physical_part(request)
    return PostgresCdcSource(request.name, physical, request.schema, request.primary_key, request.metadata, options)


POSTGRES_CDC = ConnectorFactory(
    name="postgres-cdc",
    document="the rows of a table of PostgreSQL, and all of its changes",
    source=_source,
    metadata=METADATA,
    options=CDC_OPTIONS,
)
