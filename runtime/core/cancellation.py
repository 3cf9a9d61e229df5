"""A request to stop that a signal handler may make."""

from __future__ import annotations

import threading
from contextlib import suppress

__all__ = ["Cancellation"]


class Cancellation:
    """Asked for once, by any thread, and for good; whoever works looks at it, or waits for it.

    `threading.Event` would do but for Ctrl-C: a handler runs in the thread it interrupts, and when that is just inside
    `Event.wait`, `Event.set` waits for ever for the lock that this very thread holds. Here nobody waits for a lock but
    to be asked. (`queue.SimpleQueue` may be filled by a handler, but in CPython 3.11 its `get` forgets the shortest timeouts.)
    """

    def __init__(self) -> None:
        self._requested = False
        self._closed = threading.Lock()
        self._closed.acquire()

    @property
    def requested(self) -> bool:
        """Whether somebody has asked."""
        return self._requested

    def request(self) -> None:
        """Ask; harmless when repeated."""
        self._requested = True
        self._open()

    def wait(self, seconds: float) -> bool:
        """Until somebody asks, at most so long; tells whether somebody has."""
        if not self._requested and self._closed.acquire(timeout=seconds):
            # For others that wait.
            self._open()
        return self._requested

    def _open(self) -> None:
        # Open already: asked before, or by a handler just now.
        with suppress(RuntimeError):
            self._closed.release()
