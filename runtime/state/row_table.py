"""The state table of a row store: its rows, how often each is there, when it was written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from runtime.plan.state import StateSpec, column_names
from runtime.state.ordered import OrderedRows
from runtime.state.rows import RowStore
from runtime.state.table import WRITTEN, Of, StateTable

__all__ = ["RowColumn", "row_table"]

_COUNT = "$count"
_ARRIVAL = "$arrival"


@dataclass(frozen=True, slots=True)
class RowColumn:
    """A column that an operator keeps beside the rows of a store: `read` gives it for row slots, `load` takes it for
    rows that were put back."""

    name: str
    type: pa.DataType
    read: Callable[[np.ndarray], pa.Array]
    load: Callable[[np.ndarray, pa.Array], None]


def row_table(
    store: RowStore,
    spec: StateSpec,
    key_slots: Callable[[list[pa.Array]], np.ndarray],
    *,
    of: Of | None = None,
    ttl: int = 0,
    extra: Sequence[RowColumn] = (),
) -> StateTable:
    """Makes the table of a store, in which the store notes its changes from now on.

    The columns are those of the rows (named apart where names repeat), then `$count` (unless rows are only read),
    `$arrival` where order of arrival counts (int64, ascending), `$written` (milliseconds) where rows expire one by one,
    and the `extra` ones.

    Args:
        spec: the table as its node declares it; the rows have its schema.
        key_slots: the key slot under which each row goes, given its columns; adds keys that are new.
        of: the rows of keys, see `StateTable`.
        ttl: the milliseconds after which rows expire, one by one, where the operator uses `write_times`; 0 where not.
    """
    columns = [(n, f.type.arrow) for n, f in zip(column_names(spec.schema), spec.schema, strict=True)]
    width = len(columns)
    counted = not store.plain
    ordered = isinstance(store, OrderedRows)
    if counted:
        columns.append((_COUNT, pa.int64()))
    if ordered:
        columns.append((_ARRIVAL, pa.int64()))
    if ttl:
        columns.append((WRITTEN, pa.int64()))
    columns += [(column.name, column.type) for column in extra]

    def read(slots: np.ndarray) -> list[pa.Array]:
        return [*store.take(slots, wide=True), *rest_of(slots)]

    def rest_of(slots: np.ndarray) -> list[pa.Array]:
        found: list[pa.Array] = []
        if counted:
            found.append(pa.array(store.count[slots]))
        if isinstance(store, OrderedRows):
            found.append(pa.array(store.arrivals(slots)))
        if ttl:
            found.append(store.times_written(slots))
        return [*found, *(column.read(slots) for column in extra)]

    def load(given: list[pa.Array]) -> np.ndarray:
        back: np.ndarray | None = None
        if ordered:
            order = np.argsort(given[width + counted].to_numpy(), kind="stable")
            given = [c.take(pa.array(order)) for c in given]
            back = np.empty(len(order), np.int64)
            back[order] = np.arange(len(order))
        rest = iter(given[width:])
        rows = given[:width]
        # Rows that were only read had no counts (a join of inserts that had no time to live): each was there once.
        counts = next(rest).fill_null(1).to_numpy() if counted else None
        if isinstance(store, OrderedRows):
            slots = store.restore_arrived(rows, key_slots(rows), counts, next(rest).to_numpy())
        else:
            slots = store.restore(rows, key_slots(rows), counts)
        if ttl:
            store.restore_times(slots, next(rest))
        for column, values in zip(extra, rest, strict=True):
            column.load(slots, values)
        return slots if back is None else slots[back]

    table = StateTable(
        spec.name,
        columns,
        live=store.live_slots,
        read=read,
        load=load,
        key=spec.key_names,
        of=of,
        order=store.reading_order,
        in_place=store.in_place(rest_of),
        ttl=ttl,
    )
    store.table = table
    return table
