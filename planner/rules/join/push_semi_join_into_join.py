"""Ask whether a row has a match before it is joined, where that leaves less to join.

    Join SEMI a = k (Join INNER a = b X Y) Z   →   Join INNER a = b (Join SEMI a = k X Z) Y

The same for ANTI. Only by cost: where the inner joins leave few rows it is cheaper to ask afterwards
(`planner/cost/join_order.py`).

Streaming: a row that comes, or loses its last match, passes the inner joins once instead of all their rows being kept for
the question; either form is right for changes.
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


def push_semi_join_into_join(node: Join, context: RuleContext) -> LogicalNode | None:
    if node.kind not in (JoinKind.SEMI, JoinKind.ANTI) or node.hints:
        return None
    return _join_order.semi_join_below(node, context.traits)


RULE = Rule(
    "push_semi_join_into_join",
    Join,
    push_semi_join_into_join,
    after=("push_filter_into_join", "push_filter_across_join", "convert_join_to_interval_join", "reorder_cross_joins"),
)
