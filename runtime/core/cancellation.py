"""A request to stop that a signal handler may make."""

from __future__ import annotations

from queue import Empty, SimpleQueue

__all__ = ["Cancellation"]


class Cancellation:
    """Asked for once, by any thread, and for good; whoever works looks at it, or waits for it.

    `threading.Event` would do but for Ctrl-C: a handler runs in the thread it interrupts, and when that is just inside
    `Event.wait`, `Event.set` waits for ever for the lock that this very thread holds. `SimpleQueue.put` is reentrant
    (Python's library reference, `queue.SimpleQueue`).
    """

    def __init__(self) -> None:
        self._requested = False
        self._wakes: SimpleQueue[None] = SimpleQueue()

    @property
    def requested(self) -> bool:
        """Whether somebody has asked."""
        return self._requested

    def request(self) -> None:
        """Ask; harmless when repeated."""
        self._requested = True
        self._wakes.put(None)

    def wait(self, seconds: float) -> bool:
        """Until somebody asks, at most so long; tells whether somebody has."""
        if not self._requested:
            try:
                self._wakes.get(timeout=seconds)
            except Empty:
                return self._requested
            # For others that wait.
            self._wakes.put(None)
        return True
