"""A table of Iceberg as a sink: appends, upserts by key, overwrites; exactly once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyiceberg.table import Table

import connectors.iceberg.upkeep as upkeep
from connectors.iceberg.commits import LakeCommits, OverwritingCommits
from connectors.iceberg.library import loaded
from connectors.iceberg.options import BRANCH, SPOOL_SIZE, TARGET_SIZE, UPSERT, Address
from connectors.iceberg.staging import FileStaging, Staged, UpsertStaging
from connectors.iceberg.types import of_file
from connectors.kit.commits import Replacing, StagedWriter
from connectors.options import TableOptions, memory_limit, physical_part
from runtime.core.changelog import APPEND, ChangelogMode
from runtime.core.errors import OptionError, UnsupportedError
from runtime.core.schema import Schema
from runtime.spi.abilities import CompactedFiles
from runtime.spi.registry import TableRequest
from runtime.spi.sink import Delivery

__all__ = ["IcebergSink", "sink_of"]

_WRITE = "write."


@dataclass(frozen=True)
class IcebergSink:
    """A table to write. `upserts`: rows take the place of those with their key. `overwrites`: they take the place of all, or of
    those in their partitions, and in `partition`."""

    name: str
    address: Address
    schema: Schema
    primary_key: tuple[str, ...]
    branch: str
    upserts: bool
    target: int
    most: int
    properties: tuple[tuple[str, str], ...] = ()
    overwrites: bool = False
    everything: bool = False
    partition: tuple[tuple[str, Any], ...] | None = field(default=None, compare=False)

    @property
    def delivery(self) -> Delivery:
        return "exactly-once"

    def accepts(self, requested: ChangelogMode) -> ChangelogMode:
        if requested.is_append_only or not self.upserts:
            return APPEND
        return ChangelogMode(
            update_after=requested.update_after, delete=requested.delete, key_only_deletes=requested.delete
        )

    def open_writer(self, job: str) -> StagedWriter[list[Staged]]:
        """Raises ConnectorError E3191 when the table cannot be reached, UnsupportedError when it cannot hold the rows."""
        table = self._checked(loaded(self.address))
        if self.overwrites:
            commits = OverwritingCommits(
                self.address, self.branch, job, self.everything, dict(self.partition) if self.partition else None
            )
            return Replacing(self.name, FileStaging(table, self.schema, self.address.place, self.target), commits)
        staging = (
            UpsertStaging(table, self.schema, self.primary_key, self.address.place, self.most)
            if self.upserts
            else FileStaging(table, self.schema, self.address.place, self.target)
        )
        return StagedWriter(self.name, staging, LakeCommits(self.address, self.branch, job))

    def _checked(self, table: Table) -> Table:
        version, place = table.metadata.format_version, self.address.place
        if version > 2:
            raise UnsupportedError(
                f"{place} has format version {version} of Iceberg, which is read and not written",
                code="E1616",
                hint="make it with 'format-version' = '2'",
            )
        if self.upserts and version < 2:
            raise UnsupportedError(
                f"{place} has format version 1 of Iceberg, in which no row can be deleted",
                code="E1616",
                hint=f"ALTER TABLE {self.address.table} SET ('format-version' = '2')",
            )
        fields = {f.name: f for f in table.schema().fields}
        of_file(self.schema, table.schema(), place)
        for name, found in fields.items():
            if found.required and (
                name not in self.schema.names or self.schema[self.schema.index_of(name)].type.nullable
            ):
                raise UnsupportedError(
                    f'column "{name}" of {place} is required there, and may be NULL here',
                    hint="declare it NOT NULL, and give it a value",
                )
        if self.properties:
            known = {**table.metadata.properties, **dict(self.properties)}
            table.metadata = table.metadata.model_copy(update={"properties": known})
        return table

    def with_overwrite(self, partition: Mapping[str, Any]) -> IcebergSink:
        if self.upserts and self.schema.names and self.primary_key:
            # All rows are new ones: what has their keys goes with the rest.
            return replace(self, upserts=False, overwrites=True, partition=tuple(partition.items()) or None)
        return replace(self, overwrites=True, partition=tuple(partition.items()) or None)

    def with_replacement(self) -> IcebergSink:
        return replace(self, upserts=False, overwrites=True, everything=True)

    def compact(self, target: int) -> Sequence[CompactedFiles]:
        return upkeep.compact(self.address, self.branch, target)

    def expire_versions(self, older_than: int, retained: int) -> tuple[int, int]:
        return upkeep.expire_snapshots(self.address, older_than, retained)

    def remove_orphan_files(self, older_than: int, dry_run: bool) -> Sequence[str]:
        return upkeep.remove_orphan_files(self.address, older_than, dry_run)

    def describe(self) -> dict[str, Any]:
        mode = {"overwrite": True} if self.overwrites else {"upsert": True} if self.upserts else {}
        return {"connector": "iceberg", "table": self.address.place, **mode}


def sink_of(request: TableRequest, address: Address, options: TableOptions) -> IcebergSink:
    """The sink of a table. Raises OptionError for upserts without a key."""
    upserts = options.get(UPSERT) if options.has(UPSERT) else bool(request.primary_key)
    if upserts and not request.primary_key:
        raise OptionError(
            f"option '{UPSERT.key}' needs a PRIMARY KEY",
            code="E1504",
            hint="it says which row takes the place of which",
        )
    return IcebergSink(
        request.name,
        address,
        physical_part(request),
        request.primary_key,
        options.get(BRANCH),
        upserts,
        memory_limit(options, TARGET_SIZE),
        memory_limit(options, SPOOL_SIZE),
        tuple(sorted((k, v) for k, v in request.options.items() if k.startswith(_WRITE))),
    )
