"""Which lookups of tables outside tasks do.

A row that waits to be asked for again holds the watermark back, so the watermark behind follows what tasks keep, and the
driver knows it when they have answered. Who needs it meanwhile, in the same phase, would have it an epoch late: such a
lookup is the driver's.
"""

from __future__ import annotations

from collections.abc import Sequence

from runtime.expr.nodes import Call, walk
from runtime.plan.base import Follows, PhysicalNode
from runtime.plan.nodes import LookupJoinExec
from runtime.plan.walk import expressions_of, walk_all

__all__ = ["asked_in_tasks"]


def asked_in_tasks(roots: Sequence[PhysicalNode]) -> frozenset[PhysicalNode]:
    """The lookups of plans that tasks do: their table can be asked from anywhere, and where they hold the watermark back
    nobody behind them needs it."""
    nodes = walk_all(roots)
    timed: set[PhysicalNode] = set()
    for node in reversed(nodes):
        if node in timed or _needs_watermark(node):
            timed.update(node.inputs)
    return frozenset(
        node
        for node in nodes
        if isinstance(node, LookupJoinExec) and node.asked_anywhere and not (node.holds_watermark and node in timed)
    )


def _needs_watermark(node: PhysicalNode) -> bool:
    return Follows.EVENT_TIME in node.follows() or any(
        isinstance(part, Call) and part.function == "CURRENT_WATERMARK"
        for expression in expressions_of(node)
        for part in walk(expression)
    )
