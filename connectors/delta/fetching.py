"""Version after version, as changes of rows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from deltalake import DeltaTable

from connectors.delta.library import files_at, loaded, told
from connectors.delta.log import Change, changes_of, files_of, masks_of
from connectors.delta.reading import FileRows
from connectors.delta.types import checked_columns, schema_of
from connectors.kit.versions import Position, VersionedFetching, given_all, on_the_way
from runtime.core.changelog import DELETE, ChangelogBatch
from runtime.core.errors import ConnectorError
from runtime.core.schema import Schema

if TYPE_CHECKING:
    from connectors.delta.table import DeltaSource

__all__ = ["Fetch", "newest_rows", "version_to_read"]


@dataclass(frozen=True)
class _Step:
    change: Change
    version: int


class Fetch(VersionedFetching[DeltaTable, _Step]):
    """What is read of one table."""

    def __init__(self, source: DeltaSource) -> None:
        reading = source.reading
        super().__init__(streaming=reading.streaming, interval=reading.interval, limit=source.limit)
        self._source = source
        self._files: Any = None
        self._reader: FileRows | None = None
        self._masks: dict[int, dict[str, np.ndarray]] = {}

    def telling(self) -> AbstractContextManager[None]:
        return told(self._source.place)

    def look(self) -> DeltaTable:
        if self._files is None:
            self._files = files_at(self._source.place)
        return loaded(self._source.place)

    def begin(self, view: DeltaTable) -> Position:
        reading = self._source.reading
        if not reading.streaming:
            return on_the_way(None, version_to_read(view, self._source))
        if reading.start is None:
            return on_the_way(None, view.version())
        return given_all(view.version() if reading.start == -1 else reading.start - 1)

    def following(self, view: DeltaTable, version: int | None) -> int | None:
        newest = view.version()
        known = -1 if version is None else version
        if newest < known:
            raise ConnectorError(
                f"{self._source.place.path} has version {newest}, and reading goes on behind {known}",
                code="E3192",
                hint="it is another table than before: begin anew",
            )
        return known + 1 if newest > known else None

    def steps(self, view: DeltaTable, before: int | None, after: int) -> Sequence[_Step]:
        source = self._source
        table = view if view.version() == after else loaded(source.place, after)
        self._masks = {}
        if before is None:
            changes = [Change(new=file) for file, _ in files_of(table, source.filters)]
            self._masks[after] = masks_of(table)
        else:
            changes = changes_of(self._files, source.place, after)
            self._only_added(changes, after)
            if any(f.has_vector for c in changes for f in (c.old, c.new) if f is not None):
                self._masks = {v: masks_of(loaded(source.place, v)) for v in (after - 1, after) if v >= 0}
        stored = schema_of(table)
        columns = source.schema
        known = {f.name for f in stored}
        # Of the past, columns that came later are NULL.
        checked_columns(Schema(tuple(f for f in columns if f.name in known)), table, source.place.path)
        checked_columns(columns, view, source.place.path)
        self._reader = FileRows(self._files, source.place, columns, stored, source.filters)
        return [_Step(change, after) for change in changes]

    def rows(self, view: DeltaTable, step: _Step) -> Iterator[ChangelogBatch]:
        reader, change = self._reader, step.change
        assert reader is not None
        if change.feed is not None:
            for rows, kinds in reader.changes(change.feed):
                if not self._source.reading.changes and (kinds == DELETE).any():
                    raise self._takes_away(step.version)
                yield ChangelogBatch(rows, kinds)
            return
        lost, gained = self._mask(change.old, step.version - 1), self._mask(change.new, step.version)
        if change.old is not None and change.new is not None:
            lost, gained = _differing(lost, gained)
        if change.old is not None and (lost is None or lost.any()):
            for rows in reader.rows(change.old, lost):
                yield ChangelogBatch(rows, np.full(rows.num_rows, DELETE, np.int8))
        if change.new is not None and (gained is None or gained.any()):
            for rows in reader.rows(change.new, gained):
                yield ChangelogBatch(rows)

    def _mask(self, file: Any, version: int) -> np.ndarray | None:
        return None if file is None else self._masks.get(version, {}).get(file.path.rpartition("/")[2])

    def _only_added(self, changes: Sequence[Change], version: int) -> None:
        if not self._source.reading.changes and any(c.old is not None for c in changes):
            raise self._takes_away(version)

    def _takes_away(self, version: int) -> ConnectorError:
        return ConnectorError(
            f"version {version} of {self._source.place.path} takes rows away, and the table is read as one to which rows are "
            "only added",
            code="E3193",
            hint="'streaming-changes' = 'true' reads deletes and updates, too; a table with a primary key does",
        )


_NONE = np.zeros(0, bool)


def _differing(old: np.ndarray | None, new: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """The rows of a file that are deleted, and those that are there again, of those that stay before and behind a change."""
    if old is None:
        return (_NONE if new is None else ~new), _NONE
    return (_NONE, ~old) if new is None else (old & ~new, new & ~old)


def version_to_read(table: DeltaTable, source: DeltaSource) -> int:
    """The version that options name; raises ConnectorError E3192 when there is none."""
    reading, place = source.reading, source.place
    newest = table.version()
    if reading.version is not None:
        if not 0 <= reading.version <= newest:
            raise ConnectorError(
                f"{place.path} has no version {reading.version}", code="E3192", hint=f"its newest one is {newest}"
            )
        return reading.version
    if reading.as_of is None:
        return newest
    moment = _millis(reading.as_of, place.path)
    versions = [(v["version"], v["timestamp"]) for v in table.history()]
    found = max((number for number, at in versions if at <= moment), default=None)
    if found is None:
        raise ConnectorError(
            f"{place.path} has no version that is as old as {reading.as_of}", code="E3192", hint="its log begins later"
        )
    return int(found)


def _millis(as_of: int | str, place: str) -> int:
    if isinstance(as_of, int):
        return as_of
    try:
        moment = dt.datetime.fromisoformat(as_of)
    except ValueError as error:
        raise ConnectorError(
            f"'timestampAsOf' of {place} cannot be '{as_of}'", code="E3192", hint="write '2026-05-01 12:00:00'"
        ) from error
    return round((moment if moment.tzinfo is not None else moment.replace(tzinfo=dt.UTC)).timestamp() * 1000)


def newest_rows(source: DeltaSource) -> tuple[int | None, bool]:
    """How many rows the files have that would be read, and whether that is exact; None when that is not known."""
    table = loaded(source.place)
    with told(source.place):
        version = version_to_read(table, source)
        table = table if version == table.version() else loaded(source.place, version)
        counts = [count for _, count in files_of(table, source.filters)]
        if any(count is None for count in counts):
            return None, False
        exact = not source.filters and "deletionVectors" not in (table.protocol().reader_features or ())
        return sum(count or 0 for count in counts), exact
