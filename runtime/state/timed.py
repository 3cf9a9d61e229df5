"""Rows that wait for a time: found by key and range of times, taken out when the watermark has passed them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from runtime.core.clock import MAX_WATERMARK, MIN_WATERMARK
from runtime.core.errors import InternalError
from runtime.core.schema import Schema
from runtime.kernels.arrow_buffers import fixed_values
from runtime.kernels.columns import ColumnStore
from runtime.kernels.grow import grown
from runtime.kernels.indexed import count_at
from runtime.kernels.slots import SlotAllocator
from runtime.kernels.sorted_runs import SortedRuns
from runtime.state.table import StateTable

__all__ = ["TimedRows", "bound", "microseconds", "time_words"]

_SIGN = np.uint64(1 << 63)
_FAR = 2**62
"""Beyond any time in microseconds: watermarks at the ends of their range are cut to it before they are multiplied."""


class TimedRows:
    """Rows with a time in microseconds and a key slot, -1 for rows that only wait.

    `due` takes the rows below a time out of every index, in order of time and then of arrival, at a cost that follows
    their number; their columns can be read until `free`. Public arrays by row slot: `time`, `key`.

    Args:
        keyed: whether rows are looked for by key (`range`, `floor`).
        waits: whether rows are taken out by time (`due`).
    """

    def __init__(self, schema: Schema, *, keyed: bool, waits: bool = True) -> None:
        self.time = np.empty(0, np.int64)
        self.key = np.empty(0, np.int64)
        self._store = ColumnStore([f.type.arrow for f in schema])
        self._slots = SlotAllocator()
        self._queue = SortedRuns(1) if waits else None
        self._by_key = SortedRuns(1) if keyed else None
        self._per_key = np.empty(0, np.int64)
        self.table: StateTable | None = None
        """Where changes are noted so that they can be saved: see `timed_table`."""

    @property
    def rows(self) -> int:
        return len(self._slots)

    @property
    def capacity(self) -> int:
        """The exclusive bound of row slots."""
        return self._slots.high

    @property
    def nbytes(self) -> int:
        runs = sum(runs.nbytes for runs in (self._queue, self._by_key) if runs is not None)
        return (
            self._store.nbytes + self.time.nbytes + self.key.nbytes + self._per_key.nbytes + self._slots.nbytes + runs
        )

    def add(self, columns: Sequence[pa.Array], keys: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Keeps rows; their slots, in order of arrival."""
        slots = self._keep(columns, keys, times)
        if not len(slots):
            return slots
        words = time_words(times)
        if self._queue is not None:
            self._queue.insert(np.zeros(len(slots), np.int64), words, None, slots)
        if self._by_key is not None:
            listed = np.flatnonzero(keys >= 0)
            if len(listed):
                keys = keys[listed]
                self._by_key.insert(keys, words[listed], None, slots[listed])
                self._per_key = grown(self._per_key, int(keys.max()) + 1)
                count_at(self._per_key, keys)
        if self.table is not None:
            self.table.wrote(slots)
        return slots

    def add_waiting(self, columns: Sequence[pa.Array], times: np.ndarray, before: int) -> tuple[np.ndarray, np.ndarray]:
        """Keeps rows without a key; their slots, in order of arrival, and of these the ones with time < `before`, which
        `due` is to be told: nothing is sorted in and taken out again for rows whose time has come when they do."""
        slots = self._keep(columns, np.full(len(times), -1, np.int64), times)
        now = times < before
        waits = slots[~now]
        if len(waits):
            assert self._queue is not None
            self._queue.insert(np.zeros(len(waits), np.int64), time_words(self.time[waits]), None, waits)
        if self.table is not None and len(slots):
            self.table.wrote(slots)
        return slots, slots[now]

    def _keep(self, columns: Sequence[pa.Array], keys: np.ndarray, times: np.ndarray) -> np.ndarray:
        slots = self._slots.allocate(len(times))
        if len(slots):
            self._store.put(slots, columns)
            self.time = grown(self.time, self.capacity)
            self.key = grown(self.key, self.capacity)
            self.time[slots] = times
            self.key[slots] = keys
        return slots

    def _in_time(self, slots: np.ndarray) -> np.ndarray:
        """In order of time, then as they were."""
        times = self.time[slots]
        return slots if (times[1:] >= times[:-1]).all() else slots[np.argsort(times, kind="stable")]

    def range(self, keys: np.ndarray, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The rows of each key with low <= time <= high: `(request, slot)`, by request, then in order of time."""
        if self._by_key is None:
            raise InternalError("rows that only wait were looked for by key")
        return self._by_key.range(keys, time_words(low), time_words(high), True, True)

    def range_chunks(
        self, keys: np.ndarray, low: np.ndarray, high: np.ndarray, max_pairs: int
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """`range` in pieces of at most `max_pairs`, or what one request finds."""
        if self._by_key is None:
            raise InternalError("rows that only wait were looked for by key")
        return self._by_key.range_chunks(keys, time_words(low), time_words(high), max_pairs)

    def floor(self, keys: np.ndarray, times: np.ndarray) -> np.ndarray:
        """The last row of each key at or before a time (of several the last to come), -1 where there is none."""
        if self._by_key is None:
            raise InternalError("rows that only wait were looked for by key")
        return self._by_key.floor(keys, time_words(times))

    def due(self, before: int, *, with_slots: np.ndarray | None = None) -> np.ndarray:
        """Takes out the rows with time < `before` (microseconds). `with_slots`: those that `add_waiting` has found to be
        due."""
        if self._queue is None:
            raise InternalError("rows that do not wait were asked for by time")
        slots = self._queue.pop_below(0, time_words(np.array([before], np.int64))[0])
        if self._by_key is not None and len(slots):
            self._unlist(slots)
        if with_slots is None or not len(with_slots):
            return slots
        return self._in_time(np.concatenate((slots, with_slots)))

    def remove(self, slots: np.ndarray) -> None:
        """Takes out rows whatever their time."""
        if self._queue is not None:
            self._queue.remove(slots)
        if self._by_key is not None:
            self._unlist(slots)

    def free(self, slots: np.ndarray) -> None:
        """Lets go of rows that were taken out."""
        if self.table is not None:
            self.table.freed(slots)
        self._store.free(slots)
        self._slots.free(slots)

    def key_counts(self, keys: np.ndarray) -> np.ndarray:
        """How many rows each key slot has."""
        counts = np.zeros(len(keys), np.int64)
        known = keys < len(self._per_key)
        counts[known] = self._per_key[keys[known]]
        return counts

    def live_slots(self) -> np.ndarray:
        """The slots of all rows, ascending. Costs as much as there are rows."""
        return self._slots.live_slots()

    def arrivals(self, slots: np.ndarray) -> np.ndarray:
        """Numbers that ascend in order of arrival, int64; of rows that wait or have a key."""
        runs = self._queue if self._queue is not None else self._by_key
        return np.zeros(len(slots), np.int64) if runs is None else runs.seqs_of(slots)

    def take(self, slots: np.ndarray) -> list[pa.Array]:
        return self._store.take(slots)

    def take_column(self, position: int, slots: np.ndarray) -> pa.Array:
        return self._store.take_column(position, slots)

    def _unlist(self, slots: np.ndarray) -> None:
        assert self._by_key is not None
        listed = slots[self.key[slots] >= 0]
        self._by_key.remove(listed)
        np.subtract.at(self._per_key, self.key[listed], 1)


def time_words(times: np.ndarray) -> np.ndarray:
    """Times as order words, (n, 1) uint64."""
    return (times.astype(np.int64, copy=False).view(np.uint64) ^ _SIGN).reshape(-1, 1)


def microseconds(values: pa.Array) -> np.ndarray:
    """A timestamp column without NULLs as int64 microseconds since the epoch (nanoseconds are cut down)."""
    times = fixed_values(values)
    if not pt.is_timestamp(values.type):
        raise InternalError(f"{values.type} is no time")
    per = {"s": 1_000_000, "ms": 1000, "us": 1}.get(values.type.unit)
    if per is None:
        return times // 1000
    return times if per == 1 else times * per


def bound(watermark: int, shift: int = 0) -> int:
    """A watermark moved by so many milliseconds, in microseconds; the ends of its range stay beyond all times."""
    if watermark == MAX_WATERMARK:
        return _FAR
    if watermark == MIN_WATERMARK:
        return -_FAR
    return (watermark + shift) * 1000
