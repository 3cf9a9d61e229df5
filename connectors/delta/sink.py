"""A Delta table as a sink: appends, merges by key, overwrites; exactly once. A table that is not there is made."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyarrow.fs import FileSelector, FileType

from connectors.delta.commits import DeltaCommits, MergingCommits, OverwritingCommits
from connectors.delta.library import files_at, is_there, loaded, told
from connectors.delta.options import TARGET_SIZE, UPSERT, Place
from connectors.delta.staging import FileStaging, Staged, UpsertStaging
from connectors.delta.types import arrow_schema, checked_columns
from connectors.kit.commits import SPOOL_SIZE, Replacing, StagedWriter
from connectors.lakes.sink import LakeSink, LakeTaskWriter, is_keyed
from connectors.options import TableOptions, memory_limit, physical_part
from runtime.core.errors import UnsupportedError
from runtime.spi.abilities import CompactedFiles
from runtime.spi.registry import TableRequest
from runtime.spi.writer import TaskWriter

__all__ = ["DeltaSink", "sink_of"]

_HOUR = 3_600_000


@dataclass(frozen=True)
class DeltaSink(LakeSink):
    """A table to write. `partitions`: the columns by which it is partitioned where it is made."""

    connector = "delta"

    place: Place
    partitions: tuple[str, ...]

    def open_writer(self, job: str) -> StagedWriter[list[Staged]]:
        """Raises ConnectorError E3191 when the table cannot be reached, UnsupportedError when it cannot hold the rows."""
        table = self._table()
        partitions = table.metadata().partition_columns
        if self.upserts:
            return StagedWriter(
                self.name,
                UpsertStaging(self.place, self.schema, self.primary_key, self.most),
                MergingCommits(self.place, job, partitions, self.primary_key),
            )
        staging = self._files(table, LakeTaskWriter(self))
        if self.overwrites:
            commits = OverwritingCommits(self.place, job, partitions, self.everything, self.given_partition)
            return Replacing(self.name, staging, commits)
        return StagedWriter(self.name, staging, DeltaCommits(self.place, job, partitions))

    def files(self, writer: TaskWriter | None = None) -> FileStaging:
        return self._files(self._table(), writer)

    def _files(self, table: DeltaTable, writer: TaskWriter | None) -> FileStaging:
        partitions = table.metadata().partition_columns
        return FileStaging(self.place, self.schema, pa.schema(table.schema()), partitions, self.target, writer)

    def _table(self) -> DeltaTable:
        if not is_there(self.place):
            with told(self.place), suppress(DeltaError):
                DeltaTable.create(
                    self.place.path,
                    arrow_schema(self.schema),
                    partition_by=list(self.partitions),
                    storage_options=self.place.plain or None,
                )
        table = loaded(self.place)
        checked_columns(self.schema, table, self.place.path)
        for found in pa.schema(table.schema()):
            here = self.schema.names
            if not found.nullable and (found.name not in here or self.schema[here.index(found.name)].type.nullable):
                raise UnsupportedError(
                    f'column "{found.name}" of {self.place.path} is NOT NULL there, and may be NULL here',
                    hint="declare it NOT NULL, and give it a value",
                )
        return table

    # --- upkeep

    def compact(self, target: int) -> Sequence[CompactedFiles]:
        table = loaded(self.place)
        with told(self.place):
            done = table.optimize.compact(target_size=target)
        if not done["numFilesRemoved"]:
            return []
        return [CompactedFiles("", int(done["numFilesRemoved"]), int(done["numFilesAdded"]), 0)]

    def expire_versions(self, older_than: int, retained: int) -> tuple[int, int]:
        """The log keeps versions for as long as the table's properties say; the files of those that are older go."""
        table = loaded(self.place)
        with told(self.place):
            hours = max(0, -(-(int(time.time() * 1000) - older_than) // _HOUR))
            gone = table.vacuum(retention_hours=hours, dry_run=False, enforce_retention_duration=False, full=False)
            return 0, len(gone)

    def remove_orphan_files(self, older_than: int, dry_run: bool) -> Sequence[str]:
        table = loaded(self.place)
        with told(self.place):
            files: Any = files_at(self.place)
            needed = self._needed(table)
            gone: list[str] = []
            for info in files.get_file_info(FileSelector("", recursive=True)):
                hidden = info.path.startswith(("_delta_log", "_change_data"))
                if info.type is not FileType.File or hidden or info.path in needed:
                    continue
                if info.mtime_ns is not None and info.mtime_ns // 1_000_000 < older_than:
                    gone.append(info.path)
            if not dry_run:
                for path in gone:
                    files.delete_file(path)
            return sorted(gone)

    def _needed(self, table: DeltaTable) -> set[str]:
        """The files of all versions that the log still has."""
        needed: set[str] = set()
        for entry in table.history():
            with suppress(DeltaError):
                version = DeltaTable(
                    self.place.path, version=entry["version"], storage_options=self.place.plain or None
                )
                needed |= {unquote(p) for p in pa.table(version.get_add_actions()).column("path").to_pylist()}
        return needed


def sink_of(request: TableRequest, place: Place, options: TableOptions) -> DeltaSink:
    """The sink of a table. Raises OptionError for upserts without a key."""
    return DeltaSink(
        request.name,
        place.path,
        physical_part(request),
        request.primary_key,
        is_keyed(request, options, UPSERT),
        memory_limit(options, TARGET_SIZE),
        memory_limit(options, SPOOL_SIZE),
        place,
        request.partitioned_by,
    )
