"""Values of the rows that are mapped to variables, and what conditions say of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa

from runtime.core.types import STRING, DataType
from runtime.eval.frames.aggregate_call import frame_call
from runtime.eval.frames.frame_call import Frames
from runtime.eval.frames.layout import lay_out
from runtime.kernels.columns import ColumnStore
from runtime.kernels.grow import expand_ranges
from runtime.kernels.match_walk import COUNTS, EXCLUDED, START, VARIABLE_BITS, Paths, Runs
from runtime.plan.pattern import MatchValue, Pattern

__all__ = ["LaidRows", "MappedRows", "ValueReader"]

_NAME = STRING.not_null()
_Range = tuple[np.ndarray, np.ndarray]


class LaidRows:
    """Rows of partitions in order, those of one together: some that were kept, with those that have come behind them.

    Args:
        store, kept: where the rows are that were kept, and their slots there.
        come: the columns of the rows that have come; none where no row has.
        order: the positions of rows in (kept, come), by partition and position in it.
    """

    def __init__(self, store: ColumnStore, kept: np.ndarray, come: Sequence[pa.Array], order: np.ndarray) -> None:
        self._store = store
        self._kept = kept
        self._come = come
        self.order = order
        self._columns: dict[int, pa.Array] = {}

    def __len__(self) -> int:
        return len(self.order)

    def column(self, index: int, places: np.ndarray) -> pa.Array:
        """A column at places in the order; NULL at -1."""
        both = self._columns.get(index)
        if both is None:
            come = self._come[index] if self._come else None
            both = self._store.take_column(index, self._kept) if come is None or len(self._kept) else come
            if come is not None and both is not come:
                both = pa.concat_arrays([both, come.cast(both.type) if come.type != both.type else come])
            self._columns[index] = both
        if not len(self.order):
            return pa.nulls(len(places), both.type)
        missing = places < 0
        take = pa.array(self.order[np.where(missing, 0, places)], mask=missing if missing.any() else None)
        return both.take(take)


class MappedRows:
    """The rows of runs or matches, which are mapped to variables.

    Args:
        begin: by run the place at which its partition begins.
        runs: runs, or matches in their form, by their counts or their paths; where runs begin in `runs.begin` has no meaning.
        tested: one more row of each run, the next, is tested for this variable.
    """

    def __init__(self, begin: np.ndarray, runs: Runs, tested: int | None = None) -> None:
        self.start = begin + runs.rows[:, START]
        self.counts = runs.rows[:, COUNTS:]
        self.paths = runs.paths
        self.tested = tested

    def __len__(self) -> int:
        return len(self.start)

    @cached_property
    def each(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """`(run, variable, place)` of each row, by run and place."""
        run, variable, _ = self._paths.rows()
        if self.tested is not None:
            run = np.concatenate((run, np.arange(len(self), dtype=np.int64)))
            variable = np.concatenate((variable, np.full(len(self), self.tested, np.int64)))
            order = np.argsort(run, kind="stable")
            run, variable = run[order], variable[order]
        sizes = np.bincount(run, minlength=len(self))
        first = np.cumsum(sizes) - sizes
        return run, variable, (self.start - first)[run] + np.arange(len(run))

    @cached_property
    def in_turn(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """`(run, variable, place, rows)` of rows in turn that are mapped to one variable, by run and place."""
        paths = self._paths
        runs = np.arange(len(self), dtype=np.int64)
        sizes, steps = np.diff(paths.begin), paths.steps
        if self.tested is not None:
            steps = np.insert(steps, paths.begin[1:], (1 << VARIABLE_BITS) + self.tested)
            sizes = sizes + 1
        run, rows = np.repeat(runs, sizes), steps >> VARIABLE_BITS
        before = np.cumsum(rows) - rows
        ends = np.cumsum(sizes)
        begin = np.append(before, 0)[ends - sizes]
        return run, steps & (EXCLUDED - 1), (self.start - begin)[run] + before, rows

    @property
    def excluded(self) -> np.ndarray:
        """Whether each row is excluded, by run and place: where none is tested."""
        return self._paths.rows()[2]

    @cached_property
    def _paths(self) -> Paths:
        if self.paths is not None:
            return self.paths
        runs, variables = self.counts.shape
        steps = (self.counts << VARIABLE_BITS) + np.arange(variables)
        return Paths(np.arange(runs + 1) * variables, steps.ravel())


class ValueReader:
    """One value of `MatchValue`, of the rows of matches or runs that have counts. The rows of variables that follow one
    another do so too, so a variable or a subset has few ranges of rows."""

    def __init__(self, value: MatchValue, pattern: Pattern, types: Sequence[DataType]) -> None:
        self._value = value
        call = value.call
        if value.names:
            call = call.with_(args=(0,), arg_types=(_NAME,))
            types = [_NAME]
        self._call = None if value.offset is not None else frame_call(call, types, False)
        self._needed = frozenset(call.args)
        self._arrow = call.type.arrow
        self._blocks = _blocks(pattern.members(value.variable))
        self._names = pa.array([v.name for v in pattern.variables], _NAME.arrow)

    def read(self, rows: LaidRows, mapped: MappedRows) -> pa.Array:
        """The value of each run or match."""
        start, counts, tested = mapped.start, mapped.counts, mapped.tested
        ranges = [_range(start, counts, block, tested) for block in self._blocks]
        if self._value.offset is None:
            found = self._aggregate(rows, start, counts, ranges, tested)
        else:
            places = self._places(ranges, self._value.offset)
            if self._value.names:
                found = self._names_of(np.arange(len(mapped)), places, start, counts, tested)
            else:
                found = rows.column(self._value.call.args[0], places)
        return found if found.type == self._arrow else found.cast(self._arrow)

    def _places(self, ranges: list[_Range], offset: int) -> np.ndarray:
        """The places of the row so many after the first, or before the last; -1 where there is none."""
        places = np.full(len(ranges[0][0]), -1, np.int64)
        left = np.full(len(places), offset, np.int64)
        first = self._value.call.function == "FIRST_VALUE"
        for low, high in ranges if first else reversed(ranges):
            here = (left >= 0) & (left < high - low)
            places[here] = (low + left if first else high - 1 - left)[here]
            left -= high - low
        return places

    def _names_of(
        self, run: np.ndarray, places: np.ndarray, start: np.ndarray, counts: np.ndarray, tested: int | None
    ) -> pa.Array:
        """The names of the variables to which the rows at places are mapped, each by a run; NULL at -1."""
        ends = start[:, None] + np.cumsum(counts, axis=1)
        if tested is not None:
            ends[:, tested:] += 1
        variables = np.zeros(len(places), np.int64)
        for end in ends.T:
            variables += end[run] <= places
        return self._names.take(pa.array(variables, mask=places < 0))

    def _aggregate(
        self, rows: LaidRows, start: np.ndarray, counts: np.ndarray, ranges: list[_Range], tested: int | None
    ) -> pa.Array:
        """Over rows that are laid out again for each run, or over all of them where these are fewer and a run has one range
        of them."""
        assert self._call is not None
        sizes = np.sum([high - low for low, high in ranges], axis=0)
        if len(ranges) > 1 or self._value.names or int(sizes.sum()) <= len(rows):
            parts = [expand_ranges(low, high - low) for low, high in ranges]
            owner, places = (np.concatenate(part) for part in zip(*parts, strict=True))
            by_owner = np.argsort(owner, kind="stable")
            owner, places = owner[by_owner], places[by_owner]
            high = np.cumsum(sizes)
            low = high - sizes
        else:
            places = np.arange(len(rows), dtype=np.int64)
            owner = np.zeros(len(rows), np.int64)
            low, high = ranges[0]
        width = max(self._needed, default=-1) + 1
        if self._value.names:
            columns = [self._names_of(owner, places, start, counts, tested)]
        else:
            columns = [rows.column(i, places) if i in self._needed else pa.nulls(0) for i in range(width)]
        layout = lay_out(owner, np.ones(len(owner), np.bool_))
        here = np.minimum(low, max(len(owner) - 1, 0))
        return self._call.values(Frames(layout, columns, here, low, high), np.ones(len(owner), np.bool_))


def _blocks(variables: Sequence[int]) -> list[tuple[int, int]]:
    """Ascending numbers as ranges [low, high)."""
    found: list[tuple[int, int]] = []
    for variable in variables:
        if found and found[-1][1] == variable:
            found[-1] = (found[-1][0], variable + 1)
        else:
            found.append((variable, variable + 1))
    return found


def _range(start: np.ndarray, counts: np.ndarray, block: tuple[int, int], tested: int | None) -> _Range:
    """The places [low, high) of the rows of variables that follow one another."""
    first, after = block
    low = start + counts[:, :first].sum(axis=1)
    more = tested is not None and first <= tested < after
    return low, low + counts[:, first:after].sum(axis=1) + more
