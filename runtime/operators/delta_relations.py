"""Tables of the database, and what joins of them give, as relations at two versions: that where an epoch starts, and that
where it ends.

A relation says which of its rows have changed, and which rows a key has. A row of a join is a row of each table, by
number; of a table that an outer join has not matched it is -1. Nothing is kept: a row of a join is made when somebody asks,
from the indices of the tables (`runtime/state/arrangement.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from runtime.core.errors import InternalError
from runtime.expr.nodes import Expr
from runtime.kernels.arrow_buffers import null_mask
from runtime.kernels.grouping import group_ids
from runtime.kernels.indexed import add_at
from runtime.kernels.key_encoding import KeyEncoder
from runtime.operators.join_condition import JoinCondition
from runtime.operators.operator import EpochTime, OperatorContext
from runtime.plan.nodes import JoinKind, PhysicalNode
from runtime.plan.parts import JoinStep
from runtime.plan.snapshot_nodes import asked_of, table_side
from runtime.state.arrangement import Arrangement, Found, Span, SupportsArrangements

__all__ = ["JoinedRelation", "Relation", "Rows", "TableRelation"]

PAIRS = 1 << 18
"""How many candidate pairs are looked at together."""
_NONE = np.empty(0, np.int64)


class Rows(NamedTuple):
    """Rows by their numbers in each table (n,); how often each is there now and was before, int64 (n,); and whether it is
    one of those that have changed, bool (n,)."""

    numbers: tuple[np.ndarray, ...]
    now: np.ndarray
    old: np.ndarray
    changed: np.ndarray

    def at(self, places: np.ndarray) -> Rows:
        """Those at some places, or where a mask says so."""
        numbers = tuple(part[places] for part in self.numbers)
        return Rows(numbers, self.now[places], self.old[places], self.changed[places])

    def __len__(self) -> int:
        return len(self.now)


Looked = Iterator[tuple[np.ndarray, Rows]]
"""For some of the places that were asked about, in pieces: the places, and a row of each."""


class Relation(ABC):
    """See the module.

    `width`: how many columns it has. `tables`: those that a row has a number of. `time`: that of the epoch.
    """

    width: int
    tables: tuple[TableRelation, ...]
    time: EpochTime

    @property
    @abstractmethod
    def fresh(self) -> bool:
        """Whether it had no rows before, so that all have changed."""

    @abstractmethod
    def changed(self) -> Iterator[Rows]:
        """The rows that have changed, each once; in pieces."""

    @abstractmethod
    def find(self, keys: tuple[int, ...], values: Sequence[pa.Array], null_safe: Sequence[bool]) -> Looked:
        """The rows that have these values in some columns, now or before; NULL is equal to NULL where that is null-safe."""

    @abstractmethod
    def place(self, column: int) -> tuple[int, int]:
        """Which of `tables` has a column, and where in that."""

    def take(self, columns: Sequence[int], rows: Rows) -> list[pa.Array]:
        """Values of columns."""
        found: list[pa.Array] = []
        for column in columns:
            table, own = self.place(column)
            found += self.tables[table].values([own], rows.numbers[table])
        return found


class TableRelation(Relation):
    """One table: its indices, which columns it shows, and which of its rows count.

    Args:
        keys: the choices of its columns by which it is looked up.
    """

    def __init__(self, node: PhysicalNode, keys: Sequence[tuple[int, ...]], context: OperatorContext) -> None:
        side = table_side(node)
        table = None if side is None else side.source.table
        if side is None or not isinstance(table, SupportsArrangements):
            raise InternalError("a join that keeps nothing reads tables of the database")
        self._source_places = [table.schema.index_of(name) for name in side.source.schema.names]
        self._columns = [self._source_places[c] for c in side.columns]
        user = context.job or context.name
        self._indices: dict[tuple[int, ...], Arrangement] = {
            key: table.arrangement([self._columns[k] for k in key], user) for key in keys
        }
        self.arrangements = list(self._indices.values())
        self._condition = None
        if side.condition is not None:
            self._condition = JoinCondition(side.condition, len(self._source_places), context)
        self._unique = [table.schema.index_of(name) for name in table.row_key]
        self.keyed = bool(self._unique)
        self.width = len(node.schema)
        self.tables = (self,)
        self._span: Span = (-1, -1)
        self._changed: Found = Found(_NONE, _NONE, _NONE)
        self._sorted = _NONE

    @property
    def fresh(self) -> bool:
        return self._span[0] < 0

    def begin(self, span: Span) -> None:
        """An epoch from one version of the table to another."""
        self._span = span
        self._changed = self._net()
        self._sorted = np.sort(self._changed.rows)

    def changed(self) -> Iterator[Rows]:
        for start in range(0, len(self._changed.rows), PAIRS):
            found = self._changed.at(np.arange(start, min(start + PAIRS, len(self._changed.rows))))
            yield Rows((found.rows,), found.now, found.old, np.ones(len(found.rows), np.bool_))

    def find(self, keys: tuple[int, ...], values: Sequence[pa.Array], null_safe: Sequence[bool]) -> Looked:
        index = self._indices[keys]
        for places, found in index.probe(index.find(values, null_safe), self._span, PAIRS):
            counting = self._counting(found.rows)
            if counting is not None:
                places, found = places[counting], found.at(counting)
            yield places, Rows((found.rows,), found.now, found.old, self._has_changed(found.rows))

    def place(self, column: int) -> tuple[int, int]:
        return 0, self._columns[column]

    def values(self, columns: Sequence[int], numbers: np.ndarray) -> list[pa.Array]:
        """Columns of the table, by position, of rows; NULLs for -1."""
        absent = numbers < 0
        if not absent.any():
            return self.arrangements[0].take(columns, numbers)
        there = np.cumsum(~absent) - 1
        spread = pa.array(there, mask=absent)
        return [c.take(spread) for c in self.arrangements[0].take(columns, numbers[~absent])]

    def _net(self) -> Found:
        """The rows that have changed, as this relation has them."""
        found = self.arrangements[0].changed(self._span)
        counting = self._counting(found.rows)
        found = found if counting is None else found.at(counting)
        if not len(found.rows) or not (found.now < found.old).any() or not (found.now > found.old).any():
            return found
        # Rows that come for equal ones that go are as if nothing had happened.
        columns = self.values(self._columns, found.rows)
        words = KeyEncoder([c.type for c in columns], exact=True).encode(columns, len(found.rows))
        first, group = group_ids(words)
        net = np.zeros(len(first), np.int64)
        add_at(net, group, found.now - found.old)
        return found.at(net[group] != 0)

    def _has_changed(self, numbers: np.ndarray) -> np.ndarray:
        if self.fresh or not len(self._sorted):
            return np.full(len(numbers), self.fresh)
        place = np.minimum(np.searchsorted(self._sorted, numbers), len(self._sorted) - 1)
        return self._sorted[place] == numbers

    def _counting(self, numbers: np.ndarray) -> np.ndarray | None:
        """Where the condition is true; None where all count."""
        if self._condition is None or not len(numbers):
            return None

        def column(position: int, rows: np.ndarray) -> pa.Array:
            return self.arrangements[0].take([self._source_places[position]], rows)[0]

        holds = self._condition.holds(column, numbers, column, _NONE, self.time)
        return None if holds.all() else np.flatnonzero(holds)

    def replaced(self) -> tuple[np.ndarray, np.ndarray] | None:
        """The rows that went, and those that came for the same primary key."""
        if not self.keyed:
            return None
        changed = self._changed
        went, came = changed.rows[changed.old > 0], changed.rows[changed.now > 0]
        if not len(went) or not len(came):
            return None
        columns = self.arrangements[0].take(self._unique, np.concatenate([went, came]))
        words = KeyEncoder([c.type for c in columns]).encode(columns, len(went) + len(came))
        first, group = group_ids(words)
        successor = np.full(len(first), -1, np.int64)
        successor[group[len(went) :]] = came
        after = successor[group[: len(went)]]
        found = after >= 0
        return (went[found], after[found]) if found.any() else None


class JoinedRelation(Relation):
    """A join of two relations.

    A pair has changed where one of its rows has. A row that is padded has changed, besides where it has itself, where the
    other side begins or ceases to have rows of its key; so have rows of SEMI and ANTI joins, which alone are theirs. How
    many rows of the other side a key has is asked of that side, once in an epoch for each key of its changed rows.
    """

    def __init__(
        self,
        step: JoinStep,
        left: Relation,
        right: Relation,
        condition: Expr | None,
        filter_: Expr | None,
        context: OperatorContext,
    ) -> None:
        self._left, self._right, self._kind = left, right, step.kind
        self._keys = {True: step.left_keys, False: step.right_keys}
        self._null_safe = list(step.null_safe) or [False] * len(step.left_keys)
        self._columns = step.columns
        self._width = left.width
        self.width = len(step.columns)
        self.tables = left.tables if step.kind.left_only else (*left.tables, *right.tables)
        self._condition = None if condition is None else JoinCondition(condition, self._width, context)
        self._filter = None if filter_ is None else JoinCondition(filter_, left.width + right.width, context)

    @property
    def fresh(self) -> bool:
        match self._kind:
            case JoinKind.INNER:
                return self._left.fresh or self._right.fresh
            case JoinKind.RIGHT:
                return self._right.fresh
            case JoinKind.FULL:
                return self._left.fresh and self._right.fresh
            case _:
                return self._left.fresh

    def place(self, column: int) -> tuple[int, int]:
        return self._place(self._columns[column])

    def _place(self, column: int) -> tuple[int, int]:
        if column < self._width:
            return self._left.place(column)
        table, own = self._right.place(column - self._width)
        return table + len(self._left.tables), own

    def changed(self) -> Iterator[Rows]:
        for mine in self._left.changed():
            yield from (rows for _, rows in self._with(mine, True))
        if not self._kind.left_only and (not self._left.fresh or self._kind.keeps_right):
            for mine in self._right.changed():
                yield from (rows for _, rows in self._with(mine, False, steady=True))
        if (self._kind.keeps_left or self._kind.left_only) and not self._left.fresh:
            yield from self._turned(True)
        if self._kind.keeps_right and not self._right.fresh:
            yield from self._turned(False)

    def find(self, keys: tuple[int, ...], values: Sequence[pa.Array], null_safe: Sequence[bool]) -> Looked:
        of_left, some = asked_of(self._columns, keys, self._width)
        shift = 0 if of_left else self._width
        side = self._left if of_left else self._right
        columns = tuple(self._columns[keys[i]] - shift for i in some)
        rest = [i for i in range(len(keys)) if i not in some]
        for asked, mine in side.find(columns, [values[i] for i in some], [null_safe[i] for i in some]):
            for index, rows in self._with(mine, of_left):
                places = asked[index]
                if rest and len(rows):
                    theirs = self.take([keys[i] for i in rest], rows)
                    wanted = [values[i].take(pa.array(places)) for i in rest]
                    same = _same(theirs, wanted, [null_safe[i] for i in rest])
                    places, rows = places[same], rows.at(same)
                yield places, rows

    def _with(self, mine: Rows, of_left: bool, steady: bool = False) -> Looked:
        """The rows of the join that rows of one side are part of. `steady`: only with rows of the other side that have not
        changed."""
        if self._kind.left_only:
            yield from self._shown(*self._alone(mine, True, *self._counts(mine, True)))
            return
        other = self._right if of_left else self._left
        keeps = self._kind.keeps_left if of_left else self._kind.keeps_right
        now, old = np.zeros(len(mine), np.int64), np.zeros(len(mine), np.int64)
        for index, theirs in other.find(self._keys[not of_left], self._key(mine, of_left), self._null_safe):
            if keeps:
                add_at(now, index, theirs.now)
                add_at(old, index, theirs.old)
            if steady:
                kept = ~theirs.changed
                index, theirs = index[kept], theirs.at(kept)
            yield from self._shown(*self._pairs(index, mine.at(index), theirs, of_left))
        if keeps:
            yield from self._shown(*self._alone(mine, of_left, now, old))

    def _pairs(self, index: np.ndarray, mine: Rows, theirs: Rows, of_left: bool) -> tuple[np.ndarray, Rows]:
        left, right = (mine, theirs) if of_left else (theirs, mine)
        if self._condition is not None and len(left):
            holds = self._condition.holds(
                _column(self._left, left), left.now, _column(self._right, right), right.now, self.time
            )
            if not holds.all():
                index, left, right = index[holds], left.at(holds), right.at(holds)
        numbers = (*left.numbers, *right.numbers)
        return index, Rows(numbers, left.now * right.now, left.old * right.old, left.changed | right.changed)

    def _alone(self, mine: Rows, of_left: bool, now: np.ndarray, old: np.ndarray) -> tuple[np.ndarray, Rows]:
        """Rows of one side without the other, of whose rows they match so many: padded ones, or those of SEMI and ANTI."""
        shows_now, shows_old = (now > 0, old > 0) if self._kind is JoinKind.SEMI else (now == 0, old == 0)
        numbers = mine.numbers
        if not self._kind.left_only:
            tables = (self._right if of_left else self._left).tables
            absent = tuple(np.full(len(mine), -1, np.int64) for _ in tables)
            numbers = (*numbers, *absent) if of_left else (*absent, *numbers)
        changed = mine.changed | (shows_now != shows_old)
        return np.arange(len(mine)), Rows(numbers, mine.now * shows_now, mine.old * shows_old, changed)

    def _shown(self, index: np.ndarray, rows: Rows) -> Looked:
        """What is there now or was before, and passes the filter."""
        there = (rows.now != 0) | (rows.old != 0)
        if not there.all():
            index, rows = index[there], rows.at(there)
        if self._filter is not None and len(rows):

            def column(position: int, _: np.ndarray) -> pa.Array:
                table, own = self._place(position)
                return self.tables[table].values([own], rows.numbers[table])[0]

            holds = self._filter.holds(column, rows.now, column, _NONE, self.time)
            if not holds.all():
                index, rows = index[holds], rows.at(holds)
        if len(rows):
            yield index, rows

    def _turned(self, of_left: bool) -> Iterator[Rows]:
        """Rows of one side that have not changed, and are alone now or were so, because the other side has got or lost its
        rows of their key."""
        side, other = (self._left, self._right) if of_left else (self._right, self._left)
        keys = [self._key(rows, not of_left) for rows in other.changed()]
        if not keys:
            return
        values = [pa.concat_arrays(parts) for parts in zip(*keys, strict=True)]
        first, _ = group_ids(KeyEncoder([v.type for v in values]).encode(values, len(values[0])))
        values = [v.take(pa.array(first)) for v in values]
        now, old = self._counts_of(values, other, self._keys[not of_left])
        turned = np.flatnonzero((now == 0) != (old == 0))
        for start in range(0, len(turned), PAIRS):
            part = turned[start : start + PAIRS]
            for index, mine in side.find(
                self._keys[of_left], [v.take(pa.array(part)) for v in values], self._null_safe
            ):
                kept = np.flatnonzero(~mine.changed)
                places = part[index[kept]]
                rows = self._alone(mine.at(kept), of_left, now[places], old[places])
                yield from (shown for _, shown in self._shown(*rows))

    def _counts(self, mine: Rows, of_left: bool) -> tuple[np.ndarray, np.ndarray]:
        """How many rows of the other side each row matches now, and did before; each key is asked for once."""
        values = self._key(mine, of_left)
        first, group = group_ids(KeyEncoder([v.type for v in values]).encode(values, len(mine)))
        other = self._right if of_left else self._left
        now, old = self._counts_of([v.take(pa.array(first)) for v in values], other, self._keys[not of_left])
        return now[group], old[group]

    def _counts_of(
        self, values: Sequence[pa.Array], other: Relation, keys: tuple[int, ...]
    ) -> tuple[np.ndarray, np.ndarray]:
        now, old = np.zeros(len(values[0]), np.int64), np.zeros(len(values[0]), np.int64)
        for index, rows in other.find(keys, values, self._null_safe):
            add_at(now, index, rows.now)
            add_at(old, index, rows.old)
        return now, old

    def _key(self, rows: Rows, of_left: bool) -> list[pa.Array]:
        return (self._left if of_left else self._right).take(self._keys[of_left], rows)


def _column(relation: Relation, rows: Rows) -> Callable[[int, np.ndarray], pa.Array]:
    return lambda position, _: relation.take([position], rows)[0]


def _same(left: Sequence[pa.Array], right: Sequence[pa.Array], null_safe: Sequence[bool]) -> np.ndarray:
    """Where all values are equal, as an index compares them."""
    count = len(left[0])
    both = [pa.concat_arrays(pair) for pair in zip(left, right, strict=True)]
    _, group = group_ids(KeyEncoder([c.type for c in both]).encode(both, 2 * count))
    same = group[:count] == group[count:]
    for column, safe in zip(left, null_safe, strict=True):
        nulls = None if safe else null_mask(column)
        if nulls is not None:
            same &= ~nulls
    return same
