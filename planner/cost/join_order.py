"""The order of inner joins: which tables to join first, so that little is kept in state and few changes flow.

    Join(Join(lineitem, orders), customer WHERE ...)  →  Join(lineitem, Join(orders, customer WHERE ...))

All inner joins that stand directly on one another are taken apart into relations and conjuncts. Up to ten relations,
dynamic programming over subsets finds the cheapest bushy tree; above, the cheapest pair is joined again and again
(greedy). Joins without a condition are only made when nothing else is left. Without statistics for every relation the
written order stays: a guess must not undo what a person chose.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

from planner.cost.cost import estimate, has_statistics, total_cost
from planner.logical.nodes import Join, JoinKind, LogicalNode, Project
from planner.traits.context import TraitContext
from runtime.expr.analysis import columns_of, conjuncts
from runtime.expr.nodes import ColumnRef, Expr
from runtime.expr.rewrite import conjunction

__all__ = ["MOST_EXHAUSTIVE", "reorder"]

MOST_EXHAUSTIVE = 10
"""Up to so many relations all trees are compared."""


@dataclass(frozen=True, slots=True)
class _Tree:
    """A joined subset of the relations (a bit per relation), its plan and what it costs."""

    members: int
    plan: LogicalNode
    cost: float
    columns: frozenset[int]


def reorder(join: Join, context: TraitContext) -> LogicalNode | None:
    """The same rows and columns by a cheaper order of joins, None when the written order stays.

    Streaming: any order is right for changes too; state and intermediate changes differ, which is what is compared.
    """
    relations, conditions = _flatten(join)
    if len(relations) < 3 or join.hints or not all(has_statistics(r, context) for r in relations):
        return None
    leaves = [
        _Tree(1 << i, r, total_cost(r, context), frozenset(c.id for c in r.columns)) for i, r in enumerate(relations)
    ]
    best = (
        _exhaustive(leaves, conditions, context)
        if len(leaves) <= MOST_EXHAUSTIVE
        else _greedy(leaves, conditions, context)
    )
    if best is None or best.cost >= total_cost(join, context) * 0.95:
        return None
    wanted = join.columns
    if [c.id for c in best.plan.columns] == [c.id for c in wanted]:
        return best.plan
    return Project(best.plan, tuple((c, c.ref()) for c in wanted))


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


def _joined(a: _Tree, b: _Tree, conditions: Iterable[Expr], context: TraitContext) -> _Tree | None:
    """The join of two trees by the conditions that need both; None when there is none."""
    columns = a.columns | b.columns
    usable = [
        c
        for c in conditions
        if (reads := columns_of(c)) <= columns and not reads <= a.columns and not reads <= b.columns
    ]
    if not usable:
        return None
    return _tree(a, b, usable, context)


def _tree(a: _Tree, b: _Tree, conditions: list[Expr], context: TraitContext) -> _Tree:
    plan = Join(a.plan, b.plan, JoinKind.INNER, conjunction(conditions))
    own = estimate(plan, context)
    return _Tree(a.members | b.members, plan, a.cost + b.cost + own.state + own.changes, a.columns | b.columns)


def _exhaustive(leaves: list[_Tree], conditions: list[Expr], context: TraitContext) -> _Tree | None:
    if any(len(columns_of(c)) == 0 for c in conditions):
        return None
    best: dict[int, _Tree] = {leaf.members: leaf for leaf in leaves}
    count = len(leaves)
    for size in range(2, count + 1):
        for chosen in combinations(range(count), size):
            members = sum(1 << i for i in chosen)
            found = _best_split(members, best, conditions, context)
            if found is not None:
                best[members] = found
    return best.get((1 << count) - 1) if _all_used(conditions, leaves) else None


def _best_split(members: int, best: dict[int, _Tree], conditions: list[Expr], context: TraitContext) -> _Tree | None:
    found: _Tree | None = None
    part = (members - 1) & members
    while part:
        other = members ^ part
        # Each split once, with the lowest relation on the left, so that the written order wins ties.
        if part & (members & -members) and part in best and other in best:
            tree = _joined(best[part], best[other], conditions, context)
            if tree is not None and (found is None or tree.cost < found.cost):
                found = tree
        part = (part - 1) & members
    return found


def _all_used(conditions: list[Expr], leaves: list[_Tree]) -> bool:
    """Conditions over a single relation would be lost: predicate push-down moves them before this runs."""
    return not any(columns_of(c) <= leaf.columns for c in conditions for leaf in leaves)


def _greedy(leaves: list[_Tree], conditions: list[Expr], context: TraitContext) -> _Tree | None:
    if not _all_used(conditions, leaves) or any(not columns_of(c) for c in conditions):
        return None
    trees = list(leaves)
    while len(trees) > 1:
        choice: tuple[_Tree, _Tree, _Tree] | None = None
        for a, b in combinations(trees, 2):
            tree = _joined(a, b, conditions, context)
            if tree is not None and (
                choice is None or tree.cost - a.cost - b.cost < choice[2].cost - choice[0].cost - choice[1].cost
            ):
                choice = (a, b, tree)
        if choice is None:
            return None
        trees = [t for t in trees if t is not choice[0] and t is not choice[1]]
        trees.append(choice[2])
    return trees[0]
