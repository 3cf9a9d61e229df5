"""Ends of frames of rows: `row_interval(5)`, `UNBOUNDED_RANGE`, `CURRENT_ROW`."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CURRENT_RANGE", "CURRENT_ROW", "UNBOUNDED_RANGE", "UNBOUNDED_ROW", "FrameBound", "row_interval"]


@dataclass(frozen=True)
class FrameBound:
    """An end of a frame, or a number of rows: `rows` says whether it counts rows, None that it fits both."""

    sql: str
    rows: bool | None
    python: str


UNBOUNDED_ROW = FrameBound("UNBOUNDED", True, "UNBOUNDED_ROW")
"""All rows before (or after) a row, for `Over`."""
UNBOUNDED_RANGE = FrameBound("UNBOUNDED", False, "UNBOUNDED_RANGE")
"""All rows before (or after) a row, and those that are equal to it in order."""
CURRENT_ROW = FrameBound("CURRENT ROW", True, "CURRENT_ROW")
"""Up to the row itself."""
CURRENT_RANGE = FrameBound("CURRENT ROW", False, "CURRENT_RANGE")
"""Up to the row itself and those that are equal to it in order."""


def row_interval(rows: int) -> FrameBound:
    """An interval of rows: for `Over.preceding` and `following`, and the size of `Tumble` and `Slide`. The same as
    `lit(rows).rows`."""
    return FrameBound(str(rows), True, f"row_interval({rows})")
