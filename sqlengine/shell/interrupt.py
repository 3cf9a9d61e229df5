"""Ctrl-C ends the statement at hand, and not the shell."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import Any

from runtime.core.cancellation import Cancellation
from runtime.local.job import Job
from sqlengine.results.result import Result
from sqlengine.terminal.progress import ERASE_LINE

__all__ = ["StatementInterrupt"]


class StatementInterrupt:
    """While entered, the first Ctrl-C asks the job or the result at hand to stop after its epoch.

    Where nothing runs, and for a second signal, it raises KeyboardInterrupt. Jobs in the background go on.
    """

    def __init__(self) -> None:
        self.seen = False
        self.job: Job | None = None
        self._cancellation: Cancellation | None = None
        self.result: Result | None = None
        self._before: Any = None

    def watch(self, job: Job) -> None:
        """The job of the statement at hand."""
        self.job = job
        # A view that is kept has another one, so that nobody stops it.
        self._cancellation = job.cancellation

    def __enter__(self) -> StatementInterrupt:
        self.seen, self.job, self.result = False, None, None
        self._before = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, *exception: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        first, self.seen = not self.seen, True
        if sys.stdout.isatty():
            # The terminal has shown ^C. Past the streams of Python: what was interrupted may be writing to them.
            os.write(sys.stdout.fileno(), ERASE_LINE.encode())
        running = self.result is not None and self.result.is_running
        job = self.job if self.job is not None and self.job.status in ("CREATED", "RUNNING") else None
        if job is not None and job.cancellation is not self._cancellation:
            job = None
        if not first or (job is None and not running):
            raise KeyboardInterrupt
        if job is not None:
            job.cancel()
        if running and self.result is not None:
            self.result.cancel()
