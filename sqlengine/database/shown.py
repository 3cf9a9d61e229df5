"""What readers are shown: definitions and rows of all tables and views after one epoch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from connectors.memory import MemoryTable
from connectors.memory.rows import TableVersion
from sqlengine.catalog.catalog import Catalog
from sqlengine.catalog.objects import ObjectPath

__all__ = ["NotShown", "Reading", "Shown"]


class NotShown(BaseException):
    """A statement asks for more than its version has: it begins again with a newer one.

    Not an `Exception`: nothing on the way may take it for a failure, try something else and go on.
    """


@dataclass(frozen=True)
class Shown:
    """All tables and views after an epoch. It never changes: a newer one takes its place.

    Args:
        epoch: its number: the time of its end in milliseconds, or one more than that of the epoch before.
        catalogs: the definitions that sessions share.
        memory: the tables in memory and the contents of materialized views, by `storage`.
        versions: their rows.
        stale: contents of views that have let changes gather: somebody has to bring them up to date before they are read.
    """

    epoch: int
    catalogs: Mapping[str, Catalog]
    memory: Mapping[ObjectPath, MemoryTable]
    versions: Mapping[MemoryTable, TableVersion]
    stale: frozenset[MemoryTable] = frozenset()

    def after(self, changed: Mapping[MemoryTable, TableVersion], stale: frozenset[MemoryTable], *, epoch: int) -> Shown:
        """The same with other rows of some tables."""
        versions = {**self.versions, **changed} if changed else self.versions
        return replace(self, epoch=epoch, versions=versions, stale=stale)

    def redefined(self, catalogs: Mapping[str, Catalog], memory: Mapping[ObjectPath, MemoryTable]) -> Shown:
        """The same rows with other definitions. Tables that are new have the rows that they have now."""
        tables = dict(memory)
        versions = {t: self.versions[t] if t in self.versions else t.held_version() for t in tables.values()}
        return Shown(self.epoch + 1, catalogs, tables, versions, self.stale)


class Reading:
    """What a statement reads while it is planned.

    Args:
        shown: the version. It may become a newer one as long as nothing was read (`pinned`).
    """

    def __init__(self, shown: Shown) -> None:
        self.shown = shown
        self.pinned = False

    def table(self, storage: ObjectPath) -> MemoryTable:
        """A table by its `storage`. Raises NotShown."""
        found = self.shown.memory.get(storage)
        if found is None:
            raise NotShown
        return found

    def rows(self, table: MemoryTable) -> TableVersion:
        """The rows of a table. Raises NotShown."""
        self.pinned = True
        if table not in self.shown.versions:
            raise NotShown
        return self.shown.versions[table]

    def move(self, shown: Shown) -> None:
        """Read a newer version. Raises NotShown when that contradicts what was read."""
        if shown.epoch != self.shown.epoch and (self.pinned or shown.catalogs is not self.shown.catalogs):
            raise NotShown
        self.shown = shown
