"""FIRST_VALUE, LAST_VALUE and SINGLE_VALUE."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runtime.core.errors import ExpressionError
from runtime.eval.aggregates.accumulator import (
    Accumulator,
    ColumnAccumulator,
    clear_at,
    keep_valid,
)
from runtime.eval.aggregates.bag_accumulator import BagAccumulator
from runtime.eval.aggregates.value_bag import ValueBag
from runtime.kernels.columns import ColumnStore
from runtime.kernels.grouping import distinct_rows
from runtime.kernels.grow import grown
from runtime.kernels.indexed import take_at

__all__ = ["EndValue", "RetractableEnd", "SingleValue"]


class EndValue(ColumnAccumulator):
    """The first or last value by arrival that is not NULL, of values that only come."""

    def __init__(self, type_: pa.DataType, last: bool) -> None:
        self._type = type_
        self._last = last
        self._store = ColumnStore([type_])
        self._seen = np.zeros(0, np.bool_)
        self._seqs = np.zeros(0, np.int64)

    def update(self, slots: np.ndarray, signs: np.ndarray | None, args: Sequence[pa.Array], seqs: np.ndarray) -> None:
        slots, _, (values,), seqs = keep_valid(slots, None, args[:1], seqs)
        if len(slots) == 0:
            return
        if len(seqs) > 1 and (seqs[1:] < seqs[:-1]).any():
            order = np.argsort(seqs, kind="stable")
            slots, seqs, values = slots[order], seqs[order], values.take(pa.array(order))
        high = int(slots.max()) + 1
        self._seen, self._seqs = grown(self._seen, high, False), grown(self._seqs, high)
        rows = distinct_rows(slots, last=self._last)
        chosen = slots[rows]
        kept = self._seqs[chosen]
        better = ~self._seen[chosen] | (seqs[rows] > kept if self._last else seqs[rows] < kept)
        rows, chosen = rows[better], chosen[better]
        self._store.put(chosen, [values.take(pa.array(rows))])
        self._seqs[chosen] = seqs[rows]
        self._seen[chosen] = True

    def result(self, slots: np.ndarray) -> pa.Array:
        return self._store.take(np.where(take_at(self._seen, slots), slots, -1))[0]

    def release(self, slots: np.ndarray) -> None:
        self._store.free(slots[take_at(self._seen, slots)])
        clear_at(self._seen, slots, False)

    def merge(self, targets: np.ndarray, other: Accumulator, sources: np.ndarray) -> None:
        assert isinstance(other, EndValue)
        known = take_at(other._seen, sources)
        sources = sources[known]
        self.update(targets[known], None, other._store.take(sources), other._seqs[sources])

    @property
    def nbytes(self) -> int:
        return self._store.nbytes + self._seen.nbytes + self._seqs.nbytes

    def columns(self) -> list[tuple[str, pa.DataType]]:
        return [("value", self._type), ("arrival", pa.int64())]

    def save(self, slots: np.ndarray) -> list[pa.Array]:
        missing = ~take_at(self._seen, slots)
        return [self.result(slots), pa.array(take_at(self._seqs, slots), mask=missing)]

    def restore(self, slots: np.ndarray, columns: Sequence[pa.Array]) -> None:
        self.update(slots, None, columns[:1], columns[1].fill_null(0).to_numpy())


class RetractableEnd(BagAccumulator):
    """The first or last value by arrival that is not NULL and has not been taken back."""

    def __init__(self, type_: pa.DataType, last: bool) -> None:
        self._last = last
        super().__init__(ValueBag([type_], retract=True, ends=True))

    def update(self, slots: np.ndarray, signs: np.ndarray | None, args: Sequence[pa.Array], seqs: np.ndarray) -> None:
        slots, signs, values, seqs = keep_valid(slots, signs, args[:1], seqs)
        self._bag.add(slots, signs, values, seqs)

    def result(self, slots: np.ndarray) -> pa.Array:
        return self._bag.column(0, self._bag.end(slots, self._last))


class SingleValue(BagAccumulator):
    """The value (NULL too) of a group that must not hold more than one row when it is read.

    Raises:
        ExpressionError: it holds more, on `result`.
    """

    def __init__(self, type_: pa.DataType, retract: bool) -> None:
        super().__init__(ValueBag([type_], retract=retract))

    def update(self, slots: np.ndarray, signs: np.ndarray | None, args: Sequence[pa.Array], seqs: np.ndarray) -> None:
        self._bag.add(slots, signs, args[:1], seqs)

    def result(self, slots: np.ndarray) -> pa.Array:
        if (self._bag.counts(slots) > 1).any():
            raise ExpressionError(
                "a scalar subquery gave more than one row",
                code="E2013",
                hint="add a condition or an aggregate that leaves one row",
            )
        index, rows = self._bag.read(slots)
        found = np.full(len(slots), -1, np.int64)
        found[index] = rows
        return self._bag.column(0, found)
