"""Filter before sorting.

    Filter p (Sort k X)   →   Sort k (Filter p X)

Streaming: less to sort. Not when the sort has a LIMIT or OFFSET: the filter would choose other rows.
"""

from __future__ import annotations

from planner.logical.build import filtered
from planner.logical.nodes import Filter, LogicalNode, Sort
from planner.rule import Rule, RuleContext
from planner.rules.pushdown.parting import part_by

__all__ = ["RULE"]


def push_filter_into_sort(node: Filter, context: RuleContext) -> LogicalNode | None:
    match node.input:
        case Sort(limit=None, offset=0) as sort:
            moved, _ = part_by(node.predicate, lambda _: True)
            return sort.with_(input=filtered(sort.input, moved))
        case _:
            return None


RULE = Rule("push_filter_into_sort", Filter, push_filter_into_sort)
