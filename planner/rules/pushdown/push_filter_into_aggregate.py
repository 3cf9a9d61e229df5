"""Filter the rows of a group before they are aggregated.

    Filter (item = 'cup' AND n > 3) (Aggregate by (item) n = COUNT(*) X)
      →   Filter n > 3 (Aggregate by (item) n = COUNT(*) (Filter item = 'cup' X))

Streaming: groups that nobody sees keep no state. Only conditions over group columns; never into an aggregate without
groups: its row exists whatever the condition says.
"""

from __future__ import annotations

from planner.logical.build import filtered
from planner.logical.nodes import Aggregate, Filter, LogicalNode
from planner.rule import Rule, RuleContext
from planner.rules.pushdown.parting import part

__all__ = ["RULE"]


def push_filter_into_aggregate(node: Filter, context: RuleContext) -> LogicalNode | None:
    if not isinstance(node.input, Aggregate) or not node.input.group:
        return None
    aggregate = node.input
    moved, kept = part(node.predicate, [g.id for g in aggregate.group], context, may_fail=True)
    return filtered(aggregate.with_(input=filtered(aggregate.input, moved)), kept) if moved else None


RULE = Rule("push_filter_into_aggregate", Filter, push_filter_into_aggregate)
