"""Whose turn it is among many that share a thread: who was woken, and whose time has come."""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from runtime.core.wakeup import Wakeup

__all__ = ["Agenda"]

Item = TypeVar("Item", bound=Hashable)


class Agenda(Generic[Item]):
    """One thread puts items down and takes those that are due; any thread wakes some. `clock`: seconds, for tests."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.wakeup = Wakeup()
        self._clock = clock
        self._woken: dict[Item, None] = {}
        self._due: list[tuple[float, int, Item]] = []
        self._number_of: dict[Item, int] = {}
        self._numbers = itertools.count()

    def wake(self, item: Item) -> None:
        """From any thread: it is its turn."""
        self._woken[item] = None
        self.wakeup.wake()

    def put(self, item: Item, seconds: float | None) -> None:
        """Its turn is in so many seconds, whatever was said before; None: when it is woken."""
        if seconds is None:
            self._number_of.pop(item, None)
            return
        number = self._number_of[item] = next(self._numbers)
        heapq.heappush(self._due, (self._clock() + seconds, number, item))

    def take(self, *, wait: bool = True) -> list[Item]:
        """Wait until it is somebody's turn, or `wakeup` is woken, and give all whose turn it is: those that were woken,
        then those that are due, in the order of their times. Without `wait` those whose turn it is now."""
        if wait:
            self.wakeup.wait(self._seconds())
        found: dict[Item, None] = {}
        while self._woken:
            found[self._woken.popitem()[0]] = None
        now = self._clock()
        while self._due and self._due[0][0] <= now:
            _, number, item = heapq.heappop(self._due)
            if self._number_of.get(item) == number:
                found[item] = None
        for item in found:
            self._number_of.pop(item, None)
        return list(found)

    def _seconds(self) -> float | None:
        while self._due and self._number_of.get(self._due[0][2]) != self._due[0][1]:
            heapq.heappop(self._due)
        return max(0.0, self._due[0][0] - self._clock()) if self._due else None
