"""The numbers of identity columns: each is given once, also over restarts, rollbacks and crashes.

A sequence belongs to a column of a table, and knows the next number. What a database in a folder gives it has reserved
before: up to where is a definition in its log, so that a crash loses some numbers and gives none again. When the database
is closed the definition is brought to the next number. A row that brings a number of its own moves the sequence behind it
(PostgreSQL would give that number once more, and fail).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.memory import MemoryTable, OpenChanges
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import ExpressionError
from runtime.core.types import TypeRoot
from sqlengine.catalog.objects import CatalogTable, ObjectPath, PhysicalColumn
from sqlengine.database.folder.changes import Definition, Place

if TYPE_CHECKING:
    from sqlengine.database.database import Database

__all__ = ["Sequences", "numbered"]

_RESERVED = 1000
"""How many numbers are reserved at once, at least."""
_BITS = {TypeRoot.TINYINT: 8, TypeRoot.SMALLINT: 16, TypeRoot.INT: 32, TypeRoot.BIGINT: 64}


@dataclass(slots=True)
class _Numbers:
    """The sequence of a column. `reserved`: the first number that the log does not know as given."""

    step: int
    next: int
    reserved: int

    def behind(self, number: int) -> None:
        """Numbers begin behind one that is there."""
        if (number - self.next) * self.step >= 0:
            self.next += ((number - self.next) // self.step + 1) * self.step

    def lacks(self, count: int) -> bool:
        """Whether the log has to know of more before so many are given."""
        return (self.next + self.step * count - self.reserved) * (1 if self.step > 0 else -1) > 0


class _Watcher:
    """Hears the rows of a table with numbered columns."""

    def __init__(self, columns: Sequence[tuple[int, _Numbers]], guard: threading.Lock) -> None:
        self._columns = columns
        self._guard = guard

    def hear(self, changes: Sequence[ChangelogBatch]) -> None:
        for batch in changes:
            for position, numbers in self._columns:
                bounds = pc.min_max(batch.decoded().rows.column(position)).as_py()  # type: ignore[attr-defined]
                last = bounds["max" if numbers.step > 0 else "min"]
                if last is not None:
                    with self._guard:
                        numbers.behind(last)


class Sequences:
    """All sequences of a database. From any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._guard = threading.Lock()
        self._numbers: dict[tuple[ObjectPath, str], _Numbers] = {}
        self._watchers: dict[ObjectPath, _Watcher] = {}
        self._noted: WeakKeyDictionary[OpenChanges, int] = WeakKeyDictionary()
        """How many changes of open epochs are known."""

    def take(self, table: CatalogTable, column: PhysicalColumn, count: int) -> pa.Array:
        """The next numbers of a column, an array of its type. Raises ExpressionError E2023 where the type has no more."""
        numbers = self._of(table.storage, column)
        while True:
            with self._guard:
                if self._needs_no_log(table) or not numbers.lacks(count):
                    first = numbers.next
                    last = first + numbers.step * (count - 1)
                    limit = 1 << (_BITS[column.type.root] - 1)
                    if not -limit <= last < limit:
                        raise ExpressionError(
                            f'the column "{column.name}" of {table.path} has no number left in {column.type.with_nullable(True)}',
                            code="E2023",
                            hint="make the column a BIGINT",
                        )
                    numbers.next = last + numbers.step
                    found = first + np.arange(count, dtype=np.int64) * numbers.step
                    return pa.array(found).cast(column.type.arrow)
            self._reserve(table, column.name, numbers, count)

    def _needs_no_log(self, table: CatalogTable) -> bool:
        return self._database.durable is None or table.temporary

    def _reserve(self, table: CatalogTable, column: str, numbers: _Numbers, count: int) -> None:
        """Have the log know of more numbers, and wait until that is safe."""
        durable, views = self._database.durable, self._database.views
        assert durable is not None
        with views.lock:
            with self._guard:
                reserved = numbers.next + numbers.step * max(count, _RESERVED)
            durable.commit({_place(table.storage, column): _definition(reserved)})
            epoch = durable.folder.epoch
            with self._guard:
                numbers.reserved = reserved
        durable.settle(epoch)

    def follow(self, table: CatalogTable, contents: MemoryTable) -> None:
        """The rows of a table are kept here from now on: their numbers are not given again."""
        columns = [(contents.schema.index_of(c.name), self._of(table.storage, c)) for c in numbered(table)]
        watcher = self._watchers[table.storage] = _Watcher(columns, self._guard)
        contents.watchers.add(watcher)

    def pass_by(self, table: CatalogTable, column: PhysicalColumn, values: pa.Array) -> None:
        """A statement brings numbers of its own beside those that it is given."""
        _Watcher([(0, self._of(table.storage, column))], self._guard).hear(
            [ChangelogBatch(pa.RecordBatch.from_arrays([values], names=[column.name]))]
        )

    def note(self, storage: ObjectPath, changes: OpenChanges) -> None:
        """An open epoch has changed rows of a table, which nobody else sees yet."""
        watcher = self._watchers.get(storage)
        if watcher is not None:
            known = min(self._noted.get(changes, 0), len(changes.batches))
            watcher.hear(changes.batches[known:])
            self._noted[changes] = len(changes.batches)

    def forget(self, storage: ObjectPath) -> None:
        """A table is gone, or made anew."""
        self._watchers.pop(storage, None)
        for key in [k for k in self._numbers if k[0] == storage]:
            del self._numbers[key]

    def move(self, before: tuple[ObjectPath, str], after: tuple[ObjectPath, str]) -> None:
        """A column has another name, or its table has."""
        numbers = self._numbers.pop(before, None)
        if numbers is not None:
            self._numbers[after] = numbers
        if before[0] != after[0] and before[0] in self._watchers:
            self._watchers[after[0]] = self._watchers.pop(before[0])

    def definitions(self, table: CatalogTable) -> Iterator[tuple[Place, Definition]]:
        """What the log is to know of the columns of a table."""
        for column in numbered(table):
            numbers = self._numbers.get((table.storage, column.name))
            if numbers is not None:
                yield _place(table.storage, column.name), _definition(numbers.reserved)

    def at_end(self) -> dict[Place, Definition]:
        """What the log is to know when the database is closed: no more numbers are given."""
        with self._guard:
            places = {_place(*key): numbers.next for key, numbers in self._numbers.items()}
        known = {} if self._database.durable is None else self._database.durable.definitions
        return {place: _definition(number) for place, number in places.items() if place in known}

    def restore(self, place: Place, definition: Definition) -> None:
        """A sequence goes on as the log has it. Harmless for a column that is gone."""
        storage = ObjectPath(*place[1:4])
        table = self._database.catalogs.find(storage)
        for column in numbered(table) if isinstance(table, CatalogTable) else ():
            if column.name == place[4]:
                numbers = self._of(storage, column)
                numbers.next = numbers.reserved = int(definition.text)

    def _of(self, storage: ObjectPath, column: PhysicalColumn) -> _Numbers:
        with self._guard:
            found = self._numbers.get((storage, column.name))
            if found is None:
                assert column.identity is not None
                start = column.identity.start
                found = self._numbers[(storage, column.name)] = _Numbers(column.identity.step, start, start)
            return found


def numbered(table: CatalogTable) -> list[PhysicalColumn]:
    """The identity columns of a table."""
    return [c for c in table.columns if isinstance(c, PhysicalColumn) and c.identity is not None]


def _place(storage: ObjectPath, column: str) -> Place:
    return ("sequence", *storage.parts, column)


def _definition(number: int) -> Definition:
    return Definition(str(number), "", "")
