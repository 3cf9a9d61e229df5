"""Accumulators that keep the values of each group in a bag."""

from __future__ import annotations

import numpy as np

from runtime.eval.aggregates.accumulator import Accumulator, TableAccumulator
from runtime.eval.aggregates.value_bag import ValueBag
from runtime.state.table import StateTable

__all__ = ["BagAccumulator"]


class BagAccumulator(TableAccumulator):
    """State that is one bag of rows per group."""

    def __init__(self, bag: ValueBag) -> None:
        self._bag = bag

    def release(self, slots: np.ndarray) -> None:
        self._bag.release(slots)

    def merge(self, targets: np.ndarray, other: Accumulator, sources: np.ndarray) -> None:
        assert isinstance(other, type(self))
        self._bag.merge(targets, other._bag, sources)

    @property
    def nbytes(self) -> int:
        return self._bag.nbytes

    def tables(self, name: str, groups: StateTable) -> list[StateTable]:
        return [self._bag.keep_in(f"values of {name}", ["value"], groups)]
