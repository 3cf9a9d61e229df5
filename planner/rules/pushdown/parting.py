"""Which conjuncts of a filter may be evaluated earlier."""

from __future__ import annotations

from collections.abc import Callable, Collection

from planner.rule import RuleContext
from runtime.expr.analysis import (
    can_fail,
    columns_of,
    conjuncts,
    contains_subquery,
    follows_time,
    is_deterministic,
    is_dynamic_otherwise,
)
from runtime.expr.nodes import Expr

__all__ = ["movable", "part", "part_by"]


def movable(condition: Expr, context: RuleContext, *, may_fail: bool = False) -> bool:
    """Whether a condition gives the same answer wherever it is asked.

    Not chance and not the clock: both depend on when they are asked. A condition that follows the time that passes
    (`MZ_NOW()`) holds at a time, wherever it stands, and has to reach a filter. `may_fail`: a condition that fails on
    some rows is welcome too, because the new place sees no row (or value) that the old one did not.
    """
    if (
        contains_subquery(condition)
        or not is_deterministic(condition, context.functions)
        or is_dynamic_otherwise(condition, context.functions)
    ):
        return False
    return may_fail or follows_time(condition) or not can_fail(condition, context.functions)


def part(
    predicate: Expr, columns: Collection[int], context: RuleContext, *, may_fail: bool = False
) -> tuple[list[Expr], list[Expr]]:
    """The conjuncts that read only `columns` (and at least one) and may move, and those that stay."""
    return part_by(
        predicate,
        lambda c: (
            len(columns_of(c)) > 0 and columns_of(c) <= frozenset(columns) and movable(c, context, may_fail=may_fail)
        ),
    )


def part_by(predicate: Expr, test: Callable[[Expr], bool]) -> tuple[list[Expr], list[Expr]]:
    """The conjuncts that pass a test, and the others."""
    moved: list[Expr] = []
    kept: list[Expr] = []
    for condition in conjuncts(predicate):
        (moved if test(condition) else kept).append(condition)
    return moved, kept
