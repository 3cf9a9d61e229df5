"""The numbers of the matches of MATCH_RECOGNIZE."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runtime.kernels.grow import grown
from runtime.operators.operator import StateSize
from runtime.plan.nodes import MatchExec
from runtime.plan.state import column_names
from runtime.state.keyed import KeyIndex
from runtime.state.table import StateTable

__all__ = ["MatchNumbers"]


class MatchNumbers:
    """How many matches each partition has had. A partition with a match stays for ever."""

    def __init__(self, node: MatchExec) -> None:
        self._keys = KeyIndex.of(node.input.schema, node.partition)
        self._counts = np.zeros(0, np.int64)
        spec = node.kept("numbers")
        names = column_names(spec.schema)
        self.table = StateTable(
            spec.name,
            [(n, f.type.arrow) for n, f in zip(names, spec.schema, strict=True)],
            live=self._keys.live_slots,
            read=lambda slots: [*self._keys.columns(slots), pa.array(self._counts[slots])],
            load=self._load,
            key=spec.key_names,
        )

    @property
    def state_size(self) -> StateSize:
        return StateSize(len(self._keys), self._keys.nbytes + self._counts.nbytes)

    def take(self, keys: list[pa.Array], count: int) -> np.ndarray:
        """The numbers of matches, from 1 on in each partition, in the order in which they came; `keys` are the partition
        columns of each match."""
        slots = self._slots(keys, count)
        order = np.argsort(slots, kind="stable")
        by_slot = slots[order]
        first = np.flatnonzero(np.diff(by_slot, prepend=-1))
        sizes = np.diff(first, append=count)
        numbers = np.empty(count, np.int64)
        numbers[order] = self._counts[by_slot] + np.arange(1, count + 1) - np.repeat(first, sizes)
        self._counts[by_slot[first]] += sizes
        self.table.wrote(by_slot[first])
        return numbers

    def _slots(self, keys: list[pa.Array], count: int) -> np.ndarray:
        slots = self._keys.insert(keys, count)[0]
        self._counts = grown(self._counts, self._keys.capacity)
        return slots

    def _load(self, columns: list[pa.Array]) -> np.ndarray:
        slots = self._slots(columns[:-1], len(columns[-1]))
        self._counts[slots] = columns[-1].to_numpy()
        return slots
