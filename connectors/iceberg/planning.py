"""The files of a snapshot, and how two snapshots differ.

The library's scan refuses equality deletes, which Flink writes; here they are a part of a file's plan. A delete of positions
counts for files that are not newer than it, one of keys for files that are older.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, DataFileContent, ManifestContent, ManifestEntryStatus
from pyiceberg.table import ManifestGroupPlanner, Table
from pyiceberg.table.delete_file_index import DeleteFileIndex
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation, Snapshot

from connectors.iceberg.options import Reading
from runtime.core.errors import ConnectorError

__all__ = ["FilePart", "Step", "added_by", "ancestors", "files_of", "head_of", "parts_between", "snapshot_to_read"]


@dataclass(frozen=True)
class FilePart:
    """A data file, as a snapshot has it.

    Attributes:
        positions, keys: the files that say which of its rows are deleted, by position or by key.
    """

    file: DataFile
    sequence: int
    positions: tuple[DataFile, ...] = ()
    keys: tuple[DataFile, ...] = ()

    @property
    def path(self) -> str:
        return self.file.file_path

    @property
    def deletes(self) -> frozenset[str]:
        """What takes rows of it away, by path."""
        return frozenset(d.file_path for d in (*self.positions, *self.keys))


@dataclass(frozen=True)
class Step:
    """A file whose rows appear (`new` alone), disappear (`old` alone), or of which some disappear."""

    old: FilePart | None
    new: FilePart | None


def files_of(
    metadata: TableMetadata, io: FileIO, snapshot: Snapshot | None, wanted: BooleanExpression | None = None
) -> list[FilePart]:
    """The files of a snapshot that may have rows that are wanted, older ones first; always in the same order."""
    if snapshot is None:
        return []
    planner = ManifestGroupPlanner(metadata, io, wanted if wanted is not None else AlwaysTrue())
    data: list[tuple[int, DataFile]] = []
    index = DeleteFileIndex()
    equality: list[tuple[int, DataFile]] = []
    for entries in planner.plan_manifest_entries(snapshot.manifests(io)):
        for entry in entries:
            file, sequence = entry.data_file, entry.sequence_number or 0
            match file.content:
                case DataFileContent.DATA:
                    data.append((sequence, file))
                case DataFileContent.POSITION_DELETES:
                    index.add_delete_file(entry, partition_key=file.partition)
                case _:
                    equality.append((sequence, file))
    specs = metadata.specs()
    everywhere = [(s, f) for s, f in equality if specs[f.spec_id].is_unpartitioned()]
    by_partition: dict[tuple[int, object], list[tuple[int, DataFile]]] = {}
    for sequence, file in equality:
        if not specs[file.spec_id].is_unpartitioned():
            by_partition.setdefault((file.spec_id, file.partition), []).append((sequence, file))
    parts: list[FilePart] = []
    for sequence, file in sorted(data, key=lambda found: (found[0], found[1].file_path)):
        positions = index.for_data_file(sequence, file, partition_key=file.partition)
        keys = [f for s, f in (*everywhere, *by_partition.get((file.spec_id, file.partition), ())) if s > sequence]
        parts.append(
            FilePart(
                file,
                sequence,
                tuple(sorted(positions, key=lambda d: d.file_path)),
                tuple(sorted(keys, key=lambda d: d.file_path)),
            )
        )
    return parts


def added_by(
    metadata: TableMetadata, io: FileIO, snapshot: Snapshot, wanted: BooleanExpression | None = None
) -> list[FilePart]:
    """The files that a snapshot of insertions has added."""
    planner = ManifestGroupPlanner(metadata, io, wanted if wanted is not None else AlwaysTrue())
    manifests = [
        m
        for m in snapshot.manifests(io)
        if m.content == ManifestContent.DATA and m.added_snapshot_id == snapshot.snapshot_id
    ]
    found = [
        FilePart(entry.data_file, entry.sequence_number or 0)
        for entries in planner.plan_manifest_entries(manifests)
        for entry in entries
        if entry.status == ManifestEntryStatus.ADDED and entry.snapshot_id == snapshot.snapshot_id
    ]
    return sorted(found, key=lambda part: part.path)


def parts_between(
    metadata: TableMetadata,
    io: FileIO,
    before: Snapshot | None,
    after: Snapshot,
    wanted: BooleanExpression | None = None,
) -> list[Step]:
    """What one snapshot has that the one before it has not: first what disappears, then what appears."""
    if before is None:
        return [Step(None, part) for part in files_of(metadata, io, after, wanted)]
    operation = after.summary.operation if after.summary is not None else Operation.OVERWRITE
    if operation is Operation.REPLACE:
        return []
    if operation is Operation.APPEND:
        return [Step(None, part) for part in added_by(metadata, io, after, wanted)]
    old = {part.path: part for part in files_of(metadata, io, before, wanted)}
    new = {part.path: part for part in files_of(metadata, io, after, wanted)}
    gone = [Step(part, None) for path, part in old.items() if path not in new]
    fewer = [Step(part, new[p]) for p, part in old.items() if p in new and new[p].deletes != part.deletes]
    return [*gone, *fewer, *(Step(None, part) for path, part in new.items() if path not in old)]


def head_of(table: Table, reading: Reading) -> Snapshot | None:
    """The newest snapshot of the branch; None when it has none. Raises ConnectorError E3192 when there is no such branch."""
    if reading.branch == "main":
        return table.metadata.snapshot_by_name("main")
    if reading.branch not in table.metadata.refs:
        raise _unknown(
            table, f"no branch '{reading.branch}'", "it has: " + ", ".join(sorted(table.metadata.refs) or ["main"])
        )
    return table.metadata.snapshot_by_name(reading.branch)


def snapshot_to_read(table: Table, reading: Reading) -> Snapshot | None:
    """The snapshot that options name; raises ConnectorError E3192 when there is none."""
    metadata = table.metadata
    if reading.snapshot is not None:
        found = metadata.snapshot_by_id(reading.snapshot)
        if found is None:
            raise _unknown(table, f"no snapshot {reading.snapshot}", _snapshots(metadata.snapshots))
        return found
    if reading.as_of is not None:
        logged = [entry for entry in metadata.snapshot_log if entry.timestamp_ms <= reading.as_of]
        found = metadata.snapshot_by_id(logged[-1].snapshot_id) if logged else None
        if found is None:
            raise _unknown(table, f"no snapshot that is as old as {reading.as_of}", _snapshots(metadata.snapshots))
        return found
    if reading.tag:
        if reading.tag not in metadata.refs:
            raise _unknown(table, f"no tag '{reading.tag}'", "it has: " + ", ".join(sorted(metadata.refs)))
        return metadata.snapshot_by_name(reading.tag)
    return head_of(table, reading)


def ancestors(metadata: TableMetadata, snapshot: Snapshot | None) -> Iterator[Snapshot]:
    """A snapshot, the one before it, and so on, as far as they are kept."""
    while snapshot is not None:
        yield snapshot
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else metadata.snapshot_by_id(parent)


def _unknown(table: Table, what: str, hint: str) -> ConnectorError:
    return ConnectorError(f"the Iceberg table {'.'.join(table.name())} has {what}", code="E3192", hint=hint)


def _snapshots(snapshots: Iterable[Snapshot]) -> str:
    newest: Sequence[Snapshot] = list(snapshots)[-3:]
    return "its newest are: " + ", ".join(str(s.snapshot_id) for s in newest) if newest else "it has none yet"
