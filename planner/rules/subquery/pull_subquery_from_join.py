"""A subquery in an ON clause moves to where it may stand.

    Join INNER (c AND sub) X Y            →  Filter sub (Join INNER c X Y)
    Join LEFT  (c AND sub over Y) X Y     →  Join LEFT c X (Filter sub Y)        SEMI and ANTI too, RIGHT the other way
    Join LEFT  (c AND sub over X) X Y     →  Join LEFT (c AND m) (Project X, m = sub X) Y           RIGHT and FULL too
    Join LEFT  (c AND sub over both) X Y  →  DependentJoin LEFT c X (Filter sub(outer(x), y) Y)

Streaming: the subquery costs what it costs in WHERE or in a SELECT list; no state of its own. FULL with a subquery
over both sides has no such form: UnsupportedError.
"""

from __future__ import annotations

from planner.logical.build import filtered, passing, projected, to_outer_columns
from planner.logical.expressions import outer_ids
from planner.logical.nodes import DependentJoin, Join, LogicalNode, Project
from planner.rule import Rule, RuleContext
from runtime.core.errors import Span, UnsupportedError
from runtime.expr.analysis import columns_of, conjuncts, contains_subquery
from runtime.expr.nodes import Expr, SubqueryExpr, fresh_column, walk
from runtime.expr.rewrite import conjunction
from runtime.plan.nodes import JoinKind

__all__ = ["RULE"]


def pull_subquery_from_join(node: Join, context: RuleContext) -> LogicalNode | None:
    parts = conjuncts(node.condition)
    inner = [p for p in parts if contains_subquery(p)]
    if not inner:
        return None
    plain = node.with_(condition=conjunction(p for p in parts if not contains_subquery(p)))
    if node.kind is JoinKind.INNER:
        return filtered(plain, inner)
    return projected(_placed(plain, inner[0], inner[1:]), node.columns)


def _placed(join: Join, part: Expr, others: list[Expr]) -> LogicalNode:
    """The join with one condition put into an input; the others stay in its condition for the next time."""
    left, right = (frozenset(c.id for c in side.columns) for side in join.inputs)
    used = _used(part)
    rest = join.with_(condition=conjunction((join.condition, *others)))
    match join.kind:
        case JoinKind.FULL if used & left and used & right:
            raise UnsupportedError(
                "a subquery in the ON clause of a FULL JOIN may only refer to one side",
                span=_span(part),
                hint="compute it in a subquery in FROM",
            )
        case JoinKind.RIGHT if not used & right:
            return rest.with_(left=filtered(rest.left, (part,)))
        case JoinKind.RIGHT if used & left:
            return projected(
                _placed(Join(join.right, join.left, JoinKind.LEFT, join.condition), part, others), join.columns
            )
        case JoinKind.RIGHT:
            return _marked(rest, part, on_left=False)
        case JoinKind.FULL:
            return _marked(rest, part, on_left=not used & right)
        case _ if not used & left:
            return rest.with_(right=filtered(rest.right, (part,)))
        case _ if not used & right:
            return _marked(rest, part, on_left=True)
        case _:
            # The other conditions go along: their subqueries may not stay in a dependent join.
            below = filtered(rest.right, (to_outer_columns(p, left) for p in (part, *others)))
            return DependentJoin(rest.left, below, rest.kind, join.condition)


def _marked(join: Join, part: Expr, *, on_left: bool) -> Join:
    """The join with the condition as a column of one of its inputs."""
    side = join.left if on_left else join.right
    mark = fresh_column("matches", part.type)
    marked = Project(side, (*passing(side.columns), (mark, part)))
    condition = conjunction((join.condition, mark.ref()))
    return join.with_(left=marked, condition=condition) if on_left else join.with_(right=marked, condition=condition)


def _used(part: Expr) -> frozenset[int]:
    """Columns of the join that a condition reads, by itself or from inside its subqueries."""
    used = columns_of(part)
    for expr in walk(part):
        if isinstance(expr, SubqueryExpr) and isinstance(expr.plan, LogicalNode):
            used |= outer_ids(expr.plan)
    return used


def _span(part: Expr) -> Span | None:
    return next((e.span for e in walk(part) if isinstance(e, SubqueryExpr)), None)


RULE = Rule("pull_subquery_from_join", Join, pull_subquery_from_join, essential=True)
