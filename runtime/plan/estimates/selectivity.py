"""The share of rows that pass a predicate, by its form: equality by the number of values, ranges by the column's least and
greatest value or a third, and so on (as in System R).

Both ends of a range of one column (`BETWEEN`) are measured together. NULLs pass no comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from runtime.expr.analysis import columns_of
from runtime.expr.nodes import Call, ColumnRef, Constants, Expr, InList, Literal
from runtime.plan.estimates.positions import position_of

__all__ = ["Known", "selectivity"]

_RANGE = 1 / 3
_PATTERN = 0.1
_UNKNOWN = 0.25
_COMPARISONS = ("<", "<=", ">", ">=")


class Known(NamedTuple):
    """What is known of a column: the share of NULLs, and its least and greatest value (`position_of`); None is
    unknown."""

    nulls: float | None = None
    low: float | None = None
    high: float | None = None


Distinct = Callable[[int], float]
Facts = Callable[[int], Known]


def selectivity(predicate: Expr, distinct: Distinct, known: Facts = lambda column: Known()) -> float:
    """A share between 0 and 1; `distinct` gives the number of values of a column, `known` what else there is."""
    match predicate:
        case Literal(value=value):
            return 1.0 if value is True else 0.0
        case Call(function="AND", args=args):
            return _all_of(args, distinct, known)
        case Call(function="OR", args=args):
            missed = 1.0
            for arg in args:
                missed *= 1 - selectivity(arg, distinct, known)
            return 1 - missed
        case Call(function="NOT", args=(arg,)):
            return 1 - selectivity(arg, distinct, known)
        case Call(function="=", args=args):
            return _present(args, known) / _most_values(args, distinct)
        case Call(function="IS NOT DISTINCT FROM", args=args):
            return 1 / _most_values(args, distinct)
        case Call(function="<>", args=args):
            return _present(args, known) * (1 - 1 / _most_values(args, distinct))
        case Call(function="IS DISTINCT FROM", args=args):
            return 1 - 1 / _most_values(args, distinct)
        case Call(function="<" | "<=" | ">" | ">="):
            return _all_of((predicate,), distinct, known)
        case Call(function="LIKE" | "SIMILAR TO"):
            return _PATTERN
        case Call(function="IS NULL", args=(arg,)):
            return _nulls(arg, known)
        case Call(function="IS NOT NULL", args=(arg,)):
            return 1 - _nulls(arg, known)
        case InList(value=value, items=items):
            return _present((value,), known) * min(1.0, _count(items) / _values(value, distinct))
        case _:
            return _UNKNOWN


def _count(items: tuple[Expr, ...]) -> int:
    return sum(len(i.values) if isinstance(i, Constants) else 1 for i in items)


def _all_of(parts: Iterable[Expr], distinct: Distinct, known: Facts) -> float:
    """The share that passes all parts: those about one column's place in its range together, the others as if they
    knew nothing of one another."""
    share = 1.0
    ranges: dict[int, tuple[float, float]] = {}
    for part in parts:
        bound = _bound(part, known)
        if bound is None:
            comparison = isinstance(part, Call) and part.function in _COMPARISONS
            share *= _RANGE if comparison else selectivity(part, distinct, known)
            continue
        column, low, high = bound
        before = ranges.get(column, (0.0, 1.0))
        ranges[column] = max(before[0], low), min(before[1], high)
    for column, (low, high) in ranges.items():
        share *= max(high - low, 0.0) * (1 - (known(column).nulls or 0.0))
    return share


def _bound(part: Expr, known: Facts) -> tuple[int, float, float] | None:
    """A comparison of a column with a constant as a piece of the column's range, which is from 0 to 1."""
    match part:
        case Call(function="<" | "<=" | ">" | ">=", args=(ColumnRef(id=column), Literal(value=value))):
            facts, at = known(column), position_of(value)
        case _:
            return None
    if at is None or facts.low is None or facts.high is None or facts.high <= facts.low:
        return None
    place = min(1.0, max(0.0, (at - facts.low) / (facts.high - facts.low)))
    return (column, 0.0, place) if part.function in ("<", "<=") else (column, place, 1.0)


def _nulls(expr: Expr, known: Facts) -> float:
    share = known(expr.id).nulls if isinstance(expr, ColumnRef) else None
    return _PATTERN if share is None else share


def _present(args: Iterable[Expr], known: Facts) -> float:
    """The share of rows in which all columns that are compared have a value."""
    share = 1.0
    for arg in args:
        if isinstance(arg, ColumnRef):
            share *= 1 - (known(arg.id).nulls or 0.0)
    return share


def _most_values(args: Iterable[Expr], distinct: Distinct) -> float:
    return max(_values(arg, distinct) for arg in args)


def _values(expr: Expr, distinct: Distinct) -> float:
    columns = columns_of(expr)
    return max(1.0, max((distinct(column) for column in columns), default=1.0))
