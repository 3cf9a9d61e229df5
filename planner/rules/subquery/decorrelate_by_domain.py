"""Compute a correlated right side once for every distinct value of the outer columns that it reads, and join on those.

    DependentJoin k c X Y   →   Join k (c AND x IS NOT DISTINCT FROM d) X (Y for each d in D)       D = distinct x of X

How Y is computed for each d: `domain.py`. The copy of X below D is the same operator as X, so X is read once.

Streaming: keeps the distinct outer values in state, and what Y keeps per value; retracts when X or Y do. The simpler
forms come first because they keep less: this one is for what they leave (inequalities below an aggregate, outer
columns in a SELECT list or in UNNEST).
"""

from __future__ import annotations

from planner.logical.build import not_distinct, projected, renaming, resolve_outer
from planner.logical.expressions import outer_ids
from planner.logical.nodes import Aggregate, DependentJoin, Join, LogicalNode
from planner.rule import Rule, RuleContext
from planner.rules.subquery.domain import Unnesting
from planner.traits.keys import is_unique_on
from runtime.expr.rewrite import conjunction

__all__ = ["RULE"]


def decorrelate_by_domain(node: DependentJoin, context: RuleContext) -> LogicalNode | None:
    columns = {c.id: c for c in node.left.columns}
    read = outer_ids(node.right) & columns.keys()
    if not read:
        return None
    outer = tuple(c for c in node.left.columns if c.id in read)
    domain, values = renaming(node.left, outer)
    if not is_unique_on(node.left, read, context.traits):
        domain = Aggregate(domain, tuple(v.ref() for v in values), ())
    bound = Unnesting(domain, {c.id: v for c, v in zip(outer, values, strict=True)}, context).push(node.right)
    same = (not_distinct(c.ref(), bound.columns[c.id].ref()) for c in outer)
    condition = conjunction((resolve_outer(node.condition, columns), *same))
    return projected(Join(node.left, bound.plan, node.kind, condition), node.columns)


RULE = Rule(
    "decorrelate_by_domain", DependentJoin, decorrelate_by_domain, after=("decorrelate_by_predicate",), essential=True
)
