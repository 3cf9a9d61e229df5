"""Aggregate calls over frames, with what they carry over where frames begin at the partition's start.

`values` answers for frames inside the rows at hand. `run` answers for frames that begin before them: with what each
partition carried over from earlier rows, which it then updates; so that a running total needs no row of the past.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runtime.core.types import DataType
from runtime.eval.aggregates.accumulator import values_at
from runtime.eval.aggregates.aggregate_set import AggregateSet
from runtime.eval.aggregates.distinct import DistinctValues
from runtime.eval.aggregates.extremes import ordered_keys
from runtime.eval.aggregates.factory import make_accumulator
from runtime.eval.aggregates.sums import AdditiveAccumulator, Parts
from runtime.eval.frames.layout import FrameLayout
from runtime.eval.frames.ranges import first_valid, last_valid, range_min, running_min
from runtime.kernels.columns import ColumnStore
from runtime.kernels.grouping import group_ids
from runtime.kernels.grow import expand_ranges, grown
from runtime.kernels.key_encoding import KeyEncoder
from runtime.kernels.sort import sort_indices
from runtime.plan.nodes import AggregateSpec

__all__ = ["FrameCall", "frame_call"]

_PAIRS = 1 << 21

Columns = Sequence[pa.Array]


class FrameCall:
    """One call. `columns` are the columns of the input for the rows of a layout, `kept` the rows that FILTER lets
    through, `rows` the positions of the rows asked for, and `low`, `high` their frames."""

    carries = True
    """Whether `run` works: what is carried over does not grow with the rows."""
    history = 0
    """How many rows before the present one a value may look at, whatever the frame."""

    def __init__(self, spec: AggregateSpec) -> None:
        self.spec = spec

    def values(
        self,
        layout: FrameLayout,
        columns: Columns,
        kept: np.ndarray,
        low: np.ndarray,
        high: np.ndarray,
        rows: np.ndarray,
    ) -> pa.Array:
        raise NotImplementedError

    def run(
        self,
        layout: FrameLayout,
        columns: Columns,
        kept: np.ndarray,
        low: np.ndarray,
        high: np.ndarray,
        rows: np.ndarray,
        slots: np.ndarray,
        first: np.ndarray,
    ) -> pa.Array:
        """`slots` are the partition slots of the segments, `first` the position of each segment's first row that is
        not carried over yet."""
        raise NotImplementedError

    @property
    def resumable(self) -> bool:
        """Whether `note` and `resume` work."""
        return False

    def note(self, rows: np.ndarray) -> None:
        """Notes, for the row ids that stand at the rows of the last `run`, what a partition carries after each."""

    def resume(self, slots: np.ndarray, rows: np.ndarray, sent: pa.Array) -> None:
        """Makes partitions carry what was noted at row ids (-1: nothing); `sent` are the values of the call at those
        rows."""

    def release(self, slots: np.ndarray) -> None:
        """Forgets what partitions carry."""

    @property
    def nbytes(self) -> int:
        return 0

    def args(self, columns: Columns) -> list[pa.Array]:
        return [columns[i] for i in self.spec.args]


class AdditiveCall(FrameCall):
    """COUNT, SUM, AVG, variances: differences of running integer sums (doubles as exact fixed-point sums)."""

    def __init__(self, spec: AggregateSpec) -> None:
        super().__init__(spec.with_(retract=True, distinct=False))
        self._carry: Parts = {}
        self._total: Parts = {}
        self._noted: Parts = {}

    def values(
        self,
        layout: FrameLayout,
        columns: Columns,
        kept: np.ndarray,
        low: np.ndarray,
        high: np.ndarray,
        rows: np.ndarray,
    ) -> pa.Array:
        parts = self._state().parts(self.args(columns), kept)
        return self._result({key: _between(_running(part), low, high) for key, part in parts.items()}, len(low))

    def run(
        self,
        layout: FrameLayout,
        columns: Columns,
        kept: np.ndarray,
        low: np.ndarray,
        high: np.ndarray,
        rows: np.ndarray,
        slots: np.ndarray,
        first: np.ndarray,
    ) -> pa.Array:
        parts = self._state().parts(self.args(columns), kept)
        segment = layout.segment[rows]
        last = _segment_ends(layout)
        total: Parts = {}
        size = int(slots.max()) + 1
        for key in {*parts, *self._carry}:
            before = values_at(self._carry[key], slots) if key in self._carry else np.zeros(len(slots), np.int64)
            if key not in parts:
                total[key] = before[segment]
                continue
            running = _running(parts[key])
            total[key] = _between(running, low, high) + before[segment]
            carried = grown(self._carry.get(key, np.zeros(0, np.int64)), size)
            carried[slots] = before + _between(running, first, last)
            self._carry[key] = carried
        self._total = total
        return self._result(total, len(low))

    @property
    def resumable(self) -> bool:
        return True

    def note(self, rows: np.ndarray) -> None:
        high = int(rows.max()) + 1 if len(rows) else 0
        for key in {*self._total, *self._noted}:
            noted = self._noted[key] = grown(self._noted.get(key, np.zeros(0, np.int64)), high)
            noted[rows] = self._total.get(key, 0)

    def resume(self, slots: np.ndarray, rows: np.ndarray, sent: pa.Array) -> None:
        size = int(slots.max()) + 1 if len(slots) else 0
        self._carry = {}
        for key, noted in self._noted.items():
            carried = self._carry[key] = np.zeros(size, np.int64)
            carried[slots] = np.where(rows < 0, 0, noted[np.maximum(rows, 0)])

    def release(self, slots: np.ndarray) -> None:
        for values in self._carry.values():
            values[slots[slots < len(values)]] = 0

    @property
    def nbytes(self) -> int:
        return sum(values.nbytes for values in (*self._carry.values(), *self._noted.values()))

    def _state(self) -> AdditiveAccumulator:
        state = make_accumulator(self.spec)
        assert isinstance(state, AdditiveAccumulator)
        return state

    def _result(self, parts: Parts, size: int) -> pa.Array:
        state = self._state()
        state.load(parts, size)
        return state.result(np.arange(size, dtype=np.int64))


class ValueCall(FrameCall):
    """MIN, MAX, FIRST_VALUE, LAST_VALUE (which ignore NULL): the position of the row that has the value."""

    def __init__(self, spec: AggregateSpec) -> None:
        super().__init__(spec)
        self._name = spec.function.upper()
        self._store = ColumnStore([spec.arg_types[0].arrow])
        self._seen = np.zeros(0, np.bool_)

    def values(
        self,
        layout: FrameLayout,
        columns: Columns,
        kept: np.ndarray,
        low: np.ndarray,
        high: np.ndarray,
        rows: np.ndarray,
    ) -> pa.Array:
        (values,) = self.args(columns)
        places, _, _ = self._places(layout, values, _valid(values, kept), low, high)
        return _take(values, places)

    def run(
        self,
        layout: FrameLayout,
        columns: Columns,
        kept: np.ndarray,
        low: np.ndarray,
        high: np.ndarray,
        rows: np.ndarray,
        slots: np.ndarray,
        first: np.ndarray,
    ) -> pa.Array:
        (values,) = self.args(columns)
        count = len(values)
        seen = values_at(self._seen, slots)
        carried = self._store.take(np.where(seen, slots, -1))[0]
        both = pa.concat_arrays([values, carried])
        valid = _valid(values, kept)
        last = _segment_ends(layout)
        # The frames asked for, then for each segment all that it will carry over.
        low, high = np.concatenate((low, first)), np.concatenate((high, last))
        owner = np.concatenate((layout.segment[rows], np.arange(len(slots))))
        places, rank, rank_place = self._places(layout, both, np.concatenate((valid, seen)), low, high, count)
        old = np.where(seen[owner], count + owner, -1)
        if rank is not None and rank_place is not None and len(rank_place):
            known = (places >= 0) & (old >= 0)
            better = np.where(known, np.minimum(rank[places], rank[old]), 0)
            places = np.where(known, rank_place[better], np.where(places >= 0, places, old))
        elif self._name == "FIRST_VALUE":
            places = np.where(old >= 0, old, places)
        else:
            places = np.where(places >= 0, places, old)
        final = places[len(rows) :]
        kept_slots = slots[final >= 0]
        self._seen = grown(self._seen, int(slots.max()) + 1, False)
        self._seen[kept_slots] = True
        self._store.put(kept_slots, [both.take(pa.array(final[final >= 0]))])
        return _take(both, places[: len(rows)])

    @property
    def resumable(self) -> bool:
        return True

    def resume(self, slots: np.ndarray, rows: np.ndarray, sent: pa.Array) -> None:
        known = (rows >= 0) & sent.is_valid().to_numpy(zero_copy_only=False)
        self._seen = np.zeros(int(slots.max()) + 1 if len(slots) else 0, np.bool_)
        self._seen[slots[known]] = True
        self._store.put(slots[known], [sent.filter(pa.array(known))])

    def release(self, slots: np.ndarray) -> None:
        known = slots[values_at(self._seen, slots)]
        self._store.free(known)
        self._seen[known] = False

    @property
    def nbytes(self) -> int:
        return self._store.nbytes + self._seen.nbytes

    def _places(
        self,
        layout: FrameLayout,
        values: pa.Array,
        valid: np.ndarray,
        low: np.ndarray,
        high: np.ndarray,
        count: int | None = None,
    ) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
        """Per frame the position of its value, -1 if there is none; for extremes also the rank of every value (0 the
        best) and the position of each rank. Only the first `count` values stand in the layout."""
        inside = valid if count is None else valid[:count]
        if self._name == "FIRST_VALUE":
            return first_valid(inside, low, high), None, None
        if self._name == "LAST_VALUE":
            return last_valid(inside, low, high), None, None
        rank, place = _ranks(values, valid, self._name == "MAX")
        none = len(place)
        inner = rank if count is None else rank[:count]
        start = layout.start
        if len(low) and len(start) and (high > low).all() and (low == start[high - 1]).all():
            best = running_min(layout.segment, inner, none + 1)[high - 1]
        else:
            best = range_min(inner, low, high, none)
        found = np.full(len(best), -1, np.int64)
        found[best < none] = place[best[best < none]]
        return found, rank, place


class DistinctCall(FrameCall):
    """DISTINCT over frames from the partition's start: the plain call over the first row of each value."""

    def __init__(self, spec: AggregateSpec, plain: FrameCall) -> None:
        super().__init__(spec)
        self._plain = plain
        self._types = [t.arrow for t in spec.arg_types]
        self._known = DistinctValues(self._types, 1, mergeable=False)

    def values(
        self,
        layout: FrameLayout,
        columns: Columns,
        kept: np.ndarray,
        low: np.ndarray,
        high: np.ndarray,
        rows: np.ndarray,
    ) -> pa.Array:
        chosen = np.flatnonzero(kept)
        args = [c.take(pa.array(chosen)) for c in self.args(columns)]
        words = np.concatenate(
            (layout.segment[chosen].view(np.uint64).reshape(-1, 1), KeyEncoder(self._types).encode(args)), axis=1
        )
        return self._plain.values(layout, columns, _only(len(layout), chosen[group_ids(words)[0]]), low, high, rows)

    def run(
        self,
        layout: FrameLayout,
        columns: Columns,
        kept: np.ndarray,
        low: np.ndarray,
        high: np.ndarray,
        rows: np.ndarray,
        slots: np.ndarray,
        first: np.ndarray,
    ) -> pa.Array:
        # Rows before `first` were counted when they were new.
        fresh = np.flatnonzero(kept & (np.arange(len(layout)) >= first[layout.segment]))
        args = [c.take(pa.array(fresh)) for c in self.args(columns)]
        appear = np.empty(0, np.int64)
        if len(fresh):
            ((chosen, _),) = self._known.change(
                slots[layout.segment[fresh]], args, fresh, [np.ones(len(fresh), np.int64)]
            )
            appear = fresh[chosen]
        return self._plain.run(layout, columns, _only(len(layout), appear), low, high, rows, slots, first)

    def release(self, slots: np.ndarray) -> None:
        self._known.release(slots)
        self._plain.release(slots)

    @property
    def nbytes(self) -> int:
        return self._known.nbytes + self._plain.nbytes


class ExpandedCall(FrameCall):
    """Any call, by going through all rows of all frames: for results that are made of all values anyway, and DISTINCT
    in frames that move."""

    carries = False

    def __init__(self, spec: AggregateSpec, types: Sequence[DataType]) -> None:
        super().__init__(spec)
        self._types = types
        self._needed = sorted(
            {*spec.args, *(o.index for o in spec.order_by), *(() if spec.filter is None else (spec.filter,))}
        )

    def values(
        self,
        layout: FrameLayout,
        columns: Columns,
        kept: np.ndarray,
        low: np.ndarray,
        high: np.ndarray,
        rows: np.ndarray,
    ) -> pa.Array:
        spec = self.spec.with_(retract=False)
        results: list[pa.Array] = []
        ends = np.cumsum(high - low)
        start = 0
        while start < len(low):
            done = int(ends[start - 1]) if start else 0
            stop = max(start + 1, int(np.searchsorted(ends, done + _PAIRS, side="right")))
            owner, element = expand_ranges(low[start:stop], high[start:stop] - low[start:stop])
            state = AggregateSet([spec], self._types)
            if len(owner):
                take = pa.array(element)
                inputs = [c.take(take) if i in self._needed else c for i, c in enumerate(columns)]
                state.update(owner, None, inputs, np.arange(len(owner), dtype=np.int64))
            results.extend(state.results(np.arange(stop - start, dtype=np.int64)))
            start = stop
        return pa.concat_arrays(results) if results else pa.array([], spec.type.arrow)


_ADDITIVE = frozenset(
    {
        "COUNT",
        "SUM",
        "SUM0",
        "$SUM0",
        "AVG",
        "VAR_POP",
        "VAR_SAMP",
        "VARIANCE",
        "STDDEV_POP",
        "STDDEV_SAMP",
        "STDDEV",
    }
)
_VALUE = frozenset({"MIN", "MAX", "FIRST_VALUE", "LAST_VALUE"})


def frame_call(spec: AggregateSpec, types: Sequence[DataType], from_start: bool) -> FrameCall:
    """How a call is evaluated; `from_start`: its frames begin at the partition's start."""
    name = spec.function.upper()
    if name == "APPROX_COUNT_DISTINCT":
        return frame_call(spec.with_(function="COUNT", distinct=True), types, from_start)
    distinct = spec.distinct and name not in ("MIN", "MAX")
    if distinct and not from_start:
        return ExpandedCall(spec, types)
    if name in _ADDITIVE:
        plain: FrameCall = AdditiveCall(spec)
    elif name in _VALUE:
        plain = ValueCall(spec)
    else:
        return ExpandedCall(spec, types)
    return DistinctCall(spec, plain) if distinct else plain


def _running(values: np.ndarray) -> np.ndarray:
    """Sums of the first 0, 1, 2, ... values; they wrap, and so do their differences, which are right again."""
    total = np.zeros(len(values) + 1, np.int64)
    np.cumsum(values, out=total[1:])
    return total


def _between(running: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    return running[high] - running[low]


def _segment_ends(layout: FrameLayout) -> np.ndarray:
    heads = np.flatnonzero(np.diff(layout.segment, prepend=-1))
    return layout.end[heads]


def _valid(values: pa.Array, kept: np.ndarray) -> np.ndarray:
    return kept & values.is_valid().to_numpy(zero_copy_only=False) if values.null_count else kept


def _only(count: int, rows: np.ndarray) -> np.ndarray:
    chosen = np.zeros(count, np.bool_)
    chosen[rows] = True
    return chosen


def _take(values: pa.Array, places: np.ndarray) -> pa.Array:
    return values.take(pa.array(places, mask=places < 0))


def _ranks(values: pa.Array, valid: np.ndarray, greatest: bool) -> tuple[np.ndarray, np.ndarray]:
    """The rank of each value, 0 the best; the number of ranks where it is not valid; and a position of each rank."""
    rows = np.flatnonzero(valid)
    chosen = values.take(pa.array(rows))
    keys = ordered_keys(chosen)
    if keys is None:
        order = sort_indices([chosen], [greatest], [True])
        code = KeyEncoder([values.type], [False]).encode([chosen])[order]
        change = (code[1:] != code[:-1]).any(axis=1)
        dense = np.zeros(len(order), np.int64)
        dense[1:] = np.cumsum(change)
        place = rows[order[np.flatnonzero(np.diff(dense, prepend=-1))]]
        ranks = np.empty(len(rows), np.int64)
        ranks[order] = dense
    else:
        _, index, ranks = np.unique(keys, return_index=True, return_inverse=True)
        place = rows[index]
        if greatest:
            place, ranks = place[::-1], len(place) - 1 - ranks
    result = np.full(len(values), len(place), np.int64)
    result[rows] = ranks
    return result, place
