"""Snapshot after snapshot, as changes of rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from connectors.iceberg.library import loaded, told
from connectors.iceberg.planning import Step, ancestors, files_of, head_of, parts_between, snapshot_to_read
from connectors.iceberg.reading import Files, as_condition
from connectors.iceberg.types import of_file, typed
from connectors.kit.versions import Position, VersionedFetching, checked_times, given_all, on_the_way
from runtime.core.changelog import DELETE, ChangelogBatch
from runtime.core.errors import ConnectorError
from runtime.core.schema import Schema

if TYPE_CHECKING:
    from connectors.iceberg.table import IcebergSource

__all__ = ["Fetch", "newest_rows"]


class Fetch(VersionedFetching[Table, Step]):
    """What is read of one table."""

    def __init__(self, source: IcebergSource) -> None:
        reading = source.reading
        super().__init__(streaming=reading.streaming, interval=reading.interval, limit=source.limit)
        self._source = source
        self._columns = source.schema if len(source.schema) else Schema(source.declared.fields[:1])
        """What is read: a column at least, which tells how many rows there are."""
        self._condition = as_condition(source.filters)
        self._files: Files | None = None

    @property
    def _place(self) -> str:
        return self._source.address.place

    def telling(self) -> AbstractContextManager[None]:
        return told(self._place)

    def look(self) -> Table:
        return loaded(self._source.address)

    def begin(self, view: Table) -> Position:
        reading = self._source.reading
        if not reading.streaming:
            found = snapshot_to_read(view, reading)
            return given_all(None) if found is None else on_the_way(None, found.snapshot_id)
        head = head_of(view, reading)
        if reading.start == 0:
            return given_all(None)
        if reading.start is not None and reading.start != -1:
            return given_all(reading.start)
        if head is None:
            return given_all(None)
        return given_all(head.snapshot_id) if reading.start == -1 else on_the_way(None, head.snapshot_id)

    def following(self, view: Table, version: int | None) -> int | None:
        later: list[int] = []
        for snapshot in ancestors(view.metadata, head_of(view, self._source.reading)):
            if snapshot.snapshot_id == version:
                break
            later.append(snapshot.snapshot_id)
            if snapshot.parent_snapshot_id == version:
                break
        else:
            if version is not None:
                raise ConnectorError(
                    f"the snapshot {version} of {self._place}, behind which reading goes on, is not among those before "
                    "its newest one",
                    code="E3192",
                    hint="it was expired, or the table was rolled back: begin anew",
                )
        return later[-1] if later else None

    def steps(self, view: Table, before: int | None, after: int) -> Sequence[Step]:
        old, new = None if before is None else self._snapshot(view, before), self._snapshot(view, after)
        # Columns are those of now, also where the past is read: each is found by its number, whatever it was called.
        wanted = of_file(self._columns, view.schema(), self._place)
        self._files = Files(view.metadata, view.io, wanted, self._condition)
        steps = parts_between(view.metadata, view.io, old, new, self._condition)
        if before is not None and not self._source.reading.changes and any(step.old is not None for step in steps):
            raise ConnectorError(
                f"the snapshot {after} of {self._place} takes rows away, and the table is read as one to which rows are only "
                "added",
                code="E3193",
                hint="'streaming-changes' = 'true' reads deletes and updates, too; a table with a primary key does",
            )
        return steps

    def rows(self, view: Table, step: Step) -> Iterator[ChangelogBatch]:
        files = self._files
        assert files is not None
        if step.old is not None:
            for rows in files.lost_rows(step.old, step.new):
                yield ChangelogBatch(self._own(rows), np.full(rows.num_rows, DELETE, np.int8))
        elif step.new is not None:
            for rows in files.rows(step.new):
                yield ChangelogBatch(self._own(rows))

    def _snapshot(self, view: Table, number: int) -> Snapshot:
        found = view.metadata.snapshot_by_id(number)
        if found is None:
            raise ConnectorError(
                f"the snapshot {number} of {self._place} was expired while it was being read",
                code="E3192",
                hint="begin anew, and keep snapshots for longer than a job may stand still",
            )
        return found

    def _own(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        found = checked_times(typed(rows, self._columns), self._columns, self._place)
        return found.select(list(self._source.schema.names))


def newest_rows(source: IcebergSource) -> tuple[int, bool] | None:
    """How many rows the files have that would be read, and whether that is exact; None when nothing is read."""
    table = loaded(source.address)
    with told(source.address.place):
        snapshot = snapshot_to_read(table, source.reading)
        if snapshot is None:
            return 0, True
        parts = files_of(table.metadata, table.io, snapshot, as_condition(source.filters))
        rows = sum(part.file.record_count for part in parts)
        return rows, not source.filters and not any(part.deletes for part in parts)
