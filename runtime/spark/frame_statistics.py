"""What Spark's optimizer knows of a DataFrame, as statistics of a table."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

from runtime.core.logs import Log
from runtime.core.rooms import Room
from runtime.core.schema import Schema
from runtime.core.types import TypeRoot
from runtime.spark.session import is_remote
from runtime.spi.statistics import ColumnStatistics, TableStatistics

if TYPE_CHECKING:
    import py4j.protocol as _py4j
    import pyspark.errors as _spark_errors
else:
    _py4j = Room("py4j.protocol")
    _spark_errors = Room("pyspark.errors")

__all__ = ["statistics_of"]

_log = Log("spark")
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

    Nothing is known of what Spark cannot plan, which its query will tell, and of frames of Spark Connect.
    """
    if is_remote(frame.sparkSession):
        return TableStatistics()
    try:
        plan = frame._jdf.queryExecution().optimizedPlan()
        found = plan.stats()
        if found.rowCount().isDefined():
            rows = float(str(found.rowCount().get()))
        else:
            size = float(str(found.sizeInBytes()))
            if size >= _UNKNOWN_BYTES or plan.collectLeaves().size() != 1:
                return TableStatistics()
            rows = size / (_ROW_BYTES + plan.schema().defaultSize())
        return TableStatistics(rows, _columns(found.attributeStats(), schema))
    except (_spark_errors.PySparkException, _py4j.Py4JError) as error:
        _log.debug("Spark tells no statistics of a DataFrame: %s", error)
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
    return float(str(told.get())) if told.isDefined() else None


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
