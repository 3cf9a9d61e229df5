"""Work for which the main thread waits while another thread does it, so that Ctrl-C is heard at once.

Python gives a signal to the main thread alone, and between two of its own instructions: while a library sorts twenty
million rows there, nobody hears it. And a handler that raises does so anywhere, also between two changes that belong
together. So what may take long is done by one other thread, one call after another, and the main thread waits:

- Ctrl-C that raises (KeyboardInterrupt) makes the work raise the same at its next look;
- Ctrl-C that asks a job to stop makes the work end as that job does;
- where the work does not come to a look in time, the main thread leaves (KeyboardInterrupt) and the work ends behind it.
  What is called next waits until it has.

Calls of other threads, which get no signals, are made where they are.
"""

from __future__ import annotations

import contextvars
import os
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

from runtime.core.cancellation import Cancellation, at_hand
from runtime.core.logs import Log, tell

__all__ = ["attended", "attended_items"]

T = TypeVar("T")

_log = Log("jobs")

TICK_SECONDS = 0.1
"""How often the main thread looks whether a job was asked to stop, and shows how far the work is."""
LEAVE_SECONDS = 0.6
"""So long the main thread waits, once somebody has asked, for the work to end."""
STACK_BYTES = 64 << 20
"""Of the thread: addresses, of which the system fills what is used."""
_END = object()


class _Interruption(Cancellation):
    """What the main thread asks when Ctrl-C has raised there: the work raises the same."""

    def look(self) -> None:
        if self.requested:
            raise KeyboardInterrupt


class _Call:
    """A call, what governs it, and what has become of it. `governed_by`: what governs the work at the moment."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self._context = contextvars.copy_context()
        self._chain, self._watcher = at_hand.chain, at_hand.watcher
        self.interruption = _Interruption()
        self.governed_by: Cancellation | None = None
        self.result: Any = None
        self.error: BaseException | None = None
        self._over = threading.Lock()
        self._over.acquire()
        self._left = False

    def run(self) -> None:
        """Carry it out, in the other thread."""
        at_hand.chain, at_hand.watcher, at_hand.call = self._chain, self._watcher, self
        try:
            with self.interruption.governing():
                self.result = self._context.run(self._call)
        except BaseException as error:
            self.error = error
        finally:
            at_hand.chain, at_hand.watcher, at_hand.call = (), None, None
            self._over.release()
        if self._left and isinstance(self.error, Exception):
            _log.error("the statement that was interrupted has failed: %s", self.error)
            tell(f"the statement that was interrupted has failed: {self.error}")

    def leave(self) -> None:
        """Nobody takes its result any more: what it fails with later is told."""
        self._left = not self.over(0)

    def over(self, seconds: float) -> bool:
        """Wait until it is over, at most so long; tells whether it is."""
        if not self._over.acquire(timeout=seconds):
            return False
        self._over.release()
        return True


def attended(call: Callable[[], T]) -> T:
    """What a call gives or raises. In the main thread KeyboardInterrupt comes within a second, whatever the call does."""
    if not _is_attended():
        return call()
    work = _Call(call)
    _worker().put(work.run)
    asked: float | None = None
    try:
        while not work.over(TICK_SECONDS):
            governed_by = work.governed_by
            if at_hand.watcher is not None:
                at_hand.watcher(None if governed_by is None else governed_by.work)
            if asked is None and governed_by is not None and governed_by.asked_by_main:
                asked = time.monotonic()
            if asked is not None and time.monotonic() - asked > LEAVE_SECONDS:
                raise KeyboardInterrupt
    except BaseException:
        work.interruption.request()
        _Thread.left = work
        if asked is None:
            work.over(LEAVE_SECONDS)
        work.leave()
        raise
    if work.error is not None:
        try:
            raise work.error
        finally:
            # Its traceback holds this frame.
            del work
    return work.result


def attended_items(items: Iterator[T]) -> Generator[T]:
    """The same items, each made by an attended call; a generator is closed with this one."""
    try:
        while True:
            item: Any = attended(partial(next, items, _END))
            if item is _END:
                return
            yield item
    finally:
        if isinstance(items, Generator):
            if _is_attended() and _goes_on():
                _worker().put(items.close)
            else:
                attended(items.close)


def _is_attended() -> bool:
    if threading.get_ident() != threading.main_thread().ident or sys.is_finalizing():
        return False
    # Spark's client belongs to the thread that has begun it.
    return "pyspark" not in sys.modules


class _Thread:
    """The thread that does the work of the main thread; begun when it is first needed, and again after a fork."""

    process = 0
    calls: SimpleQueue[Callable[[], object]] = SimpleQueue()
    left: _Call | None = None
    """The last call that the main thread did not see the end of."""


def _worker() -> SimpleQueue[Callable[[], object]]:
    if _Thread.process != os.getpid():
        _Thread.process, _Thread.calls, _Thread.left = os.getpid(), SimpleQueue(), None
        # As deep statements as in the main thread; elsewhere than on Linux threads have small stacks.
        before = threading.stack_size(STACK_BYTES)
        try:
            threading.Thread(target=_carry_out, args=(_Thread.calls,), name="statements", daemon=True).start()
        finally:
            threading.stack_size(before)
    return _Thread.calls


def _goes_on() -> bool:
    """Whether work that the main thread has left goes on."""
    return _Thread.process == os.getpid() and _Thread.left is not None and not _Thread.left.over(0)


def _carry_out(calls: SimpleQueue[Callable[[], object]]) -> None:
    while True:
        calls.get()()
