"""MIN and MAX: of values that only come, one value per group; of values that may be taken back, all of them in
order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from runtime.core.types import DataType
from runtime.eval.aggregates.accumulator import (
    Accumulator,
    ColumnAccumulator,
    TableAccumulator,
    clear_at,
    keep_valid,
)
from runtime.kernels.arrow_buffers import fixed_array, fixed_values, is_bytes_like, is_fixed
from runtime.kernels.columns import ColumnStore
from runtime.kernels.grouping import distinct_rows, group_ids
from runtime.kernels.grow import grown
from runtime.kernels.hash_index import HashIndex
from runtime.kernels.indexed import add_at, greatest_at, least_at, put_at, take_at
from runtime.kernels.interned import forget_unused
from runtime.kernels.key_encoding import KeyEncoder
from runtime.kernels.order_words import OrderEncoder, order_words
from runtime.kernels.sort import sort_words
from runtime.kernels.sorted_runs import SortedRuns
from runtime.state.table import OWNER, StateTable

__all__ = ["AnyExtreme", "FixedExtreme", "RetractableExtreme", "extreme_accumulator", "ordered_keys"]

_MANY_ROWS = 1024


def extreme_accumulator(function: str, type_: DataType, retract: bool) -> Accumulator:
    """The accumulator of MIN or MAX for a type."""
    greatest = function == "MAX"
    arrow = type_.arrow
    if retract:
        return RetractableExtreme(arrow, greatest)
    return FixedExtreme(arrow, greatest) if _one_word(arrow) else AnyExtreme(arrow, greatest)


def _one_word(type_: pa.DataType) -> bool:
    return is_fixed(type_) and (type_.precision <= 18 if pt.is_decimal(type_) else type_.bit_width <= 64)


class FixedExtreme(ColumnAccumulator):
    """Values of at most 64 bits, kept as int64 whose order is the values' order (doubles: by their bits; NaN is the
    greatest)."""

    def __init__(self, type_: pa.DataType, greatest: bool) -> None:
        self._type = type_
        self._greatest = greatest
        self._worst = np.iinfo(np.int64).min if greatest else np.iinfo(np.int64).max
        self._best = np.zeros(0, np.int64)
        self._seen = np.zeros(0, np.bool_)

    def update(self, slots: np.ndarray, signs: np.ndarray | None, args: Sequence[pa.Array], seqs: np.ndarray) -> None:
        slots, _, (values,), _ = keep_valid(slots, None, args[:1], seqs)
        self._take(slots, _ordered(values))

    def result(self, slots: np.ndarray) -> pa.Array:
        missing = ~take_at(self._seen, slots)
        return _unordered(take_at(self._best, slots), self._type, missing if missing.any() else None)

    def release(self, slots: np.ndarray) -> None:
        clear_at(self._best, slots, self._worst)
        clear_at(self._seen, slots, False)

    def merge(self, targets: np.ndarray, other: Accumulator, sources: np.ndarray) -> None:
        assert isinstance(other, FixedExtreme)
        known = take_at(other._seen, sources)
        self._take(targets[known], other._best[sources[known]])

    @property
    def nbytes(self) -> int:
        return self._best.nbytes + self._seen.nbytes

    def columns(self) -> list[tuple[str, pa.DataType]]:
        return [("best", self._type)]

    def save(self, slots: np.ndarray) -> list[pa.Array]:
        return [self.result(slots)]

    def restore(self, slots: np.ndarray, columns: Sequence[pa.Array]) -> None:
        self.update(slots, None, columns, slots)

    def _take(self, slots: np.ndarray, keys: np.ndarray) -> None:
        if len(slots) == 0:
            return
        high = int(slots.max()) + 1
        self._best = grown(self._best, high, self._worst)
        self._seen = grown(self._seen, high, False)
        (greatest_at if self._greatest else least_at)(self._best, slots, keys)
        put_at(self._seen, slots, True)


class AnyExtreme(ColumnAccumulator):
    """Values of any ordered type (strings, long decimals): the best value of each group as it is."""

    def __init__(self, type_: pa.DataType, greatest: bool) -> None:
        self._type = type_
        self._greatest = greatest
        self._store = ColumnStore([type_])
        self._seen = np.zeros(0, np.bool_)

    def update(self, slots: np.ndarray, signs: np.ndarray | None, args: Sequence[pa.Array], seqs: np.ndarray) -> None:
        slots, _, (values,), _ = keep_valid(slots, None, args[:1], seqs)
        if len(slots) == 0:
            return
        first, group = group_ids(slots.view(np.uint64).reshape(-1, 1))
        touched = slots[first]
        if len(slots) >= _MANY_ROWS:
            best = self._best_of_few(values, group, len(first))
            if best is not None:
                slots, values = touched, best
        self._seen = grown(self._seen, int(touched.max()) + 1, False)
        known = touched[self._seen[touched]]
        if len(known):
            # What is kept stands with the new values, so that one sort decides for all groups.
            values = pa.concat_arrays([self._store.take(known)[0], values])
            slots = np.concatenate((known, slots))
        words = order_words([values], [self._greatest], [True])
        order = np.lexsort((*words.T[::-1], slots))
        first = order[np.flatnonzero(np.diff(slots[order], prepend=-1))]
        self._store.put(slots[first], [values.take(pa.array(first))])
        self._seen[touched] = True

    def _best_of_few(self, values: pa.Array, group: np.ndarray, groups: int) -> pa.Array | None:
        """The best value of each group where many rows hold few values: only those are compared. None where they do
        not."""
        if not is_bytes_like(values.type):
            return None
        coded = values.dictionary_encode()
        if len(coded.dictionary) > len(values) // 4:
            return None
        order = sort_words(order_words([coded.dictionary], [self._greatest], [True]))
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        best = np.full(groups, len(order), np.int64)
        np.minimum.at(best, group, rank[coded.indices.to_numpy()])
        return coded.dictionary.take(pa.array(order[best]))

    def result(self, slots: np.ndarray) -> pa.Array:
        return self._store.take(np.where(take_at(self._seen, slots), slots, -1))[0]

    def release(self, slots: np.ndarray) -> None:
        known = slots[take_at(self._seen, slots)]
        self._store.free(known)
        self._seen[known] = False

    def merge(self, targets: np.ndarray, other: Accumulator, sources: np.ndarray) -> None:
        assert isinstance(other, AnyExtreme)
        known = take_at(other._seen, sources)
        self.update(targets[known], None, other._store.take(sources[known]), sources[known])

    @property
    def nbytes(self) -> int:
        return self._store.nbytes + self._seen.nbytes

    def columns(self) -> list[tuple[str, pa.DataType]]:
        return [("best", self._type)]

    def save(self, slots: np.ndarray) -> list[pa.Array]:
        return [self.result(slots)]

    def restore(self, slots: np.ndarray, columns: Sequence[pa.Array]) -> None:
        slots, _, values, _ = keep_valid(slots, None, columns, slots)
        if len(slots):
            self._seen = grown(self._seen, int(slots.max()) + 1, False)
            self._seen[slots] = True
            self._store.put(slots, values)


class RetractableExtreme(TableAccumulator):
    """All different values of each group with their counts, in order, so that the next one is known when the best is
    taken back."""

    def __init__(self, type_: pa.DataType, greatest: bool) -> None:
        self._type = type_
        self._keys = KeyEncoder([type_], [False])
        self._index = HashIndex(1 + self._keys.width)
        self._counts = np.zeros(0, np.int64)
        self._live = np.zeros(0, np.bool_)
        self._store = ColumnStore([type_])
        self._order = OrderEncoder([type_], [greatest], [True], [False])
        self._runs = SortedRuns(self._order.width)
        self._table: StateTable | None = None

    def update(self, slots: np.ndarray, signs: np.ndarray | None, args: Sequence[pa.Array], seqs: np.ndarray) -> None:
        slots, signs, (values,), _ = keep_valid(slots, signs, args[:1], seqs)
        self._add(slots, values, np.ones(len(slots), np.int64) if signs is None else signs.astype(np.int64))

    def result(self, slots: np.ndarray) -> pa.Array:
        index, entries = self._runs.first(slots, 1)
        best = np.full(len(slots), -1, np.int64)
        best[index] = entries
        return self._store.take(best)[0]

    def release(self, slots: np.ndarray) -> None:
        self._forget(self._runs.range(slots, None, None)[1])

    def merge(self, targets: np.ndarray, other: Accumulator, sources: np.ndarray) -> None:
        assert isinstance(other, RetractableExtreme)
        index, entries = other._runs.range(sources, None, None)
        self._add(targets[index], other._store.take(entries)[0], other._counts[entries])

    @property
    def nbytes(self) -> int:
        return self._index.nbytes + self._keys.nbytes + self._counts.nbytes + self._store.nbytes + self._runs.nbytes

    def tables(self, name: str, groups: StateTable) -> list[StateTable]:
        def read(entries: np.ndarray) -> list[pa.Array]:
            owners = self._index.keys(entries)[:, 0].view(np.int64)
            return [pa.array(owners), *self._store.take(entries), pa.array(self._counts[entries])]

        def load(columns: list[pa.Array]) -> np.ndarray:
            slots = columns[0].to_numpy()
            self._add(slots, columns[1], columns[2].to_numpy())
            return self._index.find(self._words(slots, columns[1]))

        columns = [(OWNER, pa.int64()), ("value", self._type), ("count", pa.int64())]
        self._table = StateTable(
            f"values of {name}",
            columns,
            live=self._index.live_slots,
            read=read,
            load=load,
            owner=groups,
            of=lambda slots: self._runs.range(slots, None, None),
        )
        return [self._table]

    def _words(self, slots: np.ndarray, values: pa.Array) -> np.ndarray:
        return np.concatenate((slots.view(np.uint64).reshape(-1, 1), self._keys.encode([values])), axis=1)

    def _add(self, slots: np.ndarray, values: pa.Array, weights: np.ndarray) -> None:
        if len(slots) == 0:
            return
        entries, is_new = self._index.insert(self._words(slots, values))
        self._counts = grown(self._counts, self._index.capacity)
        self._live = grown(self._live, self._index.capacity, False)
        self._counts[entries[is_new]] = 0
        add_at(self._counts, entries, weights)
        rows = distinct_rows(entries)
        touched = entries[rows]
        present, known = self._counts[touched] > 0, self._live[touched]
        self._forget(touched[known & ~present])
        if self._table is not None:
            self._table.wrote(touched[present])
        # Entries that came and went within the batch never reach the runs.
        self._index.remove(touched[~known & ~present])
        fresh = rows[present & ~known]
        if len(fresh) == 0:
            return
        added = values.take(pa.array(fresh))
        order = self._order.encode([added])
        if self._runs.width != self._order.width:
            self._runs.widen(self._order.adapt)
        self._store.put(entries[fresh], [added])
        self._runs.insert(slots[fresh], order, entries[fresh], entries[fresh])
        self._live[entries[fresh]] = True

    def _forget(self, entries: np.ndarray) -> None:
        if len(entries):
            self._runs.remove(entries)
            self._live[entries] = False
            self._index.remove(entries)
            self._store.free(entries)
            if self._table is not None:
                self._table.freed(entries)
            forget_unused(self._index, self._keys, leading=1)


def ordered_keys(values: pa.Array) -> np.ndarray | None:
    """int64 in the order of the values (no NULLs among them); None for types of more than 64 bits."""
    return _ordered(values) if _one_word(values.type) else None


def _ordered(values: pa.Array) -> np.ndarray:
    """int64 in the order of the values (no NULLs)."""
    raw = fixed_values(values)
    if raw.ndim == 2:
        return np.ascontiguousarray(raw[:, 0]).view(np.int64)
    if raw.dtype.kind != "f":
        return raw.astype(np.int64)
    doubles = raw.astype(np.float64) + 0.0
    bits = doubles.view(np.int64)
    bits = np.where(bits < 0, bits ^ np.int64(0x7FFFFFFFFFFFFFFF), bits)
    return np.where(np.isnan(doubles), np.int64(0x7FF8000000000000), bits)


def _unordered(keys: np.ndarray, type_: pa.DataType, missing: np.ndarray | None) -> pa.Array:
    """The values of `_ordered` keys."""
    if pt.is_decimal(type_):
        return fixed_array(np.stack((keys, keys >> 63), axis=1).view(np.uint64), type_, missing)
    if pt.is_floating(type_):
        bits = np.where(keys < 0, keys ^ np.int64(0x7FFFFFFFFFFFFFFF), keys)
        return fixed_array(bits.view(np.float64).astype(type_.to_pandas_dtype()), type_, missing)
    if pt.is_boolean(type_):
        return fixed_array(keys.astype(np.bool_), type_, missing)
    return fixed_array(keys.astype(f"i{type_.bit_width // 8}"), type_, missing)
