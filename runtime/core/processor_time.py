"""Processor time that threads have taken for one piece of work."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from contextlib import contextmanager

__all__ = ["ProcessorTime"]

_OTHERS_TELL = hasattr(time, "pthread_getcpuclockid")


class ProcessorTime:
    """Counts while threads work for it (`counting`); any thread may ask how much it was so far.

    Where the system does not tell the time of another thread (outside Linux), that thread counts when it asks itself, or
    ends.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._ended = 0.0
        self._at_work: dict[int, _Thread] = {}

    @contextmanager
    def counting(self) -> Generator[None]:
        """Within the block this thread works for it. May be nested."""
        me = threading.get_ident()
        if me in self._at_work:
            yield
            return
        thread = _Thread(me)
        with self._guard:
            self._at_work[me] = thread
        try:
            yield
        finally:
            with self._guard:
                del self._at_work[me]
                self._ended += thread.seconds(me)

    def seconds(self) -> float:
        """So far, of those at work, too."""
        me = threading.get_ident()
        with self._guard:
            return self._ended + sum(thread.seconds(me) for thread in self._at_work.values())


class _Thread:
    """One that has begun to work now."""

    def __init__(self, thread: int) -> None:
        self._thread = thread
        self._clock = time.pthread_getcpuclockid(thread) if _OTHERS_TELL else None
        self._known = 0.0
        self._began = time.thread_time()

    def seconds(self, asked_by: int) -> float:
        if self._clock is not None:
            self._known = time.clock_gettime(self._clock) - self._began
        elif asked_by == self._thread:
            self._known = time.thread_time() - self._began
        return self._known
