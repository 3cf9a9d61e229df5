"""The state table of keys that expire together with all that they hold: when each was last touched."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runtime.core.schema import Schema
from runtime.plan.state import column_names
from runtime.state.idle_slots import IdleSlots
from runtime.state.keyed import KeyIndex
from runtime.state.table import TOUCHED, StateTable, every_row

__all__ = ["touched_table"]


def touched_table(keys: KeyIndex, idle: IdleSlots, schema: Schema, positions: Sequence[int]) -> StateTable:
    """Key columns and `$touched` (milliseconds of processing time), for a `KeyIndex` over columns of a schema.

    The owner notes `wrote` when it touches a key and `freed` when it forgets one.
    """
    names = column_names(schema)
    columns = [(names[p], schema[p].type.arrow) for p in positions]

    def read(slots: np.ndarray) -> list[pa.Array]:
        return [*keys.columns(slots), idle.times(slots)]

    def load(given: list[pa.Array]) -> np.ndarray:
        slots, _ = keys.insert(given[:-1], len(given[-1]))
        idle.restore(slots, given[-1])
        return slots

    return StateTable(
        "touched",
        [*columns, (TOUCHED, pa.int64())],
        live=keys.live_slots,
        read=read,
        load=load,
        key=[name for name, _ in columns],
        of=every_row,
        ttl=idle.ttl,
    )
