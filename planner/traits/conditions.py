"""Reading predicates: the columns they fix and the columns they equate."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from planner.logical.nodes import LogicalNode
from runtime.core.types import TypeRoot
from runtime.expr.analysis import columns_of, conjuncts
from runtime.expr.nodes import Call, Cast, ColumnRef, Expr, Literal

__all__ = ["EquiPair", "constant_columns", "equated_columns", "equi_pair", "injective_source", "split_equalities"]


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


def equated_columns(condition: Expr, left: LogicalNode, right: LogicalNode) -> tuple[frozenset[int], frozenset[int]]:
    """The columns of the left and of the right side that a row of the other side fixes: each is equal to some
    expression over that side, by itself or through a one-to-one image (`CAST(k AS BIGINT)`)."""
    pairs, _ = split_equalities(condition, left, right)

    def fixed(exprs: Iterable[Expr]) -> frozenset[int]:
        return frozenset(column for e in exprs if (column := injective_source(e)) is not None)

    return fixed(p.left for p in pairs), fixed(p.right for p in pairs)


def injective_source(expr: Expr) -> int | None:
    """The column of which the expression is a plain or a one-to-one image, None when there is none."""
    if isinstance(expr, ColumnRef):
        return expr.id
    if isinstance(expr, Cast) and isinstance(expr.value, ColumnRef) and _one_to_one(expr):
        return expr.value.id
    return None


_WIDTH = {TypeRoot.TINYINT: 1, TypeRoot.SMALLINT: 2, TypeRoot.INT: 3, TypeRoot.BIGINT: 4}


def _one_to_one(cast: Cast) -> bool:
    source, target = cast.value.type, cast.type
    if source.materialized().same_ignoring_nullability(target.materialized()):
        return True
    if source.root in _WIDTH:
        return _WIDTH.get(target.root, 0) >= _WIDTH[source.root] or (target.is_character and target.precision >= 20)
    return source.is_character and target.is_character and target.precision >= source.precision


def _ids(plan: LogicalNode) -> frozenset[int]:
    return frozenset(c.id for c in plan.columns)
