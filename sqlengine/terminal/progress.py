"""Live progress of running jobs on a terminal: one line on stderr that is written over; nothing in a pipe."""

from __future__ import annotations

import os
import shutil
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from runtime.core.cancellation import watching
from runtime.local.job import Job
from sqlengine.text.amounts import human_bytes, human_count
from sqlengine.text.cells import watermark_text

__all__ = ["ERASE_LINE", "Progress", "StatementProgress", "progress_line", "rows_through", "statement_line"]

REDRAW_SECONDS = 0.1
AFTER_SECONDS = 1.0
RATE_SECONDS = 1.0
ERASE_LINE = "\r\x1b[2K"


def _is_pipe(stream: TextIO) -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError):  # not a stream of the operating system
        return False


class _Rates:
    """Rows a second, in and out, of the last second or so."""

    def __init__(self) -> None:
        self._marks = [(time.monotonic(), 0, 0)]

    def add(self, now: float, rows_in: int, rows_out: int) -> tuple[float, float]:
        self._marks.append((now, rows_in, rows_out))
        while len(self._marks) > 2 and now - self._marks[1][0] > RATE_SECONDS:
            del self._marks[0]
        then, in_then, out_then = self._marks[0]
        seconds = max(now - then, 1e-6)
        return (rows_in - in_then) / seconds, (rows_out - out_then) / seconds


class _CleanStream:
    """A stream of the terminal before whose every text the progress line is wiped: connectors write to it, too."""

    def __init__(self, stream: TextIO, progress: Progress) -> None:
        self._stream = stream
        self._progress = progress

    def write(self, text: str) -> int:
        with self._progress.wiped():
            count = self._stream.write(text)
            self._stream.flush()
            return count

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class Progress:
    """Draws the figures of the job that has just finished an epoch, at most ten times a second. Thread-safe.

    To be entered: meanwhile what is written to stdout on a terminal wipes the line first. Nothing is drawn when stdout
    is a pipe, because whatever stands at its other end may write to the same terminal.
    """

    def __init__(self) -> None:
        self._stream = sys.stderr
        self._stdout = sys.stdout
        self._on = self._stream.isatty() and not _is_pipe(sys.stdout)
        self._lock = threading.Lock()
        self._rates: dict[int, _Rates] = {}
        self._drawn_at = 0.0
        self._shown = False

    def __enter__(self) -> Progress:
        if self._on and self._stdout.isatty():
            sys.stdout = _CleanStream(self._stdout, self)  # type: ignore[assignment]
        return self

    def __exit__(self, *exception: object) -> None:
        self.done()
        # A job that is watched may go on: nobody would wipe its line any more.
        self._on = False
        sys.stdout = self._stdout

    @contextmanager
    def statement(self) -> Iterator[None]:
        """While a statement is carried out in this thread: its line is shown, once it has taken a second."""
        if not self._on:
            yield
            return
        with watching(StatementProgress(self._show)):
            yield
        self.done()

    def _show(self, line: str) -> None:
        with self._lock:
            width = shutil.get_terminal_size().columns
            self._stream.write(ERASE_LINE + line[: max(20, width - 3)])
            self._stream.flush()
            self._shown = True

    def watch(self, job: Job) -> None:
        """Follow a job from now on."""
        if self._on:
            self._rates[id(job)] = _Rates()
            # A job whose input ends is one that the statement waits for: it is shown as `statement` says.
            if not job.bounded:
                job.on_epoch = self._draw

    def _draw(self, job: Job) -> None:
        now = time.monotonic()
        with self._lock:
            if now - self._drawn_at < REDRAW_SECONDS or not self._on:
                return
            self._drawn_at = now
            rows_in, rows_out = rows_through(job)
            line = progress_line(job, *self._rates[id(job)].add(now, rows_in, rows_out))
            width = shutil.get_terminal_size().columns
            # A terminal that shows ^C behind it must not begin another line with that.
            self._stream.write(ERASE_LINE + line[: max(20, width - 3)])
            self._stream.flush()
            self._shown = True

    @contextmanager
    def wiped(self) -> Iterator[None]:
        """Without the line on the terminal, for the time that something else is printed."""
        with self._lock:
            self._wipe()
            yield

    def _wipe(self) -> None:
        if self._shown:
            self._stream.write(ERASE_LINE)
            self._stream.flush()
            self._shown = False

    def done(self) -> None:
        """Wipe the line."""
        with self._lock:
            self._wipe()


class StatementProgress:
    """Shows how far the job at work has come, once the statement has taken `AFTER_SECONDS`, ten times a second. To be
    called when work looks whether it is to stop (`runtime.core.cancellation.watching`): also within a heavy epoch.

    Args:
        show: takes the line.
        clock: seconds.
    """

    def __init__(self, show: Callable[[str], object], clock: Callable[[], float] = time.monotonic) -> None:
        self._show = show
        self._clock = clock
        self._began = clock()
        self._next = self._began + AFTER_SECONDS
        self._totals: dict[int, int | None] = {}

    def __call__(self, work: object) -> None:
        """`work` goes on."""
        now = self._clock()
        if now < self._next:
            return
        self._next = now + REDRAW_SECONDS
        if not isinstance(work, Job):
            # It is planned, goes on from a checkpoint, or its rows are put in order.
            self._show(f"at work | {now - self._began:.0f} s | Ctrl-C stops it")
            return
        if id(work) not in self._totals:
            self._totals[id(work)] = total_rows(work)
        self._show(statement_line(work, self._totals[id(work)], now - self._began))


def total_rows(job: Job) -> int | None:
    """How many rows the sources will give; None where one of them does not know."""
    found = [source.table.statistics() for source in job.dataflow.sources]
    if not found or not all(s.counted and s.rows is not None for s in found):
        return None
    return round(sum(s.rows or 0 for s in found))


def statement_line(job: Job, total: int | None, seconds: float) -> str:
    """What a statement that is waited for has done after so many seconds."""
    rows_in, rows_out = rows_through(job)
    of = "" if total is None or total < rows_in else f" of {human_count(total)}"
    return (
        f"{job.name} | epoch {job.dataflow.epoch} | in {human_count(rows_in)}{of} ({human_count(rows_in / seconds)}/s)"
        f" | out {human_count(rows_out)} | {seconds:.0f} s | Ctrl-C stops it"
    )


def rows_through(job: Job) -> tuple[int, int]:
    """Rows that the sources gave so far, and rows that the sinks took, or a query gave."""
    flow = job.dataflow
    rows_in = sum(v.rows_in for v in flow.vertices if v.operator is None)
    sinks = flow.sinks()
    return rows_in, sum(s.rows_written for s in sinks) if sinks else flow.vertices[-1].rows_out


def progress_line(job: Job, in_per_second: float, out_per_second: float) -> str:
    """Name, epoch, rows and rows a second in and out, watermark, state."""
    flow = job.dataflow
    rows_in, rows_out = rows_through(job)
    return (
        f"{job.name} | epoch {flow.epoch} | in {human_count(rows_in)} ({human_count(in_per_second)}/s)"
        f" | out {human_count(rows_out)} ({human_count(out_per_second)}/s) | watermark {watermark_text(flow.watermark)}"
        f" | state {human_count(flow.state_rows)} rows, {human_bytes(flow.state_bytes)}"
    )
