"""TOP: the jobs and their operators: rates, time, state, and which operator holds the others back."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass

from runtime.core.clock import MAX_WATERMARK, MIN_WATERMARK
from runtime.local.job import Job
from runtime.plan.identity import short_kind
from sqlengine.database.session import Session
from sqlengine.shell.grid import GridColumn, Line, body_line, frame_of, measured
from sqlengine.terminal.progress import rows_through
from sqlengine.text.amounts import human_bytes, human_count

__all__ = ["Reading", "human_time", "lag_text", "pressure", "top_lines"]

BUSY_SHARE = 0.9
WARM_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Reading:
    """The counters of an operator, or a job, at one time."""

    rows_in: int
    rows_out: int
    busy_seconds: float


def human_time(milliseconds: float) -> str:
    """`12 ms`, `4.0 s`, `3 min`, `5 h`, `12 d`."""
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1000
    for limit, unit, name in ((60, 1, "s"), (3600, 60, "min"), (172_800, 3600, "h")):
        if seconds < limit:
            return f"{seconds / unit:.1f} {name}" if name == "s" else f"{seconds / unit:.0f} {name}"
    return f"{seconds / 86_400:,.0f} d"


def lag_text(watermark: int, now: int) -> str:
    """How far event time is behind the clock, in milliseconds; `-` before the first watermark, `end` after the input."""
    if watermark == MIN_WATERMARK:
        return "-"
    return "end" if watermark == MAX_WATERMARK else human_time(max(0, now - watermark))


def pressure(busy: float) -> str:
    """What a busy share of an operator means for the ones before it: rows wait when it has no time left."""
    return "high" if busy >= BUSY_SHARE else "some" if busy >= WARM_SHARE else "ok"


def top_lines(session: Session, before: MutableMapping[str, Reading], seconds: float) -> list[Line]:
    """The screen. `before` holds the counters of the last call and gets those of this one; `seconds` have passed."""
    jobs: list[tuple[str, Job]] = [(r.id, r.job) for r in session.jobs.jobs.values()]
    jobs += [(view.job.name, view.job) for view in session.views.up_to_date()]
    jobs.sort(key=lambda pair: pair[1].status not in ("RUNNING", "CREATED"))
    now = session.clock.now()
    rows: list[tuple[str, ...]] = []
    styles: list[str] = []
    for name, job in jobs:
        flow = job.dataflow
        vertices = list(flow.vertices)
        rows_in, rows_out = rows_through(job)
        busy = [
            _share(before, f"{name}/{v.name}", Reading(v.rows_in, v.rows_out, v.busy_seconds), seconds)
            for v in vertices
        ]
        whole = _share(before, name, Reading(rows_in, rows_out, sum(v.busy_seconds for v in vertices)), seconds)
        status = job.status.lower()
        live = job.status in ("RUNNING", "CREATED")
        rows.append(
            (
                name,
                status,
                *_figures(rows_in, rows_out, whole, lag_text(flow.watermark, now), flow.state_rows, flow.state_bytes),
                pressure(whole[2]) if live else "",
            )
        )
        styles.append("header" if live else "note")
        if not live:
            continue
        for vertex, share in zip(vertices, busy, strict=True):
            size = None if vertex.operator is None else vertex.operator.state_size
            rows.append(
                (
                    f"  {short_kind(vertex.node)}",
                    "",
                    *_figures(
                        vertex.rows_in,
                        vertex.rows_out,
                        share,
                        lag_text(vertex.watermark, now),
                        0 if size is None else size.rows,
                        0 if size is None else size.bytes,
                    ),
                    pressure(share[2]),
                )
            )
            styles.append("")
    columns = [GridColumn(n, right=i > 1, flexible=i == 0) for i, n in enumerate(_COLUMNS)]
    running = sum(style == "header" for style in styles)
    title: Line = [("bold", f"{running} running, {len(jobs) - running} ended")]
    if not jobs:
        return [title, [("note", "INSERT INTO .. SELECT starts a job, CREATE MATERIALIZED VIEW another one")]]
    columns = measured(columns, rows, 40)
    frame = frame_of("ascii")
    lines = [title, [("header", _bare(body_line(columns, _COLUMNS, frame)))]]
    return lines + [[(style, _bare(body_line(columns, row, frame)))] for style, row in zip(styles, rows, strict=True)]


_COLUMNS = ("job", "status", "in", "in/s", "out", "out/s", "busy", "lag", "state", "bytes", "pressure")


def _figures(
    rows_in: int, rows_out: int, share: tuple[float, float, float], lag: str, state_rows: int, state_bytes: int
) -> tuple[str, ...]:
    in_rate, out_rate, busy = share
    return (
        human_count(rows_in),
        human_count(in_rate),
        human_count(rows_out),
        human_count(out_rate),
        f"{min(busy, 1) * 100:.0f}%",
        lag,
        human_count(state_rows),
        human_bytes(state_bytes),
    )


def _share(before: MutableMapping[str, Reading], key: str, now: Reading, seconds: float) -> tuple[float, float, float]:
    """Rows a second in and out and the busy share since the last reading; nothing at the first one."""
    last = before.get(key)
    before[key] = now
    if last is None or seconds <= 0:
        return 0.0, 0.0, 0.0
    return (
        (now.rows_in - last.rows_in) / seconds,
        (now.rows_out - last.rows_out) / seconds,
        (now.busy_seconds - last.busy_seconds) / seconds,
    )


def _bare(line: Line) -> str:
    """A line of the grid without its bars."""
    return "".join(text for style, text in line if style != "rule").rstrip()
