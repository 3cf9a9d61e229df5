"""Named, typed tables of an operator's state: what is saved of it, and how it comes back.

An operator keeps its state in whatever structures are fast. Beside them it declares tables: rows of named Arrow
columns, each row at a slot of the structure. Everything that is derived (hash indexes, lists, sorted runs) is made
anew when rows are loaded, so only values are saved. A row may belong to a row of another table of the operator (its
`owner`): the values of an aggregate to their group. So a table is meaningful without the structure: it can be read with
SQL, saved in one process and loaded in another that keeps it differently or has other key groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.core.errors import InternalError
from runtime.core.key_group import KeyGroups, key_group
from runtime.kernels.grow import grown
from runtime.kernels.key_encoding import KeyEncoder
from runtime.state.held_rows import MANY_ROWS, CopiedRows, HeldRows, RowsInPlace

__all__ = [
    "OWNER",
    "SLOT",
    "TOUCHED",
    "WRITTEN",
    "Moved",
    "Of",
    "OutsideRows",
    "StateTable",
    "TableChanges",
    "TableWatch",
    "every_row",
    "shared_value",
]

SLOT = "$slot"
"""The column of saved rows that tells them apart: where they stood when they were saved."""
OWNER = "$owner"
"""The first column of a table with an owner: the slot of the row of the owner to which the row belongs."""
TOUCHED = "$touched"
WRITTEN = "$written"
"""The columns that say when a key, or a row, was last used: milliseconds of processing time, int64, NULL if not known."""

_WIDE = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}
_NARROW_BYTES = 1 << 31

_BOUNDS = {
    OWNER: (0, 1 << 62),
    "$arrival": (0, 1 << 62),
    "$kind": (0, 3),
    "$left": (0, 1 << 40),
    "$matches": (0, 1 << 40),
    "$right": (0, 1 << 40),
    # Earlier versions took rows back from the window of the clock, not from the one that they came to.
    "$rows": (-(1 << 40), 1 << 40),
}
"""Columns that the engine keeps beside those of rows, and counts and numbers with: the least and greatest values."""

_SAME, _CHANGED, _FREED = 0, 1, 2

Read = Callable[[np.ndarray], Sequence[pa.Array]]
Load = Callable[[list[pa.Array]], np.ndarray]
Of = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True, slots=True)
class TableChanges:
    """What became of a table since it was last saved. `rows`: the column `SLOT` (int64), then those of the table;
    `removed`: slots that hold nothing any more, int64; `complete`: `rows` is all that there is, not only what
    changed; `held`: the rows when they are many, in pieces, or read where they are; `rows` is empty then."""

    table: str
    rows: pa.RecordBatch
    removed: np.ndarray
    complete: bool
    held: HeldRows | CopiedRows | None = None

    @property
    def slots(self) -> np.ndarray:
        """Those of the rows, in no particular order."""
        return self.rows.column(SLOT).to_numpy() if self.held is None else self.held.slots

    @property
    def nbytes(self) -> int:
        """About how large the rows are."""
        return self.rows.nbytes if self.held is None else self.held.nbytes

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows."""
        return iter([self.rows]) if self.held is None else self.held.batches()

    def release(self) -> None:
        """They are saved, or will never be."""
        if self.held is not None:
            self.held.release()


class Moved:
    """Where the rows of a table are that were loaded: new slots (-1: not here) by old ones, both int64."""

    def __init__(self, old: np.ndarray, new: np.ndarray) -> None:
        # What a table saves whole is in order already.
        order = None if len(old) < 2 or (old[1:] > old[:-1]).all() else np.argsort(old, kind="stable")
        self._old, self._new = (old, new) if order is None else (old[order], new[order])

    def of(self, slots: np.ndarray) -> np.ndarray:
        """The new slots of old ones, -1 where there is none."""
        found = np.full(len(slots), -1, np.int64)
        if len(self._old):
            places = np.minimum(np.searchsorted(self._old, slots), len(self._old) - 1)
            known = self._old[places] == slots
            found[known] = self._new[places[known]]
        return found


class OutsideRows(Protocol):
    """What a table asks when some of its rows are not in the operator's structures: see `runtime/state/spilled_table`."""

    def wrote(self, slots: np.ndarray) -> None: ...

    def freed(self, slots: np.ndarray) -> None: ...

    def contents(self) -> pa.RecordBatch: ...

    def changes(self, complete: bool) -> TableChanges: ...


class StateTable:
    """One table of an operator's state.

    Args:
        name: unique within the operator; the same in every version of the query that computes the same.
        columns: name and type of each. With an owner the first is `OWNER`, int64.
        live: the slots of all rows; may cost as much as the table is large.
        read: the columns of the rows at slots (live, in any order).
        load: puts rows into an operator that was just made, columns as `read` gives them (of the types of `columns`,
            or strings of the large types); returns their new slots, -1
            for a row that is not needed. Called any number of times, owners first.
        key: the columns that decide to which key group a row belongs; none: all rows belong to the same one.
        owner: the table to whose rows these rows belong; then they are where their owner is.
        order: slots (each once) in the order in which `read` is fastest; as they are if not given.
        in_place: where the rows are, if they may be read while the job goes on: the same columns as `read` gives.
        of: the rows of keys (with an owner: of rows of the owner), given by their slots: `(index into what was asked,
            slots)`. None: rows cannot be found by key.
        shared: the table is no keyed state but a figure of the whole operator, which every task keeps; `load` is then
            called with the figures of all tasks there were.
        ttl: the milliseconds after which a row goes, counted from its last use, which is in the column `TOUCHED` (of a
            key) or `WRITTEN` (of a row); 0: it stays.
    """

    def __init__(
        self,
        name: str,
        columns: Sequence[tuple[str, pa.DataType]],
        *,
        live: Callable[[], np.ndarray],
        read: Read,
        load: Load,
        key: Sequence[str] = (),
        owner: StateTable | None = None,
        of: Of | None = None,
        order: Callable[[np.ndarray], np.ndarray] | None = None,
        in_place: RowsInPlace | None = None,
        shared: bool = False,
        ttl: int = 0,
    ) -> None:
        self.name = name
        self.schema = pa.schema([pa.field(n, t) for n, t in columns])
        self.key = tuple(key)
        self.owner = owner
        self.shared = shared
        self.ttl = ttl
        self.live = live
        self.read = read
        self.load = load
        self.of = of
        self._order = order
        self._in_place = in_place
        self.outside: OutsideRows | None = None
        """Where the rest of the rows is; takes over all noting and saving."""
        self._marks: np.ndarray | None = None
        self._watches: tuple[TableWatch, ...] = ()
        if len(set(self.schema.names)) != len(columns) or SLOT in self.schema.names:
            raise InternalError(f"the columns of state table {name} are not told apart by their names")

    def wrote(self, slots: np.ndarray) -> None:
        """The rows at these slots are new or have changed. Costs nothing as long as nobody has saved or watches the
        table."""
        for watch in self._watches:
            watch.note(slots, _CHANGED)
        if self.outside is not None:
            self.outside.wrote(slots)
        elif self._marks is not None and len(slots):
            self._mark(slots, _CHANGED)

    def freed(self, slots: np.ndarray) -> None:
        """There is nothing at these slots any more."""
        for watch in self._watches:
            watch.note(slots, _FREED)
        if self.outside is not None:
            self.outside.freed(slots)
        elif self._marks is not None and len(slots):
            self._mark(slots, _FREED)

    def contents(self) -> pa.RecordBatch:
        """All rows: `SLOT`, then the columns."""
        return self._rows(self._ordered(self.live())) if self.outside is None else self.outside.contents()

    def changes(self, complete: bool = False, *, hold: bool = False) -> TableChanges:
        """What changed since the last call; all of it the first time, and when asked for. Changes are noted from
        then on. `hold`: rows may be read later, in another thread; the caller releases them."""
        if self.outside is not None:
            return self.outside.changes(complete)
        marks = self._marks
        self._marks = np.zeros(0 if marks is None else len(marks), np.int8)
        complete = marks is None or complete or self.shared
        slots = self.live() if marks is None or complete else np.flatnonzero(marks == _CHANGED)
        removed = np.empty(0, np.int64) if marks is None or complete else np.flatnonzero(marks == _FREED)
        if hold and len(slots) >= MANY_ROWS:
            held = (
                CopiedRows(self._ordered(slots), self._rows)
                if self._in_place is None
                else HeldRows(self._in_place, slots, self.saved_rows)
            )
            return TableChanges(self.name, self._rows(slots[:0]), removed, complete, held)
        return TableChanges(self.name, self._rows(self._ordered(slots)), removed, complete)

    def decoded(self) -> pa.RecordBatch:
        """The rows for people: with an owner its key columns stand in the place of `OWNER`."""
        rows = self.contents()
        if self.owner is None or not self.owner.key:
            return rows
        slots = rows.column(OWNER).to_numpy()
        if self.owner.outside is None:
            owners = self.owner._rows(slots).select(self.owner.key)
        else:
            every = self.owner.contents()
            places = np.zeros(int(slots.max(initial=-1)) + 1, np.int64)
            numbers = every.column(SLOT).to_numpy()
            known = numbers < len(places)
            places[numbers[known]] = np.flatnonzero(known)
            owners = every.select(self.owner.key).take(pa.array(places[slots]))
        taken = set(rows.schema.names)
        names = [name if name not in taken else f"{self.owner.name}.{name}" for name in self.owner.key]
        rest = [n for n in rows.schema.names if n not in (SLOT, OWNER)]
        return pa.RecordBatch.from_arrays([*owners.columns, *(rows.column(n) for n in rest)], names=[*names, *rest])

    def watch(self) -> TableWatch:
        """Tells from now on what becomes of the table, beside `changes`; until it is closed."""
        watch = TableWatch(self)
        self._watches = (*self._watches, watch)
        return watch

    def unwatch(self, watch: TableWatch) -> None:
        """Nobody asks it any more."""
        self._watches = tuple(w for w in self._watches if w is not watch)

    def rows_at(self, slots: np.ndarray) -> pa.RecordBatch:
        """The rows at live slots: `SLOT`, then the columns."""
        return self._rows(self._ordered(slots))

    def image(self) -> TableChanges:
        """All rows, without being the last save that `changes` goes on from."""
        return TableChanges(self.name, self.contents(), np.empty(0, np.int64), True)

    def restore(
        self, rows: pa.RecordBatch, groups: KeyGroups | None, moved: dict[str, Moved], *, goes_on: bool = False
    ) -> None:
        """Loads saved rows of one task into the table.

        With `goes_on` changes are noted from then on, as if the table had saved these rows itself: what has moved to
        another slot, or names another row of its owner, has changed. When that is most of it the next save is complete.

        Args:
            rows: `SLOT` and columns: the same ones whatever they are called now, because names are no part of what an
                operator computes. Types are widened; where their number differs (what is kept depends on whether there
                are NULLs) they are found by name, what is left by place, and one that is missing is NULL.
            groups: only rows of these key groups; None is all.
            moved: for each table of the saved task that was restored already, where its rows are now; this table is
                added.
        """
        columns = self._columns(rows)
        old = rows.column(SLOT).to_numpy()
        goes_on = goes_on and self._saves_as(rows)
        keep: np.ndarray | None = None
        renamed = np.zeros(len(old), np.bool_)
        if self.owner is not None:
            named = columns[0].to_numpy()
            owners = moved[self.owner.name].of(named)
            renamed = owners != named
            columns[0] = pa.array(owners)
            keep = owners >= 0
        elif groups is not None and not self.shared:
            found = self.key_groups(columns, len(old), groups.of)
            keep = (found >= groups.start) & (found < groups.stop)
        if keep is not None and not keep.all():
            mask = pa.array(keep)
            columns, old = [c.filter(mask) for c in columns], old[keep]
            goes_on = False
        new = self.load(columns) if len(old) else np.empty(0, np.int64)
        moved[self.name] = Moved(old, new)
        if goes_on and _is_one_to_one(new):
            self._note_moves(old, new, renamed)

    def _note_moves(self, old: np.ndarray, new: np.ndarray, renamed: np.ndarray) -> None:
        """Note from now on what changes, and that rows are at other slots than they were, or name another owner's row."""
        away = old != new
        changed = away | renamed
        if 2 * int(np.count_nonzero(changed)) <= len(old):
            self._marks = np.zeros(0, np.int8)
            self.freed(old[away])
            self.wrote(new[changed])

    def _saves_as(self, rows: pa.RecordBatch) -> bool:
        """Whether what is saved later may stand behind these rows: it has the same columns, and its owner's rows are those
        that they name."""
        if self.outside is not None or (self.owner is not None and self.owner._marks is None):
            return False
        return rows.schema.equals(self._rows(np.empty(0, np.int64)).schema)

    def key_groups(self, columns: Sequence[pa.Array], count: int, of: int) -> np.ndarray:
        """The key group, of so many, of each row, given all columns of the table."""
        keys = [columns[self.schema.get_field_index(name)] for name in self.key]
        return key_group(KeyEncoder([k.type for k in keys]).stable_hash(keys, count), of)

    def _mark(self, slots: np.ndarray, mark: int) -> None:
        assert self._marks is not None
        self._marks = _marked(self._marks, slots, mark)

    def _ordered(self, slots: np.ndarray) -> np.ndarray:
        return slots if self._order is None else self._order(slots)

    def _rows(self, slots: np.ndarray) -> pa.RecordBatch:
        return self.saved_rows(slots, list(self.read(slots)))

    def saved_rows(self, ids: np.ndarray, columns: Sequence[pa.Array]) -> pa.RecordBatch:
        """Rows as they are saved: strings of the large types, so that there may be more than 2 GB of them."""
        wide = [c.cast(_WIDE[c.type]) if c.type in _WIDE else c for c in columns]
        return pa.RecordBatch.from_arrays([pa.array(ids, pa.int64()), *wide], names=[SLOT, *self.schema.names])

    def _columns(self, rows: pa.RecordBatch) -> list[pa.Array]:
        """The columns of saved rows, in the order and with the types of the table."""
        # What the engine keeps beside them has names of its own, and may come and go: `$touched` with a time to live.
        saved = [name for name in rows.schema.names if not name.startswith("$")]
        wanted = [name for name in self.schema.names if not name.startswith("$")]
        if len(saved) != len(wanted):
            common = set(saved) & set(wanted)
            saved, wanted = [n for n in saved if n not in common], [n for n in wanted if n not in common]
        places = dict(zip(wanted, saved, strict=False))
        return [self._column(rows, places.get(field.name, field.name), field.type) for field in self.schema]

    def _column(self, rows: pa.RecordBatch, name: str, type_: pa.DataType) -> pa.Array:
        index = rows.schema.get_field_index(name)
        if index < 0:
            return pa.nulls(rows.num_rows, type_)
        column = rows.column(index)
        if name in _BOUNDS:
            _check_bounds(name, column)
        if column.type == type_ or (column.type == _WIDE.get(type_) and column.nbytes >= _NARROW_BYTES):
            return column
        return pc.cast(column, type_)


class TableWatch:
    """What becomes of a table whose rows are all in the operator's structures, for somebody beside who saves it. Asked
    between epochs, by the thread that computes."""

    def __init__(self, table: StateTable) -> None:
        self._table = table
        self._marks: np.ndarray | None = None
        self._noted: list[np.ndarray] = []

    def note(self, slots: np.ndarray, mark: int) -> None:
        """The rows at slots have been written, or freed."""
        if self._marks is not None and len(slots):
            self._marks = _marked(self._marks, slots, mark)
            self._noted.append(slots.copy())

    def changes(self) -> TableChanges:
        """What has changed since the last call; all rows the first time. Costs as much as has changed."""
        table, marks, none = self._table, self._marks, np.empty(0, np.int64)
        told, self._noted = self._noted, []
        if marks is None or table.shared:
            self._marks = np.zeros(0, np.int8)
            return table.image()
        if not told:
            return TableChanges(table.name, table.rows_at(none), none, False)
        noted = np.unique(np.concatenate(told))
        kinds = marks[noted]
        marks[noted] = _SAME
        return TableChanges(table.name, table.rows_at(noted[kinds == _CHANGED]), noted[kinds == _FREED], False)

    def close(self) -> None:
        """It is asked no more."""
        self._table.unwatch(self)


def _marked(marks: np.ndarray, slots: np.ndarray, mark: int) -> np.ndarray:
    high = int(slots.max()) + 1
    if high > len(marks):
        marks = grown(marks, high)
    marks[slots] = mark
    return marks


def _check_bounds(name: str, column: pa.Array) -> None:
    """Raises ValueError when a column of the engine's own holds what it has never put there."""
    least, greatest = _BOUNDS[name]
    # What does not wait for anything has no arrival.
    if column.null_count and name != "$arrival":
        raise ValueError(f"{name} is NULL")
    if column.null_count < len(column):
        found = pc.call_function("min_max", [column]).as_py()
        if found["min"] < least or found["max"] > greatest:
            raise ValueError(f"{name} is from {found['min']} to {found['max']}")


def _is_one_to_one(slots: np.ndarray) -> bool:
    """Whether all rows have got a slot, and each its own."""
    if not len(slots) or int(slots.min()) < 0:
        return False
    taken = np.zeros(int(slots.max()) + 1, np.bool_)
    taken[slots] = True
    return int(np.count_nonzero(taken)) == len(slots)


def every_row(slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`of` for a table whose rows have the slots of their keys."""
    return np.arange(len(slots), dtype=np.int64), slots


def shared_value(
    name: str, type_: pa.DataType, get: Callable[[], object], put: Callable[[list[object]], None]
) -> StateTable:
    """A table of one row with one column, `value`: a figure of the whole operator, such as the watermark at which it
    last fired.

    Args:
        get: the figure now.
        put: takes the figures of all tasks that were saved (at least one), to make one of them.
    """
    zero = np.zeros(1, np.int64)

    def load(columns: list[pa.Array]) -> np.ndarray:
        put(columns[0].to_pylist())
        return np.zeros(len(columns[0]), np.int64)

    return StateTable(
        name,
        [("value", type_)],
        live=lambda: zero,
        read=lambda slots: [pa.array([get()] * len(slots), type_)],
        load=load,
        shared=True,
    )
