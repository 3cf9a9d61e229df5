"""A lock that is given out in the order of asking."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["TurnLock"]


class TurnLock:
    """A reentrant lock; whoever waits longest is next.

    Python's own lock may be taken again by the thread that has just released it, so a background job that holds it
    for one epoch after another would keep a statement of the user waiting for as long as there is input.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._owner: int | None = None
        self._depth = 0
        self._waiting: deque[tuple[int, threading.Event]] = deque()

    @property
    def held(self) -> bool:
        """Whether this thread has it."""
        return self._owner == threading.get_ident()

    def acquire(self) -> None:
        me = threading.get_ident()
        with self._guard:
            if self._owner in (None, me):
                self._owner = me
                self._depth += 1
                return
            turn = threading.Event()
            self._waiting.append((me, turn))
        try:
            turn.wait()
        except BaseException:  # Ctrl-C while waiting: the turn is given up, or passed on if it has come meanwhile
            with self._guard:
                if turn.is_set():
                    self._pass_on()
                else:
                    self._waiting.remove((me, turn))
            raise

    def release(self) -> None:
        with self._guard:
            if self._owner != threading.get_ident():
                raise RuntimeError("released by a thread that does not hold it")
            self._depth -= 1
            if self._depth == 0:
                self._pass_on()

    @contextmanager
    def given_up(self) -> Iterator[None]:
        """Let others have the lock for the time of a block, however often this thread has taken it."""
        with self._guard:
            depth, self._depth = self._depth, 1
        self.release()
        try:
            yield
        finally:
            self.acquire()
            self._depth = depth

    def _pass_on(self) -> None:
        """The next in line has the lock from now on, so that nobody can slip in before that thread wakes."""
        self._owner, self._depth = None, 0
        if self._waiting:
            self._owner, turn = self._waiting.popleft()
            self._depth = 1
            turn.set()

    def __enter__(self) -> TurnLock:
        self.acquire()
        return self

    def __exit__(self, *exception: object) -> None:
        self.release()
