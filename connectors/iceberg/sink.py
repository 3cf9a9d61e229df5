"""A table of Iceberg as a sink: appends, upserts by key, overwrites; exactly once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyiceberg.table import Table

import connectors.iceberg.upkeep as upkeep
from connectors.iceberg.commits import LakeCommits, OverwritingCommits
from connectors.iceberg.library import loaded
from connectors.iceberg.options import BRANCH, SPOOL_SIZE, TARGET_SIZE, UPSERT, Address
from connectors.iceberg.staging import FileStaging, Staged, UpsertStaging
from connectors.iceberg.types import of_file
from connectors.kit.commits import Replacing, StagedWriter
from connectors.lakes.sink import LakeSink, LakeTaskWriter, is_keyed
from connectors.options import TableOptions, memory_limit, physical_part
from runtime.core.errors import UnsupportedError
from runtime.spi.abilities import CompactedFiles
from runtime.spi.registry import TableRequest
from runtime.spi.writer import TaskWriter

__all__ = ["IcebergSink", "sink_of"]

_WRITE = "write."


@dataclass(frozen=True)
class IcebergSink(LakeSink):
    """A table to write. `properties`: of the table, for what is written here."""

    connector = "iceberg"

    address: Address
    branch: str
    properties: tuple[tuple[str, str], ...]

    def open_writer(self, job: str) -> StagedWriter[list[Staged]]:
        """Raises ConnectorError E3191 when the table cannot be reached, UnsupportedError when it cannot hold the rows."""
        if self.overwrites:
            commits = OverwritingCommits(self.address, self.branch, job, self.everything, self.given_partition)
            return Replacing(self.name, self.files(LakeTaskWriter(self)), commits)
        commits = LakeCommits(self.address, self.branch, job)
        if not self.upserts:
            return StagedWriter(self.name, self.files(LakeTaskWriter(self)), commits)
        table = self._checked(loaded(self.address))
        staging = UpsertStaging(table, self.schema, self.primary_key, self.address.place, self.most)
        return StagedWriter(self.name, staging, commits)

    def files(self, writer: TaskWriter | None = None) -> FileStaging:
        table = self._checked(loaded(self.address))
        return FileStaging(table, self.schema, self.address.place, self.target, writer)

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

    def compact(self, target: int) -> Sequence[CompactedFiles]:
        return upkeep.compact(self.address, self.branch, target)

    def expire_versions(self, older_than: int, retained: int) -> tuple[int, int]:
        return upkeep.expire_snapshots(self.address, older_than, retained)

    def remove_orphan_files(self, older_than: int, dry_run: bool) -> Sequence[str]:
        return upkeep.remove_orphan_files(self.address, older_than, dry_run)


def sink_of(request: TableRequest, address: Address, options: TableOptions) -> IcebergSink:
    """The sink of a table. Raises OptionError for upserts without a key."""
    return IcebergSink(
        request.name,
        address.place,
        physical_part(request),
        request.primary_key,
        is_keyed(request, options, UPSERT),
        memory_limit(options, TARGET_SIZE),
        memory_limit(options, SPOOL_SIZE),
        address,
        options.get(BRANCH),
        tuple(sorted((k, v) for k, v in request.options.items() if k.startswith(_WRITE))),
    )
