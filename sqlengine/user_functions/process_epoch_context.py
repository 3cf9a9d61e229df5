"""The first argument of `eval` and `on_timer` of a process table function that is called by epoch."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from runtime.core.changelog import KIND_NAMES
from runtime.core.clock import MIN_WATERMARK
from runtime.core.types import DataType
from sqlengine.user_functions.process_context import clock_of, fires_nothing, moment_of, no_clock
from sqlengine.user_functions.process_state import Timers
from sqlengine.user_functions.process_vectors import (
    ColumnState,
    StateColumns,
    columns_by_name,
    key_numbers,
    wrong_columns,
)

__all__ = ["Collected", "EpochContext", "Part"]

_NO_SLOTS = np.empty(0, np.int64)
_CODES = pa.array(KIND_NAMES)


@dataclass(frozen=True, slots=True)
class Part:
    """The rows of a table in a call, or the timers: key slots and kinds (None: all insertions)."""

    rows: int
    slots: np.ndarray
    kinds: np.ndarray | None = None


@dataclass(frozen=True, slots=True)
class Collected:
    """Rows of the result: their columns, and for each the row of a table to which it belongs; `kinds` as codes."""

    columns: list[pa.Array]
    table: int
    rows: np.ndarray
    kinds: np.ndarray | None


class EpochContext:
    """What a process table function that is called by epoch can ask of its call.

    The keys of a call have numbers from 0, in the order in which they come. `keys(table)` has those of the rows, and what
    state and timers take and give is one value for each key, by number.
    """

    def __init__(
        self,
        name: str,
        result: Sequence[tuple[str, DataType]],
        states: Sequence[ColumnState],
        timers: Timers | None,
        fires: bool,
        clock: Timers | None,
    ) -> None:
        self._name = name
        self._result = result
        self._states = {s.name: s for s in states}
        self._timers = timers
        self._fires = fires
        self._clock = clock
        self.processing = 0
        self._tables: list[str] = []
        self._parts: list[Part] = []
        self._numbers: list[np.ndarray] = []
        self._number_of = np.zeros(0, np.int64)
        self._collected: list[Collected] = []
        self._slots = _NO_SLOTS
        self.watermark = MIN_WATERMARK

    def begin(self, tables: Sequence[str], parts: Sequence[Part], capacity: int) -> None:
        """A call with these rows, whose key slots are below `capacity`."""
        self._tables, self._parts, self._collected = list(tables), list(parts), []
        slots = np.concatenate([p.slots for p in parts])
        if len(self._number_of) < capacity:
            self._number_of = np.zeros(2 * capacity, np.int64)
        at = np.arange(len(slots))
        # The first place of each slot is what is written last.
        self._number_of[slots[::-1]] = at[::-1]
        first = self._number_of[slots]
        is_first = first == at
        numbers = (np.cumsum(is_first) - 1)[first]
        self._slots = slots[is_first]
        self._numbers = np.split(numbers, np.cumsum([len(p.slots) for p in parts])[:-1])

    def view(self, state: ColumnState) -> StateColumns:
        """A state for the keys of the call."""
        return StateColumns(state, self._slots)

    @property
    def collected(self) -> list[Collected]:
        """The rows that were given in the call."""
        return self._collected

    @property
    def slots(self) -> np.ndarray:
        """The key slots of the call, by number."""
        return self._slots

    @property
    def key_count(self) -> int:
        """How many keys the call has."""
        return len(self._slots)

    def keys(self, table: str | None = None) -> np.ndarray:
        """The number of each row's key, int64: of a table of the call, or in `on_timer` of the timers."""
        place = self._place(table)
        if len(self._numbers[place]) != self._parts[place].rows:
            raise ValueError("a table of row semantics has no keys")
        return self._numbers[place]

    def kinds(self, table: str | None = None) -> pa.Array:
        """The kind of each row: `+I`, `-U`, `+U` or `-D`."""
        part = self._parts[self._place(table)]
        codes = np.zeros(part.rows, np.int8) if part.kinds is None else part.kinds
        return _CODES.take(pa.array(codes))

    def collect(self, columns: Any, rows: Any = None, *, table: str | None = None, kinds: Any = None) -> None:
        """Rows of the result: a `RecordBatch`, a dict of columns, a tuple of columns, or the only column.

        Args:
            rows: for each the position of the row to which it belongs (in `on_timer` of the timer): it gets its key, and its
                time or columns where the call has them on. Without them there is one for each row, in order.
            table: of which table these rows are, where there are several.
            kinds: the kind of each, with `changelog=True`; insertions if not given.
        """
        place = self._place(table)
        made = columns_by_name(self._name, columns, self._result)
        count, known = len(made[0]), self._parts[place].rows
        if rows is None:
            if count != known:
                raise wrong_columns(
                    self._name, f"{count} rows for {known}", "say to which row each belongs: ctx.collect(columns, rows)"
                )
            at = np.arange(known)
        else:
            at = np.asarray(rows)
            if not len(at):
                at = at.astype(np.int64)
            if at.dtype.kind not in "iu" or at.ndim != 1 or len(at) != count:
                raise wrong_columns(self._name, f"{count} rows, and not as many positions", "give each its position")
            if count and (at.min() < 0 or at.max() >= known):
                raise wrong_columns(self._name, f"a position that is not below {known}", "positions count from 0")
        codes = None if kinds is None else self._codes(kinds, count)
        if count:
            self._collected.append(Collected(made, place, at.astype(np.int64, copy=False), codes))

    def current_watermark(self) -> dt.datetime | None:
        """The watermark, as of the row-wise form: in `eval` that of the epoch before, in `on_timer` that of this one."""
        return moment_of(self.watermark)

    def processing_time(self) -> dt.datetime:
        """The clock, which is read once for each epoch: a datetime in UTC."""
        return clock_of(self.processing)

    def register_on_time(self, *named_times: Any, keys: Any = None) -> None:
        """Have `on_timer` called when the watermark has passed a time of a key: `register_on_time(times)`, or
        `register_on_time(name, times)`, which moves the timer of that name. Times are timestamps or milliseconds since the
        epoch, one for each key; NULL sets none. `keys`: numbers of keys, each once; all in order if not given.

        Timers are Python objects: a call costs a loop over the keys, of about a microsecond each."""
        self._register(self._of_timers(), named_times, keys, None)

    def register_on_clock(self, *named_times: Any, keys: Any = None) -> None:
        """The same for `on_clock`, which is called when the clock has reached a time; a timedelta is one from now for all
        keys."""
        if self._clock is None:
            raise no_clock(self._name)
        *name, times = named_times
        if isinstance(times, dt.timedelta):
            count = self.key_count if keys is None else len(keys)
            times = np.full(count, self.processing + times // dt.timedelta(milliseconds=1), np.int64)
        self._register(self._clock, (*name, times), keys, self.processing + 1)

    def _register(self, timers: Timers, named_times: tuple[Any, ...], keys: Any, earliest: int | None) -> None:
        name, times = named_times if len(named_times) == 2 else (None, *named_times)
        found = _milliseconds(self._name, times)
        numbers = key_numbers(self._name, keys, self.key_count, len(found))
        for slot, time in zip(self._slots[numbers].tolist(), found.to_pylist(), strict=True):
            if time is not None:
                timers.register(slot, name, time if earliest is None else max(time, earliest))

    def clear_timer(self, name: str, keys: Any = None) -> None:
        """Take the timers of a name back, of event time and of processing time."""
        for timers in self._all_timers():
            for slot in self._chosen(keys):
                timers.clear(slot, name)

    def clear_all_timers(self, keys: Any = None) -> None:
        """Take all timers of keys back, of event time and of processing time."""
        for timers in self._all_timers():
            for slot in self._chosen(keys):
                timers.clear_all(slot)

    def clear_all(self, keys: Any = None) -> None:
        """Forget all state and take back all timers of keys."""
        for state in self._states.values():
            self.view(state).clear(keys)
        for timers in (self._timers, self._clock):
            if timers is not None:
                for slot in self._chosen(keys):
                    timers.clear_all(slot)

    def _chosen(self, keys: Any) -> Iterator[int]:
        return iter(self._slots[key_numbers(self._name, keys, self.key_count, None)].tolist())

    def _place(self, table: str | None) -> int:
        if table is None and len(self._tables) == 1:
            return 0
        if table not in self._tables:
            said = "several tables" if table is None else f"no table {table!r}"
            raise ValueError(f"there is {said}; say one of {', '.join(self._tables)}")
        return self._tables.index(table)

    def _codes(self, kinds: Any, count: int) -> np.ndarray:
        given = [str(k) for k in (kinds.to_pylist() if isinstance(kinds, pa.Array) else kinds)]
        for kind in set(given):
            if kind not in KIND_NAMES:
                raise wrong_columns(self._name, f"rows of kind {kind!r}", f"kinds are {', '.join(KIND_NAMES)}")
        if len(given) != count:
            raise wrong_columns(self._name, f"{len(given)} kinds for {count} rows", "give a kind for each row")
        return np.array([KIND_NAMES.index(k) for k in given], np.int8)

    def _all_timers(self) -> list[Timers]:
        found = [timers for timers in (self._timers, self._clock) if timers is not None]
        return found or [self._of_timers()]

    def _of_timers(self) -> Timers:
        if self._timers is None or not self._fires:
            raise fires_nothing(self._name, self._timers is not None)
        return self._timers


def _milliseconds(name: str, times: Any) -> pa.Array:
    """Times as milliseconds since the epoch, int64."""
    found = times if isinstance(times, (pa.Array, pa.ChunkedArray)) else pa.array(times)
    if isinstance(found, pa.ChunkedArray):
        found = found.combine_chunks()
    if pa.types.is_timestamp(found.type):
        return found.cast(pa.timestamp("ms", found.type.tz), safe=False).cast(pa.int64())
    if pa.types.is_integer(found.type) or pa.types.is_null(found.type):
        return found.cast(pa.int64())
    raise wrong_columns(name, f"times of the type {found.type}", "give timestamps, or milliseconds since the epoch")
