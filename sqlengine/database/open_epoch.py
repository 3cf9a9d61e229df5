"""The changes of a session between BEGIN EPOCH and END EPOCH: nobody else sees them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from connectors.memory import MemoryTable, OpenChanges
from runtime.core.cancellation import Cancellation
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import PlanningError
from sqlengine.catalog.objects import ObjectPath

__all__ = ["OpenEpoch", "RowConflict"]


class RowConflict(PlanningError):
    """Somebody else has changed a row that an epoch changes, too: a statement alone may be carried out again."""


class OpenEpoch:
    """What an epoch has changed, by the `storage` of tables in memory.

    Args:
        implicit: it is the epoch of one statement.
        alone: nobody else changes anything until it ends.
        blind: it says nothing of the rows that were there: whatever others have changed does not contradict it.
    """

    def __init__(self, *, implicit: bool = False, alone: bool = False, blind: bool = False) -> None:
        self.implicit = implicit
        self.alone = alone
        self.blind = blind
        self.cancellation = Cancellation()
        """Asks the end of the epoch to stop: then nothing has changed."""
        self.applied = False
        """Whether its changes have become those of the tables."""
        self._changes: dict[ObjectPath, OpenChanges] = {}

    def to_write(self, storage: ObjectPath, table: MemoryTable) -> OpenChanges:
        """Where changes of a table go."""
        found = self._changes.get(storage)
        if found is None or found.table is not table:
            found = self._changes[storage] = OpenChanges(table)
        found.begin_statement()
        return found

    def find(self, storage: ObjectPath) -> OpenChanges | None:
        """The changes of a table; None when there are none."""
        found = self._changes.get(storage)
        return found if found else None

    def move(self, before: ObjectPath, changes: OpenChanges | None, after: ObjectPath) -> None:
        """A table has another name or other columns; None: it is gone."""
        self._changes.pop(before, None)
        if changes is not None:
            self._changes[after] = changes

    def forget(self, table: MemoryTable) -> None:
        """A table was not made after all."""
        self._changes = {path: changes for path, changes in self._changes.items() if changes.table is not table}

    def mark(self) -> Mapping[ObjectPath, int]:
        """How far each table has come, for `back_to`."""
        return {path: len(changes.batches) for path, changes in self._changes.items()}

    def back_to(self, mark: Mapping[ObjectPath, int]) -> None:
        """Keep of the changes only those that were there at a mark."""
        for path, changes in self._changes.items():
            changes.forget_since(mark.get(path, 0))

    def new_twins(self, mark: Mapping[ObjectPath, int]) -> Mapping[ObjectPath, OpenChanges]:
        """The changes since a mark of tables that have columns without repeated values."""
        return {
            path: changes
            for path, changes in self._changes.items()
            if changes.looks_for_twins and len(changes.batches) > mark.get(path, 0)
        }

    def close(self) -> None:
        """It has ended, or was given up: no table tells it of changes any more, whoever still holds it."""
        for changes in self._changes.values():
            changes.close()

    @property
    def buffered(self) -> Mapping[ObjectPath, Sequence[ChangelogBatch]]:
        """What it holds in memory, by table. From any thread."""
        return {path: changes.buffered for path, changes in tuple(self._changes.items())}

    def __iter__(self) -> Iterator[OpenChanges]:
        return (changes for changes in self._changes.values() if changes)

    @property
    def rows(self) -> int:
        """How many rows it changes."""
        return sum(len(batch) for changes in self for batch in changes.batches)

    @property
    def storages(self) -> set[ObjectPath]:
        """The tables that it changes."""
        return {path for path, changes in self._changes.items() if changes}

    @property
    def tables(self) -> Sequence[MemoryTable]:
        """The tables that it changes."""
        return [changes.table for changes in self]

    def check(self, current: Callable[[ObjectPath], MemoryTable | None]) -> None:
        """Raise E1716 when somebody else has changed one of the same rows since a statement of this epoch has read them
        (RowConflict), or the table itself (PlanningError). Called with the lock of the tables held.

        Args:
            current: the table that is kept under a path now.
        """
        for path, changes in self._changes.items():
            if not changes:
                continue
            if current(path) is not changes.table:
                raise PlanningError(
                    f'another session has changed "{path.name}" itself meanwhile: nothing was applied',
                    code="E1716",
                    hint="begin again: DESCRIBE shows the table as it is now",
                )
            if not self.blind and changes.conflicts:
                raise RowConflict(
                    f'another session has changed the same rows of "{path.name}" meanwhile: nothing was applied',
                    code="E1716",
                    hint="begin again: statements see the newest rows",
                )

    def apply(self) -> Sequence[MemoryTable]:
        """Apply everything, and hear no more of what others change; gives the tables that have changed. Called with their
        lock held. Raises Stopped, and nothing has changed."""
        applied: list[OpenChanges] = []
        try:
            with self.cancellation.governing():
                for changes in self:
                    changes.commit()
                    applied.append(changes)
        except BaseException:
            for changes in applied:
                changes.table.take_back()
            raise
        self.close()
        self.applied = True
        return self.tables
