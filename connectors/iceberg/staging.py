"""Data files that no snapshot has yet, and what names them in a checkpoint: a manifest of Iceberg, as Flink does.

What nobody commits lies there until `CALL sys.remove_orphan_files`.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import (
    _dataframe_to_data_files,  # pyright: ignore[reportPrivateUsage]
    schema_to_pyarrow,
)
from pyiceberg.manifest import (
    DataFile,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    write_manifest,
)
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata

import connectors.lakes.staging as lakes
from connectors.iceberg.library import told
from runtime.core.changelog import DELETE, ChangelogBatch
from runtime.core.schema import Schema
from runtime.spi.writer import TaskWriter

__all__ = ["FileStaging", "Staged", "UpsertStaging", "to_iceberg", "written_files"]


@dataclass(frozen=True)
class Staged:
    """What a commit adds: data files, and the keys (a table of the key's columns) whose older rows they replace."""

    files: list[DataFile]
    keys: pa.Table | None
    leftovers: list[str]
    """What nobody needs behind the commit."""


def to_iceberg(rows: pa.Table, metadata: TableMetadata) -> pa.Table:
    """Rows with the names and types that the library writes; columns that are not there are NULL."""
    wanted = schema_to_pyarrow(metadata.schema(), include_field_ids=False)
    columns = [
        rows.column(field.name).cast(field.type)
        if field.name in rows.column_names
        else pa.nulls(rows.num_rows, field.type)
        for field in wanted
    ]
    return pa.Table.from_arrays(columns, schema=wanted)


def written_files(rows: pa.Table, metadata: TableMetadata, io: FileIO) -> list[DataFile]:
    """Write rows as data files: one, or several, for each partition."""
    if not rows.num_rows:
        return []
    files = list(_dataframe_to_data_files(metadata, to_iceberg(rows, metadata), io))
    for file in files:
        file.spec_id = metadata.default_spec_id
    return files


class FileStaging(lakes.FileStaging[Staged, DataFile]):
    """A `Staging` of rows that are added. `target`: rows of so many bytes go into files at once."""

    def __init__(self, table: Table, schema: Schema, place: str, target: int, writer: TaskWriter | None = None) -> None:
        super().__init__(place, schema.names, target, writer)
        self._table = table

    def telling(self) -> AbstractContextManager[None]:
        return told(self._where)

    def written(self, rows: pa.Table) -> list[DataFile]:
        return written_files(rows, self._table.metadata, self._table.io)

    def remove(self, file: DataFile) -> None:
        self._table.io.delete(file.file_path)

    def text_of(self, files: list[DataFile]) -> str:
        return json.dumps(_named(self._table, files))

    def files_of(self, staged: Staged) -> list[DataFile]:
        return staged.files

    def read(self, found: dict[str, Any]) -> Staged:
        return _read(self._table, found)


class UpsertStaging(lakes.KeyedStaging[Staged]):
    """A `Staging` of changes by key. `most`: bytes of changes between two checkpoints."""

    def __init__(self, table: Table, schema: Schema, key: Sequence[str], place: str, most: int) -> None:
        super().__init__(place, schema.names, key, most)
        self._table = table
        self._key = list(key)

    def telling(self) -> AbstractContextManager[None]:
        return told(self._where)

    def text_of(self, changes: ChangelogBatch) -> str:
        table = self._table
        rows = pa.Table.from_batches([changes.rows])
        files = written_files(rows.filter(pa.array(changes.kinds_or_inserts() != DELETE)), table.metadata, table.io)
        where = table.location_provider().new_metadata_location(f"staged-{uuid.uuid4()}.parquet")
        sink = pa.BufferOutputStream()
        pq.write_table(rows.select(self._key), sink)
        with table.io.new_output(where).create() as output:
            output.write(sink.getvalue().to_pybytes())
        return json.dumps({"keys": where, **_named(table, files)})

    def read(self, found: dict[str, Any]) -> Staged:
        return _read(self._table, found)


def _named(table: Table, files: Sequence[DataFile]) -> dict[str, Any]:
    """Data files in a manifest of their own, and what a checkpoint says of it."""
    if not files:
        return {}
    where = table.location_provider().new_metadata_location(f"staged-{uuid.uuid4()}.avro")
    output = table.io.new_output(where)
    version: Any = 2 if table.metadata.format_version >= 2 else 1
    with write_manifest(version, table.spec(), table.schema(), output, 0, "deflate") as writer:
        for file in files:
            writer.add(ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, snapshot_id=0, data_file=file))
    return {"manifest": where, "bytes": len(output), "spec": files[0].spec_id}


def _read(table: Table, found: dict[str, Any]) -> Staged:
    manifest, keys = found.get("manifest"), found.get("keys")
    files: list[DataFile] = []
    if manifest is not None:
        made = ManifestFile.from_args(
            manifest_path=manifest,
            manifest_length=int(found["bytes"]),
            partition_spec_id=int(found["spec"]),
            content=ManifestContent.DATA,
            sequence_number=0,
            min_sequence_number=0,
            added_snapshot_id=0,
        )
        files = [entry.data_file for entry in made.fetch_manifest_entry(table.io)]
    replaced = None
    if keys is not None:
        with table.io.new_input(keys).open() as opened:
            replaced = pq.read_table(pa.BufferReader(opened.read()))
    return Staged(files, replaced, [place for place in (manifest, keys) if place is not None])
