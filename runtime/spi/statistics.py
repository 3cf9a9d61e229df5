"""What a source knows of its rows without reading them, for the optimizer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["ColumnStatistics", "TableStatistics"]


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """Statistics of one column; None is unknown.

    Args:
        distinct: number of different values without NULL.
        nulls: number of NULLs.
        low, high: the least and the greatest value, as Python values of the column's type.
        average_length: of a text, in characters.
        lifetime: the share of the table, in order of time, between the first and the last row of a value. Ids that
            come and go have a small one.
    """

    distinct: float | None = None
    nulls: float | None = None
    low: Any = None
    high: Any = None
    average_length: float | None = None
    lifetime: float | None = None


@dataclass(frozen=True, slots=True)
class TableStatistics:
    """Statistics of a table; None is unknown.

    Args:
        rows: number of rows.
        columns: statistics of columns, by name.
        counted: `rows` is the exact number of rows that are there now, not an estimate.
    """

    rows: float | None = None
    columns: tuple[tuple[str, ColumnStatistics], ...] = ()
    counted: bool = False

    def column(self, name: str) -> ColumnStatistics:
        """The statistics of one column; all unknown when there are none."""
        return next((known for given, known in self.columns if given == name), ColumnStatistics())
