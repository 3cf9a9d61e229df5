"""Filter whole partitions before they are numbered, ranked or summed.

    Filter (team = 'a' AND rn <= 3) (Over rn = ROW_NUMBER() OVER (PARTITION BY team …) X)
      →   Filter rn <= 3 (Over rn = … (Filter team = 'a' X))

Also for top-n and deduplication. Streaming: partitions that nobody sees keep no state. Only conditions over columns
that every call partitions by: any other removes rows that count for their neighbours.
"""

from __future__ import annotations

from planner.logical.build import filtered
from planner.logical.nodes import Deduplicate, Filter, LogicalNode, Over, TopN
from planner.rule import Rule, RuleContext
from planner.rules.pushdown.parting import part
from runtime.expr.nodes import ColumnRef

__all__ = ["RULE"]


def push_filter_into_over(node: Filter, context: RuleContext) -> LogicalNode | None:
    source = node.input
    match source:
        case Over(calls=calls):
            columns = frozenset.intersection(
                *(frozenset(p.id for p in w.partition_by if isinstance(p, ColumnRef)) for _, w in calls)
            )
        case TopN(partition=partition) | Deduplicate(keys=partition):
            columns = frozenset(p.id for p in partition)
        case _:
            return None
    moved, kept = part(node.predicate, columns, context, may_fail=True)
    return filtered(source.with_(input=filtered(source.input, moved)), kept) if moved else None


RULE = Rule("push_filter_into_over", Filter, push_filter_into_over)
