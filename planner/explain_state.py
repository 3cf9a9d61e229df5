"""How large the state of a plan will be: the section `State` of EXPLAIN STATE, and what to do about state without bound."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from planner.amounts import counted, size_text
from planner.cost.column_facts import statistics_of
from planner.cost.row_facts import row_facts
from planner.cost.state_size import TableSize, state_sizes
from planner.logical import nodes as n
from planner.logical.nodes import LogicalNode
from runtime.core.rooms import Room
from runtime.plan import nodes as p
from runtime.plan.estimates.rows import RowFacts
from runtime.plan.identity import uids
from runtime.plan.nodes import PhysicalNode
from runtime.plan.walk import walk, walk_all
from runtime.spi.statistics import TableStatistics

if TYPE_CHECKING:
    import planner.explain_indices as _explain_indices
else:
    _explain_indices = Room("planner.explain_indices")

__all__ = ["state_text", "tables_of"]


def tables_of(plans: Sequence[LogicalNode]) -> dict[str, TableStatistics]:
    """What is known of the tables that plans read, by name."""
    found: dict[str, TableStatistics] = {}
    waiting = list(plans)
    while waiting:
        plan = waiting.pop()
        if isinstance(plan, n.Scan) and plan.table is not None:
            found[plan.name] = statistics_of(plan)
        waiting += [plan.plan] if isinstance(plan, n.Shared) else plan.inputs
    return found


def state_text(plans: Sequence[PhysicalNode], tables: Mapping[str, TableStatistics], epoch_rows: int) -> str:
    """A line for each table of each operator: its rows, keys and bytes when the input has been read, how it grows, and what
    to do when nothing bounds it. Of tables whose size nobody knows only the bytes of a row."""
    names = uids(plans)
    facts: dict[PhysicalNode, RowFacts] = {}
    lines: list[str] = []
    total, known = 0.0, True
    for node in walk_all(plans):
        inputs = [row_facts(source, tables, epoch_rows, facts) for source in node.inputs]
        sure = all(i.known for i in inputs)
        for size in state_sizes(node, inputs):
            lines.append(f"{names[node]} {size.name}: {'; '.join(_parts(node, size, sure))}")
            total += size.bytes
            known &= sure
    if not lines:
        lines.append("nothing is kept")
    elif known:
        lines.append(f"all: about {size_text(total)}")
    joins = [node for node in walk_all(plans) if isinstance(node, p.DeltaJoinExec)]
    return "\n".join([*lines, *(_explain_indices.index_lines(joins, facts) if joins else ())])


def _parts(node: PhysicalNode, size: TableSize, known: bool) -> Iterator[str]:
    each = size.bytes / max(size.rows, 1.0)
    if known:
        rows, keys = round(size.rows), round(size.keys)
        of = f" of {counted(keys, 'key')}" if keys < rows else ""
        yield f"about {counted(rows, 'row')}{of}, {size_text(size.bytes)}"
    else:
        yield f"{size_text(each)} a row, how many is not known (ANALYZE TABLE)"
    if not size.growing:
        yield f"bounded by {size.bound}"
    elif _ends(node):
        yield "bounded by its input"
    else:
        yield f"nothing bounds it: grows by {size_text(each)} a row for ever; {node.advice}"


def _ends(node: PhysicalNode) -> bool:
    return all(source.table.bounded for source in walk(node) if isinstance(source, p.SourceExec))
