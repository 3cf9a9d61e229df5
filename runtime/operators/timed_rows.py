"""Rows of an OVER ordered by time: each waits for the watermark, or has come out and is kept for the frames of others."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from runtime.core.changelog import ChangelogBatch
from runtime.core.clock import MIN_WATERMARK
from runtime.kernels.columns import ColumnStore, SlotAllocator
from runtime.kernels.grow import grown
from runtime.operators.operator import EpochTime, OperatorContext
from runtime.operators.window_assign import milliseconds
from runtime.operators.window_columns import reject_null_times
from runtime.plan.nodes import OverAggregateExec
from runtime.plan.state import StateSpec, column_names
from runtime.state.keyed import KeyIndex
from runtime.state.table import StateTable

__all__ = ["TimedRows", "on_time"]


class TimedRows:
    """Rows by slot, and their partitions.

    Attributes:
        keys: the partitions.
        slots: those of the rows.
        store: the columns of the input.
        time, partition, arrival, waits: for each slot its time in milliseconds, its partition's slot, its number among all rows
            that have arrived, and whether it has not come out yet.
    """

    def __init__(self, node: OverAggregateExec) -> None:
        source = node.input.schema
        self._schema = source
        self._by = node.partition
        types = [source[i].type for i in node.partition]
        self.keys = KeyIndex([t.arrow for t in types], [t.nullable for t in types])
        self.slots = SlotAllocator()
        self.store = ColumnStore([t.arrow for t in source.types])
        self.time, self.partition = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self.arrival = np.zeros(0, np.int64)
        self.waits = np.zeros(0, np.bool_)
        self._arrived = 0

    def __len__(self) -> int:
        return len(self.slots)

    @property
    def nbytes(self) -> int:
        arrays = (self.time, self.partition, self.arrival, self.waits)
        return self.keys.nbytes + self.slots.nbytes + self.store.nbytes + sum(array.nbytes for array in arrays)

    def arrive(self, columns: list[pa.Array], times: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Takes rows in: their slots, their partitions, and the partitions that are new."""
        arrivals = np.arange(self._arrived, self._arrived + len(times), dtype=np.int64)
        self._arrived += len(times)
        return self._put(columns, times, arrivals)

    def _put(
        self, columns: list[pa.Array], times: np.ndarray, arrivals: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        partitions, is_new = self.keys.insert([columns[i] for i in self._by], len(times))
        rows = self.slots.allocate(len(times))
        high = self.slots.high
        self.time, self.partition = grown(self.time, high), grown(self.partition, high)
        self.arrival, self.waits = grown(self.arrival, high), grown(self.waits, high, False)
        self.time[rows], self.partition[rows] = times, partitions
        self.arrival[rows], self.waits[rows] = arrivals, False
        self.store.put(rows, columns)
        return rows, partitions, partitions[is_new]

    def in_order(self, rows: np.ndarray) -> np.ndarray:
        """By time, then arrival."""
        return rows[np.lexsort((self.arrival[rows], self.time[rows]))]

    def free(self, rows: np.ndarray) -> None:
        self.store.free(rows)
        self.slots.free(rows)

    def table(self, spec: StateSpec, loaded: Callable[[np.ndarray], None], *, waiting: bool) -> StateTable:
        """The state table of the rows that wait, or of those that have come out. `loaded` is given what was restored."""

        def live() -> np.ndarray:
            rows = self.slots.live_slots()
            return rows[self.waits[rows] == waiting]

        def read(rows: np.ndarray) -> list[pa.Array]:
            return [*self.store.take(rows), pa.array(self.time[rows]), pa.array(self.arrival[rows])]

        def load(columns: list[pa.Array]) -> np.ndarray:
            times, arrivals = (c.to_numpy() for c in columns[-2:])
            rows, _, _ = self._put(columns[:-2], times, arrivals)
            self._arrived = max(self._arrived, int(arrivals.max()) + 1)
            loaded(rows)
            return rows

        return StateTable(
            spec.name,
            [
                *((n, f.type.arrow) for n, f in zip(column_names(self._schema), self._schema, strict=True)),
                ("$time", pa.int64()),
                ("$arrival", pa.int64()),
            ],
            live=live,
            read=read,
            load=load,
            key=spec.key_names,
        )


def on_time(
    batch: ChangelogBatch, column: int, time: EpochTime, context: OperatorContext
) -> tuple[ChangelogBatch, np.ndarray]:
    """The rows above the watermark of the epoch before, and their times; others, and those without a time, are rejected."""
    batch = reject_null_times(batch, column, context)
    times = milliseconds(batch.column(column))
    if time.previous_watermark == MIN_WATERMARK:
        return batch, times
    late = times <= time.previous_watermark
    if not late.any():
        return batch, times
    mask = pa.array(late)
    context.reject("late", batch.rows.filter(mask), time.previous_watermark, batch.column(column).filter(mask))
    return batch.filter(~late), times[~late]
