"""DISTINCT (or GROUP BY without aggregates) of rows that are distinct already is a projection.

    Aggregate by (id, name) (Scan t key (id))   →   Project id, name (Scan t)

Streaming: saves the state of the group aggregate, and an append-only input stays append-only. Not applied when there
are calls, or no unique key of the input is among the columns.
"""

from __future__ import annotations

from planner.logical.build import projected
from planner.logical.nodes import Aggregate, LogicalNode
from planner.rule import Rule, RuleContext
from planner.traits.keys import is_unique_on

__all__ = ["RULE"]


def remove_distinct(node: Aggregate, context: RuleContext) -> LogicalNode | None:
    if node.calls or not node.group or not is_unique_on(node.input, (g.id for g in node.group), context.traits):
        return None
    return projected(node.input, node.columns)


RULE = Rule("remove_distinct", Aggregate, remove_distinct)
