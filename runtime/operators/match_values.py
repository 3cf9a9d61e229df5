"""Values of the rows that are mapped to variables, and what conditions say of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runtime.core.types import DataType
from runtime.eval.frames.aggregate_call import frame_call
from runtime.eval.frames.frame_call import Frames
from runtime.eval.frames.layout import lay_out
from runtime.kernels.columns import ColumnStore
from runtime.kernels.grow import expand_ranges
from runtime.kernels.match_walk import COUNTS, START
from runtime.plan.pattern import UNIVERSAL, MatchValue

__all__ = ["LaidRows", "ValueReader", "extents"]


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


def extents(runs: np.ndarray, variable: int, *, tested: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Where in their partitions the rows of a variable stand, [low, high), by run or match: the rows of the variables
    follow one another. `tested`: one more row, the next, is tested for this variable."""
    counts = runs[:, COUNTS:]
    start = runs[:, START]
    more = tested is not None and variable in (UNIVERSAL, tested)
    if variable == UNIVERSAL:
        return start, start + counts.sum(axis=1) + more
    low = start + counts[:, :variable].sum(axis=1)
    return low, low + counts[:, variable] + more


class ValueReader:
    """One value of `MatchValue`."""

    def __init__(self, value: MatchValue, types: Sequence[DataType]) -> None:
        self.variable = value.variable
        self._value = value
        self._call = None if value.offset is not None else frame_call(value.call, types, False)
        self._needed = frozenset(value.call.args)
        self._arrow = value.call.type.arrow

    def read(self, rows: LaidRows, low: np.ndarray, high: np.ndarray) -> pa.Array:
        """The value for the rows [low, high) each, places in the order of `rows`."""
        value = self._value
        if value.offset is not None:
            if value.call.function == "FIRST_VALUE":
                places = low + value.offset
                places = np.where(places < high, places, -1)
            else:
                places = high - 1 - value.offset
                places = np.where(places >= low, places, -1)
            found = rows.column(value.call.args[0], places)
        else:
            found = self._aggregate(rows, low, high)
        return found if found.type == self._arrow else found.cast(self._arrow)

    def _aggregate(self, rows: LaidRows, low: np.ndarray, high: np.ndarray) -> pa.Array:
        """Over rows that are laid out again for each range, or over all of them where these are fewer."""
        assert self._call is not None
        counts = high - low
        if int(counts.sum()) <= len(rows):
            owner, places = expand_ranges(low, counts)
            high = np.cumsum(counts)
            low = high - counts
        else:
            places = np.arange(len(rows), dtype=np.int64)
            owner = np.zeros(len(rows), np.int64)
        width = max(self._needed, default=-1) + 1
        columns = [rows.column(i, places) if i in self._needed else pa.nulls(0) for i in range(width)]
        layout = lay_out(owner, np.ones(len(owner), np.bool_))
        here = np.minimum(low, max(len(owner) - 1, 0))
        return self._call.values(Frames(layout, columns, here, low, high), np.ones(len(owner), np.bool_))
