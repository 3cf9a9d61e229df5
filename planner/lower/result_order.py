"""The order in which a person wants to see the rows of a query: the ORDER BY at its root.

A relation has no order, so the dataflow does not carry it; whoever prints the rows of a finished or a folded result sorts them.
"""

from __future__ import annotations

from planner.logical import nodes as n
from planner.logical.nodes import LogicalNode
from runtime.expr.nodes import ColumnRef
from runtime.plan.nodes import SortSpec

__all__ = ["result_order", "without_result_order"]


def result_order(plan: LogicalNode) -> tuple[SortSpec, ...]:
    """Sort keys by position in the plan's output, as far as the output still has them; empty when there is no ORDER BY at the root."""
    wanted = {c.id: i for i, c in reversed(list(enumerate(plan.columns)))}
    while isinstance(plan, n.Project | n.Limit):
        if isinstance(plan, n.Project):
            passed = {e.id: wanted[c.id] for c, e in reversed(plan.items) if isinstance(e, ColumnRef) and c.id in wanted}
            wanted = passed
        plan = plan.input
    if not isinstance(plan, n.Sort):
        return ()
    specs: list[SortSpec] = []
    for key in plan.keys:
        if not isinstance(key.expr, ColumnRef) or key.expr.id not in wanted:
            break
        specs.append(SortSpec(wanted[key.expr.id], key.descending, key.nulls_last))
    return tuple(specs)


def without_result_order(plan: LogicalNode) -> LogicalNode:
    """The plan without a sort at its root that only serves a reader: one without LIMIT and OFFSET."""
    if isinstance(plan, n.Project):
        source = without_result_order(plan.input)
        return plan.with_inputs(source)
    if isinstance(plan, n.Sort) and plan.limit is None and plan.offset == 0:
        return plan.input
    return plan
