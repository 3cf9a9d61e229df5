"""The connector `mongodb-cdc`: the documents of a collection, and all of its changes."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from connectors.databases.followed import FollowedTable, check_followed
from connectors.kit.prefetch import PrefetchingReader
from connectors.mongodb.cdc.options import CDC_OPTIONS, CdcOptions, read_options
from connectors.mongodb.cdc.reading import read_changes
from connectors.mongodb.values import ID, check_types
from connectors.options import TableOptions, physical_part
from runtime.core.errors import OptionError
from runtime.core.types import STRING, DataType, timestamp_ltz
from runtime.spi.reader import ReadContext
from runtime.spi.registry import ConnectorFactory, TableRequest
from runtime.spi.source import Split

__all__ = ["MONGODB_CDC", "MongoCdcSource"]

METADATA: dict[str, DataType] = {
    "database_name": STRING.not_null(),
    "collection_name": STRING.not_null(),
    "op_ts": timestamp_ltz(3).not_null(),
    "row_kind": STRING.not_null(),
}


@dataclass(frozen=True)
class MongoCdcSource(FollowedTable):
    """One collection."""

    options: CdcOptions
    connector = "mongodb-cdc"

    @property
    def constants(self) -> dict[str, str]:
        """Metadata that is the same in all rows."""
        return {"database_name": self.options.address.database, "collection_name": self.options.address.collection}

    @property
    def place(self) -> str:
        return f"{self.options.address.database}.{self.options.address.collection}"

    def open(self, split: Split, context: ReadContext) -> PrefetchingReader:
        return PrefetchingReader(self.place, functools.partial(read_changes, self), context, bounded=self.bounded)


def _source(request: TableRequest) -> MongoCdcSource:
    """The table that options describe; raises OptionError and UnsupportedError."""
    options = read_options(TableOptions(request.options, "connector 'mongodb-cdc'", CDC_OPTIONS))
    bounded = options.start == "snapshot"
    physical = physical_part(request)
    check_types(physical, request.name)
    if not bounded and request.primary_key != (ID,) and (options.upsert or request.primary_key):
        raise OptionError(
            f"{request.name} needs PRIMARY KEY ({ID}): changes tell which document they are of by its {ID}",
            code="E1504",
            hint=f"declare the column {ID}, and PRIMARY KEY ({ID}) NOT ENFORCED",
        )
    check_followed("mongodb-cdc", request, METADATA, upsert=options.upsert and not bounded, bounded=bounded)
    return MongoCdcSource(request.name, physical, request.schema, request.primary_key, request.metadata, options)


MONGODB_CDC = ConnectorFactory(
    name="mongodb-cdc",
    document="the documents of a collection of MongoDB, and all of its changes",
    source=_source,
    metadata=METADATA,
    options=CDC_OPTIONS,
)
