"""The rows on each edge of a physical plan: from the statistics of the tables (`TableStatistics`), through what the nodes
say that they give; where nothing is known, from their form.
"""

from __future__ import annotations

from collections.abc import Mapping

from runtime.plan.base import PhysicalNode
from runtime.plan.estimates.distinct import distinct_of
from runtime.plan.estimates.positions import position_of
from runtime.plan.estimates.rows import TEXT, ColumnFacts, RowFacts
from runtime.plan.nodes import SourceExec
from runtime.spi.statistics import TableStatistics

__all__ = ["Tables", "row_facts"]

Tables = Mapping[str, TableStatistics]
"""What is known of the tables that sources read, by the source's name."""

_ROWS = 1e6
"""Of a table of unknown size: what is said of it is said of one row, so it has many."""


def row_facts(node: PhysicalNode, tables: Tables, epoch_rows: int, done: dict[PhysicalNode, RowFacts]) -> RowFacts:
    """The rows that a node gives.

    Args:
        epoch_rows: the most rows that a source gives to one epoch.
        done: what was found before, added to.
    """
    found = done.get(node)
    if found is None:
        if isinstance(node, SourceExec):
            inputs = [_of_table(node, tables, epoch_rows)]
        else:
            inputs = [row_facts(source, tables, epoch_rows, done) for source in node.inputs]
        found = node.estimate(inputs)
        width = len(node.schema)
        columns = (*found.columns, *(ColumnFacts(max(1.0, found.rows)) for _ in range(width)))[:width]
        found = found._replace(columns=columns)
        done[node] = found
    return found


def _of_table(node: SourceExec, tables: Tables, epoch_rows: int) -> RowFacts:
    stated = tables.get(node.name)
    if stated is None:
        stated = node.table.statistics()
    rows = _ROWS if stated.rows is None else stated.rows
    keys: tuple[str, ...] = getattr(node.table, "primary_key", ())
    columns = []
    for field in node.schema:
        known = stated.column(field.name)
        distinct = rows if keys == (field.name,) else distinct_of(known, field.type, rows)
        nulls = known.nulls / rows if known.nulls is not None and rows else None
        length = TEXT if known.average_length is None else known.average_length
        lifetime = 1.0 if known.lifetime is None else known.lifetime
        columns.append(ColumnFacts(distinct, length, position_of(known.low), position_of(known.high), nulls, lifetime))
    return RowFacts(rows, min(rows, epoch_rows), tuple(columns), stated.rows is not None)
