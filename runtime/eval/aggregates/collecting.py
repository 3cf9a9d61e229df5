"""LISTAGG, ARRAY_AGG, COLLECT, JSON_ARRAYAGG, JSON_OBJECTAGG and PERCENTILE: functions whose result is made of all
values of the group.

Reading a group costs as much as it holds, which for all but PERCENTILE is the size of the result.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.core.errors import ExpressionError
from runtime.core.types import DataType, TypeRoot
from runtime.eval.aggregates.accumulator import Accumulator, keep_valid
from runtime.eval.aggregates.bag_accumulator import BagAccumulator
from runtime.eval.aggregates.value_bag import ValueBag
from runtime.expr.json_text import json_text, quoted
from runtime.kernels.arrow_buffers import fixed_array
from runtime.kernels.grouping import group_ids
from runtime.kernels.key_encoding import KeyEncoder
from runtime.kernels.order_words import order_words
from runtime.plan.nodes import SortSpec
from runtime.state.table import StateTable, shared_value

__all__ = ["ArrayAgg", "Collect", "JsonArray", "JsonObject", "ListAgg", "Percentile"]


class _Collection(BagAccumulator):
    """Keeps `kept` argument columns (and those of ORDER BY) of every row; `skip_nulls` leaves out rows whose first
    argument is NULL."""

    def __init__(
        self,
        types: Sequence[DataType],
        kept: int,
        retract: bool,
        skip_nulls: bool,
        order_by: Sequence[SortSpec] = (),
        order_types: Sequence[DataType] = (),
    ) -> None:
        super().__init__(ValueBag([t.arrow for t in (*types[:kept], *order_types)], retract))
        self._kept = kept
        self._skip = skip_nulls
        self._order = list(order_by)

    def update(self, slots: np.ndarray, signs: np.ndarray | None, args: Sequence[pa.Array], seqs: np.ndarray) -> None:
        columns = [*args[: self._kept], *(args[len(args) - len(self._order) :] if self._order else ())]
        if self._skip and columns[0].null_count:
            valid = columns[0].is_valid()
            mask = valid.to_numpy(zero_copy_only=False)
            columns = [c.filter(valid) for c in columns]
            slots, signs, seqs = slots[mask], None if signs is None else signs[mask], seqs[mask]
        self._bag.add(slots, signs, columns, seqs)

    def tables(self, name: str, groups: StateTable) -> list[StateTable]:
        values = ["value", "second value"][: self._kept]
        order = [f"order {number + 1}" for number in range(len(self._order))]
        return [self._bag.keep_in(f"values of {name}", [*values, *order], groups)]

    def _read(self, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(group of each row, row ids, offsets of the groups), in the order of arrival or of ORDER BY."""
        index, rows = self._bag.read(slots)
        if self._order:
            columns = [self._bag.column(self._kept + i, rows) for i in range(len(self._order))]
            words = order_words(columns, [o.descending for o in self._order], [o.nulls_last for o in self._order])
            order = np.lexsort((*words.T[::-1], index))
            index, rows = index[order], rows[order]
        return index, rows, _offsets(index, len(slots))


class ListAgg(_Collection):
    """Values joined by a separator; NULL for no value. The separator is a constant: that of the last row is taken for
    all."""

    def __init__(
        self,
        types: Sequence[DataType],
        type_: DataType,
        retract: bool,
        order_by: Sequence[SortSpec],
        order_types: Sequence[DataType],
    ) -> None:
        super().__init__(types, 1, retract, True, order_by, order_types)
        self._type = type_.arrow
        self._separated = len(types) > 1
        self._separator: str | None = None

    def update(self, slots: np.ndarray, signs: np.ndarray | None, args: Sequence[pa.Array], seqs: np.ndarray) -> None:
        if self._separated and len(slots):
            self._separator = args[1][-1].as_py() or ""
        super().update(slots, signs, args, seqs)

    def merge(self, targets: np.ndarray, other: Accumulator, sources: np.ndarray) -> None:
        super().merge(targets, other, sources)
        assert isinstance(other, ListAgg)
        if other._separator is not None:
            self._separator = other._separator

    def result(self, slots: np.ndarray) -> pa.Array:
        _, rows, offsets = self._read(slots)
        lists = pa.ListArray.from_arrays(_arrow_offsets(offsets, np.diff(offsets) == 0), self._bag.column(0, rows))
        return pc.binary_join(lists, "," if self._separator is None else self._separator).cast(self._type)

    def tables(self, name: str, groups: StateTable) -> list[StateTable]:
        def put(saved: list[object]) -> None:
            self._separator = next((s for s in saved if isinstance(s, str)), self._separator)

        found = super().tables(name, groups)
        if self._separated:
            found.append(shared_value(f"separator of {name}", pa.string(), lambda: self._separator, put))
        return found


class ArrayAgg(_Collection):
    """Values as an array; NULL for no row."""

    def __init__(
        self,
        types: Sequence[DataType],
        type_: DataType,
        retract: bool,
        skip_nulls: bool,
        order_by: Sequence[SortSpec],
        order_types: Sequence[DataType],
    ) -> None:
        super().__init__(types, 1, retract, skip_nulls, order_by, order_types)
        self._type = type_.arrow

    def result(self, slots: np.ndarray) -> pa.Array:
        _, rows, offsets = self._read(slots)
        offsets_array = _arrow_offsets(offsets, np.diff(offsets) == 0)
        return pa.ListArray.from_arrays(offsets_array, self._bag.column(0, rows)).cast(self._type)


class Collect(_Collection):
    """Values as a multiset: a map from value to count, in order of first arrival; empty for no value."""

    def __init__(self, types: Sequence[DataType], type_: DataType, retract: bool) -> None:
        super().__init__(types, 1, retract, True)
        self._type = type_.arrow

    def result(self, slots: np.ndarray) -> pa.Array:
        index, rows, _ = self._read(slots)
        values = self._bag.column(0, rows)
        words = np.concatenate(
            (index.view(np.uint64).reshape(-1, 1), KeyEncoder([values.type]).encode([values])), axis=1
        )
        first, group = group_ids(words)
        counts = np.bincount(group, minlength=len(first)).astype(np.int32)
        offsets = _offsets(index[first], len(slots)).astype(np.int32)
        return pa.MapArray.from_arrays(pa.array(offsets), values.take(pa.array(first)), pa.array(counts)).cast(
            self._type
        )


class JsonArray(_Collection):
    """A JSON array of the values."""

    def __init__(self, types: Sequence[DataType], type_: DataType, retract: bool, keep_nulls: bool) -> None:
        super().__init__(types, 1, retract, not keep_nulls)
        self._value = types[0]
        self._type = type_.arrow

    def result(self, slots: np.ndarray) -> pa.Array:
        _, rows, offsets = self._read(slots)
        texts = pc.fill_null(json_text(self._bag.column(0, rows), self._value), "null")
        return _wrap("[", _joined(texts, offsets), "]").cast(self._type)


class JsonObject(_Collection):
    """A JSON object of keys and values.

    Raises:
        ExpressionError: a key that is NULL or stands twice, on `result`.
    """

    def __init__(self, types: Sequence[DataType], type_: DataType, retract: bool, keep_nulls: bool) -> None:
        super().__init__(types, 2, retract, False)
        self._value = types[1]
        self._keep_nulls = keep_nulls
        self._type = type_.arrow

    def result(self, slots: np.ndarray) -> pa.Array:
        index, rows, offsets = self._read(slots)
        keys, values = self._bag.column(0, rows), self._bag.column(1, rows)
        if keys.null_count:
            raise ExpressionError(
                "a key of JSON_OBJECTAGG is NULL", code="E2014", hint="leave such rows out with FILTER (WHERE ...)"
            )
        words = np.concatenate(
            (index.view(np.uint64).reshape(-1, 1), KeyEncoder([keys.type], [False]).encode([keys])), axis=1
        )
        first, group = group_ids(words)
        if len(first) < len(rows):
            twice = keys[int(np.flatnonzero(np.bincount(group)[group] > 1)[0])].as_py()
            raise ExpressionError(
                f"key '{twice}' stands twice in JSON_OBJECTAGG", code="E2014", hint="make the keys of a group unique"
            )
        if not self._keep_nulls and values.null_count:
            mask = values.is_valid()
            keys, values = keys.filter(mask), values.filter(mask)
            offsets = _offsets(index[mask.to_numpy(zero_copy_only=False)], len(slots))
        pairs = pc.binary_join_element_wise(quoted(keys), pc.fill_null(json_text(values, self._value), "null"), ":")
        return _wrap("{", _joined(pairs, offsets), "}").cast(self._type)


class Percentile(BagAccumulator):
    """The continuous percentile, by linear interpolation; DOUBLE, or an array of them for an array of fractions.

    The fraction is a constant: that of the last row is taken. A third argument repeats each value so many times.

    Raises:
        ExpressionError: the fraction is not within [0, 1], on `update`.
    """

    def __init__(self, types: Sequence[DataType], type_: DataType, retract: bool) -> None:
        super().__init__(ValueBag([pa.float64(), pa.int64()], retract))
        self._array = type_.root is TypeRoot.ARRAY
        self._type = type_.arrow
        self._weighted = len(types) > 2
        self._fractions: list[float | None] = []

    def update(self, slots: np.ndarray, signs: np.ndarray | None, args: Sequence[pa.Array], seqs: np.ndarray) -> None:
        if len(slots) == 0:
            return
        fraction = args[1][-1].as_py()
        self._fractions = list(fraction) if self._array else [fraction]
        if not all(f is not None and 0.0 <= f <= 1.0 for f in self._fractions):
            raise ExpressionError(
                f"the fraction of PERCENTILE is {fraction}", code="E2012", hint="give a number from 0 to 1"
            )
        numbers = [args[0], args[2]] if self._weighted else [args[0]]
        slots, signs, numbers, seqs = keep_valid(slots, signs, numbers, seqs)
        weights = numbers[1].cast(pa.int64()) if self._weighted else pa.array(np.ones(len(slots), np.int64))
        self._bag.add(slots, signs, [numbers[0].cast(pa.float64(), safe=False), weights], seqs)

    def result(self, slots: np.ndarray) -> pa.Array:
        index, rows = self._bag.read(slots)
        values, weights = self._bag.column(0, rows).to_numpy(), np.maximum(self._bag.column(1, rows).to_numpy(), 0)
        order = np.lexsort((values, index))
        index, values, weights = index[order], values[order], weights[order]
        ends = np.cumsum(weights)
        total = np.bincount(index, weights, minlength=len(slots)).astype(np.int64)
        before = np.cumsum(total) - total
        results: list[np.ndarray] = []
        for fraction in self._fractions or [0.0]:
            place = fraction * np.maximum(total - 1, 0)
            low = np.floor(place).astype(np.int64)
            high = np.minimum(low + 1, np.maximum(total - 1, 0))
            # The value at position p of a group is the first one whose running weight exceeds p.
            at_low, at_high = (_value_at(values, np.searchsorted(ends, before + p, side="right")) for p in (low, high))
            # Between equal infinities there is nothing to interpolate, and at a place of its own a value is itself.
            between = (place > low) & (at_low != at_high)
            with np.errstate(invalid="ignore"):
                results.append(np.where(between, at_low + (place - low) * (at_high - at_low), at_low))
        missing = total == 0
        if not self._array:
            return fixed_array(results[0], self._type, missing)
        flat = np.stack(results, axis=1).reshape(-1)
        offsets = np.arange(len(slots) + 1, dtype=np.int64) * len(results)
        return pa.ListArray.from_arrays(_arrow_offsets(offsets, missing), pa.array(flat)).cast(self._type)

    def merge(self, targets: np.ndarray, other: Accumulator, sources: np.ndarray) -> None:
        assert isinstance(other, Percentile)
        self._fractions = other._fractions or self._fractions
        super().merge(targets, other, sources)

    def tables(self, name: str, groups: StateTable) -> list[StateTable]:
        def put(saved: list[object]) -> None:
            self._fractions = next((f for f in saved if isinstance(f, list) and f), self._fractions)

        return [
            self._bag.keep_in(f"values of {name}", ["value", "weight"], groups),
            shared_value(f"fractions of {name}", pa.list_(pa.float64()), lambda: self._fractions, put),
        ]


def _value_at(values: np.ndarray, places: np.ndarray) -> np.ndarray:
    return values[np.minimum(places, len(values) - 1)] if len(values) else np.zeros(len(places))


def _offsets(index: np.ndarray, groups: int) -> np.ndarray:
    """Where each group begins in rows ordered by group, and the end, int64."""
    return np.searchsorted(index, np.arange(groups + 1))


def _arrow_offsets(offsets: np.ndarray, missing: np.ndarray) -> pa.Array:
    """Offsets of a list array whose `missing` lists are NULL."""
    mask = np.append(missing, False)
    return pa.array(offsets.astype(np.int32), mask=mask if missing.any() else None)


def _joined(texts: pa.Array, offsets: np.ndarray) -> pa.Array:
    return pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), texts), ",")


def _wrap(before: str, texts: pa.Array, after: str) -> pa.Array:
    return pc.binary_join_element_wise(before, texts, after, "")
