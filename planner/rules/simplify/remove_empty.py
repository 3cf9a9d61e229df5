"""What is computed from no rows has no rows.

    Filter p none, Project … none, Aggregate by (a) none, Join INNER X none, Join SEMI X none, Limit 0 X   →   none
    Join LEFT X none → Project X, NULL …        Join ANTI X none → X        Union X none Y → Union X Y

Streaming: the sources of what is dropped are not read, so they do not hold back a watermark either. Not applied to an
aggregate that has a row over no input (`scalar`).
"""

from __future__ import annotations

from planner.logical.build import null, passing
from planner.logical.nodes import (
    Aggregate,
    Except,
    Filter,
    FromChangelog,
    Intersect,
    Join,
    Limit,
    LogicalNode,
    Match,
    Over,
    Project,
    Sort,
    ToChangelog,
    TopN,
    Union,
    Unnest,
    Values,
    WindowTable,
)
from planner.rule import Rule, RuleContext
from runtime.plan.nodes import JoinKind

__all__ = ["RULE"]

_PASSING = (Filter, FromChangelog, Limit, Match, Over, Project, Sort, ToChangelog, TopN, Unnest, WindowTable)


def remove_empty(node: LogicalNode, context: RuleContext) -> LogicalNode | None:
    match node:
        case Sort(limit=0) | Limit(limit=0):
            return _none(node)
        case TopN(start=start, end=int() as end) if end < start:
            return _none(node)
        case Aggregate(input=source, scalar=False) if _empty(source):
            return _none(node)
        case Join():
            return _join(node)
        case Union(parts=parts, produced=produced):
            kept = tuple(p for p in parts if not _empty(p))
            return None if len(kept) == len(parts) else Union(kept, produced) if kept else _none(node)
        case Intersect(left=left, right=right) if _empty(left) or _empty(right):
            return _none(node)
        case Except(left=left) if _empty(left):
            return _none(node)
        case _ if isinstance(node, _PASSING) and _empty(node.input):
            return _none(node)
        case _:
            return None


def _join(join: Join) -> LogicalNode | None:
    left, right = _empty(join.left), _empty(join.right)
    if not left and not right:
        return None
    kind = join.kind
    if (
        (left and not kind.keeps_right)
        or (right and kind in (JoinKind.INNER, JoinKind.SEMI, JoinKind.RIGHT))
        or (left and right)
    ):
        return _none(join)
    if kind is JoinKind.ANTI:
        return join.left
    kept, lost = (join.left, join.right) if right else (join.right, join.left)
    own = {c.id for c in lost.columns}
    return Project(kept, tuple((c, null(c.type)) if c.id in own else passing([c])[0] for c in join.columns))


def _empty(plan: LogicalNode) -> bool:
    return isinstance(plan, Values) and not plan.rows


def _none(node: LogicalNode) -> Values:
    return Values((), node.columns)


RULE = Rule(
    "remove_empty",
    (Aggregate, Except, Intersect, Join, Union, *_PASSING),
    remove_empty,
    after=("remove_trivial_filter",),
)
