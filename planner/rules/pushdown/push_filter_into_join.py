"""Filter the inputs of a join instead of its result.

    Filter (p(x) AND q(y) AND r(x, y)) (Join INNER c X Y)   →   Join INNER (c AND r) (Filter p X) (Filter q Y)
    Filter (p(x) AND q(y)) (Join LEFT c X Y)                →   Filter q (Join LEFT c (Filter p X) Y)    (RIGHT too)
    Filter p(x) (Join SEMI/ANTI c X Y)                      →   Join SEMI/ANTI c (Filter p X) Y
    Filter p(x) (TemporalJoin c X Y)                        →   TemporalJoin c (Filter p X) Y
    Filter r(x, y) (TemporalJoin INNER c X Y), of a snapshot →   TemporalJoin INNER (c AND r) X Y

Streaming: rows that cannot contribute never enter the join's state. Not applied to the padded side of an outer join
(a row that `q` removes from Y would come out padded), to the versioned side of a temporal join (the version before
would be seen), nor to a condition that may fail on rows without a partner. What follows the time that passes stays a
filter where it reads both sides.
"""

from __future__ import annotations

from planner.logical.build import filtered
from planner.logical.nodes import Filter, Join, LogicalNode, TemporalJoin
from planner.rule import Rule, RuleContext
from planner.rules.pushdown.parting import movable, part, part_by
from runtime.expr.analysis import columns_of, follows_time
from runtime.expr.nodes import Expr
from runtime.expr.rewrite import conjunction
from runtime.plan.nodes import JoinKind

__all__ = ["RULE"]


def push_filter_into_join(node: Filter, context: RuleContext) -> LogicalNode | None:
    join = node.input
    if not isinstance(join, Join | TemporalJoin):
        return None
    to_left: list[Expr] = []
    to_right: list[Expr] = []
    to_condition: list[Expr] = []
    rest = node.predicate
    if not join.kind.keeps_right:
        to_left, kept = part(rest, [c.id for c in join.left.columns], context)
        rest = conjunction(kept)
    if isinstance(join, Join) and join.kind in (JoinKind.INNER, JoinKind.RIGHT):
        to_right, kept = part(rest, [c.id for c in join.right.columns], context)
        rest = conjunction(kept)
    snapshot = isinstance(join, TemporalJoin) and join.snapshot is not None
    if (isinstance(join, Join) or snapshot) and join.kind is JoinKind.INNER:
        left, right = ({c.id for c in side.columns} for side in join.inputs)
        to_condition, kept = part_by(
            rest,
            lambda c: (
                bool(columns_of(c) & left)
                and bool(columns_of(c) & right)
                and movable(c, context, may_fail=True)
                and not follows_time(c)
            ),
        )
        rest = conjunction(kept)
    if not (to_left or to_right or to_condition):
        return None
    joined = join.with_(
        left=filtered(join.left, to_left),
        right=filtered(join.right, to_right),
        condition=conjunction((join.condition, *to_condition)),
    )
    return filtered(joined, (rest,))


RULE = Rule("push_filter_into_join", Filter, push_filter_into_join)
