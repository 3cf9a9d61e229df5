"""The state table of keys that expire together with all that they hold: when each was last touched."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runtime.plan.state import StateSpec
from runtime.state.idle_slots import IdleSlots
from runtime.state.keyed import KeyIndex
from runtime.state.table import TOUCHED, StateTable, every_row

__all__ = ["touched_table"]


def touched_table(keys: KeyIndex, idle: IdleSlots, spec: StateSpec) -> StateTable:
    """Key columns and `$touched` (milliseconds of processing time), for a `KeyIndex` over the key of a declared table.

    The owner notes `wrote` when it touches a key and `freed` when it forgets one.
    """
    columns = [(name, spec.schema[k].type.arrow) for name, k in zip(spec.key_names, spec.key, strict=True)]

    def read(slots: np.ndarray) -> list[pa.Array]:
        return [*keys.columns(slots), idle.times(slots)]

    def load(given: list[pa.Array]) -> np.ndarray:
        slots, _ = keys.insert(given[:-1], len(given[-1]))
        idle.restore(slots, given[-1])
        return slots

    return StateTable(
        spec.name,
        [*columns, (TOUCHED, pa.int64())],
        live=keys.live_slots,
        read=read,
        load=load,
        key=spec.key_names,
        of=every_row,
        ttl=idle.ttl,
    )
