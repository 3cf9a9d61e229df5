"""A dependent join whose right side does not depend on the left is a plain join.

    DependentJoin k c X Y   →  Join k c X Y        when Y has no outer reference to a column of X

Streaming: as the join that comes out. Outer references to queries further out stay and are resolved there.
"""

from __future__ import annotations

from planner.logical.build import resolve_outer
from planner.logical.expressions import outer_ids
from planner.logical.nodes import DependentJoin, Join, LogicalNode
from planner.rule import Rule, RuleContext

__all__ = ["RULE"]


def convert_dependent_to_join(node: DependentJoin, context: RuleContext) -> LogicalNode | None:
    columns = {c.id: c for c in node.left.columns}
    if outer_ids(node.right) & columns.keys():
        return None
    return Join(node.left, node.right, node.kind, resolve_outer(node.condition, columns))


RULE = Rule("convert_dependent_to_join", DependentJoin, convert_dependent_to_join, essential=True)
