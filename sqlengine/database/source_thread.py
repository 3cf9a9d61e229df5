"""The thread that takes what connectors give to materialized views."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import Protocol
from weakref import WeakSet

from connectors.memory import MemoryTable
from runtime.core.cancellation import Cancellation, Stopped
from runtime.core.errors import PlanningError
from runtime.core.logs import Log
from runtime.core.processor_time import ProcessorTime
from runtime.local.agenda import Agenda
from sqlengine.catalog.objects import ObjectPath
from sqlengine.database.maintained_view import MaintainedView
from sqlengine.database.scheduler import Scheduler, Share, Worker
from sqlengine.database.turns import TurnLock

__all__ = ["SourceThread"]

_log = Log("views")

IDLE_WAIT_SECONDS = 0.02
"""A view whose sources do not know when they have rows is asked so often."""
FULL_WAIT_SECONDS = 0.1
"""So long a view over a connector waits for memory before it asks again."""
LONG_SECONDS = 0.005
"""A view over a connector whose epochs take longer takes them beside others."""


class _AllViews(Protocol):
    """What is needed of all views: see `Views`."""

    lock: TurnLock
    on_failed: Callable[[PlanningError], object]
    on_complete: Callable[[], object]
    on_moved: Callable[[], object]

    def touched(self, changed: Collection[ObjectPath]) -> frozenset[ObjectPath]: ...

    def apart(self, part: Collection[ObjectPath], *tables: MemoryTable) -> AbstractContextManager[None]: ...

    def follow(self, part: Collection[ObjectPath]) -> None: ...

    def propagate(self) -> None: ...

    def new_failures(self) -> list[PlanningError]: ...


class SourceThread:
    """Begun with the first view over a connector. A view that has something to do takes one epoch of it in each turn."""

    def __init__(self, views: _AllViews, scheduler: Scheduler) -> None:
        self._views = views
        self._scheduler = scheduler
        self._agenda: Agenda[MaintainedView] = Agenda()
        self._worker = Worker(Cancellation())
        self._ready: dict[Share, MaintainedView] = {}
        """Those that have something to do, and so have a turn or wait for one."""
        self._thread: threading.Thread | None = None
        self._short_of_memory: WeakSet[MaintainedView] = WeakSet()

    @property
    def stopped(self) -> bool:
        return self._worker.cancellation.requested

    def follow(self, view: MaintainedView) -> None:
        """A view is there."""
        view.job.cancellation.processor = work = ProcessorTime()
        view.share = Share(view.weight, self._worker, work)
        self.wake(view)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="materialized views", daemon=True)
            self._thread.start()

    def wake(self, view: MaintainedView) -> None:
        """From any thread: there is something to do for it."""
        self._agenda.wake(view)

    def stop(self) -> None:
        """After the epoch at hand."""
        self._worker.cancellation.request()
        self._agenda.wakeup.wake()

    def join(self) -> None:
        """Wait until it has stopped."""
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self.stopped:
            self._take_turns()

    def _take_turns(self) -> None:
        """Wait until views have something to do, and take as many turns as there are such views."""
        self._look_up(wait=not self._ready)
        for _ in range(len(self._ready)):
            self._scheduler.wait(self._worker)
            share = self._worker.turn
            if share is None:
                return  # The end has come.
            try:
                more = not self.stopped and self._advance(share)
            except BaseException:
                self._scheduler.end(share)
                raise
            if not more:
                # Before others are looked for: the view itself may be due again already.
                del self._ready[share]
                self._scheduler.end(share)
            # Whoever was woken meanwhile may be due.
            self._look_up(wait=False)
            if more:
                self._scheduler.offer(share)
        for error in self._views.new_failures() if not self.stopped else ():
            self._views.on_failed(error)

    def _look_up(self, *, wait: bool) -> None:
        """Who has something to do. `wait`: until somebody has."""
        for view in self._agenda.take(wait=wait):
            # One that is put down before it is followed is woken by that.
            if view.share is not None:
                view.waits = False
                self._ready[view.share] = view
                self._scheduler.ask(view.share)

    def _advance(self, share: Share) -> bool:
        """One epoch of a view; whether there is more to do at once."""
        view, seconds = self._ready[share], None
        # An epoch that was given up ends its view alone.
        with (
            share.work.counting(),
            self._views.lock.only(partial(self._views.touched, (view.path,))),
            suppress(Stopped),
        ):
            # Of statements that woke the view it has taken the changes by now.
            seconds = None if view.ended else view.job.idle_for()
            if seconds == 0 and not self._may_read(view):
                seconds = FULL_WAIT_SECONDS
            elif seconds == 0:
                if self.one_epoch(view):
                    self._views.propagate()
                    self._views.on_moved()
                    return True
                self._views.on_complete()
                if view.got_on():
                    self._views.on_moved()
                seconds = None if view.ended else _least(view.job.idle_for())
        view.waits = seconds is not FULL_WAIT_SECONDS
        self._agenda.put(view, seconds)
        return False

    def one_epoch(self, view: MaintainedView) -> bool:
        """One epoch of a view, and whether there was any. Nobody waits for one that takes long, but who needs what it changes.
        Called with the lock held."""
        if not view.calls_out and view.seconds < LONG_SECONDS:
            return view.advance()
        part = self._views.touched((view.path,))
        with self._views.apart(part):
            moved = view.advance()
            self._views.follow(part - {view.path})
        return moved

    def _may_read(self, view: MaintainedView) -> bool:
        """Whether there is memory for more of its sources; the log tells when they begin to wait, and when they go on."""
        left = view.job.memory_left
        if left is (view in self._short_of_memory):
            (self._short_of_memory.discard if left else self._short_of_memory.add)(view)
            text = "%s goes on" if left else "the sources of %s wait: the memory limit is reached"
            _log.warning(text, view.path, view=str(view.path), job=view.job.name)
        return left


def _least(seconds: float | None) -> float | None:
    return seconds if seconds is None else max(seconds, IDLE_WAIT_SECONDS)
