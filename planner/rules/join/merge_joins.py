"""Regular joins on one common key become one join of several tables.

    Join LEFT (a.k = d.k) (Join (b.k = c.k) (Join (a.k = b.k) A B) C) D
      →   MultiJoin INNER, INNER, LEFT on (a.k) = (b.k) = (c.k) = (d.k) A B C D

Streaming: each input is kept once, and nothing of the joins between them, so that a chain over n tables keeps n of them
instead of about n²/2; the output is the same. INNER and LEFT joins whose conditions are equalities of the whole key and
nothing else. A LEFT join is part of it where its key is that of the first table or of one joined by INNER. Not in batch
mode, where an inner join of what only comes keeps no more either way; not where state has a time to live, which the rows
between would have, too.

`table.optimizer.multi-join.enabled` = false keeps the chains, except where the hint MULTI_JOIN names their tables.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.logical.nodes import Join, JoinKind, LogicalNode, MultiJoin, Project
from planner.rule import Rule, RuleContext
from planner.traits.conditions import EquiPair, split_equalities
from planner.traits.context import STATE_TTL
from runtime.core.options import bool_option
from runtime.expr.nodes import ColumnRef, Expr

__all__ = ["MULTI_JOIN", "RULE"]

MULTI_JOIN = bool_option(
    "table.optimizer.multi-join.enabled",
    True,
    "whether joins of three and more tables on one key run in one operator that keeps each table once",
)

HINT = "multi"
"""The hint of a join that is to be merged, whatever the option says."""


@dataclass(frozen=True, slots=True)
class _Group:
    """Tables on one key: what MultiJoin holds, and for each part of the key the expressions that are equal to it in every
    row (those of tables that are not padded)."""

    parts: tuple[LogicalNode, ...]
    kinds: tuple[JoinKind, ...]
    keys: tuple[tuple[Expr, ...], ...]
    equal: tuple[frozenset[Expr], ...]

    def order_of(self, exprs: list[Expr]) -> list[int] | None:
        """Which part of the key each expression is; None where one is none, or not all are named once."""
        places = [next((i for i, known in enumerate(self.equal) if expr in known), -1) for expr in exprs]
        return places if sorted(places) == list(range(len(self.equal))) else None


def merge_joins(node: Join, context: RuleContext) -> LogicalNode | None:
    if context.batch or context.options.get(STATE_TTL):
        return None
    group = _group(node, context.options.get(MULTI_JOIN))
    if group is None or len(group.parts) < 3:
        return None
    made = MultiJoin(group.parts, group.kinds, group.keys)
    wanted = node.columns
    if [c.id for c in made.columns] == [c.id for c in wanted]:
        return made
    return Project(made, tuple((c, c.ref()) for c in wanted))


def _group(plan: LogicalNode, enabled: bool) -> _Group | None:
    """The tables under joins on one key, from left to right; None for any other plan."""
    if isinstance(plan, Project) and _only_passes(plan):
        return _group(plan.input, enabled)
    if not isinstance(plan, Join) or plan.kind not in (JoinKind.INNER, JoinKind.LEFT):
        return None
    names = [name for name, _ in plan.hints]
    if (not enabled and HINT not in names) or any(name != HINT for name in names):
        return None
    pairs, rest = split_equalities(plan.condition, plan.left, plan.right)
    if rest or not pairs or any(pair.null_safe for pair in pairs):
        return None
    left = _matched(plan.left, [p.left for p in pairs], enabled)
    right = None if plan.kind is JoinKind.LEFT else _matched(plan.right, [p.right for p in pairs], enabled)
    return _joined(plan, pairs, left, right)


def _matched(plan: LogicalNode, exprs: list[Expr], enabled: bool) -> tuple[_Group, list[int]] | None:
    """The tables of one side, if they are joined on the key that a join on these expressions has."""
    group = _group(plan, enabled)
    order = None if group is None else group.order_of(exprs)
    return None if group is None or order is None else (group, order)


def _joined(
    plan: Join, pairs: list[EquiPair], left: tuple[_Group, list[int]] | None, right: tuple[_Group, list[int]] | None
) -> _Group | None:
    first = _in_order(left) if left is not None else _table(plan.left, [p.left for p in pairs])
    second = _in_order(right) if right is not None else _table(plan.right, [p.right for p in pairs])
    if first is None or second is None:
        return None
    equal = first.equal
    if plan.kind is JoinKind.INNER:
        equal = tuple(a | b for a, b in zip(first.equal, second.equal, strict=True))
    kinds = first.kinds + (plan.kind, *second.kinds[1:])
    return _Group(first.parts + second.parts, kinds, first.keys + second.keys, equal)


def _table(plan: LogicalNode, keys: list[Expr]) -> _Group | None:
    """A single table. None where two parts of the key are the same expression: they would be one."""
    if len(set(keys)) != len(keys):
        return None
    return _Group((plan,), (JoinKind.INNER,), (tuple(keys),), tuple(frozenset((key,)) for key in keys))


def _in_order(side: tuple[_Group, list[int]]) -> _Group:
    """The group with its key in the order of another."""
    group, order = side
    keys = tuple(tuple(each[i] for i in order) for each in group.keys)
    return _Group(group.parts, group.kinds, keys, tuple(group.equal[i] for i in order))


def _only_passes(plan: Project) -> bool:
    return all(isinstance(e, ColumnRef) and e.id == c.id for c, e in plan.items)


RULE = Rule("merge_joins", Join, merge_joins, after=("reorder_joins", "prune_columns", "materialize_time_attributes"))
