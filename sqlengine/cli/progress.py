"""Live progress of a job on a terminal: one line on stderr that is written over; nothing in a pipe."""

from __future__ import annotations

import datetime as dt
import sys
import time
from typing import TextIO

from runtime.core.clock import MAX_WATERMARK, MIN_WATERMARK
from runtime.local.job import Job

__all__ = ["Progress", "human_bytes", "human_count"]

REDRAW_SECONDS = 0.1


def human_count(number: float) -> str:
    """`999`, `12.3k`, `4.56M`."""
    for limit, divisor, unit in ((1e3, 1, ""), (1e6, 1e3, "k"), (1e9, 1e6, "M")):
        if abs(number) < limit:
            return f"{number / divisor:.0f}" if not unit else f"{number / divisor:.3g}{unit}"
    return f"{number / 1e9:.3g}G"


def human_bytes(number: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if number < 1024:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.2f} GiB"


def watermark_text(watermark: int) -> str:
    if watermark == MIN_WATERMARK:
        return "-"
    if watermark == MAX_WATERMARK:
        return "end"
    seconds, millis = divmod(watermark, 1000)
    moment = dt.datetime(1970, 1, 1) + dt.timedelta(seconds=seconds)
    return moment.strftime("%Y-%m-%d %H:%M:%S") + (f".{millis:03d}" if millis else "")


class Progress:
    """Draws a job's figures after its epochs, at most ten times a second, while it runs in the foreground."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._on = self._stream.isatty()
        self._started = time.monotonic()
        self._drawn_at = 0.0
        self._shown = False

    def watch(self, job: Job) -> None:
        if self._on:
            job.on_epoch = self._draw

    def _draw(self, job: Job) -> None:
        now = time.monotonic()
        if now - self._drawn_at < REDRAW_SECONDS:
            return
        self._drawn_at = now
        self._stream.write("\r\x1b[2K" + progress_line(job, now - self._started))
        self._stream.flush()
        self._shown = True

    def done(self) -> None:
        """Wipe the line."""
        if self._shown:
            self._stream.write("\r\x1b[2K")
            self._stream.flush()
            self._shown = False


def progress_line(job: Job, seconds: float) -> str:
    """epoch, rows/s in and out, watermark, state."""
    flow = job.dataflow
    rows_in = sum(v.rows_in for v in flow.vertices if v.operator is None)
    written = sum(s.rows_written for s in flow.sinks())
    rows_out = written or (flow.vertices[-1].rows_out if flow.vertices else 0)
    rate = max(seconds, 1e-6)
    return (
        f"epoch {flow.epoch} | in {human_count(rows_in)} ({human_count(rows_in / rate)}/s) | out {human_count(rows_out)} ({human_count(rows_out / rate)}/s)"
        f" | watermark {watermark_text(flow.watermark)} | state {human_count(flow.state_rows)} rows, {human_bytes(flow.state_bytes)}"
    )
