"""The partitions of MATCH_RECOGNIZE that have had a row, for patterns that ask for the first one (`^`)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runtime.operators.operator import StateSize
from runtime.plan.nodes import MatchExec
from runtime.plan.state import column_names
from runtime.state.keyed import KeyIndex
from runtime.state.table import StateTable

__all__ = ["BegunPartitions"]


class BegunPartitions:
    """The keys of partitions; one stays for ever."""

    def __init__(self, node: MatchExec) -> None:
        self._keys = KeyIndex.of(node.input.schema, node.partition)
        spec = node.kept("begun")
        names = column_names(spec.schema)
        self.table = StateTable(
            spec.name,
            [(n, f.type.arrow) for n, f in zip(names, spec.schema, strict=True)],
            live=self._keys.live_slots,
            read=lambda slots: [*self._keys.columns(slots), pa.array(np.ones(len(slots), np.bool_))],
            load=lambda columns: self._keys.insert(columns[:-1], len(columns[-1]))[0],
            key=spec.key_names,
        )

    @property
    def state_size(self) -> StateSize:
        return StateSize(len(self._keys), self._keys.nbytes)

    def begin(self, keys: list[pa.Array], count: int) -> np.ndarray:
        """Whether each of some partitions begins now."""
        slots, new = self._keys.insert(keys, count)
        self.table.wrote(slots[new])
        return new
