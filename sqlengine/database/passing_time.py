"""The thread that has views take an epoch when time alone changes their answers, whoever asks for them."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING

from runtime.core.clock import Clock, VirtualClock, seconds_until
from runtime.core.wakeup import Wakeup
from sqlengine.database.view_graph import NEVER

if TYPE_CHECKING:
    from sqlengine.database.views import Views

__all__ = ["TimeThread"]

_LEAST_SECONDS = 0.001
"""It sleeps so long at least: for a clock that has to be asked."""


class TimeThread:
    """Calls `Views.let_time_pass` at the time that they have told (`look_at`), and when a clock moves that tells so. It keeps
    the views no longer than others do."""

    def __init__(self, views: Views, clock: Clock) -> None:
        self._wakeup = Wakeup()
        self._at = NEVER
        if isinstance(clock, VirtualClock):
            clock.tell(self.wake)
        reference = weakref.ref(views)
        weakref.finalize(views, self._wakeup.wake).atexit = False
        self._thread = threading.Thread(
            target=_run, args=(reference, self._wakeup, clock), name="views and time", daemon=True
        )
        self._thread.start()

    def look_at(self, moment: int) -> None:
        """The views have something to do at that time, in milliseconds, and not before."""
        if moment < self._at:
            self.wake()
        self._at = moment

    def wake(self) -> None:
        """From any thread."""
        self._wakeup.wake()

    def join(self) -> None:
        """Wait until it has ended, once the views have."""
        self.wake()
        if self._thread is not threading.current_thread():
            self._thread.join()


def _run(reference: weakref.ref[Views], wakeup: Wakeup, clock: Clock) -> None:
    while True:
        views = reference()
        if views is None or views.stopped:
            return
        if views.next_timer <= clock.now():
            views.let_time_pass()
            for error in views.new_failures():
                views.on_failed(error)
        at = views.next_timer
        del views
        seconds = None if at == NEVER else seconds_until(clock, at)
        wakeup.wait(seconds if seconds is None else max(seconds, _LEAST_SECONDS))
