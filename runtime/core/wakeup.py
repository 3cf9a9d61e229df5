"""How a thread that waits is woken, and how whoever wakes it knows of nobody but a call."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

__all__ = ["Wakeup", "nobody"]

_LONGEST_SECONDS = 86_400.0


def nobody() -> None:
    """What wakes whoever does not wait, but asks."""


class Wakeup:
    """A binary semaphore: `wake` lets the next `wait` return at once, or the one that waits. One thread waits.

    Made of a lock alone, as `Cancellation` is: `wake` may be called by a signal handler, also in the thread that waits.
    """

    def __init__(self) -> None:
        self._asleep = threading.Lock()
        self._asleep.acquire()
        self.on_wake: Callable[[], object] = nobody
        """Called by `wake`: for whoever waits otherwise."""

    def wake(self) -> None:
        """From any thread; harmless when repeated."""
        if self._asleep.locked():
            # Another thread may have been faster.
            with suppress(RuntimeError):
                self._asleep.release()
        self.on_wake()

    def wait(self, seconds: float | None) -> bool:
        """Until somebody wakes it, at most so long (None: no limit); tells whether somebody has."""
        return self._asleep.acquire(timeout=_LONGEST_SECONDS if seconds is None else min(seconds, _LONGEST_SECONDS))

    def forget(self) -> None:
        """Who has called before this counts no more."""
        self._asleep.acquire(blocking=False)
