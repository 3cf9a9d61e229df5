"""What is known of single columns, wherever in a plan they stand: from ANALYZE TABLE, or from what the connector says."""

from __future__ import annotations

from planner.logical import nodes as n
from planner.logical.nodes import LogicalNode
from runtime.expr.nodes import ColumnRef
from runtime.plan.estimates.positions import position_of
from runtime.plan.estimates.selectivity import Known
from runtime.spi.statistics import TableStatistics

__all__ = ["known_of", "statistics_of"]


def statistics_of(scan: n.Scan) -> TableStatistics:
    """What is known of a table: rows that the connector counts, else those that ANALYZE TABLE counted, else those that
    the connector guesses; columns as ANALYZE TABLE found them."""
    stated = scan.table.statistics() if scan.table is not None else TableStatistics()
    measured = scan.measured
    if measured is None:
        return stated
    rows = stated.rows if stated.counted or measured.rows is None else measured.rows
    return TableStatistics(rows, measured.columns or stated.columns, stated.counted)


def known_of(plan: LogicalNode, column: int) -> Known:
    """NULLs and ends of a column as the table has them of which it comes. Filters in between are not looked at."""
    found = _origin(plan, column)
    if found is None:
        return Known()
    statistics, name = found
    values = statistics.column(name)
    nulls = None
    if values.nulls is not None and statistics.rows:
        nulls = min(1.0, values.nulls / statistics.rows)
    return Known(nulls, position_of(values.low), position_of(values.high))


def _origin(plan: LogicalNode, column: int) -> tuple[TableStatistics, str] | None:
    """The table and the name that a column has there, when it is passed on as it is."""
    while True:
        if isinstance(plan, n.Scan):
            name = next((c.name for c in plan.scanned if c.id == column), None)
            return None if name is None else (statistics_of(plan), name)
        if isinstance(plan, n.Project):
            item = next((e for c, e in plan.items if c.id == column), None)
            if not isinstance(item, ColumnRef):
                return None
            column = item.id
        source = next((s for s in plan.inputs if any(c.id == column for c in s.columns)), None)
        if source is None:
            return None
        plan = source
