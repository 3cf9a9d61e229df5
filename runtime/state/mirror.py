"""The rows of a state table beside the operator that keeps them, found by key: what others ask while a job runs.

An operator changes its state while an epoch is at hand, and may not be asked then. So whoever wants to ask has a mirror: it
hears after each epoch what has changed (`StateTable.watch`, or the files of tasks), and takes that in when somebody asks. It
shows the state after the last complete epoch, and nobody waits: not the job for those who ask, nor they for the job.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from runtime.kernels.block_lists import BlockLists
from runtime.kernels.columns import ColumnStore
from runtime.kernels.grow import grown
from runtime.state.keyed import KeyIndex
from runtime.state.table import OWNER, SLOT, StateTable, TableChanges

__all__ = ["MirroredTable", "StateMirror"]

_PATIENCE = 1 << 18
"""So many changes gather at least until somebody asks; with more, and more than there are rows, the mirror is worn."""
_PIECE = 1 << 16


@dataclass(frozen=True)
class MirroredTable:
    """What of a state table is shown: its columns, those of its key, and the table that its rows belong to.

    Attributes:
        columns: name and type of each column that is shown; of a table with an owner the key of that comes first.
        key: the names of those by which rows are found; none: all rows belong to the same key.
        owner: the name of the table to whose rows its rows belong.
        owned: the columns that the table itself has, of which the first is `OWNER` where it has an owner.
        owner_key: the positions of the key among the columns of the owner.
    """

    name: str
    columns: pa.Schema
    key: tuple[str, ...]
    owned: pa.Schema
    owner: str | None = None
    owner_columns: pa.Schema | None = None
    owner_key: tuple[int, ...] = ()

    @staticmethod
    def of(table: StateTable) -> MirroredTable:
        """What is shown of a table, as `StateTable.decoded` shows it."""
        owner = table.owner
        if owner is None or not owner.key:
            shown = [f for f in table.schema if f.name != OWNER]
            return MirroredTable(table.name, pa.schema(shown), table.key, table.schema)
        taken = {SLOT, *table.schema.names}
        names = tuple(name if name not in taken else f"{owner.name}.{name}" for name in owner.key)
        places = tuple(owner.schema.get_field_index(name) for name in owner.key)
        keys = [pa.field(n, owner.schema.field(p).type) for n, p in zip(names, places, strict=True)]
        shown = [*keys, *(f for f in table.schema if f.name != OWNER)]
        return MirroredTable(table.name, pa.schema(shown), names, table.schema, owner.name, owner.schema, places)

    @property
    def tables(self) -> tuple[str, ...]:
        """The state tables whose changes it has to hear."""
        return (self.name,) if self.owner is None else (self.owner, self.name)


class _Slots:
    """Rows by the slots of the tasks that keep them, and by key.

    Args:
        types: of the columns that a table has.
        key: the positions of those by which rows are found.
    """

    def __init__(self, types: Sequence[pa.DataType], key: Sequence[int]) -> None:
        self._key = tuple(key)
        self._types = list(types)
        self._numbers = KeyIndex([pa.int64()], [False])
        self._store = ColumnStore(types)
        self._index = KeyIndex([types[p] for p in key])
        self._lists = BlockLists()
        self._key_of = np.empty(0, np.int64)

    @property
    def count(self) -> int:
        return len(self._numbers)

    @property
    def nbytes(self) -> int:
        parts = (self._numbers, self._store, self._index, self._lists, self._key_of)
        return sum(part.nbytes for part in parts)

    def put(self, slots: np.ndarray, columns: Sequence[pa.Array]) -> None:
        """Rows at slots, each once, in the place of what was there."""
        rows, is_new = self._numbers.insert([pa.array(slots)])
        left = self._leave(rows[~is_new])
        self._store.put(rows, columns)
        keys, _ = self._index.insert([columns[p] for p in self._key], len(rows))
        self._key_of = grown(self._key_of, self._numbers.capacity)
        self._key_of[rows] = keys
        self._lists.append(keys, rows)
        self._forget(left)

    def remove(self, slots: np.ndarray) -> None:
        """What is at slots goes, where anything is."""
        rows = self.at(slots)
        rows = rows[rows >= 0]
        left = self._leave(rows)
        self._store.free(rows)
        self._numbers.remove(rows)
        self._forget(left)

    def _leave(self, rows: np.ndarray) -> np.ndarray:
        """Rows are no longer among those of their key; the keys."""
        keys = self._key_of[rows]
        self._lists.remove(keys, rows)
        return np.unique(keys)

    def _forget(self, keys: np.ndarray) -> None:
        if len(keys):
            self._index.remove(keys[self._lists.counts(keys) == 0])

    def of_task(self, task: int, tasks: int) -> np.ndarray:
        """The slots of a task's rows. Costs as much as there are rows."""
        slots = self.slots(self.live())
        return slots[slots % tasks == task]

    def find(self, keys: Sequence[pa.Array], count: int, most: int) -> tuple[np.ndarray, np.ndarray]:
        """The rows of each key: the position of its key, ascending, and where it is. Raises OverflowError for more rows
        than `most`."""
        slots = self._index.find(keys, count)
        if int(self._lists.counts(slots).sum()) > most:
            raise OverflowError(most)
        return self._lists.probe(slots)

    def at(self, slots: np.ndarray) -> np.ndarray:
        """Where the rows of slots are, -1 where there is none."""
        return self._numbers.find([pa.array(slots)])

    def live(self) -> np.ndarray:
        """Where all rows are."""
        return self._numbers.live_slots()

    def column(self, position: int, rows: np.ndarray) -> pa.Array:
        return self._store.take_column(position, rows)

    def slots(self, rows: np.ndarray) -> np.ndarray:
        return self._numbers.columns(rows)[0].to_numpy()


class StateMirror:
    """See the module. Any thread may ask; the job's thread tells.

    Args:
        table: what is shown.
        tasks: how many tasks keep it; each has slots of its own.
    """

    def __init__(self, table: MirroredTable, tasks: int) -> None:
        self.table = table
        self._tasks = max(1, tasks)
        key = [table.owned.get_field_index(name) for name in table.key] if table.owner is None else [0]
        self._own = _Slots(table.owned.types, key)
        self._owners: _Slots | None = None
        if table.owner_columns is not None:
            self._owners = _Slots(table.owner_columns.types, table.owner_key)
        self._heard: list[Sequence[Sequence[TableChanges]]] = []
        self._heard_rows = 0
        self._told = self._epoch = 0
        self._hearing = threading.Lock()
        self._guard = threading.Lock()
        self.worn = False
        """Whether more has changed than it is worth to be kept for: nobody asks it any more, and it is made anew."""

    @property
    def nbytes(self) -> int:
        return self._own.nbytes + (0 if self._owners is None else self._owners.nbytes)

    @property
    def rows(self) -> int:
        return self._own.count

    @property
    def epoch(self) -> int:
        """The last epoch that it has heard of."""
        return self._told

    def hear(self, epoch: int, changes: Sequence[Sequence[TableChanges]]) -> None:
        """What an epoch has changed, by task; of tables that are shown, and any others."""
        wanted = self.table.tables
        found = [[change for change in task if change.table in wanted] for task in changes]
        count = sum(len(change.slots) + len(change.removed) for task in found for change in task)
        with self._hearing:
            if self.worn:
                return
            self._told = epoch
            self._heard_rows += count
            if count or _any_whole(found):
                self._heard.append(found)
            if self._heard_rows > max(_PATIENCE, 2 * self._own.count) and self._epoch:
                self.worn, self._heard = True, []

    def find(
        self, keys: Sequence[pa.Array], count: int, *, most: int = 1 << 62
    ) -> tuple[int, np.ndarray, pa.RecordBatch] | None:
        """The rows of each of so many keys: the epoch, the position of the key of each row, ascending, and the rows. None
        when it is worn. NULL is a key like any other. Raises OverflowError for more rows than `most`."""
        with self._guard:
            if not self._catch_up():
                return None
            if self._owners is None:
                index, rows = self._own.find(keys, count, most)
                return self._epoch, index, self._shown(rows)
            asked, owners = self._owners.find(keys, count, most)
            index, rows = self._own.find([pa.array(self._owners.slots(owners))], len(owners), most)
            return self._epoch, asked[index], self._shown(rows)

    def scan(self, most: int) -> tuple[int, Iterator[pa.RecordBatch]] | None:
        """All rows, in pieces of at most so many, as of one epoch; None when it is worn. They are copied at once."""
        with self._guard:
            if not self._catch_up():
                return None
            live = self._own.live()
            pieces = [self._shown(live[at : at + most]) for at in range(0, len(live), most)]
            return self._epoch, iter(pieces)

    def _shown(self, rows: np.ndarray) -> pa.RecordBatch:
        table = self.table
        if self._owners is None:
            places = [table.owned.get_field_index(name) for name in table.columns.names]
            columns = [self._own.column(p, rows) for p in places]
        else:
            owners = self._owners.at(self._own.column(0, rows).to_numpy())
            keys = [self._owners.column(p, owners) for p in table.owner_key]
            columns = [*keys, *(self._own.column(p, rows) for p in range(1, len(table.owned)))]
        typed = [c if c.type == f.type else c.cast(f.type) for c, f in zip(columns, table.columns, strict=True)]
        return pa.RecordBatch.from_arrays(typed, schema=table.columns)

    def _catch_up(self) -> bool:
        with self._hearing:
            heard, self._heard, epoch = self._heard, [], self._told
            self._heard_rows = 0
            if self.worn:
                return False
        for changes in heard:
            for task, tables in enumerate(changes):
                for change in tables:
                    self._take_in(task, change)
        self._epoch = epoch
        return True

    def _take_in(self, task: int, change: TableChanges) -> None:
        into = self._own if change.table == self.table.name else self._owners
        if into is None:
            return
        gone = change.removed * self._tasks + task
        if change.complete:
            slots = change.slots * self._tasks + task
            gone = np.setdiff1d(into.of_task(task, self._tasks), slots) if into.count else gone[:0]
        into.remove(gone)
        types = self.table.owned.types if into is self._own else (self.table.owner_columns or pa.schema([])).types
        for batch in change.batches():
            for at in range(0, batch.num_rows, _PIECE):
                rows = batch.slice(at, _PIECE)
                columns = rows.columns[1:]
                if rows.schema.names[1:2] == [OWNER]:
                    columns[0] = pa.array(columns[0].to_numpy() * self._tasks + task)
                typed = [c if c.type == t else c.cast(t) for c, t in zip(columns, types, strict=True)]
                into.put(rows.column(0).to_numpy() * self._tasks + task, typed)


def _any_whole(changes: Sequence[Sequence[TableChanges]]) -> bool:
    return any(change.complete for task in changes for change in task)
