"""The first argument of `eval` and `on_timer` of a process table function."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from runtime.core.clock import MAX_WATERMARK, MIN_WATERMARK
from runtime.core.errors import ExpressionError
from sqlengine.user_functions.process_state import KeptState, Timers, as_milliseconds

__all__ = ["ProcessContext", "clock_of", "fires_nothing", "moment_of", "no_clock"]

_MILLISECOND = dt.timedelta(milliseconds=1)


class ProcessContext:
    """What a process table function can ask of its call: the time, timers and state of the key, and where rows go."""

    collect: Callable[[Any], None]
    """A row of the result: a tuple, a dict by column, or the value of the only column. It is the list's own `append`: there
    is no call of Python between."""

    def __init__(
        self, name: str, states: Sequence[KeptState], timers: Timers | None, fires: bool, clock: Timers | None
    ) -> None:
        self._name = name
        self._states = {s.name: s for s in states}
        self._timers = timers
        self._fires = fires
        self._clock = clock
        self.processing = 0
        self.begin()
        self.slot = 0
        self.now: Any = None
        self.timer: str | None = None
        self.fires_now = False
        self.watermark = MIN_WATERMARK

    def begin(self) -> None:
        """A new list of rows."""
        self.rows: list[Any] = []
        self.collect = self.rows.append

    def take(self, given: Any) -> None:
        """What `eval` returned: rows, or a single one."""
        if isinstance(given, (str, bytes, Mapping, tuple)) or not isinstance(given, Iterable):
            self.rows.append(given)
        else:
            self.rows.extend(given)

    def time_context(self) -> ProcessContext:
        """Time and timers, as Flink has them: the context itself."""
        return self

    def time(self) -> Any:
        """The time of the row (or of the timer), None without `on_time`."""
        return self.now

    def processing_time(self) -> dt.datetime:
        """The clock, which is read once for each epoch: a datetime in UTC."""
        return clock_of(self.processing)

    def current_watermark(self) -> dt.datetime | None:
        """The watermark: in `eval` that of the epoch before, in `on_timer` that of this one; with ORDER BY just before the
        next row. None while there is none, and
        the greatest datetime when the input has ended."""
        return moment_of(self.watermark)

    def current_timer(self) -> str | None:
        """The name of the timer that fires, None of one without."""
        return self.timer

    def register_on_time(self, *named_time: Any) -> None:
        """Have `on_timer` called when the watermark has passed a time: `register_on_time(time)`, or `register_on_time(name,
        time)`, which moves the timer of that name. A time is a datetime or milliseconds since the epoch. One that has passed
        fires when the watermark next moves; in `on_timer`, after the other timers that are due."""
        name, time = named_time if len(named_time) == 2 else (None, *named_time)
        self._of_timers().register(self.slot, name, as_milliseconds(time))

    def register_on_clock(self, *named_time: Any) -> None:
        """Have `on_clock` called when the clock has reached a time: `register_on_clock(time)`, or `register_on_clock(name,
        time)`, which moves the timer of that name. A time is a datetime (UTC if it has no zone), milliseconds since the
        epoch, or a timedelta from now. One that has passed fires when the clock is next looked at. At the end of the input
        all fire."""
        name, time = named_time if len(named_time) == 2 else (None, *named_time)
        if isinstance(time, dt.timedelta):
            time = self.processing + time // _MILLISECOND
        self._of_clock().register(self.slot, name, max(as_milliseconds(time), self.processing + 1))

    def clear_timer(self, timer: Any) -> None:
        """Take a timer back: by its name, or by its time when it has none; of event time, and of processing time."""
        key = timer if isinstance(timer, str) else as_milliseconds(timer)
        if self._timers is None and self._clock is None:
            self._of_timers()
        for timers in (self._timers, self._clock):
            if timers is not None:
                timers.clear(self.slot, key)

    def clear_all_timers(self) -> None:
        """Take all timers of the key back, of event time and of processing time."""
        if self._timers is None and self._clock is None:
            self._of_timers()
        for timers in (self._timers, self._clock):
            if timers is not None:
                timers.clear_all(self.slot)

    def clear_state(self, name: str) -> None:
        """Forget a state of the key: the next call gets an empty one."""
        if name not in self._states:
            raise ValueError(f"there is no state {name!r}; there is {', '.join(self._states)}")
        self._states[name].clear(self.slot)

    def clear_all_state(self) -> None:
        """Forget all state of the key."""
        for state in self._states.values():
            state.clear(self.slot)

    def clear_all(self) -> None:
        """Forget all state and take back all timers of the key."""
        self.clear_all_state()
        for timers in (self._timers, self._clock):
            if timers is not None:
                timers.clear_all(self.slot)

    def _of_timers(self) -> Timers:
        if self._timers is None or not self._fires:
            raise fires_nothing(self._name, self._timers is not None)
        return self._timers

    def _of_clock(self) -> Timers:
        if self._clock is None:
            raise no_clock(self._name)
        return self._clock


def moment_of(watermark: int) -> dt.datetime | None:
    """A watermark as functions see it: None while there is none, the greatest datetime when the input has ended."""
    if watermark == MIN_WATERMARK:
        return None
    if watermark == MAX_WATERMARK:
        return dt.datetime.max
    return dt.datetime(1970, 1, 1) + dt.timedelta(milliseconds=watermark)


def clock_of(milliseconds: int) -> dt.datetime:
    """A processing time as functions see it."""
    return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=milliseconds)


def no_clock(name: str) -> ExpressionError:
    """The error of a timer of processing time that could not fire."""
    return ExpressionError(
        f"the Python function {name} sets a timer of processing time, and has no method on_clock",
        code="E2110",
        hint="write def on_clock(self, ctx): .. in the class",
    )


def fires_nothing(name: str, timed: bool) -> ExpressionError:
    """The error of a timer that could not fire: the call has no `on_time`, or (`timed`) the class no `on_timer`."""
    lacks = "has no method on_timer" if timed else "is called without on_time"
    return ExpressionError(
        f"the Python function {name} sets a timer, and {lacks}",
        code="E2110",
        hint="a timer needs on_time => DESCRIPTOR(time) in the call, and on_timer(self, ctx) in the class",
    )
