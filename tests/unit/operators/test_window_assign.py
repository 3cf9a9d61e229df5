"""Window arithmetic against the worked vectors of Flink's documentation and against a naive search."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest

from runtime.operators.window_assign import (
    SliceAssigner,
    firing_times,
    instants,
    milliseconds,
    wall_bounds,
    wall_milliseconds,
    windows_of,
)
from runtime.plan.windows import CumulateWindow, HopWindow, TumbleWindow, WindowSpec

MINUTE = 60_000


def at(text: str) -> int:
    return int(dt.datetime.fromisoformat(text + "+00:00").timestamp() * 1000)


@pytest.mark.parametrize(
    ("offset", "start"),
    [
        (-16, "2021-06-29T23:54:00"),
        (-6, "2021-06-29T23:54:00"),
        (4, "2021-06-29T23:54:00"),
        (-4, "2021-06-29T23:56:00"),
        (6, "2021-06-29T23:56:00"),
        (16, "2021-06-29T23:56:00"),
        (0, "2021-06-30T00:00:00"),
    ],
)
def test_offsets_as_documented(offset: int, start: str) -> None:
    _, starts, ends = windows_of(TumbleWindow(10 * MINUTE, offset * MINUTE), np.array([at("2021-06-30T00:00:04")]))
    assert starts.tolist() == [at(start)]
    assert ends.tolist() == [at(start) + 10 * MINUTE]


@pytest.mark.parametrize(
    "window",
    [
        TumbleWindow(7, 3),
        HopWindow(2, 6, 1),
        HopWindow(4, 6),
        HopWindow(5, 3),
        CumulateWindow(3, 12, -2),
        HopWindow(3, 3),
    ],
)
def test_every_window_that_holds_the_time(window: WindowSpec) -> None:
    times = np.arange(-40, 40)
    size = window.size  # type: ignore[attr-defined]
    step = {TumbleWindow: "size", HopWindow: "slide", CumulateWindow: "step"}[type(window)]
    step = getattr(window, step)
    wanted = set()
    for t in times.tolist():
        for n in range(-200, 200):
            if isinstance(window, CumulateWindow):
                whole = window.offset + n * size
                wanted |= {(t, whole, whole + k) for k in range(step, size + 1, step) if whole <= t < whole + k}
            elif window.offset + n * step <= t < window.offset + n * step + size:  # type: ignore[attr-defined]
                wanted.add((t, window.offset + n * step, window.offset + n * step + size))  # type: ignore[attr-defined]
    rows, starts, ends = windows_of(window, times)
    assert len(rows) == len(wanted)
    assert set(zip(times[rows].tolist(), starts.tolist(), ends.tolist(), strict=True)) == wanted


def test_wall_clock_and_back_over_daylight_saving() -> None:
    zone = ZoneInfo("Europe/Berlin")
    instants = [
        dt.datetime(2024, 3, 31, 0, 59, 59, tzinfo=dt.UTC),
        dt.datetime(2024, 3, 31, 1, 0, tzinfo=dt.UTC),
        dt.datetime(2024, 10, 27, 0, 30, tzinfo=dt.UTC),
        dt.datetime(2024, 10, 27, 1, 30, tzinfo=dt.UTC),
    ]
    wall = wall_milliseconds(pa.array(instants, pa.timestamp("us", tz="UTC")), "Europe/Berlin")
    assert wall.tolist() == [at(i.astimezone(zone).replace(tzinfo=None).isoformat()) for i in instants]
    ends = np.array(
        [at("2024-03-31T03:00:00"), at("2024-03-31T04:00:00"), at("2024-10-27T02:00:00"), at("2024-10-27T03:00:00")]
    )
    assert firing_times(ends, "Europe/Berlin").tolist() == [
        at("2024-03-31T01:00:00"),
        at("2024-03-31T02:00:00") - 1,
        at("2024-10-27T00:00:00") - 1,
        at("2024-10-27T02:00:00") - 1,
    ]


def test_times_are_rounded_down_before_the_epoch() -> None:
    assert milliseconds(pa.array([-1, -1000, -1001], pa.timestamp("us"))).tolist() == [-1, -1, -2]


@pytest.mark.parametrize(
    "window",
    [
        HopWindow(slide=7, size=21, offset=2),
        HopWindow(slide=4, size=6, offset=0),
        HopWindow(slide=9, size=5, offset=0),
        CumulateWindow(step=3, size=12, offset=1),
    ],
)
@pytest.mark.parametrize(("after", "until"), [(None, 10), (-4, None), (-15, 13), (5, 5), (6, 7)])
def test_window_ends_between_bounds_are_the_same_as_all_ends_filtered(
    window: WindowSpec, after: int | None, until: int | None
) -> None:
    assigner = SliceAssigner(window)
    slices = np.unique(assigner.slice_ends(np.arange(-30, 40)))
    index, ends = assigner.window_ends(slices)
    wanted = (ends > (-99 if after is None else after)) & (ends <= (99 if until is None else until))
    found_index, found_ends = assigner.window_ends(slices, after, until)
    assert found_index.tolist() == index[wanted].tolist()
    assert found_ends.tolist() == ends[wanted].tolist()


def test_wall_bounds_enclose_the_last_wall_time_that_a_watermark_has_reached() -> None:
    zone = "Europe/Berlin"
    for day in ("2024-03-31", "2024-10-27", "2024-07-01"):
        start = int(np.datetime64(day, "ms").astype(np.int64))
        walls = start + np.arange(-86_400_000, 2 * 86_400_000, 300_000)
        reached = instants(walls, zone)
        for watermark in range(start - 3_600_000, start + 5 * 3_600_000, 300_000):
            low, high = wall_bounds(watermark, zone)
            last = int(walls[reached <= watermark].max())
            assert low < last + 300_000 and last <= high
