"""Conditions over single columns that hold for every row of a plan, as far as its filters tell."""

from __future__ import annotations

from planner.logical.nodes import (
    Aggregate,
    AssignWatermark,
    Filter,
    Join,
    Limit,
    LogicalNode,
    Over,
    Project,
    Sort,
    TopN,
    Unnest,
    WindowTable,
)
from runtime.expr.analysis import columns_of, conjuncts
from runtime.expr.nodes import ColumnRef, Expr
from runtime.expr.rewrite import substitute
from runtime.plan.nodes import JoinKind

__all__ = ["known_conditions"]

_PASSING = (AssignWatermark, Limit, Over, Sort, TopN, Unnest, WindowTable)


def known_conditions(plan: LogicalNode) -> list[Expr]:
    """Conditions that read exactly one column of the plan each and are TRUE for all its rows."""
    match plan:
        case Filter(input=source, predicate=predicate):
            return [*known_conditions(source), *(c for c in conjuncts(predicate) if len(columns_of(c)) == 1)]
        case Project(input=source, items=items):
            names = {e.id: c.ref() for c, e in items if isinstance(e, ColumnRef)}
            return [substitute(c, names) for c in known_conditions(source) if columns_of(c) <= names.keys()]
        case Aggregate(input=source, group=group):
            columns = {g.id for g in group}
            return [c for c in known_conditions(source) if columns_of(c) <= columns]
        case Join(left=left, right=right, kind=kind):
            found = known_conditions(left) if not kind.keeps_right else []
            return found + known_conditions(right) if kind in (JoinKind.INNER, JoinKind.RIGHT) else found
        case _ if isinstance(plan, _PASSING):
            return known_conditions(plan.input)
        case _:
            return []
