"""Compute a correlated right side once for every distinct value of the outer columns that it reads, and join on those.

    DependentJoin k c X Y   →   Join k (c AND x IS NOT DISTINCT FROM d) X (Y for each d in D)       D = distinct x of X

How Y is computed for each d: `domain.py`. The copy of X below D is the same operator as X, so X is read once.

Streaming: keeps the distinct outer values in state, and what Y keeps per value; retracts when X or Y do. The simpler
forms come first because they keep less: this one is for what they leave (inequalities below an aggregate, outer
columns in a SELECT list or in UNNEST).
"""

from __future__ import annotations

from planner.logical.build import not_distinct, projected, renaming, resolve_outer
from planner.logical.expressions import node_expressions, outer_ids, walk_plan
from planner.logical.nodes import Aggregate, DependentJoin, Join, LogicalNode
from planner.rule import Rule, RuleContext
from planner.rules.subquery.domain import Unnesting
from planner.traits.changes import is_append_only
from planner.traits.determinism import culprit
from planner.traits.keys import is_unique_on
from runtime.core.errors import UnsupportedError
from runtime.expr.analysis import is_deterministic
from runtime.expr.function import shown_name
from runtime.expr.rewrite import conjunction

__all__ = ["RULE"]


def decorrelate_by_domain(node: DependentJoin, context: RuleContext) -> LogicalNode | None:
    columns = {c.id: c for c in node.left.columns}
    read = outer_ids(node.right) & columns.keys()
    if not read:
        return None
    _check_values(node.left, context)
    outer = tuple(c for c in node.left.columns if c.id in read)
    domain, values = renaming(node.left, outer)
    if not is_unique_on(node.left, read, context.traits):
        domain = Aggregate(domain, tuple(v.ref() for v in values), ())
    bound = Unnesting(domain, {c.id: v for c, v in zip(outer, values, strict=True)}, context).push(node.right)
    same = (not_distinct(c.ref(), bound.columns[c.id].ref()) for c in outer)
    condition = conjunction((resolve_outer(node.condition, columns), *same))
    return projected(Join(node.left, bound.plan, node.kind, condition), node.columns)


def _check_values(left: LogicalNode, context: RuleContext) -> None:
    """The outer rows are computed twice, for the result and for the domain: raises UnsupportedError E1615 where that would
    be other rows."""
    for node in walk_plan(left):
        for expr in node_expressions(node):
            call = culprit(expr, context.traits)
            if call is None:
                continue
            if is_deterministic(expr, context.functions) and is_append_only(left, context.traits):
                # What the clock says is the same in both.
                continue
            raise UnsupportedError(
                f"this correlated subquery would see another value of {shown_name(call.function)} than the row that it is for",
                code="E1615",
                span=call.span,
                hint="compute the value in a materialized view, or compare with = in the subquery's WHERE",
            )


RULE = Rule(
    "decorrelate_by_domain", DependentJoin, decorrelate_by_domain, after=("decorrelate_by_predicate",), essential=True
)
