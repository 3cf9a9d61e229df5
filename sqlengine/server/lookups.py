"""Indices for point lookups: made for tables and views that are asked by the same columns again and again."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator

from connectors.memory import MemoryTable
from connectors.memory.keyed_rows import KeyedRows
from runtime.core.memory import HeldBeside
from sqlengine.database.database import Database

__all__ = ["Indices"]

_ASKED_BEFORE = 2
"""So often a table is read as a whole before an index is made."""
_MOST = 4
"""Indices of one table."""

Columns = tuple[int, ...]


_known: weakref.WeakKeyDictionary[Database, Indices] = weakref.WeakKeyDictionary()
_guard = threading.Lock()


class Indices:
    """The indices over tables in memory of a database, by the positions of columns. Any thread may ask."""

    @staticmethod
    def of(database: Database) -> Indices:
        """Those of a database: all servers share them."""
        with _guard:
            found = _known.get(database)
            if found is None:
                found = _known[database] = Indices(database)
            return found

    def __init__(self, database: Database) -> None:
        self._reference = weakref.ref(database)
        self._made: weakref.WeakKeyDictionary[MemoryTable, dict[Columns, KeyedRows]] = weakref.WeakKeyDictionary()
        self._asked: weakref.WeakKeyDictionary[MemoryTable, dict[Columns, int]] = weakref.WeakKeyDictionary()
        self._guard = threading.Lock()
        database.memory_accounts.add(self.held)

    def held(self) -> Iterator[HeldBeside]:
        """The indices, for `system.memory`."""
        for table, made in tuple(self._made.items()):
            names = [field.name for field in table.schema]
            for columns, index in tuple(made.items()):
                part = f"lookups by {', '.join(names[i] for i in columns)}"
                yield HeldBeside(table, part, index.rows, index.nbytes)

    @property
    def _database(self) -> Database:
        database = self._reference()
        assert database is not None
        return database

    def find(self, table: MemoryTable, columns: Columns) -> KeyedRows | None:
        """The index, where there is one."""
        made = self._made.get(table)
        found = None if made is None else made.get(columns)
        return None if found is None or found.worn else found

    def asked(self, table: MemoryTable, columns: Columns) -> None:
        """Somebody has read the table for the rows of a key: an index is made where that is worth it, or brought up to
        date. Costs as much as the table is large when it is made."""
        found = self.find(table, columns)
        if found is not None:
            found.catch_up()
            return
        with self._guard:
            counts = self._asked.setdefault(table, {})
            counts[columns] = counts.get(columns, 0) + 1
            if len(counts) > 64:
                counts.clear()
                return
            made = self._made.setdefault(table, {})
            if self.find(table, columns) is not None:
                return
            if counts[columns] <= _ASKED_BEFORE or table.files is not None or len(made.keys() - {columns}) >= _MOST:
                return
            counts[columns] = 0
            self._make(table, columns)

    def made(self, table: MemoryTable, columns: Columns) -> KeyedRows | None:
        """The index, made now where there is none, which costs as much as the table is large; None for a table that
        readers do not see. Of too many indices the oldest goes."""
        found = self.find(table, columns)
        if found is not None:
            return found
        with self._guard:
            found = self.find(table, columns)
            if found is None:
                found = self._make(table, columns)
                made = self._made.get(table, {})
                while len(made) > _MOST:
                    gone = made.pop(next(iter(made)))
                    table.tell_no_more(gone)
            return found

    def _make(self, table: MemoryTable, columns: Columns) -> KeyedRows | None:
        index = KeyedRows(table, columns, self._worn(table, columns))
        with self._database.showing:
            version = self._database.shown.versions.get(table)
            table.tell(index)
        if version is None:
            return None
        index.fill(version)
        self._made.setdefault(table, {})[columns] = index
        return index

    def _worn(self, table: MemoryTable, columns: Columns) -> Callable[[KeyedRows], None]:
        asked = weakref.ref(table)

        def forget(index: KeyedRows) -> None:
            known = asked()
            made = None if known is None else self._made.get(known)
            if made is not None and made.get(columns) is index:
                del made[columns]

        return forget
