"""Where time comes from: processing time is read once per epoch, from a clock that tests replace."""

from __future__ import annotations

import time
from typing import Protocol

__all__ = ["MAX_WATERMARK", "MIN_WATERMARK", "Clock", "SystemClock", "VirtualClock"]

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

    def now(self) -> int:
        return self._now

    def advance_to(self, milliseconds: int) -> None:
        if milliseconds < self._now:
            raise ValueError("a clock does not go back")
        self._now = milliseconds
