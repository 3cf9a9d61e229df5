"""Places that are looked at now and then, such as folders: many share a thread that lists them when they are due.

So a job that waits for new files sleeps until there are some. Places share a thread when they have the same `group`, such
as a file system: one that hangs holds up nobody else.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable

from runtime.core.wakeup import Wakeup

__all__ = ["Watcher", "watch"]

LEAST_SECONDS = 0.01
"""Nothing is looked at more often."""
_STEPS = 10
"""The times of an interval are multiples of such a part of it, so that what has the same interval is looked at together:
to wake a thread takes longer than to list a folder."""


class Watcher:
    """Calls that are made again and again, each at its interval, by one thread. `clock`: seconds, for tests."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._due: list[tuple[float, int, float]] = []
        self._calls: dict[int, Callable[[], None]] = {}
        self._ids = itertools.count()
        self._changed = threading.Lock()
        self._wakeup = Wakeup()
        self._running = False

    def add(self, call: Callable[[], None], seconds: float, *, start: bool = True) -> Callable[[], None]:
        """Make a call every so many seconds, the first time after these; gives what ends that. `start`: on a thread, which
        is there while there are calls."""
        seconds = max(seconds, LEAST_SECONDS)
        with self._changed:
            number = next(self._ids)
            self._calls[number] = call
            heapq.heappush(self._due, (self._next(seconds), number, seconds))
            if start and not self._running:
                self._running = True
                threading.Thread(target=self._run, name="watcher", daemon=True).start()
        self._wakeup.wake()
        return lambda: self._remove(number)

    def look(self) -> float | None:
        """Make the calls that are due; gives the seconds until the next one, None when there is none any more."""
        now = self._clock()
        while True:
            with self._changed:
                while self._due and self._due[0][1] not in self._calls:
                    heapq.heappop(self._due)
                if not self._due:
                    self._running = False
                    return None
                due, number, seconds = self._due[0]
                if due > now:
                    return max(0.0, due - self._clock())
                call = self._calls[number]
                heapq.heapreplace(self._due, (self._next(seconds), number, seconds))
            call()

    def _next(self, seconds: float) -> float:
        """The last multiple of a step that is no later than so many seconds from now."""
        step = seconds / _STEPS
        return (self._clock() + seconds) // step * step

    def _remove(self, number: int) -> None:
        with self._changed:
            self._calls.pop(number, None)
        self._wakeup.wake()

    def _run(self) -> None:
        while (seconds := self.look()) is not None:
            self._wakeup.wait(seconds)


_watchers: dict[object, Watcher] = {}


def watch(group: object, call: Callable[[], None], seconds: float) -> Callable[[], None]:
    """Make a call every so many seconds on the thread of a group; gives what ends that, and does not wait for a call that
    is being made. The call raises nothing."""
    return _watchers.setdefault(group, Watcher()).add(call, seconds)
