"""Live progress of running jobs on a terminal: one line on stderr that is written over; nothing in a pipe."""

from __future__ import annotations

import os
import shutil
import stat
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from runtime.local.job import Job
from sqlengine.amounts import human_bytes, human_count
from sqlengine.display import watermark_text

__all__ = ["ERASE_LINE", "Progress", "progress_line", "rows_through"]

REDRAW_SECONDS = 0.1
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

    def watch(self, job: Job) -> None:
        """Follow a job from now on."""
        if self._on:
            self._rates[id(job)] = _Rates()
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
