"""Who computes next: jobs and views over connectors take turns, in proportion to their weights.

Each has a `Share` with a virtual time: the processor seconds that it has taken while others waited, divided by its
weight. A turn goes to the one that waits with the least. Who wakes begins at the virtual time of the last turn, so sleep
saves no turns; who was alone owes nothing. This is start-time fair queueing (Goyal, Vin and Cheng, 1996).

Whoever waits for a turn holds no lock of the database. Whoever has a turn may wait for a lock, a disk or another system:
a turn whose threads do not compute is lent to the next one.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from runtime.core.cancellation import Cancellation
from runtime.core.wakeup import Wakeup

__all__ = ["PATIENCE_SECONDS", "QUANTUM_SECONDS", "Scheduler", "Share", "Worker"]

QUANTUM_SECONDS = 0.005
"""Processor time that a turn has at least, where there is so much to do: to change threads costs something, too."""
PATIENCE_SECONDS = 0.02
"""A turn in which nothing was computed for so long is lent."""
_COMPUTES = 0.05
"""The part of the time in which a thread that computes has the processor at least, however many compete for it."""


class Work(Protocol):
    """What counts the processor time of a share."""

    def counting(self) -> AbstractContextManager[None]: ...

    def seconds(self) -> float: ...


class Worker:
    """A thread that computes for one of its shares at a time.

    Args:
        cancellation: ends the wait for a turn when it is requested.
    """

    def __init__(self, cancellation: Cancellation) -> None:
        self.cancellation = cancellation
        self.wakeup = Wakeup()
        self.turn: Share | None = None
        """The share that has a turn, also where that is lent."""
        self.waiting: dict[Share, None] = {}
        """Its shares that have asked for one."""


class Share:
    """What one job or view has of the processor."""

    def __init__(self, weight: int, worker: Worker, work: Work) -> None:
        self.weight = weight
        self.worker = worker
        self.work = work
        self.virtual = 0.0
        """Processor seconds taken while others waited, for each unit of weight."""
        self.charged = 0.0
        """Seconds of `work` that are in `virtual`, or for which nobody has waited."""
        self.begun = 0.0
        """Seconds of `work` when the turn began."""
        self.seen = (0.0, 0.0)
        """When somebody has last looked whether it computes, and the seconds of `work` then."""


class Scheduler:
    """Gives turns, to so many workers `at_once`. `clock`: seconds, to see who does not compute."""

    def __init__(self, at_once: int = 1, clock: Callable[[], float] = time.monotonic) -> None:
        self._at_once = at_once
        self._clock = clock
        self._guard = threading.Lock()
        self._queue: list[tuple[float, int, Share]] = []
        """Those that wait, by virtual time; and some that do no longer."""
        self._waiting: dict[Share, int] = {}
        """Those that wait, with their places among equals in the queue."""
        self._numbers = itertools.count()
        self._turns: dict[Share, None] = {}
        self._lent: dict[Share, None] = {}
        """Those in whose turns nothing was computed, so that others have them."""
        self._now = 0.0
        """The virtual time of the last turn that was given."""

    # --- for jobs, each with a thread of its own

    @contextmanager
    def turn(self, share: Share) -> Generator[None]:
        """Within the block this thread has a turn, but where it gives it up."""
        with share.work.counting():
            self.ask(share)
            self.wait(share.worker)
            try:
                yield
            finally:
                self.end(share)

    @contextmanager
    def given_up(self, share: Share, more: bool) -> Generator[None]:
        """Between two epochs. `more`: there is something to do at once, so the turn goes on unless another one is due."""
        if more:
            self.offer(share)
        else:
            self.end(share)
        try:
            yield
        finally:
            if not more:
                self.ask(share)
            self.wait(share.worker)

    def let_others(self, share: Share) -> None:
        """In the middle of an epoch: others go first when it is their turn. Called with no lock held."""
        self.offer(share)
        self.wait(share.worker)

    # --- turns

    def give_at_once(self, turns: int) -> None:
        """From now on so many workers have turns at the same time."""
        with self._guard:
            self._at_once = turns
            self._settle()
            self._pass_on()

    @property
    def contended(self) -> bool:
        """Whether somebody waits for a turn, or somebody may compute whose turn is lent."""
        return bool(self._waiting or self._lent)

    def ask(self, share: Share) -> None:
        """One that has slept wants a turn. Harmless when repeated."""
        with self._guard:
            self._settle()
            if share not in self._waiting and share is not share.worker.turn:
                share.virtual = max(share.virtual, self._now)
                self._enqueue(share)
                self._pass_on()

    def wait(self, worker: Worker) -> None:
        """Until one of its shares has a turn, or it is cancelled: then they wait no longer. Called with no lock held."""
        if worker.turn is not None or not worker.waiting:
            return
        cancellation = worker.cancellation
        before, cancellation.on_request = cancellation.on_request, worker.wakeup.wake
        try:
            while worker.turn is None and not cancellation.requested:
                # Of all that wait one looks in so long.
                worker.wakeup.wait(PATIENCE_SECONDS * max(1, len(self._waiting)))
                self.look()
        finally:
            cancellation.on_request = before
            if worker.turn is None:
                with self._guard:
                    self._forget(worker)

    def offer(self, share: Share) -> None:
        """One that has more to do gives its turn to another one when that is due, and asks for the next."""
        if not self.contended:
            return
        with self._guard:
            self._settle()
            if share in self._turns and share.charged - share.begun < QUANTUM_SECONDS:
                return
            if share in self._turns and not self._is_due_before(share):
                return
            self._leave(share)
            self._enqueue(share)
            self._pass_on()

    def end(self, share: Share) -> None:
        """A turn has ended, and there is nothing more to do."""
        with self._guard:
            self._settle()
            self._leave(share)
            self._pass_on()

    def look(self) -> None:
        """Lend the turns in which nothing is computed."""
        with self._guard:
            now = self._clock()
            for share in list(self._turns):
                at, seconds = share.seen
                if now - at >= PATIENCE_SECONDS:
                    share.seen = now, share.work.seconds()
                    if share.seen[1] - seconds < _COMPUTES * (now - at):
                        self._settle()
                        del self._turns[share]
                        self._lent[share] = None
            self._pass_on()

    # --- with the guard

    def _settle(self) -> None:
        """What was computed so far counts if somebody has waited meanwhile. Before it changes who waits, or computes."""
        for share in (*self._turns, *self._lent):
            seconds = share.work.seconds()
            if self._waiting:
                share.virtual += (seconds - share.charged) / share.weight
            share.charged = seconds

    def _enqueue(self, share: Share) -> None:
        number = self._waiting[share] = next(self._numbers)
        share.worker.waiting[share] = None
        heapq.heappush(self._queue, (share.virtual, number, share))

    def _leave(self, share: Share) -> None:
        if share.worker.turn is share:
            share.worker.turn = None
            self._turns.pop(share, None)
            self._lent.pop(share, None)

    def _forget(self, worker: Worker) -> None:
        if worker.turn is None:
            self._settle()
            for share in worker.waiting:
                del self._waiting[share]
            worker.waiting.clear()

    def _is_due_before(self, share: Share) -> bool:
        """Whether somebody waits who has had less; among the shares of one thread, too."""
        self._drop_stale()
        return bool(self._queue) and self._queue[0][0] < share.virtual

    def _drop_stale(self) -> None:
        while self._queue and self._waiting.get(self._queue[0][2]) != self._queue[0][1]:
            heapq.heappop(self._queue)

    def _pass_on(self) -> None:
        """Give the turns that are free."""
        passed_over: list[tuple[float, int, Share]] = []
        while len(self._turns) < self._at_once:
            self._drop_stale()
            if not self._queue:
                break
            entry = heapq.heappop(self._queue)
            share = entry[2]
            if share.worker.turn is None:
                self._begin(share)
            else:
                # Its thread computes for another share.
                passed_over.append(entry)
        for entry in passed_over:
            heapq.heappush(self._queue, entry)

    def _begin(self, share: Share) -> None:
        del self._waiting[share]
        del share.worker.waiting[share]
        share.worker.turn = share
        self._turns[share] = None
        share.charged = share.begun = share.work.seconds()
        share.seen = self._clock(), share.charged
        self._now = max(self._now, share.virtual)
        share.worker.wakeup.wake()
