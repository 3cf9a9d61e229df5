"""Data files that no snapshot has yet, and what names them in a checkpoint: a manifest of Iceberg, as Flink does.

What nobody commits lies there until `CALL sys.remove_orphan_files`.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
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

from connectors.iceberg.library import told
from connectors.kit.folding import LastChanges, named
from runtime.core.changelog import DELETE, ChangelogBatch
from runtime.core.errors import ConnectorError
from runtime.core.schema import Schema

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


class FileStaging:
    """A `Staging` of rows that are added. `target`: rows of so many bytes go into files at once."""

    def __init__(self, table: Table, schema: Schema, place: str, target: int) -> None:
        self._table = table
        self._schema = schema
        self._place = place
        self._target = target
        self._rows: list[ChangelogBatch] = []
        self._bytes = 0
        self._files: list[DataFile] = []

    def add(self, batch: ChangelogBatch) -> None:
        if not len(batch):
            return
        self._rows.append(named(batch, self._schema.names))
        self._bytes += batch.nbytes
        if self._bytes >= self._target:
            self._write()

    def take(self) -> list[str]:
        self._write()
        files, self._files = self._files, []
        return [self._named(files, None)] if files else []

    def rows(self, texts: Sequence[str]) -> list[Staged]:
        with told(self._place):
            return [self._read(text) for text in texts]

    def drop(self) -> None:
        self._rows, self._bytes = [], 0
        files, self._files = self._files, []
        for file in files:
            with suppress(Exception):
                self._table.io.delete(file.file_path)

    @property
    def buffered(self) -> Sequence[ChangelogBatch]:
        return tuple(self._rows)

    def _write(self) -> None:
        if not self._rows:
            return
        gathered = ChangelogBatch.concat(self._rows)
        self._rows, self._bytes = [], 0
        with told(self._place):
            self._files += written_files(pa.Table.from_batches([gathered.rows]), self._table.metadata, self._table.io)

    def _named(self, files: Sequence[DataFile], keys: str | None) -> str:
        text: dict[str, Any] = {"keys": keys} if keys else {}
        if files:
            with told(self._place):
                text["manifest"], text["bytes"] = self._manifest(files)
            text["spec"] = files[0].spec_id
        return json.dumps(text)

    def _manifest(self, files: Iterable[DataFile]) -> tuple[str, int]:
        table = self._table
        where = table.location_provider().new_metadata_location(f"staged-{uuid.uuid4()}.avro")
        output = table.io.new_output(where)
        with write_manifest(
            2 if table.metadata.format_version >= 2 else 1, table.spec(), table.schema(), output, 0, "deflate"
        ) as writer:
            for file in files:
                writer.add(ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, snapshot_id=0, data_file=file))
        return where, len(output)

    def _read(self, text: str) -> Staged:
        try:
            found = json.loads(text)
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
                files = [entry.data_file for entry in made.fetch_manifest_entry(self._table.io)]
            replaced = None
            if keys is not None:
                with self._table.io.new_input(keys).open() as opened:
                    replaced = pq.read_table(pa.BufferReader(opened.read()))
        except (FileNotFoundError, AttributeError, KeyError, TypeError, json.JSONDecodeError) as error:
            raise ConnectorError(
                f"files of {self._place} that a checkpoint names are gone: {error}",
                code="E3113",
                hint="were they removed as orphans? Keep those that are younger than a job may stand still",
            ) from error
        return Staged(files, replaced, [place for place in (manifest, keys) if place is not None])


class UpsertStaging(FileStaging):
    """A `Staging` of changes by key.

    Args:
        most: bytes of changes between two checkpoints.
    """

    def __init__(self, table: Table, schema: Schema, key: Sequence[str], place: str, most: int) -> None:
        super().__init__(table, schema, place, most)
        self._key = list(key)
        self._changes = LastChanges(place, schema.names, key, most)

    def add(self, batch: ChangelogBatch) -> None:
        self._changes.add(batch)

    def take(self) -> list[str]:
        last = self._changes.take()
        if last is None:
            return []
        rows = pa.Table.from_batches([last.rows])
        table = self._table
        with told(self._place):
            files = written_files(rows.filter(pa.array(last.kinds_or_inserts() != DELETE)), table.metadata, table.io)
            where = table.location_provider().new_metadata_location(f"staged-{uuid.uuid4()}.parquet")
            sink = pa.BufferOutputStream()
            pq.write_table(rows.select(self._key), sink)
            with table.io.new_output(where).create() as output:
                output.write(sink.getvalue().to_pybytes())
        return [self._named(files, where)]

    def drop(self) -> None:
        self._changes.clear()

    @property
    def buffered(self) -> Sequence[ChangelogBatch]:
        return self._changes.buffered
