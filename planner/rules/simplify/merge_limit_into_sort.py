"""A LIMIT right above an ORDER BY chooses the first rows in that order.

    Limit 3 (Sort a DESC X)   →   Sort a DESC limit 3 X

Streaming: becomes a top-n. Not applied when the sort has a LIMIT of its own.
"""

from __future__ import annotations

from planner.logical.nodes import Limit, LogicalNode, Sort
from planner.rule import Rule, RuleContext

__all__ = ["RULE"]


def merge_limit_into_sort(node: Limit, context: RuleContext) -> LogicalNode | None:
    match node.input:
        case Sort(limit=None, offset=0) as sort:
            return sort.with_(limit=node.limit, offset=node.offset)
        case _:
            return None


RULE = Rule("merge_limit_into_sort", Limit, merge_limit_into_sort)
