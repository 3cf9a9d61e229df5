"""Filter rows before their collections are taken apart.

    Filter (id > 3 AND tag = 'x') (Unnest tags AS tag X)   →   Filter tag = 'x' (Unnest tags AS tag (Filter id > 3 X))

Streaming: no state, keeps the changelog mode. Only conditions over the input's columns; not one that may fail on rows
with an empty collection.
"""

from __future__ import annotations

from planner.logical.build import filtered
from planner.logical.nodes import Filter, LogicalNode, Unnest
from planner.rule import Rule, RuleContext
from planner.rules.pushdown.parting import part

__all__ = ["RULE"]


def push_filter_into_unnest(node: Filter, context: RuleContext) -> LogicalNode | None:
    if not isinstance(node.input, Unnest):
        return None
    unnest = node.input
    moved, kept = part(node.predicate, [c.id for c in unnest.input.columns], context)
    return filtered(unnest.with_(input=filtered(unnest.input, moved)), kept) if moved else None


RULE = Rule("push_filter_into_unnest", Filter, push_filter_into_unnest)
