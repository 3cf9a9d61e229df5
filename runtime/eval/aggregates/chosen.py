"""PERCENTILE_DISC and MODE: aggregates that choose one of the group's values, by their order.

Reading a group costs as much as it holds. Sources: SQL:2003, 10.9 (inverse distribution functions); PostgreSQL's manual,
"Ordered-Set Aggregate Functions".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runtime.core.errors import ExpressionError
from runtime.core.types import DataType
from runtime.eval.aggregates.accumulator import Accumulator, keep_valid
from runtime.eval.aggregates.bag_accumulator import BagAccumulator
from runtime.eval.aggregates.value_bag import ValueBag
from runtime.kernels.order_words import order_words
from runtime.plan.nodes import SortSpec
from runtime.state.table import StateTable, shared_value

__all__ = ["DiscretePercentile", "Mode"]


class _Chosen(BagAccumulator, ABC):
    """Keeps the values that are not NULL, and gives one of each group's. `order_by`: their order, ascending without."""

    def __init__(self, types: Sequence[DataType], type_: DataType, retract: bool, order_by: Sequence[SortSpec]) -> None:
        super().__init__(ValueBag([types[0].arrow], retract))
        self._type = type_.arrow
        self._descending = bool(order_by) and order_by[0].descending

    def update(self, slots: np.ndarray, signs: np.ndarray | None, args: Sequence[pa.Array], seqs: np.ndarray) -> None:
        slots, signs, values, seqs = keep_valid(slots, signs, [args[0]], seqs)
        self._bag.add(slots, signs, values, seqs)

    def result(self, slots: np.ndarray) -> pa.Array:
        index, rows = self._bag.read(slots)
        words = order_words([self._bag.column(0, rows)], [self._descending], [True])
        order = np.lexsort((*words.T[::-1], index))
        chosen = self._choose(index[order], words[order], len(slots))
        # A row id of -1 reads as NULL.
        found = np.where(chosen < 0, -1, rows[order][chosen]) if len(rows) else chosen
        return self._bag.column(0, found).cast(self._type)

    @abstractmethod
    def _choose(self, index: np.ndarray, words: np.ndarray, groups: int) -> np.ndarray:
        """The place of each group's value, -1 for an empty group. index: the group of each value, in order; words: what
        tells different values."""


class Mode(_Chosen):
    """The most frequent value; of several, the first in order."""

    def _choose(self, index: np.ndarray, words: np.ndarray, groups: int) -> np.ndarray:
        chosen = np.full(groups, -1, np.int64)
        if len(index) == 0:
            return chosen
        new = np.ones(len(index), np.bool_)
        new[1:] = (index[1:] != index[:-1]) | (words[1:] != words[:-1]).any(axis=1)
        starts = np.flatnonzero(new)
        lengths = np.diff(np.append(starts, len(index)))
        # Within a group the longest run first; equal ones keep their order.
        order = np.lexsort((-lengths, index[starts]))
        first, at = np.unique(index[starts][order], return_index=True)
        chosen[first] = starts[order[at]]
        return chosen


class DiscretePercentile(_Chosen):
    """The first value at or before which a fraction of the values lies. The fraction is a constant: that of the last row
    is taken.

    Raises:
        ExpressionError: E2012, the fraction is not within [0, 1], on `update`.
    """

    def __init__(self, types: Sequence[DataType], type_: DataType, retract: bool, order_by: Sequence[SortSpec]) -> None:
        super().__init__(types, type_, retract, order_by)
        self._fraction: float | None = None

    def update(self, slots: np.ndarray, signs: np.ndarray | None, args: Sequence[pa.Array], seqs: np.ndarray) -> None:
        if len(slots) == 0:
            return
        self._fraction = args[1][-1].as_py()
        if self._fraction is None or not 0.0 <= self._fraction <= 1.0:
            raise ExpressionError(
                f"the fraction of PERCENTILE_DISC is {self._fraction}", code="E2012", hint="give a number from 0 to 1"
            )
        super().update(slots, signs, args, seqs)

    def merge(self, targets: np.ndarray, other: Accumulator, sources: np.ndarray) -> None:
        assert isinstance(other, DiscretePercentile)
        self._fraction = self._fraction if other._fraction is None else other._fraction
        super().merge(targets, other, sources)

    def tables(self, name: str, groups: StateTable) -> list[StateTable]:
        def put(saved: list[object]) -> None:
            self._fraction = next((f for f in saved if isinstance(f, float)), self._fraction)

        return [
            *super().tables(name, groups),
            shared_value(f"fractions of {name}", pa.float64(), lambda: self._fraction, put),
        ]

    def _choose(self, index: np.ndarray, words: np.ndarray, groups: int) -> np.ndarray:
        counts = np.bincount(index, minlength=groups)
        before = np.cumsum(counts) - counts
        # 0.7 * 10 is a little more than 7: a fraction of exactly a whole number of values is that number.
        wanted = np.ceil(np.round((self._fraction or 0.0) * counts, 9)).astype(np.int64)
        return np.where(counts == 0, -1, before + np.clip(wanted - 1, 0, None))
