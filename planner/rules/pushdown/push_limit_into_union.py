"""No part of a union has to give more rows than the whole.

    Limit 3 offset 2 (Union X Y)   →   Limit 3 offset 2 (Union (Limit 5 X) (Limit 5 Y))

Streaming: each limit keeps at most its rows while its input is append-only. Not applied to parts that have such a
limit already, nor to updating parts: there a limit keeps every row, to have another when one of the first is taken
back.
"""

from __future__ import annotations

from planner.logical.nodes import Limit, LogicalNode, Union
from planner.rule import Rule, RuleContext
from planner.traits.changes import is_append_only

__all__ = ["RULE"]


def push_limit_into_union(node: Limit, context: RuleContext) -> LogicalNode | None:
    union = node.input
    if not isinstance(union, Union) or node.limit is None:
        return None
    most = node.offset + node.limit
    parts = tuple(_limited(p, most) if is_append_only(p, context.traits) else p for p in union.parts)
    if all(new is old for new, old in zip(parts, union.parts, strict=True)):
        return None
    return node.with_(input=union.with_(parts=parts))


def _limited(plan: LogicalNode, most: int) -> LogicalNode:
    source = plan
    while not isinstance(source, Limit) and len(source.inputs) == 1:
        source = source.inputs[0]
    if isinstance(source, Limit) and source.limit is not None and source.limit <= most:
        return plan
    return Limit(plan, 0, most)


RULE = Rule("push_limit_into_union", Limit, push_limit_into_union, after=("merge_unions",))
