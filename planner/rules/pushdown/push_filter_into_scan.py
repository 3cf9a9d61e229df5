"""Let the source drop rows, when its connector can.

    Filter (p AND q) (Scan t)   →   Filter q (Scan t with p)

Streaming: rows that the source drops do not exist for the engine. Therefore never below AssignWatermark (a filter
stays above it): a row that is filtered out still moves event time, and a source that dropped it would close windows
later. The connector decides which conditions it takes.
"""

from __future__ import annotations

from planner.logical.build import filtered
from planner.logical.nodes import Filter, LogicalNode, Scan
from planner.rule import Rule, RuleContext
from planner.rules.pushdown.parting import movable, part_by
from runtime.expr.analysis import columns_of, follows_time
from runtime.expr.nodes import Expr
from runtime.expr.rewrite import to_column_refs, to_input_refs
from runtime.spi.abilities import SupportsFilters

__all__ = ["RULE"]


def push_filter_into_scan(node: Filter, context: RuleContext) -> LogicalNode | None:
    scan = node.input
    if not isinstance(scan, Scan) or scan.table is None or not isinstance(scan.table, SupportsFilters):
        return None
    columns = scan.scanned
    offered, kept = part_by(
        node.predicate, lambda c: len(columns_of(c)) > 0 and movable(c, context) and not follows_time(c)
    )
    if not offered:
        return None
    asked = [to_input_refs(c, columns) for c in offered]
    table, remaining = scan.table.with_filters(asked)
    if len(remaining) == len(asked) and (table == scan.table or table.with_filters(asked)[0] != table):
        # Nothing is taken; or by a table that would take it again and again, because it is equal to no other.
        return None
    left: list[Expr] = [to_column_refs(c, columns) for c in remaining]
    return filtered(scan.with_(table=table), (*left, *kept))


RULE = Rule("push_filter_into_scan", Filter, push_filter_into_scan)
