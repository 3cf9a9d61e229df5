"""A join whose condition bounds the distance of two time attributes is an interval join.

    Join k (c AND l.ts >= r.ts - 5 s AND l.ts <= r.ts + 5 s) X Y
      →   IntervalJoin k l.ts - r.ts in [-5000, 5000] on c X Y

Streaming: rows are kept only until the other side's watermark passes their bound; append-only, also for outer joins
(unmatched rows come out when they expire). Both inputs must be append-only, both times event time or both processing
time, bounded below and above; a strict bound is 1 ms narrower. Not for SEMI and ANTI, nor for times that lost their
watermark in a regular join or an aggregate: those stay regular joins.
"""

from __future__ import annotations

from planner.logical.nodes import IntervalJoin, Join, LogicalNode
from planner.rule import Rule, RuleContext
from planner.rules.streaming.time_attributes import time_attributes
from planner.rules.streaming.time_bounds import TimeBound, time_bound
from planner.traits.changes import is_append_only
from runtime.expr.analysis import conjuncts
from runtime.expr.nodes import ColumnRef, Expr
from runtime.expr.rewrite import conjunction

__all__ = ["RULE"]


def convert_join_to_interval_join(node: Join, context: RuleContext) -> LogicalNode | None:
    if node.kind.left_only:
        return None
    left, right = time_attributes(node.left, context), time_attributes(node.right, context)
    bounds: dict[tuple[int, int], list[tuple[Expr, TimeBound]]] = {}
    for condition in conjuncts(node.condition):
        bound = time_bound(condition)
        if bound is not None and bound.left.id in right and bound.right.id in left:
            bound = _turned(bound)
        if bound is not None and bound.left.id in left and left[bound.left.id] is right.get(bound.right.id):
            bounds.setdefault((bound.left.id, bound.right.id), []).append((condition, bound))
    for found in bounds.values():
        lower = max((b.lower for _, b in found if b.lower is not None), default=None)
        upper = min((b.upper for _, b in found if b.upper is not None), default=None)
        if (
            lower is None
            or upper is None
            or lower > upper
            or not all(is_append_only(side, context.traits) for side in node.inputs)
        ):
            continue
        used = [condition for condition, bound in found if bound.exact]
        rest = conjunction(c for c in conjuncts(node.condition) if c not in used)
        refs: dict[int, ColumnRef] = {c.id: c.ref() for side in node.inputs for c in side.columns}
        bound = found[0][1]
        return IntervalJoin(
            node.left, node.right, node.kind, refs[bound.left.id], refs[bound.right.id], lower, upper, rest
        )
    return None


def _turned(bound: TimeBound) -> TimeBound:
    """The same bound with the sides exchanged."""
    lower = None if bound.upper is None else -bound.upper
    upper = None if bound.lower is None else -bound.lower
    return TimeBound(bound.right, bound.left, lower, upper, bound.exact)


RULE = Rule(
    "convert_join_to_interval_join", Join, convert_join_to_interval_join, after=("convert_join_to_window_join",)
)
