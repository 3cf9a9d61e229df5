"""The connector `postgres-cdc`: the changes of a table of PostgreSQL, by logical replication."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from connectors.formats.held import check_held
from connectors.options import TableOptions, physical_part
from connectors.postgres.cdc.cells import fits
from connectors.postgres.cdc.options import CDC_OPTIONS, CdcOptions, read_options
from connectors.postgres.cdc.reader import PostgresCdcReader
from connectors.postgres.cdc.setup import Followed, drop_slot
from runtime.core.changelog import APPEND, RETRACT, ChangelogBatch, ChangelogMode, Kinds
from runtime.core.errors import ConnectorError, OptionError, did_you_mean
from runtime.core.schema import Schema
from runtime.core.types import STRING, DataType, TypeRoot, timestamp_ltz
from runtime.spi.reader import ReadContext
from runtime.spi.registry import ConnectorFactory, TableRequest
from runtime.spi.source import Split
from runtime.spi.statistics import TableStatistics

__all__ = ["POSTGRES_CDC", "PostgresCdcSource"]

METADATA: dict[str, DataType] = {
    "database_name": STRING.not_null(),
    "schema_name": STRING.not_null(),
    "table_name": STRING.not_null(),
    "op_ts": timestamp_ltz(3).not_null(),
}
_UPSERT = ChangelogMode(update_after=True, delete=True, key_only_deletes=True)
_2000_MICROS = 946_684_800_000_000
_AS_TEXT = "declare it as STRING, which holds every value as PostgreSQL writes it"
_LACKING: dict[TypeRoot, str] = dict.fromkeys(
    (TypeRoot.MAP, TypeRoot.MULTISET, TypeRoot.ROW, TypeRoot.INTERVAL_MONTH, TypeRoot.INTERVAL_SECOND), _AS_TEXT
)


@dataclass(frozen=True)
class PostgresCdcSource:
    """One table.

    Attributes:
        physical: all of its columns that are declared.
        schema: those that are read, and metadata.
        key: the declared primary key.
        metadata: (column, metadata key).
    """

    name: str
    physical: Schema
    schema: Schema
    key: tuple[str, ...]
    metadata: tuple[tuple[str, str], ...]
    options: CdcOptions

    @property
    def changelog_mode(self) -> ChangelogMode:
        if self.bounded:
            return APPEND
        return _UPSERT if self.options.upsert else RETRACT

    @property
    def bounded(self) -> bool:
        return self.options.start == "snapshot"

    @property
    def readable_again(self) -> bool:
        """A slot gives its changes once."""
        return self.bounded

    @property
    def place(self) -> str:
        """The table there, for messages."""
        return f"{self.options.schema}.{self.options.table}"

    def statistics(self) -> TableStatistics:
        return TableStatistics()

    def splits(self) -> list[Split]:
        return [Split("table")]

    def watch_splits(self, wake: Any) -> Any:
        return lambda: None  # there are no others

    def open(self, split: Split, context: ReadContext) -> PostgresCdcReader:
        return PostgresCdcReader(self, context)

    def release(self) -> list[tuple[str, str]]:
        """Remove the slot, and the publication that was made with it."""
        options = self.options
        return drop_slot(options.address, options.slot, None if options.publication else options.published)

    def with_columns(self, names: Sequence[str]) -> PostgresCdcSource:
        return replace(self, schema=self.schema.select(tuple(self.schema.index_of(n) for n in names)))

    def describe(self) -> dict[str, Any]:
        return {
            "connector": "postgres-cdc",
            "table": self.place,
            "database": str(self.options.address),
            "columns": list(self.schema.names),
            "options": {
                "database": str(self.options.address),
                "table": self.place,
                "start": self.options.start,
                "changelog-mode": "upsert" if self.options.upsert else "all",
            },
        }

    def inner_schema(self, more: Sequence[str]) -> Schema:
        """The columns that PostgreSQL is asked for: those that are read, the key, and some more."""
        names = [n for n in self.schema.names if self.physical.index_of(n) >= 0]
        names += [n for n in dict.fromkeys((*self.key, *more)) if n not in names]
        return Schema(tuple(self.physical[self.physical.index_of(n)] for n in names or self.physical.names[:1]))

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

    def batch(
        self,
        columns: dict[str, pa.Array],
        count: int,
        micros: npt.NDArray[np.int64] | None,
        kinds: Kinds | None,
    ) -> ChangelogBatch:
        """Rows with the columns of the schema. `micros`: when each was committed, since 2000; None for a snapshot, whose
        rows are of 1970, as in Flink CDC."""
        known = dict(self.metadata)
        constants = {
            "database_name": self.options.address.database,
            "schema_name": self.options.schema,
            "table_name": self.options.table,
        }
        given: list[pa.Array] = []
        for field in self.schema:
            key = known.get(field.name)
            if key is None:
                given.append(columns[field.name])
            elif key in constants:
                given.append(pa.repeat(pa.scalar(constants[key], field.type.arrow), count))
            else:
                moments = np.zeros(count, np.int64) if micros is None else (micros + _2000_MICROS) // 1000 * 1000
                given.append(pa.array(moments).cast(field.type.arrow))
        return ChangelogBatch.of(given, self.schema, kinds)


def _source(request: TableRequest) -> PostgresCdcSource:
    check_held("connector 'postgres-cdc'", request.schema, _LACKING)
    options = read_options(TableOptions(request.options, "connector 'postgres-cdc'", CDC_OPTIONS))
    for _, key in request.metadata:
        if key not in METADATA:
            raise OptionError(f"connector 'postgres-cdc' has no metadata '{key}'", hint=did_you_mean(key, METADATA))
        if key == "op_ts" and not options.upsert and options.start != "snapshot":
            raise OptionError(
                "metadata 'op_ts' needs 'changelog-mode' = 'upsert'",
                hint="of an old row, which 'all' gives, too, PostgreSQL does not tell when it was committed",
            )
    if options.upsert and not request.primary_key:
        raise OptionError(
            f"{request.name} needs a PRIMARY KEY: 'changelog-mode' = 'upsert' gives rows by key",
            code="E1504",
            hint="declare PRIMARY KEY (..) NOT ENFORCED",
        )
    physical = physical_part(request)
    return PostgresCdcSource(request.name, physical, request.schema, request.primary_key, request.metadata, options)


POSTGRES_CDC = ConnectorFactory(
    name="postgres-cdc",
    document="the rows of a table of PostgreSQL, and all of its changes",
    source=_source,
    metadata=METADATA,
    options=CDC_OPTIONS,
)
