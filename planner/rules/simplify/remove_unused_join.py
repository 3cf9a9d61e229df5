"""An outer join that adds nothing to a row is left out.

    Project x (Join LEFT x.k = y.id X (Y key (id)))   →   Project x X

Each left row comes out exactly once, whether it has a partner or not. Streaming: no state for either side, and the
output keeps the changelog mode of X. Not applied when a column of Y is read, or when Y may have several rows per key:
they would repeat the left row.
"""

from __future__ import annotations

from planner.logical.nodes import Join, LogicalNode, Project
from planner.rule import Rule, RuleContext
from planner.traits.conditions import equated_columns
from planner.traits.keys import is_unique_on
from runtime.expr.analysis import columns_of
from runtime.plan.nodes import JoinKind

__all__ = ["RULE"]


def remove_unused_join(node: Project, context: RuleContext) -> LogicalNode | None:
    join = node.input
    if not isinstance(join, Join) or join.kind is not JoinKind.LEFT:
        return None
    right = {c.id for c in join.right.columns}
    if columns_of(e for _, e in node.items) & right:
        return None
    _, matched = equated_columns(join.condition, join.left, join.right)
    return node.with_(input=join.left) if is_unique_on(join.right, matched, context.traits) else None


RULE = Rule("remove_unused_join", Project, remove_unused_join)
