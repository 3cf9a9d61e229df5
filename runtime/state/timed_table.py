"""The state table of rows that wait for a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from runtime.plan.state import StateSpec, column_names
from runtime.state.row_table import RowColumn
from runtime.state.table import StateTable
from runtime.state.timed import TimedRows

__all__ = ["timed_table"]


def timed_table(
    rows: TimedRows,
    spec: StateSpec,
    key_slots: Callable[[list[pa.Array]], np.ndarray],
    *,
    extra: Sequence[RowColumn] = (),
) -> StateTable:
    """Makes the table of timed rows, in which they note their changes from now on.

    The columns are those of the rows, then `$time` (microseconds), `$arrival` (ascending in order of arrival), and the
    `extra` ones.

    Args:
        spec: the table as its node declares it; the rows have its schema.
        key_slots: the key slot of each row, given its columns; adds keys that are new.
    """
    names = column_names(spec.schema)
    width = len(names)

    def read(slots: np.ndarray) -> list[pa.Array]:
        known = [pa.array(rows.time[slots]), pa.array(rows.arrivals(slots))]
        return [*rows.take(slots), *known, *(column.read(slots) for column in extra)]

    def load(given: list[pa.Array]) -> np.ndarray:
        order = np.argsort(given[width + 1].to_numpy(), kind="stable")
        given = [c.take(pa.array(order)) for c in given]
        columns = given[:width]
        slots = rows.add(columns, key_slots(columns), given[width].to_numpy())
        for column, values in zip(extra, given[width + 2 :], strict=True):
            column.load(slots, values)
        placed = np.empty(len(order), np.int64)
        placed[order] = slots
        return placed

    table = StateTable(
        spec.name,
        [
            *((n, f.type.arrow) for n, f in zip(names, spec.schema, strict=True)),
            ("$time", pa.int64()),
            ("$arrival", pa.int64()),
            *((column.name, column.type) for column in extra),
        ],
        live=rows.live_slots,
        read=read,
        load=load,
        key=spec.key_names,
    )
    rows.table = table
    return table
