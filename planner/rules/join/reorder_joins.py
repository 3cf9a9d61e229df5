"""Join in the order that costs least.

    Join (Join lineitem orders) (Filter customer)   →   Join lineitem (Join orders (Filter customer))

Streaming: what counts is state and intermediate changes, then rows; any order is right. How it is found, and when the
written order stays: `planner/cost/join_order.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.logical.nodes import Join, LogicalNode
from planner.rule import Rule, RuleContext
from runtime.core.rooms import Room
from runtime.plan.nodes import JoinKind

if TYPE_CHECKING:
    import planner.cost.join_order as _join_order
else:
    _join_order = Room("planner.cost.join_order")

__all__ = ["RULE"]


def reorder_joins(node: Join, context: RuleContext) -> LogicalNode | None:
    settled: set[LogicalNode] = context.memory.setdefault(RULE.name, set())
    if node.kind is not JoinKind.INNER or node in settled:
        return None
    better = _join_order.reorder(node, context.traits)
    if better is not None:
        settled.update(_join_order.settled_joins(better))
    return better


RULE = Rule(
    "reorder_joins",
    Join,
    reorder_joins,
    after=("push_filter_into_join", "push_filter_across_join", "convert_join_to_interval_join", "reorder_cross_joins"),
)
