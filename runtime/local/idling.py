"""What a job does between two epochs while nothing comes: it sleeps until something does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from runtime.core.clock import Clock, seconds_until
from runtime.core.wakeup import Wakeup
from runtime.local.availability import shortest
from runtime.local.checkpoints import Checkpoints
from runtime.local.dataflow import Dataflow
from runtime.local.source_inputs import SourceInputs

if TYPE_CHECKING:
    from runtime.local.job import Job

__all__ = ["Idling"]

FIRST_WAIT_SECONDS, IDLE_WAIT_SECONDS = 0.0005, 0.01
"""Where nobody knows when something comes, a job waits briefly first, then twice as long each time, up to so long."""
SHOWN_SECONDS = 0.1
"""A job whose progress is shown has an epoch at least so often."""


class Idling:
    """The sleep of one job, and who ends it: whatever `Job.idle_for` waits for, `Job.wake`, and a request to stop."""

    def __init__(self, clock: Clock, wakeup: Wakeup) -> None:
        self.wakeup = wakeup
        self._clock = clock
        self._least = FIRST_WAIT_SECONDS

    def pause(self, job: Job, moved: bool) -> None:
        """After an epoch: nothing when it has `moved` something, for there may be more."""
        if moved:
            self._least = FIRST_WAIT_SECONDS
            return
        seconds = job.idle_for()
        if job.on_epoch is not None:
            seconds = SHOWN_SECONDS if seconds is None else min(seconds, SHOWN_SECONDS)
        job.cancellation.on_request = self.wakeup.wake
        if not job.cancellation.requested:
            self.wakeup.wait(None if seconds is None else max(seconds, self._least))
        self._least = min(2 * self._least, IDLE_WAIT_SECONDS)

    def seconds(
        self, dataflow: Dataflow, sources: Sequence[SourceInputs], checkpoints: Checkpoints | None
    ) -> float | None:
        """See `Job.idle_for`."""
        if checkpoints is not None and checkpoints.in_progress:
            return 0.0
        moments = [dataflow.next_timer(), None if checkpoints is None else checkpoints.next_due]
        timers = (seconds_until(self._clock, moment) for moment in moments if moment is not None)
        return shortest([*timers, *(source.available_in() for source in sources)])
