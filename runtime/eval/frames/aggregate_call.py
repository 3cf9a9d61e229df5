"""Sums, DISTINCT and functions made of all values over frames; which call is evaluated how."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runtime.core.cancellation import look
from runtime.core.types import DataType
from runtime.eval.aggregates.aggregate_set import AggregateSet
from runtime.eval.aggregates.distinct import DistinctValues
from runtime.eval.aggregates.factory import make_accumulator
from runtime.eval.aggregates.sums import AdditiveAccumulator, Parts
from runtime.eval.frames.frame_call import FrameCall, Frames, segment_ends
from runtime.eval.frames.value_call import ValueCall
from runtime.expr.function import FunctionRegistry
from runtime.kernels.grouping import group_ids
from runtime.kernels.grow import expand_ranges, grown
from runtime.kernels.indexed import take_at
from runtime.kernels.key_encoding import KeyEncoder
from runtime.plan.nodes import AggregateSpec
from runtime.plan.over_state import ADDITIVE, ENDS, values_table
from runtime.state.table import StateTable

__all__ = ["frame_call"]

_PAIRS = 1 << 21


class AdditiveCall(FrameCall):
    """COUNT, SUM, AVG, variances: differences of running integer sums (doubles as exact fixed-point sums)."""

    def __init__(self, spec: AggregateSpec) -> None:
        super().__init__(spec.with_(retract=True, distinct=False))
        self._carry: Parts = {}
        self._total: Parts = {}
        self._noted: Parts = {}

    def values(self, frames: Frames, kept: np.ndarray) -> pa.Array:
        parts = self._state().parts(self.args(frames.columns), kept)
        total: Parts = {}
        for key, part in parts.items():
            running = _running(part)
            first, *more = (_between(running, low, high) for low, high in frames.ranges)
            total[key] = sum(more, first)
        return self._result(total, len(frames.low))

    def run(self, frames: Frames, kept: np.ndarray, slots: np.ndarray, first: np.ndarray) -> pa.Array:
        parts = self._state().parts(self.args(frames.columns), kept)
        segment = frames.layout.segment[frames.rows]
        last = segment_ends(frames.layout)
        total: Parts = {}
        size = int(slots.max()) + 1
        for key in {*parts, *self._carry}:
            before = take_at(self._carry[key], slots) if key in self._carry else np.zeros(len(slots), np.int64)
            if key not in parts:
                total[key] = before[segment]
                continue
            running = _running(parts[key])
            total[key] = _between(running, frames.low, frames.high) + before[segment]
            carried = grown(self._carry.get(key, np.zeros(0, np.int64)), size)
            carried[slots] = before + _between(running, first, last)
            self._carry[key] = carried
        self._total = total
        return self._result(total, len(frames.low))

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

    def carried(self) -> list[tuple[str, pa.DataType]]:
        return self._state().columns()

    def save(self, slots: np.ndarray) -> list[pa.Array]:
        every = np.arange(len(slots), dtype=np.int64)
        state = self._state()
        nothing = {key: np.zeros(len(slots), np.int64) for key in (("n", 0), ("s", 0))}
        state.load({**nothing, **{key: take_at(values, slots) for key, values in self._carry.items()}}, len(slots))
        return state.save(every)

    def restore(self, slots: np.ndarray, columns: Sequence[pa.Array]) -> None:
        every = np.arange(len(slots), dtype=np.int64)
        state = self._state()
        state.restore(every, columns)
        for key, values in state.loaded(every).items():
            carried = grown(self._carry.get(key, np.zeros(0, np.int64)), int(slots.max()) + 1)
            carried[slots] = values
            self._carry[key] = carried

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


class DistinctCall(FrameCall):
    """DISTINCT over frames from the partition's start: the plain call over the first row of each value."""

    def __init__(self, spec: AggregateSpec, plain: FrameCall) -> None:
        super().__init__(spec)
        self._plain = plain
        self._types = [t.arrow for t in spec.arg_types]
        self._known = DistinctValues(self._types, 1, mergeable=False)

    def values(self, frames: Frames, kept: np.ndarray) -> pa.Array:
        chosen = np.flatnonzero(kept)
        args = [c.take(pa.array(chosen)) for c in self.args(frames.columns)]
        words = np.concatenate(
            (frames.layout.segment[chosen].view(np.uint64).reshape(-1, 1), KeyEncoder(self._types).encode(args)), axis=1
        )
        return self._plain.values(frames, _only(len(frames.layout), chosen[group_ids(words)[0]]))

    def run(self, frames: Frames, kept: np.ndarray, slots: np.ndarray, first: np.ndarray) -> pa.Array:
        # Rows before `first` were counted when they were new.
        fresh = np.flatnonzero(kept & (np.arange(len(frames.layout)) >= first[frames.layout.segment]))
        args = [c.take(pa.array(fresh)) for c in self.args(frames.columns)]
        appear = np.empty(0, np.int64)
        if len(fresh):
            ((chosen, _),) = self._known.change(
                slots[frames.layout.segment[fresh]], args, fresh, [np.ones(len(fresh), np.int64)]
            )
            appear = fresh[chosen]
        return self._plain.run(frames, _only(len(frames.layout), appear), slots, first)

    def release(self, slots: np.ndarray) -> None:
        self._known.release(slots)
        self._plain.release(slots)

    def carried(self) -> list[tuple[str, pa.DataType]]:
        return self._plain.carried()

    def save(self, slots: np.ndarray) -> list[pa.Array]:
        return self._plain.save(slots)

    def restore(self, slots: np.ndarray, columns: Sequence[pa.Array]) -> None:
        self._plain.restore(slots, columns)

    def tables(self, name: str, partitions: StateTable) -> list[StateTable]:
        return [self._known.keep_in(values_table(name), ["count"], partitions)]

    @property
    def nbytes(self) -> int:
        return self._known.nbytes + self._plain.nbytes


class ExpandedCall(FrameCall):
    """Any call, by going through all rows of all frames: for results that are made of all values anyway, and DISTINCT
    in frames that move."""

    carries = False

    def __init__(self, spec: AggregateSpec, types: Sequence[DataType], functions: FunctionRegistry | None) -> None:
        super().__init__(spec)
        self._types = types
        self._functions = functions
        self._needed = sorted(
            {*spec.args, *(o.index for o in spec.order_by), *(() if spec.filter is None else (spec.filter,))}
        )

    def values(self, frames: Frames, kept: np.ndarray) -> pa.Array:
        # A frame may be empty: then also the sum of a column without NULL is NULL.
        spec = self.spec.with_(retract=False, arg_types=tuple(t.with_nullable(True) for t in self.spec.arg_types))
        results: list[pa.Array] = []
        ranges = frames.ranges
        sizes = np.sum([high - low for low, high in ranges], axis=0)
        ends = np.cumsum(sizes)
        start = 0
        while start < len(sizes):
            look()
            done = int(ends[start - 1]) if start else 0
            stop = max(start + 1, int(np.searchsorted(ends, done + _PAIRS, side="right")))
            owner, element = _expanded([(low[start:stop], high[start:stop]) for low, high in ranges])
            state = AggregateSet([spec], self._types, functions=self._functions)
            if len(owner):
                take = pa.array(element)
                inputs = [c.take(take) if i in self._needed else c for i, c in enumerate(frames.columns)]
                state.update(owner, None, inputs, np.arange(len(owner), dtype=np.int64))
            results.extend(state.results(np.arange(stop - start, dtype=np.int64)))
            start = stop
        return pa.concat_arrays(results) if results else pa.array([], spec.type.arrow)


def frame_call(
    spec: AggregateSpec, types: Sequence[DataType], from_start: bool, functions: FunctionRegistry | None = None
) -> FrameCall:
    """How a call is evaluated; `from_start`: its frames begin at the partition's start; `functions`: those of the job."""
    name = spec.function.upper()
    if name == "APPROX_COUNT_DISTINCT":
        return frame_call(spec.with_(function="COUNT", distinct=True), types, from_start, functions)
    distinct = spec.distinct and name not in ("MIN", "MAX")
    if distinct and not from_start:
        return ExpandedCall(spec, types, functions)
    if name in ADDITIVE:
        plain: FrameCall = AdditiveCall(spec)
    elif name in ENDS:
        plain = ValueCall(spec)
    else:
        return ExpandedCall(spec, types, functions)
    return DistinctCall(spec, plain) if distinct else plain


def _expanded(ranges: Sequence[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """By request the positions of its ranges: the request and the position of each, in order of requests."""
    found = [expand_ranges(low, high - low) for low, high in ranges]
    if len(found) == 1:
        return found[0]
    owner, element = (np.concatenate([f[part] for f in found]) for part in (0, 1))
    order = np.argsort(owner, kind="stable")
    return owner[order], element[order]


def _running(values: np.ndarray) -> np.ndarray:
    """Sums of the first 0, 1, 2, ... values; they wrap, and so do their differences, which are right again."""
    total = np.zeros(len(values) + 1, np.int64)
    np.cumsum(values, out=total[1:])
    return total


def _between(running: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    return running[high] - running[low]


def _only(count: int, rows: np.ndarray) -> np.ndarray:
    chosen = np.zeros(count, np.bool_)
    chosen[rows] = True
    return chosen
