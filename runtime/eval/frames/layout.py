"""Rows sorted by partition and order, and which of them the frame of each row spans."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from runtime.expr.nodes import Frame, FrameBound, FrameExclusion

__all__ = ["FrameLayout", "Ranges", "frame_bounds", "lay_out", "without"]

Ranges = tuple[tuple[np.ndarray, np.ndarray], ...]


@dataclass(frozen=True, slots=True)
class FrameLayout:
    """Positions of sorted rows, int64 per row: `segment` numbers the partitions 0, 1, ... ascending; [start, end) is
    the row's partition, [peer_start, peer_end) the rows of it that are equal in the order."""

    segment: np.ndarray
    start: np.ndarray
    end: np.ndarray
    peer_start: np.ndarray
    peer_end: np.ndarray

    def __len__(self) -> int:
        return len(self.segment)

    @property
    def segments(self) -> int:
        return int(self.segment[-1]) + 1 if len(self.segment) else 0


def lay_out(partitions: np.ndarray, new_peer: np.ndarray) -> FrameLayout:
    """The layout of rows whose partitions stand together; `new_peer` is true where a row differs in order from the
    one before."""
    count = len(partitions)
    begins = np.ones(count, np.bool_)
    begins[1:] = partitions[1:] != partitions[:-1]
    segment, start, end = _runs(begins)
    _, peer_start, peer_end = _runs(begins | new_peer)
    return FrameLayout(segment, start, end, peer_start, peer_end)


def _runs(begins: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The number, start and end of the run that each row is in; `begins` is true at first rows."""
    heads = np.flatnonzero(begins)
    number = np.cumsum(begins) - 1
    ends = np.append(heads[1:], len(begins))
    return number, heads[number], ends[number]


def frame_bounds(
    layout: FrameLayout, frame: Frame | None, keys: np.ndarray | None, missing: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The first position of each row's frame and the one after its last; an empty frame has both equal.

    Args:
        layout: the rows.
        frame: None means from the partition's start to the last peer.
        keys: for RANGE with offsets the numbers by which the rows are ordered, ascending within a partition.
        missing: rows whose key is NULL: an offset from NULL reaches its peers only.
    """
    here = np.arange(len(layout), dtype=np.int64)
    if frame is None:
        return layout.start, layout.peer_end
    lower = _bound(layout, frame, frame.lower, frame.lower_offset, here, keys, missing, upper=False)
    upper = _bound(layout, frame, frame.upper, frame.upper_offset, here, keys, missing, upper=True)
    lower = np.clip(lower, layout.start, layout.end)
    return lower, np.maximum(np.clip(upper, layout.start, layout.end), lower)


def without(
    exclude: FrameExclusion | None, layout: FrameLayout, rows: np.ndarray, low: np.ndarray, high: np.ndarray
) -> Ranges:
    """What is left of the frames [low, high) of the rows at positions `rows`: ranges of positions, in their order; one
    that is empty has both ends equal."""
    if exclude is None:
        return ((low, high),)
    if exclude is FrameExclusion.CURRENT_ROW:
        first, last = rows, rows + 1
    else:
        first, last = layout.peer_start[rows], layout.peer_end[rows]
    before = (low, np.clip(first, low, high))
    after = (np.clip(last, low, high), high)
    if exclude is not FrameExclusion.TIES:
        return before, after
    return before, (np.clip(rows, low, high), np.clip(rows + 1, low, high)), after


def _bound(
    layout: FrameLayout,
    frame: Frame,
    bound: FrameBound,
    offset: float | None,
    here: np.ndarray,
    keys: np.ndarray | None,
    missing: np.ndarray | None,
    *,
    upper: bool,
) -> np.ndarray:
    if bound is FrameBound.UNBOUNDED_PRECEDING:
        return layout.start
    if bound is FrameBound.UNBOUNDED_FOLLOWING:
        return layout.end
    after = int(upper)
    if bound is FrameBound.CURRENT_ROW:
        if frame.rows:
            return here + after
        return layout.peer_end if upper else layout.peer_start
    distance = (offset or 0) * (-1 if bound is FrameBound.PRECEDING else 1)
    if frame.rows:
        return here + int(distance) + after
    if frame.groups:
        return _groups_away(layout, here, int(distance), after)
    assert keys is not None
    found = _search(layout, keys, keys + distance, after_equal=upper)
    if missing is None:
        return found
    return np.where(missing, layout.peer_end if upper else layout.peer_start, found)


def _groups_away(layout: FrameLayout, here: np.ndarray, distance: int, after: int) -> np.ndarray:
    """Where the group of equal rows begins (`after`: ends) that is so many groups after the one of each row; positions
    of other partitions are clipped by the caller."""
    heads = layout.peer_start == here
    starts = np.append(np.flatnonzero(heads), len(layout))
    number = np.cumsum(heads) - 1
    return starts[np.clip(number + distance + after, 0, len(starts) - 1)]


def _search(layout: FrameLayout, keys: np.ndarray, wanted: np.ndarray, *, after_equal: bool) -> np.ndarray:
    """For each row the position in its partition before (or after) all keys equal to `wanted`.

    Rows and requests are sorted together by (partition, key), requests before or after equal rows: the number of rows
    before a request is its position.
    """
    count = len(keys)
    if count and keys.dtype.kind == "i" and wanted.dtype.kind == "i":
        low, high = int(keys.min()), int(keys.max())
        span = high - low + 3
        if span * layout.segments < 1 << 62:
            # One number per (partition, key); a request beyond all keys stays within its partition.
            apart = layout.segment * span + 1 - low
            side = "right" if after_equal else "left"
            return np.searchsorted(keys + apart, np.clip(wanted, low - 1, high + 1) + apart, side=side)
    is_row = np.concatenate((np.ones(count, np.bool_), np.zeros(count, np.bool_)))
    tie = ~is_row if after_equal else is_row
    order = np.lexsort((tie, np.concatenate((keys, wanted)), np.concatenate((layout.segment, layout.segment))))
    before = np.cumsum(is_row[order])
    found = np.empty(count, np.int64)
    requests = order >= count
    found[order[requests] - count] = before[requests]
    return found
