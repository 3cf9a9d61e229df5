"""Let the source stop after the rows that are asked for, when its connector can.

    Limit 3 offset 2 (Scan t)   →   Limit 3 offset 2 (Scan t with limit 5)

Streaming: only for append-only sources; one whose rows may be taken back must go on. Never below AssignWatermark or a
filter.
"""

from __future__ import annotations

from planner.logical.nodes import Limit, LogicalNode, Scan
from planner.rule import Rule, RuleContext
from planner.traits.changes import is_append_only
from runtime.spi.abilities import SupportsLimit

__all__ = ["RULE"]


def push_limit_into_scan(node: Limit, context: RuleContext) -> LogicalNode | None:
    scan = node.input
    if (
        node.limit is None
        or not isinstance(scan, Scan)
        or not isinstance(scan.table, SupportsLimit)
        or not is_append_only(scan, context.traits)
    ):
        return None
    table = scan.table.with_limit(node.offset + node.limit)
    return None if table == scan.table else node.with_(input=scan.with_(table=table))


RULE = Rule("push_limit_into_scan", Limit, push_limit_into_scan)
