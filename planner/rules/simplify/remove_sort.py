"""Remove an ORDER BY whose order nobody sees.

    Aggregate … (Sort k X)   →   Aggregate … X

A sort without LIMIT matters only at the root of a query. Streaming: a table has no order; the sort would only delay.
Not applied at the root, nor to a sort with LIMIT or OFFSET: those choose rows.
"""

from __future__ import annotations

from planner.logical.nodes import LogicalNode, Project, Sink, Sort
from planner.rule import Rule, RuleContext

__all__ = ["RULE"]


def remove_sort(plan: LogicalNode, context: RuleContext) -> LogicalNode | None:
    changed = _at_root(plan)
    return None if changed is plan else changed


def _at_root(plan: LogicalNode) -> LogicalNode:
    """Projections above the sort of a query drop the columns that only the sort reads."""
    if isinstance(plan, Sink | Project):
        return plan.with_inputs(_at_root(plan.input))
    return plan.with_inputs(*(_inside(source) for source in plan.inputs))


def _inside(plan: LogicalNode) -> LogicalNode:
    if isinstance(plan, Sort) and plan.limit is None and not plan.offset:
        return _inside(plan.input)
    return plan.with_inputs(*(_inside(source) for source in plan.inputs))


RULE = Rule("remove_sort", LogicalNode, remove_sort, whole_plan=True)
