"""How many values a column has."""

from __future__ import annotations

import math

from runtime.core.types import DataType, TypeRoot
from runtime.plan.estimates.positions import position_of
from runtime.spi.statistics import ColumnStatistics

__all__ = ["distinct_of", "drawn"]

_COUNTED = frozenset(
    {TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT, TypeRoot.DECIMAL, TypeRoot.DATE}
)
_SPARSE = 10.0
"""Numbers that lie further apart than this, per row, are no numbering of anything: their range tells nothing."""


def distinct_of(known: ColumnStatistics, type_: DataType, rows: float) -> float:
    """The values of a column of a table: as they were counted; else as many as its range has, where it has a number for
    some rows at least; else a guess."""
    if known.distinct is not None:
        return known.distinct
    if type_.root is TypeRoot.BOOLEAN:
        return min(rows, 2.0)
    low, high = position_of(known.low), position_of(known.high)
    if type_.root in _COUNTED and low is not None and high is not None:
        range_ = (high - low) * 10 ** (type_.scale if type_.root is TypeRoot.DECIMAL else 0) + 1
        if range_ <= _SPARSE * rows:
            return drawn(range_, rows)
    return min(rows, math.sqrt(rows) * 10)


def drawn(values: float, times: float) -> float:
    """How many different values so many draws from as many equally likely ones give."""
    if values <= 0 or times <= 0:
        return 0.0
    return min(times, values * -math.expm1(-times / values))
