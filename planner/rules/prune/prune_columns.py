"""Carry only the columns that somebody reads.

    Project a (Join k1 = k2 (Scan x(a, b, k1)) (Scan y(k2, c)))
      →   Project a (Join k1 = k2 (Scan x(a, k1)) (Scan y(k2)))

From the root down: each node is told which of its columns are wanted, adds what it reads itself, and asks its inputs
for those. Aggregate calls, OVER calls and rank columns that nobody wants are not computed; sources that can leave out
columns do; inputs of whatever keeps rows in state are narrowed by a projection. How each node class does it:
`narrowing.py`. Scans of one table that would be left with different columns read all of them, and so stay one source:
`scans.py`.

Streaming: state and changes get narrower; an update of a column that nobody reads is no update. Kept though unread:
the rowtime column of AssignWatermark, keys of sources that send upserts, keys and times of the versioned side of a
temporal join, and one column where a node would have none.
"""

from __future__ import annotations

from planner.logical.build import projected
from planner.logical.nodes import LogicalNode
from planner.rule import Rule, RuleContext
from planner.rules.prune.narrowing import prune
from planner.rules.prune.scans import merge_scans, scans_by_column

__all__ = ["RULE"]


def prune_columns(plan: LogicalNode, context: RuleContext) -> LogicalNode | None:
    narrow = prune(plan, frozenset(c.id for c in plan.columns))
    (merged,) = merge_scans((narrow,), scans_by_column((plan,)))
    pruned = projected(merged, plan.columns)
    return None if pruned is plan else pruned


RULE = Rule(
    "prune_columns",
    LogicalNode,
    prune_columns,
    after=("push_filter_into_join", "push_filter_across_join"),
    whole_plan=True,
)
