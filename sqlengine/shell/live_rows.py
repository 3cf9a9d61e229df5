"""The rows of a result while it changes: a table that is updated in place, and a list of changes."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Sequence

__all__ = ["ChangeLog", "LiveTable", "Row", "sort_rows"]

Row = tuple[str | None, ...]


class LiveTable:
    """What is left of the changes so far, as texts. A row that is updated keeps its place. Thread-safe.

    Args:
        most: rows kept; of more the oldest are forgotten, and later changes of those are left out.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._rows: dict[int, Row] = {}
        self._places: dict[Row, list[int]] = {}
        self._next = 0
        self._lock = threading.Lock()
        self.version = 0
        self.changes = 0
        self.forgotten = 0
        self._fresh: set[int] = set()

    def apply(self, kinds: Iterable[str], rows: Iterable[Row]) -> None:
        """Take the changes of an epoch."""
        with self._lock:
            fresh: set[int] = set()
            vacant: int | None = None
            for kind, row in zip(kinds, rows, strict=True):
                self.changes += 1
                if kind == "+I" or kind == "+U":
                    place = self._next if vacant is None or kind == "+I" else vacant
                    if place == vacant:
                        vacant = None
                    else:
                        self._next += 1
                    self._rows[place] = row
                    self._places.setdefault(row, []).append(place)
                    fresh.add(place)
                    continue
                if vacant is not None:
                    del self._rows[vacant]
                    vacant = None
                found = self._places.get(row)
                if not found:
                    continue  # it was forgotten
                place = found.pop()
                if not found:
                    del self._places[row]
                if kind == "-U":
                    vacant = place
                else:
                    del self._rows[place]
                    fresh.discard(place)
            if vacant is not None:
                del self._rows[vacant]
            self._forget()
            self._fresh = fresh
            self.version += 1

    def _forget(self) -> None:
        while len(self._rows) > self._most:
            place, row = next(iter(self._rows.items()))
            del self._rows[place]
            places = self._places[row]
            places.remove(place)
            if not places:
                del self._places[row]
            self.forgotten += 1

    def __len__(self) -> int:
        return len(self._rows)

    def rows(self) -> list[Row]:
        """The rows in order of arrival."""
        with self._lock:
            return list(self._rows.values())

    def rows_and_fresh(self) -> tuple[list[Row], set[int]]:
        """The rows, and which of them (by position) the last epoch has changed."""
        with self._lock:
            if not self._fresh:
                return list(self._rows.values()), set()
            fresh = {i for i, place in enumerate(self._rows) if place in self._fresh}
            return list(self._rows.values()), fresh


class ChangeLog:
    """The newest changes, in order. Thread-safe."""

    def __init__(self, most: int) -> None:
        self._changes: deque[tuple[str, Row]] = deque(maxlen=most)
        self._lock = threading.Lock()
        self.version = 0
        self.changes = 0

    def apply(self, kinds: Iterable[str], rows: Iterable[Row]) -> None:
        """Take the changes of an epoch."""
        with self._lock:
            pairs = list(zip(kinds, rows, strict=True))
            self._changes.extend(pairs)
            self.changes += len(pairs)
            self.version += len(pairs)

    @property
    def forgotten(self) -> int:
        return self.changes - len(self._changes)

    def __len__(self) -> int:
        return len(self._changes)

    def rows_and_kinds(self) -> tuple[list[Row], list[str]]:
        with self._lock:
            return [row for _, row in self._changes], [kind for kind, _ in self._changes]


def sort_rows(rows: Sequence[Row], column: int, *, numeric: bool, descending: bool) -> list[int]:
    """The positions of rows in order of a column, numbers by value, NULL last. Rows that are equal stay in order."""
    present = [i for i, row in enumerate(rows) if row[column] is not None]
    absent = [i for i, row in enumerate(rows) if row[column] is None]
    present.sort(key=lambda i: _key(rows[i][column] or "", numeric), reverse=descending)
    return present + absent


def _key(text: str, numeric: bool) -> tuple[int, float, str]:
    if numeric:
        try:
            return 0, float(text), ""
        except ValueError:
            return 1, 0.0, text
    return 0, 0.0, text
