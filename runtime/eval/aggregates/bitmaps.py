"""The aggregates of BITMAP: of integers (BITMAP_BUILD_AGG) and of sets (AND, OR, XOR), and the numbers of their elements.

Groups without a value that is not NULL give NULL. Where nothing is taken back, and for XOR, which undoes itself, a
group is its set: a change reads and writes it as a whole, as the result has to be. Else each integer of a group is a
row with the number of sets that have it (BITMAP_AND_AGG gives those that all sets have), so taking back costs what
is taken back, and reading a group what it holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from runtime.eval.aggregates.accumulator import Accumulator, ColumnAccumulator, clear_at, keep_valid
from runtime.eval.aggregates.distinct import DistinctValues
from runtime.expr.bitmaps import bitmap, carried, each, members, set_of, singles
from runtime.kernels.columns import ColumnStore
from runtime.kernels.grow import grown
from runtime.kernels.indexed import add_at, take_at
from runtime.state.table import StateTable

__all__ = ["bitmap_accumulator"]


def bitmap_accumulator(name: str, retract: bool) -> Accumulator:
    """The state of an aggregate of bitmaps, by its name: `BITMAP_OR_AGG`, `BITMAP_BUILD_CARDINALITY_AGG`, ..."""
    kind = name.removeprefix("BITMAP_").removesuffix("_AGG")
    counts = kind.endswith("_CARDINALITY")
    kind = kind.removesuffix("_CARDINALITY")
    return CountedElements(kind, counts) if retract and kind != "XOR" else KeptSet(kind, counts)


class KeptSet(ColumnAccumulator):
    """The set of each group, and how many values it was made of.

    Groups that change are dealt with one after the other, because the library takes one set at a time; but those whose
    first values are one integer each are made at once.
    """

    def __init__(self, kind: str, counts: bool) -> None:
        self._kind = kind
        self._counts = counts
        self._store = ColumnStore([pa.binary()])
        self._rows = np.zeros(0, np.int64)
        self._there = np.zeros(0, np.bool_)
        self._sizes = np.zeros(0, np.int64)

    def update(self, slots: np.ndarray, signs: np.ndarray | None, args: Sequence[pa.Array], seqs: np.ndarray) -> None:
        slots, signs, (values,), _ = keep_valid(slots, signs, args[:1], seqs)
        if len(slots):
            self._grow(int(slots.max()) + 1)
            add_at(self._rows, slots, np.ones(len(slots), np.int8) if signs is None else signs)
            if self._kind == "BUILD":
                self._build(slots, values.to_numpy().astype(np.int32, copy=False))
            else:
                self._combine(slots, values)

    def _build(self, slots: np.ndarray, values: np.ndarray) -> None:
        order = np.argsort(slots, kind="stable")
        touched, starts = np.unique(slots[order], return_index=True)
        counts = np.diff(np.append(starts, len(slots)))
        values = values[order]
        alone = (counts == 1) & ~self._there[touched]
        self._put(touched[alone], singles(values[starts[alone]]), np.ones(int(alone.sum()), np.int64))
        touched, starts, counts = touched[~alone], starts[~alone], counts[~alone]
        sets: list[Any] = []
        for before, start, count in zip(self._before(touched), starts.tolist(), counts.tolist(), strict=True):
            made = set_of(values[start : start + count])
            if before is not None:
                made |= bitmap(before)
            sets.append(made)
        self._put_sets(touched, sets)

    def _combine(self, slots: np.ndarray, values: pa.Array) -> None:
        order = np.argsort(slots, kind="stable")
        touched, starts = np.unique(slots[order], return_index=True)
        counts = np.diff(np.append(starts, len(slots)))
        values = values.take(pa.array(order))
        alone = (counts == 1) & ~self._there[touched]
        first = values.take(pa.array(starts[alone]))
        self._put(touched[alone], first, self._sizes_of(first))
        touched, starts, counts = touched[~alone], starts[~alone], counts[~alone]
        sets: list[Any] = []
        for before, start, count in zip(self._before(touched), starts.tolist(), counts.tolist(), strict=True):
            given = [bitmap(v) for v in values.slice(start, count).to_pylist()]
            made = given[0] if before is None else bitmap(before)
            for other in given[1:] if before is None else given:
                if self._kind == "AND":
                    made &= other
                elif self._kind == "XOR":
                    made ^= other
                else:
                    made |= other
            sets.append(made)
        self._put_sets(touched, sets)

    def _before(self, slots: np.ndarray) -> list[bytes | None]:
        return self._store.take(np.where(self._there[slots], slots, -1))[0].to_pylist()

    def _put_sets(self, slots: np.ndarray, sets: list[Any]) -> None:
        sizes = np.array([len(s) for s in sets], np.int64)
        self._put(slots, pa.array([carried(s) for s in sets], pa.binary()), sizes)

    def _put(self, slots: np.ndarray, values: pa.Array, sizes: np.ndarray) -> None:
        self._store.put(slots, [values])
        self._there[slots] = True
        if self._counts:
            self._sizes[slots] = sizes

    def _sizes_of(self, values: pa.Array) -> np.ndarray:
        if not self._counts:
            return np.zeros(len(values), np.int64)
        return each(values, lambda data: len(bitmap(data)), pa.int64()).to_numpy()

    def _grow(self, high: int) -> None:
        self._rows, self._there = grown(self._rows, high), grown(self._there, high, False)
        if self._counts:
            self._sizes = grown(self._sizes, high)

    def result(self, slots: np.ndarray) -> pa.Array:
        known = take_at(self._rows, slots) > 0
        if self._counts:
            return pa.array(take_at(self._sizes, slots), mask=~known)
        return self._store.take(np.where(known, slots, -1))[0]

    def release(self, slots: np.ndarray) -> None:
        self._store.free(slots[take_at(self._there, slots)])
        clear_at(self._there, slots, False)
        clear_at(self._rows, slots)
        clear_at(self._sizes, slots)

    def merge(self, targets: np.ndarray, other: Accumulator, sources: np.ndarray) -> None:
        assert isinstance(other, KeptSet)
        known = take_at(other._there, sources)
        targets, sources = targets[known], sources[known]
        if len(targets):
            self._grow(int(targets.max()) + 1)
            add_at(self._rows, targets, other._rows[sources])
            self._combine(targets, other._store.take(sources)[0])

    @property
    def nbytes(self) -> int:
        return self._store.nbytes + self._rows.nbytes + self._there.nbytes + self._sizes.nbytes

    def columns(self) -> list[tuple[str, pa.DataType]]:
        return [("set", pa.binary()), ("rows", pa.int64())]

    def save(self, slots: np.ndarray) -> list[pa.Array]:
        there = take_at(self._there, slots)
        return [self._store.take(np.where(there, slots, -1))[0], pa.array(take_at(self._rows, slots), mask=~there)]

    def restore(self, slots: np.ndarray, columns: Sequence[pa.Array]) -> None:
        slots, _, (sets, rows), _ = keep_valid(slots, None, columns, slots)
        if len(slots):
            self._grow(int(slots.max()) + 1)
            self._rows[slots] = rows.to_numpy()
            self._put(slots, sets, self._sizes_of(sets))


class CountedElements(Accumulator):
    """How many values of a group have each integer, and how many values it has."""

    def __init__(self, kind: str, counts: bool) -> None:
        self._kind = kind
        self._counts = counts
        self._rows = np.zeros(0, np.int64)
        self._elements = DistinctValues([pa.int32()], 1, mergeable=True)

    def update(self, slots: np.ndarray, signs: np.ndarray | None, args: Sequence[pa.Array], seqs: np.ndarray) -> None:
        slots, signs, (values,), seqs = keep_valid(slots, signs, args[:1], seqs)
        if len(slots) == 0:
            return
        weights = np.ones(len(slots), np.int64) if signs is None else signs.astype(np.int64)
        self._rows = grown(self._rows, int(slots.max()) + 1)
        add_at(self._rows, slots, weights)
        if self._kind != "BUILD":
            items, lengths = members(values)
            slots, seqs, weights = (np.repeat(each, lengths) for each in (slots, seqs, weights))
            values = pa.array(items, pa.int32())
        if len(slots):
            self._elements.change(slots, [values], seqs, [weights])

    def _read(self, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The integers of the groups' sets, group after group, and how many each has."""
        index, entries = self._elements.entries(slots)
        (values,), _, (held,) = self._elements.values(entries)
        needed = take_at(self._rows, slots)[index] if self._kind == "AND" else np.ones(len(index), np.int64)
        there = held >= needed
        index, items = index[there], values.to_numpy()[there]
        if (index[1:] < index[:-1]).any():
            order = np.argsort(index, kind="stable")
            index, items = index[order], items[order]
        return items, np.bincount(index, minlength=len(slots))

    def result(self, slots: np.ndarray) -> pa.Array:
        known = take_at(self._rows, slots) > 0
        items, lengths = self._read(slots)
        if self._counts:
            return pa.array(lengths.astype(np.int64), mask=~known)
        parts = np.split(items, np.cumsum(lengths)[:-1]) if len(slots) else []
        sets = [carried(set_of(part)) if there else None for part, there in zip(parts, known.tolist(), strict=True)]
        return pa.array(sets, pa.binary())

    def release(self, slots: np.ndarray) -> None:
        self._elements.release(slots)
        clear_at(self._rows, slots)

    def merge(self, targets: np.ndarray, other: Accumulator, sources: np.ndarray) -> None:
        assert isinstance(other, CountedElements)
        if len(targets) == 0:
            return
        self._rows = grown(self._rows, int(targets.max()) + 1)
        add_at(self._rows, targets, take_at(other._rows, sources))
        index, entries = other._elements.entries(sources)
        if len(entries):
            columns, seqs, weights = other._elements.values(entries)
            self._elements.change(targets[index], columns, seqs, weights)

    @property
    def nbytes(self) -> int:
        return self._elements.nbytes + self._rows.nbytes

    def columns(self) -> list[tuple[str, pa.DataType]]:
        return [("rows", pa.int64())]

    def save(self, slots: np.ndarray) -> list[pa.Array]:
        return [pa.array(take_at(self._rows, slots))]

    def restore(self, slots: np.ndarray, columns: Sequence[pa.Array]) -> None:
        if len(slots):
            self._rows = grown(self._rows, int(slots.max()) + 1)
            self._rows[slots] = columns[0].fill_null(0).to_numpy()

    def tables(self, name: str, groups: StateTable) -> list[StateTable]:
        return [self._elements.keep_in(f"values of {name}", ["count"], groups)]
