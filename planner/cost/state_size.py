"""How large the state of an operator will be: rows, keys and bytes of each of its tables, and whether it grows for ever. From
what its node says of the rows that are known (`PhysicalNode.sizes`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from runtime.plan.base import PhysicalNode
from runtime.plan.estimates.rows import RowFacts
from runtime.plan.estimates.sizes import COUNTED, Kept, row_bytes

__all__ = ["TableSize", "state_sizes"]


class TableSize(NamedTuple):
    """rows: the most that are there at once. keys: how many keys they are of. growing: whether there will be more for
    ever, with more input."""

    name: str
    bound: str
    rows: float
    keys: float
    bytes: float
    growing: bool


def state_sizes(node: PhysicalNode, inputs: Sequence[RowFacts]) -> list[TableSize]:
    """The tables of a node's state that EXPLAIN shows; what several tables share counts with the first."""
    tables = [table for table in node.state() if table.holds]
    if not tables:
        return []
    found = node.sizes(inputs)
    rows = sum(i.rows for i in inputs)
    sizes: list[TableSize] = []
    for table in tables:
        kept = found.get(table.name)
        if kept is None:
            kept = Kept(rows, rows, rows * (row_bytes(node.inputs[0].schema, inputs[0]) + COUNTED))
        sizes.append(TableSize(table.name, table.bound, kept.rows, kept.keys, kept.bytes, table.grows))
    return sizes
