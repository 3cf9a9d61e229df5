"""Compaction, old snapshots, and files that nobody needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urlparse

import pyarrow as pa
from pyarrow.fs import FileSelector, FileType
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation, Snapshot
from pyiceberg.table.update import RemoveSnapshotsUpdate

from connectors.iceberg.commits import LakeSnapshot, commit
from connectors.iceberg.library import loaded, told
from connectors.iceberg.options import Address
from connectors.iceberg.planning import FilePart, ancestors, files_of
from connectors.iceberg.reading import Files
from connectors.iceberg.staging import written_files
from runtime.core.errors import UnavailableError, UnsupportedError
from runtime.spi.abilities import CompactedFiles

__all__ = ["compact", "expire_snapshots", "remove_orphan_files"]

_TRIES = 5
_remove: Any = RemoveSnapshotsUpdate


# --- compaction
# ---------------------------------------------------------------------------------------------------------------------


def compact(address: Address, branch: str, target: int) -> list[CompactedFiles]:
    """Put small files, and files of which rows are deleted, together: partition by partition, in one snapshot. Who writes
    meanwhile is not kept waiting: when he is first, all is done again."""
    for _ in range(_TRIES):
        table = loaded(address)
        with told(address.place):
            done, made, written = _compacted(table, branch, target)
            if made is None:
                return []
            try:
                made.commit_to(table, {})
                return done
            except CommitFailedException:
                made.forget()
                _delete(table, (f.file_path for f in written))
    raise UnavailableError(
        f"others have written to {address.place} each time that it was compacted", code="E3191", hint="try again later"
    )


def _compacted(
    table: Table, branch: str, target: int
) -> tuple[list[CompactedFiles], LakeSnapshot | None, list[DataFile]]:
    head = table.metadata.snapshot_by_name(branch)
    parts = files_of(table.metadata, table.io, head)
    done: list[CompactedFiles] = []
    written: list[DataFile] = []
    rewritten: set[str] = set()
    for group in _groups(table, parts, target):
        made = _rewritten(table, group, target)
        written += made
        rewritten |= {part.path for part in group}
        done.append(CompactedFiles(_partition_text(table.metadata, group[0].file), len(group), len(made), 0))
    if not rewritten:
        return [], None, []
    users: dict[str, set[str]] = {}
    for part in parts:
        for delete in (*part.positions, *part.keys):
            users.setdefault(delete.file_path, set()).add(part.path)
    # A file of deletes is not needed when all data files that it says something of are written anew.
    removed = rewritten | {path for path, used in users.items() if used <= rewritten}
    return done, LakeSnapshot(table, Operation.REPLACE, {}, written, (), removed, branch), written


def _groups(table: Table, parts: Sequence[FilePart], target: int) -> Iterator[list[FilePart]]:
    """Files to be written anew together: those of a partition that are small or have deletes, if that makes them fewer."""
    by_partition: dict[tuple[int, Any], list[FilePart]] = {}
    for part in parts:
        by_partition.setdefault((part.file.spec_id, part.file.partition), []).append(part)
    for (spec, _), found in by_partition.items():
        old = spec != table.metadata.default_spec_id
        due = [p for p in found if old or p.deletes or p.file.file_size_in_bytes < target]
        if len(due) > 1 or any(p.deletes for p in due) or (old and due):
            yield due


def _rewritten(table: Table, group: Sequence[FilePart], target: int) -> list[DataFile]:
    """The rows of files in new files of about the size of the target."""
    files = Files(table.metadata, table.io, table.schema())
    ratio = max(1.0, _bytes_in_memory(table, group))
    written: list[DataFile] = []
    rows: list[pa.RecordBatch] = []
    size = 0
    for part in group:
        for batch in files.rows(part):
            rows.append(batch)
            size += batch.nbytes
            if size >= target * ratio:
                written += written_files(pa.Table.from_batches(rows), table.metadata, table.io)
                rows, size = [], 0
    if rows:
        written += written_files(pa.Table.from_batches(rows), table.metadata, table.io)
    return written


def _bytes_in_memory(table: Table, group: Sequence[FilePart]) -> float:
    """How many bytes in memory a byte of a file is, about: files are compressed."""
    return 4.0 if sum(part.file.file_size_in_bytes for part in group) > (1 << 20) else 1.0


def _partition_text(metadata: TableMetadata, file: DataFile) -> str:
    spec = metadata.specs()[file.spec_id]
    return "/".join(f"{field.name}={file.partition[i]}" for i, field in enumerate(spec.fields))


# --- snapshots
# ---------------------------------------------------------------------------------------------------------------------


def expire_snapshots(address: Address, older_than: int, retained: int) -> tuple[int, int]:
    """Forget snapshots that are older than a time, milliseconds since 1970, and remove the files that only they had. Those that
    a branch or tag names stay, and the newest `retained` before them. Gives the numbers of snapshots and files."""
    for _ in range(_TRIES):
        table = loaded(address)
        with told(address.place):
            metadata = table.metadata
            kept = {ref.snapshot_id for ref in metadata.refs.values()}
            for name, ref in metadata.refs.items():
                depth = max(retained, 1) if name == "main" else 1
                for number, snapshot in enumerate(ancestors(metadata, metadata.snapshot_by_id(ref.snapshot_id))):
                    if number < depth:
                        kept.add(snapshot.snapshot_id)
            gone = [s for s in metadata.snapshots if s.timestamp_ms < older_than and s.snapshot_id not in kept]
            if not gone:
                return 0, 0
            stay = [s for s in metadata.snapshots if s not in gone]
            unneeded = _files_of_all(table, gone) - _files_of_all(table, stay)
            try:
                commit(table, (), (_remove(snapshot_ids=[s.snapshot_id for s in gone]),))
            except CommitFailedException:
                continue
            return len(gone), _delete(table, unneeded)
    raise UnavailableError(
        f"others have written to {address.place} each time that snapshots were expired",
        code="E3191",
        hint="try again later",
    )


def _files_of_all(table: Table, snapshots: Sequence[Snapshot]) -> set[str]:
    found: set[str] = set()
    seen: set[str] = set()
    for snapshot in snapshots:
        if snapshot.manifest_list:
            found.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            if manifest.manifest_path in seen:
                continue
            seen.add(manifest.manifest_path)
            found |= {e.data_file.file_path for e in manifest.fetch_manifest_entry(table.io)}
    return found | seen


def _delete(table: Table, paths: Any) -> int:
    count = 0
    for path in paths:
        with suppress(Exception):
            table.io.delete(path)
            count += 1
    return count


# --- files
# ---------------------------------------------------------------------------------------------------------------------


def remove_orphan_files(address: Address, older_than: int, dry_run: bool) -> list[str]:
    """Remove the files below the table's place that are older than a time and that no snapshot has: what jobs that failed have
    left. Gives their paths. Raises UnsupportedError where the files cannot be listed."""
    table = loaded(address)
    with told(address.place):
        if not isinstance(table.io, PyArrowFileIO):
            raise UnsupportedError(
                f"the files of {address.place} cannot be listed", hint="set 'py-io-impl' to PyArrow's"
            )
        place = urlparse(table.location())
        system = table.io.fs_by_scheme(place.scheme or "file", place.netloc)
        root = f"{place.netloc}{place.path}" if place.scheme not in ("", "file") else place.path
        metadata = table.metadata
        needed = _files_of_all(table, metadata.snapshots) | {table.metadata_location}
        needed |= {entry.metadata_file for entry in metadata.metadata_log}
        needed |= {f.statistics_path for f in (*metadata.statistics, *metadata.partition_statistics)}
        known = {_bare(path) for path in needed}
        gone: list[str] = []
        for info in system.get_file_info(FileSelector(root, recursive=True, allow_not_found=True)):
            own = info.path.removeprefix(root).lstrip("/")
            if info.type is not FileType.File or not own.startswith(("data/", "metadata/")):
                continue
            if own in ("metadata/version-hint.text",) or own.endswith("metadata.json") or own.startswith("metadata/v"):
                continue
            if info.mtime_ns is not None and info.mtime_ns // 1_000_000 < older_than and _bare(info.path) not in known:
                gone.append(info.path)
        if not dry_run:
            for path in gone:
                with suppress(OSError):
                    system.delete_file(path)
        return sorted(gone)


def _bare(path: str) -> str:
    """A path without its scheme: `bucket/folder/file`, `folder/file` of this machine."""
    parts = urlparse(path)
    return f"{parts.netloc}{parts.path}".lstrip("/")
