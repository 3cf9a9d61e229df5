"""What Spark's optimizer knows of a DataFrame, as statistics of a table."""

from __future__ import annotations

import datetime as dt
from typing import Any

from runtime.core.schema import Schema
from runtime.core.types import TypeRoot
from runtime.spi.statistics import ColumnStatistics, TableStatistics

__all__ = ["statistics_of"]

_UNKNOWN_BYTES = 1 << 62
"""Spark says so much, or near it, where it knows nothing."""
_ROW_BYTES = 8
"""What Spark counts for each row beside its columns."""
_EPOCH = dt.datetime(1970, 1, 1)
_NUMBERS = frozenset(
    (TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT, TypeRoot.FLOAT, TypeRoot.DOUBLE)
)


def statistics_of(frame: Any, schema: Schema) -> TableStatistics:
    """Rows as Spark counts or estimates them (a table that it has analyzed, a file, `range`), and columns where it has
    statistics of those. Sizes of joins without such statistics are no estimate and count as unknown.

    Raises nothing: of what Spark cannot plan nothing is known.
    """
    try:
        plan = frame._jdf.queryExecution().optimizedPlan()
        found = plan.stats()
        if found.rowCount().isDefined():
            rows = float(found.rowCount().get().toString())
        else:
            size = float(found.sizeInBytes().toString())
            if size >= _UNKNOWN_BYTES or plan.collectLeaves().size() != 1:
                return TableStatistics()
            rows = size / (_ROW_BYTES + plan.schema().defaultSize())
        return TableStatistics(rows, _columns(found.attributeStats(), schema))
    except Exception:
        return TableStatistics()


def _columns(attributes: Any, schema: Schema) -> tuple[tuple[str, ColumnStatistics], ...]:
    columns: list[tuple[str, ColumnStatistics]] = []
    entries = attributes.iterator()
    while entries.hasNext():
        entry = entries.next()
        name, told = entry._1().name(), entry._2()
        if name in schema.names:
            root = schema[schema.index_of(name)].type.root
            known = ColumnStatistics(
                _count(told.distinctCount()),
                _count(told.nullCount()),
                _value(told.min(), root),
                _value(told.max(), root),
            )
            columns.append((name, known))
    return tuple(columns)


def _count(told: Any) -> float | None:
    return float(told.get().toString()) if told.isDefined() else None


def _value(told: Any, root: TypeRoot) -> Any:
    """The least or greatest value of a column, from what Spark keeps inside: numbers, days, microseconds."""
    if not told.isDefined():
        return None
    value = told.get()
    if root in _NUMBERS and isinstance(value, (int, float)):
        return value
    if root is TypeRoot.DATE and isinstance(value, int):
        return (_EPOCH + dt.timedelta(days=value)).date()
    return None
