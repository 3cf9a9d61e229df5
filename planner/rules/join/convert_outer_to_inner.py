"""An outer join whose padded rows are thrown away is not an outer join.

    Filter y.v > 3 (Join LEFT c X Y)         →   Filter y.v > 3 (Join INNER c X Y)
    Filter y.v > 3 (Join FULL c X Y)         →   Filter y.v > 3 (Join RIGHT c X Y)
    Join INNER y.v = z.v (Join LEFT c X Y) Z →   Join INNER y.v = z.v (Join INNER c X Y) Z

The condition is never TRUE when all columns of the padded side are NULL. Streaming: an inner join of append-only
inputs is append-only, an outer join retracts; and it keeps no match counts. Not for conditions that NULL may pass:
`y.v IS NULL`, `COALESCE(y.v, 9) > 3`.
"""

from __future__ import annotations

from planner.logical.nodes import Filter, Join, LogicalNode
from planner.rule import Rule, RuleContext
from runtime.expr.analysis import conjuncts, rejects_nulls
from runtime.expr.nodes import Expr
from runtime.plan.nodes import JoinKind

__all__ = ["RULE"]


def convert_outer_to_inner(node: Filter | Join, context: RuleContext) -> LogicalNode | None:
    if isinstance(node, Filter):
        changed = _narrowed(node.input, node.predicate, context)
        return None if changed is None else node.with_(input=changed)
    # Rows of a side that is kept anyway must not be lost: only the sides whose unmatched rows the join drops.
    left = None if node.kind.keeps_left or node.kind is JoinKind.ANTI else _narrowed(node.left, node.condition, context)
    right = None if node.kind.keeps_right else _narrowed(node.right, node.condition, context)
    if left is None and right is None:
        return None
    return node.with_(left=left or node.left, right=right or node.right)


_WITHOUT_LEFT_PADDING = {JoinKind.LEFT: JoinKind.INNER, JoinKind.FULL: JoinKind.RIGHT}
_WITHOUT_RIGHT_PADDING = {JoinKind.RIGHT: JoinKind.INNER, JoinKind.FULL: JoinKind.LEFT}


def _narrowed(join: LogicalNode, condition: Expr, context: RuleContext) -> Join | None:
    """The join with fewer padded rows, None when `condition` may pass all of them."""
    if not isinstance(join, Join):
        return None
    kind = join.kind
    if kind.keeps_left and _rejects(condition, join.right, context):
        kind = _WITHOUT_LEFT_PADDING[kind]
    if kind.keeps_right and _rejects(condition, join.left, context):
        kind = _WITHOUT_RIGHT_PADDING[kind]
    return None if kind is join.kind else join.with_(kind=kind)


def _rejects(condition: Expr, padded: LogicalNode, context: RuleContext) -> bool:
    columns = {c.id for c in padded.columns}
    return any(rejects_nulls(part, columns, context.functions) for part in conjuncts(condition))


RULE = Rule("convert_outer_to_inner", (Filter, Join), convert_outer_to_inner)
