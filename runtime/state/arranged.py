"""The rows of a table by some of its columns, as they were at its last versions: one index for all who join by these.

Who joins two tables of a database need not keep a copy of them: the tables have their rows. What is kept here beside them
is, for each choice of columns, an index of keys and the positions of the rows of each; and, once for the table, how often
each row counts, and a log of what has changed.

Those who read the index follow the table at different speeds. The table numbers the steps of changes that it delivers,
and its log says what each step has changed. So the counts of a row at a version are those of now less the changes since,
and a row that is gone stays in the index until the slowest follower has taken in that it went. (The arrangements of
differential dataflow: McSherry et al., "Shared Arrangements: practical inter-query sharing for streaming dataflows", 2020.)

Changes are noted when they are made, as positions, and taken into the indices when somebody reads.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from runtime.core.cancellation import look
from runtime.kernels.arrow_buffers import null_mask
from runtime.kernels.block_lists import BlockLists
from runtime.kernels.grow import grown
from runtime.state.arrangement import Found, Span
from runtime.state.keyed import KeyIndex

__all__ = ["ArrangedRows", "Arranger", "DescribedIndex", "PlacedRows"]

_NONE = np.empty(0, np.int64)
_PIECE = 1 << 16
_LATEST = 1 << 62


class PlacedRows(Protocol):
    """Rows by position as they stood at one moment: whoever changes the table does not change these."""

    size: int
    """The exclusive bound of their positions."""

    def take(self, columns: Sequence[int], positions: np.ndarray) -> list[pa.Array]: ...


class Arranger(Protocol):
    """Where a table has its rows. `listener` hears of each change of how often rows count."""

    listener: ArrangedRows | None

    def placed(self) -> PlacedRows: ...

    def counts(self, positions: np.ndarray) -> np.ndarray: ...

    def compact(self, keep: np.ndarray) -> tuple[np.ndarray, np.ndarray]: ...


class DescribedIndex(NamedTuple):
    """An index, for people: the columns by position, who uses it, its rows, and the bytes of it; the first of a table has
    the bytes of what all share as well."""

    columns: tuple[int, ...]
    users: list[str]
    rows: int
    nbytes: int


class _Changes(NamedTuple):
    """What a version has changed: rows by position, and by how much they count more."""

    version: int
    positions: np.ndarray
    by: np.ndarray


class ArrangedRows:
    """What the indices of one table share. Its owner says when a version is complete (`delivered`).

    Args:
        types: the types of the table's columns.
        version: that of the rows as they are.
        left: gives the version that every follower has reached: nobody asks for rows as they were before it.
    """

    def __init__(self, types: Sequence[pa.DataType], store: Arranger, version: int, left: Callable[[], int]) -> None:
        self._types = tuple(types)
        self._store = store
        self._left = left
        self._guard = threading.RLock()
        self._version = version
        self._rows = store.placed()
        self._size = self._rows.size
        """The exclusive bound of the positions that are taken in."""
        self._counts = store.counts(np.arange(self._size)).astype(np.int32)
        self._heard: deque[_Changes] = deque()
        """Changes that are not in the counts and indices yet."""
        self._log: list[_Changes] = []
        """Those that are, as long as somebody may ask for what was before them."""
        self._indices: dict[tuple[int, ...], _Index] = {}
        self._reading = 0
        store.listener = self

    # --- the table's side

    def appended(self, first: int, count: int) -> None:
        """Rows came that count once."""
        with self._guard:
            positions = np.arange(first, first + count)
            self._heard.append(_Changes(self._version + 1, positions, np.ones(count, np.int64)))

    def counted(self, positions: np.ndarray, by: np.ndarray) -> None:
        """Rows count so much more."""
        with self._guard:
            self._heard.append(_Changes(self._version + 1, positions, by))

    def delivered(self, version: int) -> None:
        """Followers are told of all changes so far, as this version."""
        with self._guard:
            self._version = version
            self._rows = self._store.placed()
            if self._log and not self._reading:
                self._trim()

    def compact(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Leave out what counts no more, and nobody asks for: `(old, new)` positions of the rows that are left. None when
        somebody reads, who knows rows by position."""
        with self._guard:
            if self._reading:
                return None
            self._rows = self._store.placed()
            self._take_in(_LATEST)
            self._trim()
            logged = np.unique(np.concatenate([_NONE, *(c.positions for c in self._log)]))
            self._store.listener = None
            old, new = self._store.compact(logged[self._counts[logged] == 0])
            self._store.listener = self
            numbers = np.full(self._size, -1, np.int64)
            numbers[old] = new
            self._counts, self._size = self._counts[old], len(old)
            self._log = [c._replace(positions=numbers[c.positions]) for c in self._log]
            self._rows = self._store.placed()
            for index in self._indices.values():
                index.renumber(numbers)
            return old, new

    # --- the readers' side

    def index(self, columns: Sequence[int], user: str) -> Arranged:
        """The rows by some columns."""
        key = tuple(columns)
        with self._guard:
            self._catch_up()
            index = self._indices.get(key)
            if index is None:
                index = _Index([self._types[c] for c in key], key)
                there = self._counts[: self._size] != 0
                for changes in self._log:
                    there[changes.positions] = True
                index.add(self._rows, np.flatnonzero(there))
                self._indices[key] = index
            index.users.append(user)
            return Arranged(self, index, user)

    def release(self, index: _Index, user: str) -> None:
        """A user of an index needs it no more. It goes with the last one."""
        with self._guard:
            if user in index.users:
                index.users.remove(user)
            if not index.users:
                self._indices.pop(index.columns, None)

    @property
    def used(self) -> bool:
        """Whether there is any index."""
        return bool(self._indices)

    def described(self) -> list[DescribedIndex]:
        """What there is. From any thread."""
        with self._guard:
            shared = self._counts.nbytes + sum(c.positions.nbytes + c.by.nbytes for c in (*self._log, *self._heard))
            found: list[DescribedIndex] = []
            for index in self._indices.values():
                users = sorted(set(index.users))
                found.append(DescribedIndex(index.columns, users, index.rows, index.nbytes + shared))
                shared = 0
            return found

    @contextmanager
    def reading(self) -> Generator[None]:
        """See `Arrangement.reading`."""
        with self._guard:
            self._catch_up()
            self._reading += 1
        try:
            yield
        finally:
            with self._guard:
                self._reading -= 1

    def changed(self, span: Span) -> Found:
        """See `Arrangement.changed`."""
        start, end = span
        if end < 0 or start == end:
            return Found(_NONE, _NONE, _NONE)
        with self._guard:
            if start < 0:
                later = self._net(end, _LATEST)[0]
                positions = np.flatnonzero(self._counts)
                positions = np.union1d(positions, later) if len(later) else positions
                now = self._at(positions, end)
                found = Found(positions, now, np.zeros(len(positions), np.int64))
                return found if len(now) == np.count_nonzero(now) else found.at(now != 0)
            positions, by = self._net(start, end)
            positions, by = positions[by != 0], by[by != 0]
            now = self._at(positions, end)
            return Found(positions, now, now - by)

    def counts_in(self, positions: np.ndarray, span: Span) -> tuple[np.ndarray, np.ndarray]:
        """How often rows are there at the end of a span, and were at its start. With the guard held."""
        start, end = span
        if end < 0:
            return np.zeros((2, len(positions)), np.int64)  # type: ignore[return-value]
        now = self._at(positions, end)
        if start < 0:
            return now, np.zeros(len(positions), np.int64)
        return now, now - _looked_up(positions, *self._net(start, end))

    def _at(self, positions: np.ndarray, version: int) -> np.ndarray:
        counts = self._counts[positions].astype(np.int64)
        return counts - _looked_up(positions, *self._net(version, _LATEST))

    def _net(self, after: int, upto: int) -> tuple[np.ndarray, np.ndarray]:
        """The rows that versions above `after` and up to `upto` have changed, ascending, and by how much together."""
        chosen = [c for c in self._log if after < c.version <= upto]
        if not chosen:
            return _NONE, _NONE
        positions, place = np.unique(np.concatenate([c.positions for c in chosen]), return_inverse=True)
        by = np.zeros(len(positions), np.int64)
        np.add.at(by, place, np.concatenate([c.by for c in chosen]))
        return positions, by

    # --- taking in

    def _catch_up(self) -> None:
        self._take_in(self._version)
        self._trim()

    def _take_in(self, version: int) -> None:
        known = self._size
        while self._heard and self._heard[0].version <= version:
            changes = self._heard.popleft()
            top = int(changes.positions.max(initial=-1)) + 1
            self._size = max(self._size, top)
            self._counts = grown(self._counts, self._size)
            self._counts[changes.positions] += changes.by.astype(np.int32)
            if len(changes.positions):
                self._log.append(changes)
        added = np.arange(known, self._size)
        for index in self._indices.values():
            index.add(self._rows, added)

    def _trim(self) -> None:
        """Forget what was before the version that all have reached."""
        left = self._left()
        count = 0
        while count < len(self._log) and self._log[count].version <= left:
            count += 1
        if not count:
            return
        gone = np.unique(np.concatenate([c.positions for c in self._log[:count]]))
        del self._log[:count]
        gone = gone[self._counts[gone] == 0]
        for changes in self._log if len(gone) else ():
            gone = np.setdiff1d(gone, changes.positions, assume_unique=True)
        for index in self._indices.values() if len(gone) else ():
            index.remove(self._rows, gone)

    @property
    def guard(self) -> threading.RLock:  # type: ignore[valid-type]
        return self._guard

    def take(self, columns: Sequence[int], rows: np.ndarray) -> list[pa.Array]:
        """See `Arrangement.take`."""
        return self._rows.take(columns, rows)


class _Index:
    """The positions of rows by the values of some columns."""

    def __init__(self, types: Sequence[pa.DataType], columns: tuple[int, ...]) -> None:
        self.columns = columns
        self.users: list[str] = []
        self._keys = KeyIndex(types)
        self._lists = BlockLists()

    @property
    def rows(self) -> int:
        return len(self._lists)

    @property
    def nbytes(self) -> int:
        return self._keys.nbytes + self._lists.nbytes

    def add(self, rows: PlacedRows, positions: np.ndarray) -> None:
        for at in range(0, len(positions), _PIECE):
            look()
            part = positions[at : at + _PIECE]
            slots, _ = self._keys.insert(rows.take(self.columns, part), len(part))
            self._lists.append(slots, part)

    def remove(self, rows: PlacedRows, positions: np.ndarray) -> None:
        slots = self._keys.find(rows.take(self.columns, positions), len(positions))
        self._lists.remove(slots, positions)
        slots = np.unique(slots)
        self._keys.remove(slots[self._lists.counts(slots) == 0])

    def renumber(self, numbers: np.ndarray) -> None:
        self._lists.renumber(numbers)

    def find(self, keys: Sequence[pa.Array], null_safe: Sequence[bool]) -> np.ndarray:
        slots = self._keys.find(keys, len(keys[0]))
        for key, safe in zip(keys, null_safe, strict=True):
            nulls = None if safe else null_mask(key)
            if nulls is not None:
                slots[nulls] = -1
        return slots

    def piece(self, keys: np.ndarray, start: int, most: int) -> tuple[int, np.ndarray, np.ndarray]:
        """The rows of keys from `start` on: where it ends, the positions of the keys, and rows."""
        part = keys[start : start + _PIECE]
        sizes = np.cumsum(self._lists.counts(part))
        count = max(1, int(np.searchsorted(sizes, most, side="right")))
        index, rows = self._lists.probe(part[:count])
        return start + min(count, len(part)), index + start, rows


class Arranged:
    """An index as somebody uses it: see `runtime.state.arrangement.Arrangement`."""

    def __init__(self, shared: ArrangedRows, index: _Index, user: str) -> None:
        self._shared = shared
        self._index = index
        self._user = user
        self.reading = shared.reading
        self.changed = shared.changed
        self.take = shared.take

    def find(self, keys: Sequence[pa.Array], null_safe: Sequence[bool]) -> np.ndarray:
        with self._shared.guard:
            return self._index.find(keys, null_safe)

    def probe(self, keys: np.ndarray, span: Span, most: int) -> Iterator[tuple[np.ndarray, Found]]:
        start = 0
        while start < len(keys):
            look()
            with self._shared.guard:
                start, index, rows = self._index.piece(keys, start, most)
                found = Found(rows, *self._shared.counts_in(rows, span))
            there = (found.now != 0) | (found.old != 0)
            if not there.all():
                index, found = index[there], found.at(there)
            if len(index):
                yield index, found

    def release(self) -> None:
        user, self._user = self._user, ""
        if user:
            self._shared.release(self._index, user)


def _looked_up(positions: np.ndarray, known: np.ndarray, values: np.ndarray) -> np.ndarray | int:
    """The value of each position, 0 for one that is not known; `known` is ascending."""
    if not len(known):
        return 0
    place = np.minimum(np.searchsorted(known, positions), len(known) - 1)
    return np.where(known[place] == positions, values[place], 0)
