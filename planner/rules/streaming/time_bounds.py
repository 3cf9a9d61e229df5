"""Bounds on the distance of two time columns, read from comparisons such as `r.ts >= l.ts - INTERVAL '5' SECOND`."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.core.types import TypeRoot
from runtime.expr.nodes import Call, Cast, ColumnRef, Expr, Literal

__all__ = ["TimeBound", "time_bound"]


@dataclass(frozen=True, slots=True)
class TimeBound:
    """`lower <= left - right <= upper` in milliseconds, for two columns; None is no bound. `exact` is false when the
    comparison says more than that."""

    left: ColumnRef
    right: ColumnRef
    lower: int | None
    upper: int | None
    exact: bool


def time_bound(condition: Expr) -> TimeBound | None:
    """The bound that a comparison of two shifted time columns sets, None when it is something else."""
    if (
        not isinstance(condition, Call)
        or len(condition.args) != 2
        or condition.function not in ("=", "<", "<=", ">", ">=")
    ):
        return None
    first, second = _shifted(condition.args[0]), _shifted(condition.args[1])
    if first is None or second is None:
        return None
    (left, plus), (right, minus) = first, second
    distance = minus - plus
    # left + plus OP right + minus, that is: left - right OP distance. Times are whole milliseconds, so `<` is
    # `<= distance - 1`.
    whole = all(c.type.precision <= 3 for c in (left, right))
    match condition.function:
        case "=":
            return TimeBound(left, right, distance, distance, whole)
        case "<":
            return TimeBound(left, right, None, distance - 1 if whole else distance, whole)
        case "<=":
            return TimeBound(left, right, None, distance, whole)
        case ">":
            return TimeBound(left, right, distance + 1 if whole else distance, None, whole)
        case _:
            return TimeBound(left, right, distance, None, whole)


def _shifted(expr: Expr) -> tuple[ColumnRef, int] | None:
    """A column plus or minus constant intervals: the column and the sum in milliseconds."""
    match expr:
        case ColumnRef(type=type_) if type_.is_timestamp:
            return expr, 0
        case Cast(value=value, type=type_) if (
            value.type.root is type_.root and type_.is_timestamp and type_.precision >= min(value.type.precision, 3)
        ):
            return _shifted(value)
        case Call(function="+" | "-" as function, args=(base, Literal(value=int() as distance, type=type_))) if (
            type_.root is TypeRoot.INTERVAL_SECOND
        ):
            found = _shifted(base)
            return None if found is None else (found[0], found[1] + (distance if function == "+" else -distance))
        case Call(function="+", args=(Literal(value=int() as distance, type=type_), base)) if (
            type_.root is TypeRoot.INTERVAL_SECOND
        ):
            found = _shifted(base)
            return None if found is None else (found[0], found[1] + distance)
        case _:
            return None
