"""What follows the time that passes and reads both sides of a join filters its result.

    Join INNER (c AND x + y > MZ_NOW()) X Y   →   Filter x + y > MZ_NOW() (Join INNER c X Y)

Streaming: a join evaluates its condition when a row comes; rows that come in and leave later are the work of a filter.
Not applied to outer, semi and anti joins, where the condition decides more than which pairs there are.
"""

from __future__ import annotations

from planner.logical.build import filtered
from planner.logical.nodes import Join, LogicalNode
from planner.rule import Rule, RuleContext
from planner.rules.pushdown.parting import part_by
from runtime.expr.analysis import follows_time
from runtime.expr.rewrite import conjunction
from runtime.plan.nodes import JoinKind

__all__ = ["RULE"]


def pull_time_condition(node: Join, context: RuleContext) -> LogicalNode | None:
    if node.kind is not JoinKind.INNER:
        return None
    pulled, kept = part_by(node.condition, follows_time)
    return filtered(node.with_(condition=conjunction(kept)), pulled) if pulled else None


RULE = Rule("pull_time_condition", Join, pull_time_condition, essential=True)
