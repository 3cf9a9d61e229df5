"""A request to stop, and the places where work looks at it.

Whoever asks does not know what the work is doing, and work that is deep inside an epoch knows nobody who might ask. So a
`Cancellation` governs what a thread does for a time (`governing`), and the work calls `look` between its pieces: it raises
`Stopped` there once somebody has asked. A piece is what takes well under a second, whatever the input. A limit of what
the work may take is looked at there, too (`runtime/core/memory.py`).
"""

from __future__ import annotations

import functools
import inspect
import signal
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext, suppress
from types import FrameType
from typing import TYPE_CHECKING, ParamSpec, Protocol, TypeVar

if TYPE_CHECKING:
    from runtime.core.processor_time import ProcessorTime

__all__ = ["Cancellation", "Stopped", "at_hand", "governed", "look", "watching", "whole"]

P = ParamSpec("P")
T = TypeVar("T")


# What makes enums of numbers and handlers is ten times as slow, and small statements do this several times.
_handle: Callable[..., object] = inspect.unwrap(signal.signal)
_handler_of: Callable[[int], object] = inspect.unwrap(signal.getsignal)


class Stopped(BaseException):
    """Somebody has asked to stop, and the work at hand was given up in the middle.

    Not an `Exception`: nothing on the way may take it for a failure, try something else and go on.
    """


class Cancellation:
    """Asked for once, by any thread, and for good; whoever works looks at it, or waits for it.

    `threading.Event` would do but for Ctrl-C: a handler runs in the thread it interrupts, and when that is just inside
    `Event.wait`, `Event.set` waits for ever for the lock that this very thread holds. Here nobody waits for a lock but
    to be asked. (`queue.SimpleQueue` may be filled by a handler, but in CPython 3.11 its `get` forgets the shortest timeouts.)

    Args:
        patience: for so many seconds after the request `look` lets the work go on, so that what is short ends whole.
        clock: seconds, for `patience`.
        limit: called by each `look`; raises when the work has taken too much.
    """

    def __init__(
        self,
        patience: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
        limit: Callable[[], object] | None = None,
    ) -> None:
        self.patience = patience
        self.work: object = None
        """What it governs at the moment, for whoever shows how far that has come."""
        self.asked_by_main = False
        """Whether the main thread has asked: in most cases, Ctrl-C."""
        self.on_request: Callable[[], None] | None = None
        """Called when somebody asks, also by a signal handler: to wake who waits for something else, too."""
        self._clock = clock
        self.between: Callable[[], object] | None = None
        """Called by each look: there the work may wait for others."""
        self.processor: ProcessorTime | None = None
        """Counts what other threads compute for the work."""
        self._limit = limit
        self._requested = False
        self._requested_at = 0.0
        self._closed = threading.Lock()
        self._closed.acquire()

    @property
    def requested(self) -> bool:
        """Whether somebody has asked."""
        return self._requested

    def request(self) -> None:
        """Ask; harmless when repeated."""
        if not self._requested:
            self._requested_at = self._clock()
            self._requested = True
            self.asked_by_main = threading.get_ident() == threading.main_thread().ident
        self._open()
        if self.on_request is not None:
            self.on_request()

    def wait(self, seconds: float) -> bool:
        """Until somebody asks, at most so long; tells whether somebody has."""
        if not self._requested and self._closed.acquire(timeout=seconds):
            # For others that wait.
            self._open()
        return self._requested

    def look(self) -> None:
        """Raise `Stopped` when somebody has asked, and the patience is over; what the limit raises."""
        if self._requested and self._clock() - self._requested_at >= self.patience:
            raise Stopped
        if self._limit is not None:
            self._limit()
        if self.between is not None:
            self.between()

    def limit_too(self, limit: Callable[[], object]) -> None:
        """Have another limit looked at, after the one that there is."""
        before = self._limit

        def both() -> None:
            if before is not None:
                before()
            limit()

        self._limit = both

    @contextmanager
    def governing(self, work: object = None) -> Generator[None]:
        """Within the block `look` in this thread looks here, and then at what governs the block itself. `work`: see there."""
        before, at_hand.chain = at_hand.chain, (self, *at_hand.chain)
        work_before = self.work
        self.work = work_before if work is None else work
        _tell_call()
        try:
            yield
        finally:
            self.work = work_before
            at_hand.chain = before
            _tell_call()

    def _open(self) -> None:
        # Open already: asked before, or by a handler just now.
        with suppress(RuntimeError):
            self._closed.release()


class _Governed(Protocol):
    """A call that another thread waits for."""

    governed_by: Cancellation | None


class _AtHand(threading.local):
    """What governs the work of a thread, the innermost first; who is told of each look; for which call it works."""

    chain: tuple[Cancellation, ...] = ()
    watcher: Callable[[object], object] | None = None
    call: _Governed | None = None


at_hand = _AtHand()


def _tell_call() -> None:
    if at_hand.call is not None:
        at_hand.call.governed_by = at_hand.chain[0] if at_hand.chain else None


def look() -> None:
    """Between two pieces of work: raises `Stopped` when it is to end. Costs a fifth of a microsecond."""
    chain = at_hand.chain
    if not chain:
        return
    if at_hand.watcher is not None:
        at_hand.watcher(chain[0].work)
    for cancellation in chain:
        cancellation.look()


@contextmanager
def watching(watcher: Callable[[object], object]) -> Generator[None]:
    """Within the block each `look` in this thread calls the watcher with what is at work."""
    before, at_hand.watcher = at_hand.watcher, watcher
    try:
        yield
    finally:
        at_hand.watcher = before


def governed(call: Callable[P, T]) -> Callable[P, T]:
    """A call for another thread, governed there by what governs this one."""
    chain = at_hand.chain
    if not chain:
        return call

    @functools.wraps(call)
    def governed_call(*args: P.args, **kwargs: P.kwargs) -> T:
        before, at_hand.chain = at_hand.chain, chain
        # Whatever governs within it is done for the outermost.
        processor = chain[-1].processor
        try:
            with nullcontext() if processor is None else processor.counting():
                return call(*args, **kwargs)
        finally:
            at_hand.chain = before

    return governed_call


@contextmanager
def whole() -> Generator[None]:
    """A block that is carried out to its end, because what it changes cannot be left in between: `look` lets it go on,
    whatever governs within it, and Ctrl-C counts when the block is over."""
    in_main = threading.get_ident() == threading.main_thread().ident
    handler = _handler_of(signal.SIGINT) if in_main else None
    waiting: list[tuple[int, FrameType | None]] = []
    if callable(handler):
        _handle(signal.SIGINT, lambda number, frame: waiting.append((number, frame)))
    before, at_hand.chain = at_hand.chain, ()
    _tell_call()
    try:
        yield
    finally:
        at_hand.chain = before
        _tell_call()
        if callable(handler):
            _handle(signal.SIGINT, handler)
            if waiting:
                handler(*waiting[0])
