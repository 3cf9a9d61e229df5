"""Reading predicates: the columns they fix and the columns they equate."""

from __future__ import annotations

from typing import NamedTuple

from planner.logical.nodes import LogicalNode
from runtime.expr.analysis import columns_of, conjuncts
from runtime.expr.nodes import Call, Cast, ColumnRef, Expr, Literal

__all__ = ["EquiPair", "constant_columns", "equal_columns", "equi_pair", "split_equalities"]


def constant_columns(predicate: Expr) -> frozenset[int]:
    """The columns that have one value in all rows that pass: `column = literal`."""
    found: set[int] = set()
    for part in conjuncts(predicate):
        if isinstance(part, Call) and part.function == "=" and len(part.args) == 2:
            for a, b in (part.args, part.args[::-1]):
                if isinstance(a, ColumnRef) and _is_constant(b):
                    found.add(a.id)
    return frozenset(found)


def _is_constant(expr: Expr) -> bool:
    return isinstance(expr, Literal) or (isinstance(expr, Cast) and _is_constant(expr.value))


class EquiPair(NamedTuple):
    """`left = right`, each over one side of a join; `null_safe` for IS NOT DISTINCT FROM."""

    left: Expr
    right: Expr
    null_safe: bool


def equi_pair(part: Expr, left: frozenset[int], right: frozenset[int]) -> EquiPair | None:
    """The conjunct as an equality of the two sides, None when it is something else.

    `a = b OR (a IS NULL AND b IS NULL)` is a null-safe equality, as `a IS NOT DISTINCT FROM b` is.
    """
    if not isinstance(part, Call):
        return None
    if part.function in ("=", "IS NOT DISTINCT FROM") and len(part.args) == 2:
        a, b = part.args
        a_reads, b_reads = columns_of(a), columns_of(b)
        if a_reads and b_reads:
            if a_reads <= left and b_reads <= right:
                return EquiPair(a, b, part.function != "=")
            if a_reads <= right and b_reads <= left:
                return EquiPair(b, a, part.function != "=")
    if part.function == "OR" and len(part.args) == 2:
        for equal, nulls in (part.args, part.args[::-1]):
            pair = equi_pair(equal, left, right)
            if pair is not None and not pair.null_safe and _both_null(nulls) == {pair.left, pair.right}:
                return pair._replace(null_safe=True)
    return None


def _both_null(expr: Expr) -> set[Expr]:
    parts = conjuncts(expr)
    tested = {p.args[0] for p in parts if isinstance(p, Call) and p.function == "IS NULL"}
    return tested if len(tested) == len(parts) == 2 else set()


def split_equalities(condition: Expr, left: LogicalNode, right: LogicalNode) -> tuple[list[EquiPair], list[Expr]]:
    """The equalities between the sides of a join, and the conjuncts that remain."""
    lefts, rights = _ids(left), _ids(right)
    pairs: list[EquiPair] = []
    rest: list[Expr] = []
    for part in conjuncts(condition):
        pair = equi_pair(part, lefts, rights)
        if pair is None:
            rest.append(part)
        elif pair not in pairs:
            pairs.append(pair)
    return pairs, rest


def equal_columns(condition: Expr, left: LogicalNode, right: LogicalNode) -> list[tuple[int, int]]:
    """Pairs (left column, right column) that a join condition equates."""
    pairs, _ = split_equalities(condition, left, right)
    return [(p.left.id, p.right.id) for p in pairs if isinstance(p.left, ColumnRef) and isinstance(p.right, ColumnRef)]


def _ids(plan: LogicalNode) -> frozenset[int]:
    return frozenset(c.id for c in plan.columns)
