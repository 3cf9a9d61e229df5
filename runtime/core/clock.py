"""Where time comes from: processing time is read once per epoch, from a clock that tests replace."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from typing import Protocol

__all__ = ["MAX_WATERMARK", "MIN_WATERMARK", "Clock", "SystemClock", "VirtualClock", "seconds_until"]

MIN_WATERMARK = -(2**63)
"""No watermark yet."""
MAX_WATERMARK = 2**63 - 1
"""The end of a bounded input: nothing more will come."""


class Clock(Protocol):
    """Milliseconds since the epoch, UTC."""

    def now(self) -> int: ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> int:
        return time.time_ns() // 1_000_000


class VirtualClock:
    """A clock that stands still until it is told to move: for tests and replays."""

    def __init__(self, start: int = 0) -> None:
        self._now = start
        self._told: dict[int, weakref.WeakMethod[Callable[[], None]]] = {}

    def now(self) -> int:
        return self._now

    def advance_to(self, milliseconds: int) -> None:
        if milliseconds < self._now:
            raise ValueError("a clock does not go back")
        self._now = milliseconds
        for told in list(self._told.values()):
            wake = told()
            if wake is not None:
                wake()

    def tell(self, wake: Callable[[], None]) -> None:
        """Call a method whenever the clock moves, as long as its object is there."""
        known = id(getattr(wake, "__self__", wake))
        if known not in self._told:
            self._told[known] = weakref.WeakMethod(wake, lambda _: self._told.pop(known, None))


def seconds_until(clock: Clock, moment: int) -> float | None:
    """How long to wait until a moment of a clock, milliseconds. None: the clock tells when it moves (`VirtualClock.tell`).
    0 also for clocks of others, which have to be asked."""
    if isinstance(clock, SystemClock):
        return max(0.0, (moment - clock.now()) / 1000)
    return None if isinstance(clock, VirtualClock) and moment > clock.now() else 0.0
