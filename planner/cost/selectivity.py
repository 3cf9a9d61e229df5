"""The share of rows that pass a predicate, by its form: equality by the number of values, ranges a third, and so on (as
in System R)."""

from __future__ import annotations

from collections.abc import Callable

from runtime.expr.analysis import columns_of
from runtime.expr.nodes import Call, Expr, InList, Literal

__all__ = ["selectivity"]

_RANGE = 1 / 3
_PATTERN = 0.1
_UNKNOWN = 0.25


def selectivity(predicate: Expr, distinct: Callable[[int], float]) -> float:
    """A share between 0 and 1; `distinct` gives the number of values of a column."""
    match predicate:
        case Literal(value=value):
            return 1.0 if value is True else 0.0
        case Call(function="AND", args=args):
            share = 1.0
            for arg in args:
                share *= selectivity(arg, distinct)
            return share
        case Call(function="OR", args=args):
            missed = 1.0
            for arg in args:
                missed *= 1 - selectivity(arg, distinct)
            return 1 - missed
        case Call(function="NOT", args=(arg,)):
            return 1 - selectivity(arg, distinct)
        case Call(function="=" | "IS NOT DISTINCT FROM", args=args):
            return _equality(args, distinct)
        case Call(function="<>" | "IS DISTINCT FROM", args=args):
            return 1 - _equality(args, distinct)
        case Call(function="<" | "<=" | ">" | ">="):
            return _RANGE
        case Call(function="LIKE" | "SIMILAR TO" | "IS NULL"):
            return _PATTERN
        case Call(function="IS NOT NULL"):
            return 1 - _PATTERN
        case InList(value=value, items=items):
            return min(1.0, len(items) / _values(value, distinct))
        case _:
            return _UNKNOWN


def _equality(args: tuple[Expr, ...], distinct: Callable[[int], float]) -> float:
    return 1 / max(_values(arg, distinct) for arg in args)


def _values(expr: Expr, distinct: Callable[[int], float]) -> float:
    columns = columns_of(expr)
    return max(1.0, max((distinct(column) for column in columns), default=1.0))
