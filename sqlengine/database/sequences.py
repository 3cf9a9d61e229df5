"""The numbers of sequences and identity columns: each is given once, also over restarts, rollbacks and crashes.

A sequence has a name of its own (CREATE SEQUENCE), or belongs to a column, and knows the next number. What a database in a
folder gives it has reserved before: up to where is in a definition of its log, so that a crash loses some numbers and gives
none again. When the database is closed the definition is brought to the next number. A row that brings a number of its own
moves the sequence of its column behind it (PostgreSQL would give that number once more, and fail).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.memory import MemoryTable, OpenChanges
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import ExpressionError
from sqlengine.catalog.definitions import CatalogSequence, range_of_type
from sqlengine.catalog.objects import CatalogTable, ObjectPath, PhysicalColumn
from sqlengine.database.folder.changes import Definition, Place
from sqlengine.database.numbers import NumberRange, Numbers

if TYPE_CHECKING:
    from sqlengine.database.database import Database
    from sqlengine.database.durable import Durable

__all__ = ["Sequences", "numbered"]

_RESERVED = 1000
"""How many numbers are reserved at once, at least."""


Key = tuple[ObjectPath, str]
"""A table and a column of it; a sequence, and an empty text."""


class _Watcher:
    """Hears the rows of a table with numbered columns."""

    def __init__(self, columns: Sequence[tuple[int, Numbers]], guard: threading.Lock) -> None:
        self._columns = columns
        self._guard = guard

    def hear(self, changes: Sequence[ChangelogBatch]) -> None:
        for batch in changes:
            for position, numbers in self._columns:
                bounds = pc.min_max(batch.decoded().rows.column(position)).as_py()  # type: ignore[attr-defined]
                last = bounds["max" if numbers.range.step > 0 else "min"]
                if last is not None:
                    with self._guard:
                        numbers.behind(last)


class Sequences:
    """All sequences of a database. From any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._guard = threading.Lock()
        self._numbers: dict[tuple[ObjectPath, str], Numbers] = {}
        self._watchers: dict[ObjectPath, _Watcher] = {}
        self._noted: WeakKeyDictionary[OpenChanges, int] = WeakKeyDictionary()
        """How many changes of open epochs are known."""

    def take(self, table: CatalogTable, column: PhysicalColumn, count: int) -> pa.Array:
        """The next numbers of a column, an array of its type. Raises ExpressionError E2023 where the type has no more."""
        key = (table.storage, column.name)
        found = self._take(key, self._of(table.storage, column), count, kept=not table.temporary)
        if found is None:
            raise ExpressionError(
                f'the column "{column.name}" of {table.path} has no number left in {column.type.with_nullable(True)}',
                code="E2023",
                hint="make the column a BIGINT",
            )
        return pa.array(found).cast(column.type.arrow)

    def take_of(self, sequence: CatalogSequence, count: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The next numbers of a sequence with a name. Raises ExpressionError E2023 where it has no more."""
        found = self._take((sequence.path, ""), self.of(sequence), count, kept=True)
        if found is None:
            end = sequence.high if sequence.step > 0 else sequence.low
            raise ExpressionError(
                f'the sequence "{sequence.path.name}" has given its last number, {end}',
                code="E2023",
                hint=f"ALTER SEQUENCE {sequence.path.name} with another end, RESTART or CYCLE",
            )
        return found

    def _take(
        self, key: Key, numbers: Numbers, count: int, *, kept: bool
    ) -> np.ndarray[Any, np.dtype[np.int64]] | None:
        """The next numbers; None where there are not so many."""
        while True:
            with self._guard:
                if not numbers.has(count):
                    return None
                durable = self._database.durable if kept else None
                if durable is None or numbers.left >= count:
                    found = numbers.give(count)
                    break
            self._reserve(key, numbers, count)
        if durable is not None:
            durable.settle(numbers.epoch)
        return found

    def _reserve(self, key: Key, numbers: Numbers, count: int) -> None:
        """Have the log know of more numbers."""
        durable, views = self._database.durable, self._database.views
        assert durable is not None
        with views.lock:
            with self._guard:
                reserved = numbers.reserve(max(count, _RESERVED))
                numbers.reserved, numbers.left, numbers.called = numbers.after(reserved), 0, True
            self._log(key, numbers, durable)
            with self._guard:
                # A row may have brought a number of its own meanwhile.
                numbers.left += reserved
                numbers.epoch = durable.folder.epoch

    def _log(self, key: Key, numbers: Numbers, durable: Durable) -> None:
        """Have the log know what is reserved. Of a sequence that has just been dropped, it is to know nothing."""
        place, is_column = _place(*key), bool(key[1])
        known = durable.definitions.get(place)
        if self._numbers.get(key) is numbers and (is_column or known is not None):
            durable.commit({place: _definition(numbers, None if is_column else known)})

    def set(self, sequence: CatalogSequence, number: int, *, called: bool) -> None:
        """From now on a sequence goes on behind a number, or with it."""
        self._set((sequence.path, ""), self.of(sequence), number, called, kept=True)

    def set_column(self, table: CatalogTable, column: PhysicalColumn, number: int, *, called: bool) -> None:
        """The same of a numbered column."""
        key = (table.storage, column.name)
        self._set(key, self._of(table.storage, column), number, called, kept=not table.temporary)

    def _set(self, key: Key, numbers: Numbers, number: int, called: bool, *, kept: bool) -> None:
        durable, views = self._database.durable if kept else None, self._database.views
        with views.lock:
            with self._guard:
                numbers.set(number, called)
            if durable is None:
                return
            self._log(key, numbers, durable)
            numbers.epoch = durable.folder.epoch
        durable.settle(numbers.epoch)

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
                yield _place(table.storage, column.name), _definition(numbers, None)

    def definition(self, sequence: CatalogSequence, text: str) -> Definition:
        """What the log is to know of a sequence: how it is made again, and with which number it goes on."""
        return _definition(self.of(sequence), Definition(text, "", ""))

    def at_end(self) -> dict[Place, Definition]:
        """What the log is to know when the database is closed: no more numbers are given."""
        found: dict[Place, Definition] = {}
        with self._guard:
            known = {} if self._database.durable is None else self._database.durable.definitions
            for key, numbers in self._numbers.items():
                numbers.set(numbers.last, numbers.called)
                place = _place(*key)
                if place in known:
                    found[place] = _definition(numbers, None if key[1] else known[place])
        return found

    def restore(self, place: Place, definition: Definition) -> None:
        """A sequence goes on as the log has it. Harmless for a column that is gone."""
        if len(place) == 4:
            sequence = self._database.catalogs.find_definition("sequence", ObjectPath(*place[1:]))
            assert isinstance(sequence, CatalogSequence)
            at = dict(definition.options)
            numbers = Numbers(_range(sequence), int(at["next"]), at["called"] == "true")
            self._numbers[sequence.path, ""] = numbers
            return
        storage = ObjectPath(*place[1:4])
        table = self._database.catalogs.find(storage)
        for column in numbered(table) if isinstance(table, CatalogTable) else ():
            if column.name == place[4]:
                numbers = self._of(storage, column)
                number = int(definition.text)
                numbers.set(number, called=False)
                numbers.called = number != numbers.range.start

    def of(self, sequence: CatalogSequence) -> Numbers:
        """Where a sequence is."""
        with self._guard:
            return self._numbers.setdefault((sequence.path, ""), Numbers(_range(sequence)))

    def last_value(self, sequence: CatalogSequence, is_of_column: bool) -> int | None:
        """The number that a sequence has given last; None where it has given none."""
        key = (sequence.path, "")
        if is_of_column:
            assert sequence.owner is not None
            key = sequence.owner
        with self._guard:
            numbers = self._numbers.get(key)
            return numbers.last if numbers is not None and numbers.called else None

    def change(self, before: CatalogSequence, after: CatalogSequence, restart: int | None) -> None:
        """A sequence has other clauses, or another name: it goes on where it is, or begins anew."""
        numbers = self.of(before)
        with self._guard:
            del self._numbers[before.path, ""]
            made = self._numbers[after.path, ""] = Numbers(_range(after), numbers.next, numbers.called)
            if restart is not None:
                made.set(restart, called=False)
            elif numbers.called:
                made.set(numbers.last, called=True)

    def _of(self, storage: ObjectPath, column: PhysicalColumn) -> Numbers:
        with self._guard:
            found = self._numbers.get((storage, column.name))
            if found is None:
                assert column.identity is not None
                low, high = range_of_type(column.type)
                start, step = column.identity.start, column.identity.step
                found = self._numbers[(storage, column.name)] = Numbers(NumberRange(start, step, low, high))
            return found


def numbered(table: CatalogTable) -> list[PhysicalColumn]:
    """The identity columns of a table."""
    return [c for c in table.columns if isinstance(c, PhysicalColumn) and c.identity is not None]


def _range(sequence: CatalogSequence) -> NumberRange:
    return NumberRange(sequence.start, sequence.step, sequence.low, sequence.high, sequence.cycle)


def _place(storage: ObjectPath, column: str) -> Place:
    return ("sequence", *storage.parts, column) if column else ("sequence", *storage.parts)


def _definition(numbers: Numbers, named: Definition | None) -> Definition:
    """What the log is to know of a column, or of a sequence with a name."""
    if named is None:
        return Definition(str(numbers.reserved), "", "")
    return replace(named, options=(("next", str(numbers.reserved)), ("called", str(numbers.called).lower())))
