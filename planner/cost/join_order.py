"""The order of inner joins: which tables to join first, so that little is kept in state and few changes flow.

    Join(Join(lineitem, orders), customer WHERE ...)  →  Join(lineitem, Join(orders, customer WHERE ...))

All inner joins that stand directly on one another are taken apart into relations and conjuncts. Up to ten relations,
dynamic programming over subsets finds the cheapest bushy tree; above, the cheapest pair is joined again and again
(greedy). Joins without a condition are never made here. Without statistics for every relation the written order stays:
a guess must not undo what a person chose.

A set of relations and the relations that a condition reads are bits of a number, so that the many splits that have no
condition cost nothing; a split that is dearer than the best one before its own cost is known is not looked at further.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from operator import itemgetter

from planner.cost.cost import estimate, has_statistics, total_cost
from planner.logical.nodes import Join, JoinKind, LogicalNode, Project
from planner.traits.context import TraitContext
from runtime.expr.analysis import columns_of, conjuncts
from runtime.expr.nodes import ColumnRef, Expr
from runtime.expr.rewrite import conjunction

__all__ = ["MOST_EXHAUSTIVE", "reorder", "settled_joins", "semi_join_below"]

MOST_EXHAUSTIVE = 10
"""Up to so many relations all trees are compared."""
_CHEAPER = 0.95
"""Of the cost of what was written: what is hardly cheaper is not worth another plan."""


@dataclass(frozen=True, slots=True, eq=False)
class _Tree:
    """A joined subset of the relations (a bit per relation), its plan and what it costs."""

    members: int
    plan: LogicalNode
    cost: float


@dataclass(frozen=True, slots=True)
class _Condition:
    """A conjunct, and the relations that it reads (a bit per relation)."""

    expr: Expr
    reads: int


def reorder(join: Join, context: TraitContext) -> LogicalNode | None:
    """The same rows and columns by a cheaper order of joins, None when the written order stays.

    Streaming: any order is right for changes too; state and intermediate changes differ, which is what is compared.
    """
    relations, exprs = _flatten(join)
    if len(relations) < 3 or join.hints or not all(has_statistics(r, context) for r in relations):
        return None
    leaves = [_Tree(1 << i, r, total_cost(r, context)) for i, r in enumerate(relations)]
    conditions = _conditions(relations, exprs)
    if any(c.reads.bit_count() < 2 for c in conditions):
        # A condition over a single relation would be lost: predicate push-down moves them before this runs.
        return None
    best = (
        _exhaustive(leaves, conditions, context)
        if len(leaves) <= MOST_EXHAUSTIVE
        else _greedy(leaves, conditions, context)
    )
    if best is None or best.cost >= total_cost(join, context) * _CHEAPER:
        return None
    wanted = join.columns
    if [c.id for c in best.plan.columns] == [c.id for c in wanted]:
        return best.plan
    return Project(best.plan, tuple((c, c.ref()) for c in wanted))


def semi_join_below(join: Join, context: TraitContext) -> LogicalNode | None:
    """A SEMI or ANTI join whose condition reads one relation of the inner joins on its left, moved onto that relation;
    None where that is not cheaper. Both are compared with the other joins in their best order."""
    relations, _ = _flatten(join.left)
    read = columns_of(join.condition)
    asked = [r for r in relations if any(c.id in read for c in r.columns)]
    if len(relations) < 2 or len(asked) != 1 or not has_statistics(join, context):
        return None
    (relation,) = asked
    below = _replaced(join.left, relation, join.with_(left=relation))
    above = join.with_(left=_ordered(join.left, context))
    return below if total_cost(_ordered(below, context), context) < total_cost(above, context) * _CHEAPER else None


def _ordered(plan: LogicalNode, context: TraitContext) -> LogicalNode:
    if isinstance(plan, Project):
        return plan.with_(input=_ordered(plan.input, context))
    return (reorder(plan, context) if isinstance(plan, Join) else None) or plan


def _replaced(plan: LogicalNode, old: LogicalNode, new: LogicalNode) -> LogicalNode:
    """A tree of inner joins with another relation in the place of one."""
    if plan is old:
        return new
    if isinstance(plan, Project):
        return plan.with_(input=_replaced(plan.input, old, new))
    if isinstance(plan, Join) and plan.kind is JoinKind.INNER:
        return plan.with_(left=_replaced(plan.left, old, new), right=_replaced(plan.right, old, new))
    return plan


def settled_joins(plan: LogicalNode) -> list[Join]:
    """The joins of an order that `reorder` found which need no further look: all, when all trees were compared. Of a
    greedy order the small parts may still do better by themselves."""
    joins = _joins(plan)
    if len(joins) < MOST_EXHAUSTIVE:
        return joins
    return [j for j in joins if len(_flatten(j)[0]) > MOST_EXHAUSTIVE]


def _joins(plan: LogicalNode) -> list[Join]:
    """The inner joins that stand directly on one another, from the top."""
    if isinstance(plan, Project) and isinstance(plan.input, Join) and _only_passes(plan):
        return _joins(plan.input)
    if not isinstance(plan, Join) or plan.kind is not JoinKind.INNER or plan.hints:
        return []
    return [plan, *_joins(plan.left), *_joins(plan.right)]


def _flatten(plan: LogicalNode) -> tuple[list[LogicalNode], list[Expr]]:
    """The relations under a tree of inner joins, left to right, and all conjuncts of their conditions."""
    if isinstance(plan, Project) and isinstance(plan.input, Join) and _only_passes(plan):
        return _flatten(plan.input)
    if not isinstance(plan, Join) or plan.kind is not JoinKind.INNER or plan.hints:
        return [plan], []
    left, left_conditions = _flatten(plan.left)
    right, right_conditions = _flatten(plan.right)
    return left + right, [*left_conditions, *right_conditions, *conjuncts(plan.condition)]


def _only_passes(plan: Project) -> bool:
    """Whether a projection between two joins only leaves columns out."""
    return all(isinstance(e, ColumnRef) and e.id == c.id for c, e in plan.items)


def _conditions(relations: list[LogicalNode], exprs: list[Expr]) -> list[_Condition]:
    owner = {column.id: 1 << i for i, relation in enumerate(relations) for column in relation.columns}
    found: list[_Condition] = []
    for expr in exprs:
        reads = 0
        for column in columns_of(expr):
            reads |= owner[column]
        found.append(_Condition(expr, reads))
    return found


def _usable(a: int, b: int, conditions: list[_Condition]) -> list[Expr]:
    """The conditions that can be checked where two sets of relations meet, and not before."""
    outside = ~(a | b)
    return [c.expr for c in conditions if not c.reads & outside and c.reads & ~a and c.reads & ~b]


def _joined(
    a: _Tree, b: _Tree, conditions: list[_Condition], context: TraitContext, below: float = math.inf
) -> _Tree | None:
    """The join of two trees by the conditions that need both; None when there is none, or when it costs more than
    `below` in any case."""
    if a.cost + b.cost >= below:
        return None
    usable = _usable(a.members, b.members, conditions)
    if not usable:
        return None
    plan = Join(a.plan, b.plan, JoinKind.INNER, conjunction(usable))
    own = estimate(plan, context)
    return _Tree(a.members | b.members, plan, a.cost + b.cost + own.state + own.changes)


def _exhaustive(leaves: list[_Tree], conditions: list[_Condition], context: TraitContext) -> _Tree | None:
    best: dict[int, _Tree] = {leaf.members: leaf for leaf in leaves}
    count = len(leaves)
    for size in range(2, count + 1):
        for chosen in combinations(range(count), size):
            members = sum(1 << i for i in chosen)
            found = _best_split(members, best, conditions, context)
            if found is not None:
                best[members] = found
    return best.get((1 << count) - 1)


def _best_split(
    members: int, best: dict[int, _Tree], conditions: list[_Condition], context: TraitContext
) -> _Tree | None:
    found: _Tree | None = None
    lowest = members & -members
    part = (members - 1) & members
    while part:
        # Each split once, with the lowest relation on the left, so that the written order wins ties.
        if part & lowest and part in best and (members ^ part) in best:
            below = math.inf if found is None else found.cost
            tree = _joined(best[part], best[members ^ part], conditions, context, below)
            if tree is not None and tree.cost < below:
                found = tree
        part = (part - 1) & members
    return found


def _greedy(leaves: list[_Tree], conditions: list[_Condition], context: TraitContext) -> _Tree | None:
    trees = list(leaves)
    joins = {pair: _joined(*pair, conditions, context) for pair in combinations(trees, 2)}
    while len(trees) > 1:
        choices = [(t.cost - a.cost - b.cost, a, b, t) for (a, b), t in joins.items() if t is not None]
        if not choices:
            return None
        _, left, right, made = min(choices, key=itemgetter(0))
        trees = [t for t in trees if t is not left and t is not right]
        # Pairs without either of the two are as they were; the new tree meets each of the others.
        joins = {p: t for p, t in joins.items() if left not in p and right not in p}
        joins.update({(t, made): _joined(t, made, conditions, context) for t in trees})
        trees.append(made)
    return trees[0]
