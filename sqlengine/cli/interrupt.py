"""Ctrl-C and SIGTERM: what runs ends cleanly."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from runtime.core.cancellation import Cancellation
from runtime.local.job import Job
from sqlengine.results.result import Result
from sqlengine.terminal.progress import ERASE_LINE

__all__ = ["Interrupt"]

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupt:
    """While entered, the first signal asks the jobs and the result at hand to stop after their epoch.

    Where nothing runs, while rows are printed that are all there, and for a second signal, it raises KeyboardInterrupt.

    `signal` is the number of the first one. The exit status of a shell for it is 128 more.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self.at_hand: Result | None = None
        self.goes_on: Callable[[Job], bool] = lambda job: False
        """Whether a job stops by itself, and goes on in a later process: nobody asks it to."""
        self._jobs: list[tuple[Job, Cancellation]] = []
        self._before: dict[int, Any] = {}

    @property
    def seen(self) -> bool:
        return self.signal is not None

    @property
    def exit_status(self) -> int:
        return 128 + (self.signal or signal.SIGINT)

    def watch(self, job: Job) -> None:
        """Stop this job, too."""
        self._jobs = [known for known in self._jobs if _runs(*known)]
        self._jobs.append((job, job.cancellation))

    def __enter__(self) -> Interrupt:
        self._before = {number: signal.signal(number, self._handle) for number in SIGNALS}
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        first, self.signal = not self.seen, self.signal or number
        if sys.stderr.isatty():
            # The terminal has shown ^C. Past the streams of Python: what was interrupted may be writing to them.
            os.write(sys.stderr.fileno(), ERASE_LINE.encode())
        running = [
            cancellation for job, cancellation in self._jobs if _runs(job, cancellation) and not self.goes_on(job)
        ]
        result = self.at_hand if self.at_hand is not None and self.at_hand.is_running else None
        if not first or (self.at_hand is not None and result is None) or not (running or result):
            raise KeyboardInterrupt
        for cancellation in running:
            cancellation.request()
        if result is not None:
            result.cancel()


def _runs(job: Job, cancellation: Cancellation) -> bool:
    """Whether a job would stop; a view that is kept has another cancellation, so that nobody stops it."""
    return job.status in ("CREATED", "RUNNING") and job.cancellation is cancellation
