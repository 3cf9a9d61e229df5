"""MIN, MAX, FIRST_VALUE, LAST_VALUE and NTH_VALUE over frames."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runtime.eval.aggregates.extremes import ordered_keys
from runtime.eval.frames.frame_call import FrameCall, Frames, segment_ends, valid_rows
from runtime.eval.frames.layout import FrameLayout
from runtime.eval.frames.ranges import first_valid, last_valid, range_min, running_min
from runtime.kernels.arrow_buffers import fixed_values
from runtime.kernels.columns import ColumnStore
from runtime.kernels.grow import grown
from runtime.kernels.indexed import take_at
from runtime.kernels.key_encoding import KeyEncoder
from runtime.kernels.sort import sort_indices
from runtime.plan.nodes import AggregateSpec

__all__ = ["NthCall", "ValueCall"]


class ValueCall(FrameCall):
    """MIN, MAX, FIRST_VALUE, LAST_VALUE (which ignore NULL): the position of the row that has the value."""

    def __init__(self, spec: AggregateSpec) -> None:
        super().__init__(spec)
        self._name = spec.function.upper()
        self._store = ColumnStore([spec.arg_types[0].arrow])
        self._seen = np.zeros(0, np.bool_)

    def values(self, frames: Frames, kept: np.ndarray) -> pa.Array:
        (values,) = self.args(frames.columns)
        valid = valid_rows(values, kept)
        ranges = frames.ranges
        low, high = (np.concatenate([r[end] for r in ranges]) for end in (0, 1))
        places, rank, rank_place = self._places(frames.layout, values, valid, low, high)
        found = places.reshape(len(ranges), -1)
        return _take(values, found[0] if len(ranges) == 1 else self._best(found, rank, rank_place))

    def _best(self, found: np.ndarray, rank: np.ndarray | None, rank_place: np.ndarray | None) -> np.ndarray:
        """Of the positions found in the ranges of each frame, a row for each range, the one that has the value."""
        if rank is not None and rank_place is not None:
            none = len(rank_place)
            best = np.where(found >= 0, rank[found], none).min(axis=0) if none else np.full(found.shape[1], none)
            return np.append(rank_place, -1)[best]
        ordered = found if self._name == "FIRST_VALUE" else found[::-1]
        which = (ordered >= 0).argmax(axis=0)
        return ordered[which, np.arange(found.shape[1])]

    def run(self, frames: Frames, kept: np.ndarray, slots: np.ndarray, first: np.ndarray) -> pa.Array:
        (values,) = self.args(frames.columns)
        count = len(values)
        seen = take_at(self._seen, slots)
        carried = self._store.take(np.where(seen, slots, -1))[0]
        both = pa.concat_arrays([values, carried])
        valid = valid_rows(values, kept)
        last = segment_ends(frames.layout)
        # The frames asked for, then for each segment all that it will carry over.
        low, high = np.concatenate((frames.low, first)), np.concatenate((frames.high, last))
        owner = np.concatenate((frames.layout.segment[frames.rows], np.arange(len(slots))))
        places, rank, rank_place = self._places(frames.layout, both, np.concatenate((valid, seen)), low, high, count)
        old = np.where(seen[owner], count + owner, -1)
        if rank is not None and rank_place is not None and len(rank_place):
            known = (places >= 0) & (old >= 0)
            better = np.where(known, np.minimum(rank[places], rank[old]), 0)
            places = np.where(known, rank_place[better], np.where(places >= 0, places, old))
        elif self._name == "FIRST_VALUE":
            places = np.where(old >= 0, old, places)
        else:
            places = np.where(places >= 0, places, old)
        final = places[len(frames.rows) :]
        kept_slots = slots[final >= 0]
        self._seen = grown(self._seen, int(slots.max()) + 1, False)
        self._seen[kept_slots] = True
        self._store.put(kept_slots, [both.take(pa.array(final[final >= 0]))])
        return _take(both, places[: len(frames.rows)])

    @property
    def resumable(self) -> bool:
        return True

    def resume(self, slots: np.ndarray, rows: np.ndarray, sent: pa.Array) -> None:
        known = (rows >= 0) & sent.is_valid().to_numpy(zero_copy_only=False)
        self._seen = np.zeros(int(slots.max()) + 1 if len(slots) else 0, np.bool_)
        self._seen[slots[known]] = True
        self._store.put(slots[known], [sent.filter(pa.array(known))])

    def release(self, slots: np.ndarray) -> None:
        known = slots[take_at(self._seen, slots)]
        self._store.free(known)
        self._seen[known] = False

    def carried(self) -> list[tuple[str, pa.DataType]]:
        return [("value", self.spec.arg_types[0].arrow)]

    def save(self, slots: np.ndarray) -> list[pa.Array]:
        return self._store.take(np.where(take_at(self._seen, slots), slots, -1))

    def restore(self, slots: np.ndarray, columns: Sequence[pa.Array]) -> None:
        seen = columns[0].is_valid()
        known = slots[seen.to_numpy(zero_copy_only=False)]
        if len(known):
            self._seen = grown(self._seen, int(known.max()) + 1, False)
            self._seen[known] = True
            self._store.put(known, [columns[0].filter(seen)])

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


class NthCall(FrameCall):
    """NTH_VALUE, and FIRST_VALUE and LAST_VALUE with RESPECT NULLS: the value of a row of the frame told by its place."""

    carries = False

    def values(self, frames: Frames, kept: np.ndarray) -> pa.Array:
        values, *places = self.args(frames.columns)
        ranges = frames.ranges
        size = np.sum([high - low for low, high in ranges], axis=0)
        name = self.spec.function.upper()
        wanted = np.zeros(len(size), np.int64) if name != "LAST_VALUE_RESPECT_NULLS" else size - 1
        if places:
            numbers = places[0].fill_null(0)
            wanted = fixed_values(numbers)[frames.rows].astype(np.int64) - 1
        found = np.full(len(size), -1, np.int64)
        passed = np.zeros(len(size), np.int64)
        for low, high in ranges:
            inside = (wanted >= passed) & (wanted < passed + high - low)
            found = np.where(inside, low + wanted - passed, found)
            passed += high - low
        return _take(values, found)


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
