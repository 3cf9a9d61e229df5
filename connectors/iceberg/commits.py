"""Snapshots with the number of a commit in them, and what is tried again when another writer was first.

A snapshot is made with one call of the catalog, which names the snapshot that it follows: where another one has come in
between, the catalog refuses, and all is looked at anew, the number first. The library's own retries are not used, because they
do not look.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.manifest import (
    DataFile,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriterV2,
)
from pyiceberg.table import Table
from pyiceberg.table.snapshots import (
    Operation,
    Snapshot,
    SnapshotSummaryCollector,
    Summary,
    update_snapshot_summaries,
)
from pyiceberg.table.update import AssertTableUUID, SetPropertiesUpdate
from pyiceberg.table.update.snapshot import _SnapshotProducer  # pyright: ignore[reportPrivateUsage]

from connectors.iceberg.library import loaded, told
from connectors.iceberg.options import Address
from connectors.iceberg.planning import ancestors, files_of
from connectors.iceberg.staging import Staged
from connectors.iceberg.upserts import KeyColumns, delete_files, replaced_rows
from runtime.core.errors import ConnectorError, UnavailableError

__all__ = ["LakeCommits", "LakeSnapshot", "OverwritingCommits", "committed"]

_TRIES = 100


class LakeSnapshot(_SnapshotProducer["LakeSnapshot"]):
    """A snapshot to be: data files and delete files that are added, and files that are removed, by path."""

    def __init__(
        self,
        table: Table,
        operation: Operation,
        properties: dict[str, str],
        added: Sequence[DataFile] = (),
        deletes: Sequence[DataFile] = (),
        removed: Iterable[str] = (),
        branch: str = "main",
    ) -> None:
        super().__init__(operation, table.transaction(), table.io, snapshot_properties=properties, branch=branch)
        self._added = [*added]
        self._deletes = [*deletes]
        self._removed = frozenset(removed)
        self._gone: list[DataFile] = []

    def commit_to(self, table: Table, more: dict[str, str]) -> None:
        """Commit it; `more` are properties of the table. Raises what the library raises."""
        updates, requirements = self._commit()
        known = AssertTableUUID(uuid=table.metadata.table_uuid)
        put = (SetPropertiesUpdate(updates=more),) if more else ()
        commit(table, (known, *requirements), (*updates, *put))

    def forget(self) -> None:
        """Remove what was written for a snapshot that did not come to be, as far as that works."""
        for path in (*self._written_manifests, *self._written_manifest_lists, *(d.file_path for d in self._deletes)):
            with suppress(Exception):
                self._io.delete(path)

    # --- what the library asks

    def _deleted_entries(self) -> list[ManifestEntry]:
        return []

    def _existing_manifests(self) -> list[ManifestFile]:
        return []

    def _manifests(self) -> list[ManifestFile]:
        made: list[ManifestFile] = []
        for files, content in ((self._added, ManifestContent.DATA), (self._deletes, ManifestContent.DELETES)):
            for spec in sorted({f.spec_id for f in files}):
                with self._writer(spec, content) as writer:
                    for file in files:
                        if file.spec_id == spec:
                            writer.add(
                                ManifestEntry.from_args(
                                    status=ManifestEntryStatus.ADDED, snapshot_id=self._snapshot_id, data_file=file
                                )
                            )
                made.append(writer.to_manifest_file())
        head = (
            self._transaction.table_metadata.snapshot_by_id(self._parent_snapshot_id)
            if self._parent_snapshot_id
            else None
        )
        for manifest in head.manifests(self._io) if head is not None else ():
            if manifest.has_added_files() or manifest.has_existing_files():
                made += self._kept(manifest)
        return made

    def _kept(self, manifest: ManifestFile) -> list[ManifestFile]:
        """What becomes of a manifest: itself where nothing of it is removed."""
        if not self._removed:
            return [manifest]
        entries = self.fetch_manifest_entry(manifest)
        gone = [e for e in entries if e.data_file.file_path in self._removed]
        if not gone:
            return [manifest]
        self._gone += [e.data_file for e in gone]
        made: list[ManifestFile] = []
        for status in (ManifestEntryStatus.EXISTING, ManifestEntryStatus.DELETED):
            wanted = [
                e
                for e in entries
                if (e.data_file.file_path in self._removed) == (status is ManifestEntryStatus.DELETED)
            ]
            if not wanted:
                continue
            with self._writer(manifest.partition_spec_id, manifest.content) as writer:
                for entry in wanted:
                    writer.add_entry(
                        ManifestEntry.from_args(
                            status=status,
                            snapshot_id=self._snapshot_id
                            if status is ManifestEntryStatus.DELETED
                            else entry.snapshot_id,
                            sequence_number=entry.sequence_number,
                            file_sequence_number=entry.file_sequence_number,
                            data_file=entry.data_file,
                        )
                    )
            made.append(writer.to_manifest_file())
        return made

    def _writer(self, spec: int, content: ManifestContent) -> Any:
        if content == ManifestContent.DATA:
            return self.new_manifest_writer(self.spec(spec))
        return _DeleteManifestWriter(
            self.spec(spec), self.schema(), self.new_manifest_output(), self._snapshot_id, self._compression
        )

    def _summary(self, snapshot_properties: dict[str, str] | None = None) -> Summary:
        metadata = self._transaction.table_metadata
        collector, specs = SnapshotSummaryCollector(), metadata.specs()
        for file in (*self._added, *self._deletes):
            collector.add_file(file, metadata.schema(), specs[file.spec_id])
        for file in self._gone:
            collector.remove_file(file, metadata.schema(), specs[file.spec_id])
        before = metadata.snapshot_by_id(self._parent_snapshot_id) if self._parent_snapshot_id else None
        # The library counts no compaction: as something that is overwritten, it is counted right.
        known = Operation.OVERWRITE if self._operation is Operation.REPLACE else self._operation
        counted = update_snapshot_summaries(
            Summary(operation=known, **collector.build(), **(snapshot_properties or {})),
            before.summary if before is not None else None,
        )
        return Summary(operation=self._operation, **counted.additional_properties)


class _DeleteManifestWriter(ManifestWriterV2):
    """A manifest of delete files, which the library reads, and does not write."""

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


def commit(table: Table, requirements: tuple[Any, ...], updates: tuple[Any, ...]) -> None:
    """Hand a change to the catalog: all or nothing."""
    table.catalog.commit_table(table, requirements, updates)


def committed(address: Address, attempt: Callable[[Table], LakeSnapshot | None], more: dict[str, str]) -> bool:
    """Commit what `attempt` makes of the table as it is, again and again until no other writer comes in between. False when it
    makes nothing. Raises UnavailableError E3191 when others are always first."""
    for tried in range(_TRIES):
        table = loaded(address)
        with told(address.place):
            made = attempt(table)
            if made is None:
                return False
            try:
                made.commit_to(table, more)
                return True
            except CommitFailedException:
                made.forget()
        time.sleep(random.random() * min(0.01 * 2 ** min(tried, 7), 1.0))
    raise UnavailableError(
        f"other writers of {address.place} were first {_TRIES} times",
        code="E3191",
        hint="let fewer of them write at once",
    )


class LakeCommits:
    """`EpochCommits` of one sink of one job: the number is a property of the snapshot. Where that was expired, the same property
    of the table counts, which is put there with the snapshot."""

    def __init__(self, address: Address, branch: str, job: str) -> None:
        self._address = address
        self._branch = branch
        self._key = f"sqlengine.{job}.epoch" if branch == "main" else f"sqlengine.{job}.{branch}.epoch"
        self._known = KeyColumns()

    def last(self) -> int:
        return self._last(loaded(self._address))

    def _last(self, table: Table) -> int:
        for snapshot in ancestors(table.metadata, table.metadata.snapshot_by_name(self._branch)):
            found = snapshot.summary.get(self._key) if snapshot.summary is not None else None
            if found is not None:
                return int(found)
        return int(table.properties.get(self._key, 0))

    def commit(self, number: int, batches: list[Staged]) -> None:
        files = [file for staged in batches for file in staged.files]
        keys = [staged.keys for staged in batches if staged.keys is not None]

        def attempt(table: Table) -> LakeSnapshot | None:
            if self._last(table) >= number:
                return None
            return self._made(table, number, files, keys)

        committed(self._address, attempt, {self._key: str(number)})
        table = loaded(self._address)
        for place in (place for staged in batches for place in staged.leftovers):
            with suppress(Exception):
                table.io.delete(place)

    def _made(self, table: Table, number: int, files: list[DataFile], keys: list[Any]) -> LakeSnapshot:
        head = table.metadata.snapshot_by_name(self._branch)
        deletes: list[DataFile] = []
        for one in keys:
            deletes += delete_files(table, replaced_rows(table, head, one, self._known))
        operation = Operation.OVERWRITE if deletes else Operation.APPEND
        return LakeSnapshot(table, operation, {self._key: str(number)}, files, deletes, branch=self._branch)

    def close(self) -> None:
        """Nothing is open."""


class OverwritingCommits(LakeCommits):
    """The same for rows that take the place of others: of the partitions that they are in, of the `partition` that is named (by
    the places of its values), or of all."""

    def __init__(
        self, address: Address, branch: str, job: str, everything: bool, partition: dict[str, Any] | None
    ) -> None:
        super().__init__(address, branch, job)
        self._everything = everything
        self._partition = partition

    def _made(self, table: Table, number: int, files: list[DataFile], keys: list[Any]) -> LakeSnapshot:
        spec = table.spec()
        partitions = {(f.spec_id, f.partition) for f in files}
        head: Snapshot | None = table.metadata.snapshot_by_name(self._branch)
        removed: set[str] = set()
        for part in files_of(table.metadata, table.io, head):
            one = part.file
            if not (self._everything or spec.is_unpartitioned() or (one.spec_id, one.partition) in partitions):
                if one.spec_id != spec.spec_id and not self._everything:
                    raise ConnectorError(
                        f"{self._address.place} has files from before its partitions were changed",
                        code="E3194",
                        hint="CALL sys.compact brings them into the partitions of now",
                    )
                if self._partition is None or not self._is_named(table, one):
                    continue
            removed |= {one.file_path, *(d.file_path for d in part.positions if d.partition == one.partition)}
        return LakeSnapshot(table, Operation.OVERWRITE, {self._key: str(number)}, files, (), removed, self._branch)

    def _is_named(self, table: Table, file: DataFile) -> bool:
        names = [field.name for field in table.spec().fields]
        assert self._partition is not None
        return all(n in self._partition and file.partition[i] == self._partition[n] for i, n in enumerate(names))
