"""Flatten UNION ALL of UNION ALL, and see through a union of one part.

    Union (Union A B) C → Union A B C        Union A → Project A

Streaming: no state, keeps the changelog mode; the watermark is the least of the parts either way.
"""

from __future__ import annotations

from planner.logical.nodes import LogicalNode, Project, Union
from planner.rule import Rule, RuleContext

__all__ = ["RULE"]


def merge_unions(node: Union, context: RuleContext) -> LogicalNode | None:
    if len(node.parts) == 1:
        (part,) = node.parts
        return Project(part, tuple((c, own.ref()) for c, own in zip(node.produced, part.columns, strict=True)))
    if not any(isinstance(p, Union) for p in node.parts):
        return None
    parts = tuple(inner for p in node.parts for inner in (p.parts if isinstance(p, Union) else (p,)))
    return Union(parts, node.produced)


RULE = Rule("merge_unions", Union, merge_unions)
