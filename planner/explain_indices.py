"""The indices that joins without state read: their lines in EXPLAIN STATE."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from planner.amounts import counted, size_text
from runtime.plan.estimates.rows import RowFacts, combinations
from runtime.plan.estimates.sizes import INDEXED, LIST, key_index_bytes
from runtime.plan.nodes import PhysicalNode, SourceExec
from runtime.plan.snapshot_nodes import DeltaJoinExec
from runtime.plan.text import columns_text
from runtime.state.arrangement import SupportsArrangements

__all__ = ["index_lines"]


def index_lines(joins: Sequence[DeltaJoinExec], facts: Mapping[PhysicalNode, RowFacts]) -> Iterator[str]:
    """A line for each index: how large it is, and who uses it now. `facts`: what is known of the sources."""
    for source, columns in dict.fromkeys(index for join in joins for index in join.indices()):
        yield _index(source, columns, facts)


def _index(source: SourceExec, columns: tuple[int, ...], facts: Mapping[PhysicalNode, RowFacts]) -> str:
    """An index of a table that is read: it belongs to the table, and to all who read it."""
    table, given = source.table, facts[source]
    users: Sequence[str] = ()
    if isinstance(table, SupportsArrangements):
        users = table.users([table.schema.index_of(source.schema.names[c]) for c in columns])
    shared = f"used by {', '.join(users)}" if users else "not there yet"
    keys = combinations(given, columns)
    size = key_index_bytes(source.schema, given, columns, keys) + keys * LIST + given.rows * INDEXED
    text = f"about {counted(round(given.rows), 'row')}, {size_text(size)}" if given.known else "of all rows"
    return f"index of {source.name} ({columns_text(columns, source.schema)}): {text}; {shared}"
