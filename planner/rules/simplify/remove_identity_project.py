"""Remove a projection that passes its input as it is.

    Project a, b (Scan t(a, b))   →   Scan t(a, b)

Streaming: changes nothing. Not applied when the order, number or identity of the columns differs.
"""

from __future__ import annotations

from planner.logical.nodes import LogicalNode, Project
from planner.rule import Rule, RuleContext
from runtime.expr.nodes import ColumnRef

__all__ = ["RULE"]


def remove_identity_project(node: Project, context: RuleContext) -> LogicalNode | None:
    if [c.id for c in node.columns] != [c.id for c in node.input.columns]:
        return None
    same = all(isinstance(e, ColumnRef) and e.id == c.id for c, e in node.items)
    return (
        node.input
        if same and all(a.type == b.type for a, b in zip(node.columns, node.input.columns, strict=True))
        else None
    )


RULE = Rule("remove_identity_project", Project, remove_identity_project, after=("merge_projects",))
