"""Window arithmetic: which windows a time falls in, and when a window may be closed. Whole columns, milliseconds.

TIMESTAMP columns are wall-clock times without a zone. TIMESTAMP_LTZ columns are instants: their windows are computed
on the wall clock of the session's zone (daylight saving included), and window bounds are wall-clock times. So a
window that spans the repeated hour holds an hour more, and windows inside the skipped hour stay empty. Source: Flink
2.3, "Time zone" and `TimeWindowUtil`.
"""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa

from runtime.core.clock import MAX_WATERMARK, MIN_WATERMARK
from runtime.core.errors import InternalError
from runtime.core.types import DataType
from runtime.expr.time_range import limits, out_of_range
from runtime.expr.zones import instant_to_local, local_to_instant
from runtime.kernels.arrow_buffers import fixed_array, fixed_values
from runtime.plan.windows import CumulateWindow, HopWindow, TumbleWindow, WindowSpec

__all__ = [
    "SliceAssigner",
    "firing_times",
    "milliseconds",
    "timestamps",
    "wall_milliseconds",
    "window_time_column",
    "windows_of",
]

_UTC = frozenset({"UTC", "Etc/UTC", "Z", "GMT", "Etc/GMT", "Etc/UCT", "UCT", "Zulu"})


def milliseconds(column: pa.Array) -> np.ndarray:
    """A timestamp column as int64 milliseconds since the epoch, rounded down; undefined at NULL."""
    values = fixed_values(column)
    match column.type.unit:
        case "ms":
            return values.astype(np.int64, copy=False)
        case "us":
            return values // 1000
        case "ns":
            return values // 1_000_000
        case _:
            return values * 1000


def wall_milliseconds(column: pa.Array, zone: str | None) -> np.ndarray:
    """The times on the wall clock of the zone (None: the column has no zone and is taken as it is)."""
    if zone is None or zone in _UTC or column.type.tz is None:
        return milliseconds(column)
    return instant_to_local(milliseconds(column), zone, "ms")


def instants(wall: np.ndarray, zone: str | None) -> np.ndarray:
    """Wall-clock milliseconds as instants: in the skipped hour the first instant after it, in the repeated one the
    later."""
    if zone is None or zone in _UTC or len(wall) == 0:
        return wall
    return local_to_instant(np.ascontiguousarray(wall), zone, "ms", ambiguous="latest", skipped="first")


def wall_bounds(watermark: int, zone: str | None) -> tuple[int, int]:
    """The last wall-clock time whose instant a watermark has reached lies between these two: a day apart while the
    clock shows an hour that it will show again, else equal."""
    if zone is None or zone in _UTC:
        return watermark, watermark
    high = int(wall_milliseconds(pa.array([watermark], pa.timestamp("ms", tz="UTC")), zone)[0])
    return (high if int(instants(np.array([high]), zone)[0]) == watermark else high - 86_400_000), high


def firing_times(ends: np.ndarray, zone: str | None) -> np.ndarray:
    """The watermark at which windows that end at wall-clock times `ends` close: the instant of their last
    millisecond."""
    return instants(ends - 1, zone)


def timestamps(wall: np.ndarray, type_: DataType) -> pa.Array:
    """Wall-clock milliseconds as a column of a timestamp type.

    Raises:
        ExpressionError: E2103 for the bound of a window that is out of range.
    """
    arrow = type_.arrow
    per_milli = 1000 if arrow.unit == "us" else 1_000_000
    low, high = limits(type_)
    if len(wall) and (wall.min() < low // per_milli or wall.max() > high // per_milli):
        raise out_of_range(type_)
    return fixed_array(wall * per_milli, arrow, None)


def window_time_column(ends: np.ndarray, type_: DataType, zone: str | None) -> pa.Array:
    """The window_time of windows by their wall-clock ends: the last millisecond, an instant where the type is
    TIMESTAMP_LTZ."""
    return timestamps(firing_times(ends, zone) if type_.arrow.tz is not None else ends - 1, type_)


class SliceAssigner:
    """TUMBLE, HOP and CUMULATE by slices: the widest intervals that every window is made of.

    `slice_size` divides all window bounds; a row belongs to one slice, a window is a run of slices.
    """

    def __init__(self, window: WindowSpec) -> None:
        match window:
            case TumbleWindow(size=size, offset=offset):
                self.slice_size, self.size, self._step, self.offset = size, size, size, offset
                self.cumulative = False
            case HopWindow(slide=slide, size=size, offset=offset):
                self.slice_size, self.size, self._step, self.offset = math.gcd(slide, size), size, slide, offset
                self.cumulative = False
            case CumulateWindow(step=step, size=size, offset=offset):
                self.slice_size, self.size, self._step, self.offset = step, size, step, offset
                self.cumulative = True
            case _:
                raise InternalError(f"{type(window).__name__} has no slices")

    @property
    def single(self) -> bool:
        """Whether every window is exactly one slice."""
        return self.size == self.slice_size

    def slice_ends(self, times: np.ndarray) -> np.ndarray:
        """The end of the slice of each time."""
        return _floor(times, self.offset, self.slice_size) + self.slice_size

    def last_ends(self, slice_ends: np.ndarray) -> np.ndarray:
        """The end of the last window that each slice belongs to; with slides longer than the size possibly before the
        slice's end, then it belongs to none."""
        if self.cumulative:
            return _floor(slice_ends - 1, self.offset, self.size) + self.size
        return _floor(slice_ends - self.slice_size, self.offset, self._step) + self.size

    def window_ends(
        self, slice_ends: np.ndarray, after: int | None = None, until: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The windows of each slice that end after `after` and not after `until` (all when not given): `(index into
        slice_ends, window end)`, ends ascending."""
        last = self.last_ends(slice_ends)
        first = slice_ends if after is None else np.maximum(slice_ends, after + 1)
        if until is not None:
            last = last + np.minimum(until - last, 0) // self._step * self._step
        count = np.maximum((last - first) // self._step + 1, 0)
        index = np.repeat(np.arange(len(slice_ends), dtype=np.int64), count)
        back = np.arange(len(index), dtype=np.int64) - np.repeat(np.cumsum(count) - count, count)
        return index, last[index] - (count[index] - 1 - back) * self._step

    def starts(self, ends: np.ndarray) -> np.ndarray:
        """The start of the window with each end."""
        return _floor(ends - 1, self.offset, self.size) if self.cumulative else ends - self.size


def windows_of(window: WindowSpec, times: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Each time once per window it falls in: `(row, start, end)`, rows ascending, then by end."""
    assigner = SliceAssigner(window)
    index, ends = assigner.window_ends(assigner.slice_ends(times))
    return index, assigner.starts(ends), ends


def _floor(times: np.ndarray, offset: int, size: int) -> np.ndarray:
    """The latest multiple of `size`, shifted by `offset`, not after each time; right for negative times too."""
    return times - np.mod(times - offset, size)


def closed(firing: np.ndarray, watermark: int) -> np.ndarray:
    """Whether windows with these firing times are closed at a watermark; nothing is before the first one."""
    if watermark == MIN_WATERMARK:
        return np.zeros(len(firing), np.bool_)
    return firing <= watermark


def closed_count(ends: np.ndarray, watermark: int, zone: str | None) -> int:
    """How many of the ascending ends are those of closed windows."""
    if watermark == MIN_WATERMARK:
        return 0
    # No zone is more than 15 hours from UTC: only ends in that span need their instant looked up.
    span = 15 * 3_600_000
    near = (
        len(ends)
        if watermark > MAX_WATERMARK - 2 * span
        else int(np.searchsorted(ends, watermark + span, side="right"))
    )
    sure = int(np.searchsorted(ends, max(watermark, MIN_WATERMARK + 2 * span) - span, side="right"))
    return sure + int(np.count_nonzero(firing_times(ends[sure:near], zone) <= watermark))


__all__ += ["closed", "closed_count", "instants", "wall_bounds"]
