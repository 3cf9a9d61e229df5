"""A limit on how long a call of a function may take.

Python cannot be told to give up a call that waits in C (a socket, `time.sleep`), so calls with a limit run in a thread of
the function, and whoever waits for them goes on without it: the call is given up, and its thread ends as soon as it is back
in Python. The next call gets another thread.
"""

from __future__ import annotations

import ctypes
import queue
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from runtime.core.cancellation import look
from runtime.core.errors import ExpressionError
from sqlengine.user_functions.failures import places

__all__ = ["Mark", "TimeLimit", "TimedOut"]

T = TypeVar("T")

_LOOKS = 0.2
"""Seconds after which whoever waits looks whether it should go on waiting."""


class TimedOut(ExpressionError):
    """A call has taken longer than its limit. `index`: which of the calls of a piece of work."""

    code = "E2114"
    index = 0


class _GivenUp(BaseException):
    """Raised in a thread whose call nobody waits for any more; no function catches it by mistake."""


class Mark:
    """Which call a piece of work is at: when it began (0.0: none), its number, and what it was called with."""

    __slots__ = ("at",)

    def __init__(self) -> None:
        self.at: tuple[float, int, Sequence[Any] | None] = (0.0, 0, None)

    def begin(self, index: int, row: Sequence[Any] | None) -> None:
        """The next call begins."""
        self.at = (time.monotonic(), index, row)

    def end(self) -> None:
        """The call is over."""
        self.at = (0.0, 0, None)


class TimeLimit:
    """The calls of one function, each of which may take so long.

    Args:
        name: the function's.
        seconds: the limit.
    """

    def __init__(self, name: str, seconds: float) -> None:
        self._name = name
        self.seconds = seconds
        self._work: queue.SimpleQueue[Any] | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process has threads of its own.
        return TimeLimit, (self._name, self.seconds)

    def run(self, work: Callable[[Mark], T]) -> T:
        """What the work gives, which is done in the function's thread; it marks each call as it begins and ends.

        Raises TimedOut (E2114) when a call takes longer, and what the work raises.
        """
        mark = Mark()
        answer: queue.SimpleQueue[tuple[bool, Any]] = queue.SimpleQueue()
        with self._lock:
            self._ready().put((work, mark, answer))
            while True:
                try:
                    good, found = answer.get(timeout=self._wait(mark))
                    break
                except queue.Empty:
                    continue
                except BaseException:
                    self._give_up()
                    raise
        if good:
            return found  # type: ignore[no-any-return]
        raise found

    def _wait(self, mark: Mark) -> float:
        """Seconds to wait on; raises TimedOut when the call at hand has had its time."""
        look()
        began, index, row = mark.at
        if not began:
            return min(self.seconds, _LOOKS)
        left = began + self.seconds - time.monotonic()
        if left > 0:
            return min(left, _LOOKS)
        raise self._timed_out(index, row)

    def _timed_out(self, index: int, row: Sequence[Any] | None) -> TimedOut:
        called = "" if row is None else f" for ({', '.join(map(repr, row))})"
        error = TimedOut(
            f"the Python function {self._name} took longer than {self.seconds:g} s{called}",
            code="E2114",
            hint="give it more time (timeout=, or SET 'sqlengine.functions.timeout'), or have it give up by itself",
        )
        error.index = index
        error.reason = f"the Python function {self._name} took too long"
        frame = sys._current_frames().get(self._ident)
        error.trace = places(frame)
        return error

    @property
    def _ident(self) -> int:
        return 0 if self._thread is None or self._thread.ident is None else self._thread.ident

    def _ready(self) -> queue.SimpleQueue[Any]:
        if self._work is None:
            self._work = queue.SimpleQueue()
            self._thread = threading.Thread(
                target=_serve, args=(self._work,), name=f"function {self._name}", daemon=True
            )
            self._thread.start()
            weakref.finalize(self, self._work.put, None)
        return self._work

    def _give_up(self) -> None:
        """Nobody waits for the thread any more: it ends when it is back in Python."""
        if self._work is not None and self._thread is not None and self._thread.is_alive():
            self._work.put(None)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._ident), ctypes.py_object(_GivenUp))
        self._work = self._thread = None


def _serve(waiting: queue.SimpleQueue[Any]) -> None:
    """Does one piece of work after another, until there is None."""
    try:
        while (given := waiting.get()) is not None:
            work, mark, answer = given
            try:
                found = (True, work(mark))
            except _GivenUp:
                return
            except BaseException as error:
                found = (False, error)
            answer.put(found)
            del given, work, mark, answer, found
    except _GivenUp:
        return
