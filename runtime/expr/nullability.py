"""Whether a result may be NULL: one rule, for the binder, the rules of the planner and the Table API alike.

A function's declaration says when its result may be NULL although none of its arguments is (`nulls`, `overflows`); a
CAST may give NULL where a value does not fit a DECIMAL; an aggregate also where the rows that it is of may be none. A
type that says NOT NULL is relied on: `IS NULL` of it is FALSE before any row is seen, and a sink is not asked.
"""

from __future__ import annotations

from collections.abc import Sequence

from runtime.core.types import DataType, TypeRoot
from runtime.expr.digits import whole_digits
from runtime.expr.function import AggregateFunction, CallTypes, Nulls, ValueFunction, WindowFunction

__all__ = ["aggregate_type", "call_type", "cast_overflows", "cast_type"]

_R = TypeRoot


def call_type(function: ValueFunction, args: CallTypes, result: DataType) -> DataType:
    """The type of a call of a scalar or window function, from the types of its arguments after casts and the type that
    its signature computes. Of an aggregate: over no rows, maybe."""
    match function.nulls:
        case Nulls.MAYBE:
            return result.materialized().with_nullable(True)
        case Nulls.NEVER:
            return result.materialized().with_nullable(_overflows(function, args, result))
        case Nulls.RULE:
            return result
        case _:
            pass
    if isinstance(function, AggregateFunction):
        return result.materialized().with_nullable(True)
    nullable = any(a.nullable or a.root is _R.NULL for a in args)
    return result.materialized().with_nullable(nullable or _overflows(function, args, result))


def _overflows(function: ValueFunction, args: CallTypes, result: DataType) -> bool:
    return (
        not isinstance(function, WindowFunction) and function.overflows is not None and function.overflows(args, result)
    )


def aggregate_type(
    function: AggregateFunction, args: Sequence[DataType], result: DataType, *, of_some_row: bool
) -> DataType:
    """The type of an aggregate. `of_some_row`: at least one row is in each group or frame, and no FILTER takes it away;
    a STRICT aggregate then has a value, if its first argument is never NULL and the result cannot overflow."""
    if function.nulls is not Nulls.STRICT:
        return call_type(function, CallTypes(args), result)
    sure = of_some_row and bool(args) and not args[0].nullable and args[0].root is not _R.NULL
    return result.materialized().with_nullable(not sure or _overflows(function, CallTypes(args), result))


def cast_type(source: DataType, target: DataType, *, safe: bool = False) -> DataType:
    """What CAST of one type to another gives (TRY_CAST when `safe`): the target, nullable where the source is or where a
    value may not fit, parts of nested types included."""
    nullable = safe or source.nullable or source.root is _R.NULL or cast_overflows(source, target)
    # Null of JSON is NULL.
    nullable |= source.root is _R.VARIANT and target.root is not _R.VARIANT
    if source.root is target.root and target.is_nested:
        target = _parts(source, target, safe)
    return target.materialized().with_nullable(nullable)


def _parts(source: DataType, target: DataType, safe: bool) -> DataType:
    def part(old: DataType, new: DataType) -> DataType:
        # A part that fails fails the whole, in TRY_CAST too.
        return new.with_nullable(True) if new.nullable else cast_type(old, new)

    if source.root is _R.ROW and len(source.fields) == len(target.fields):
        pairs = zip(source.fields, target.fields, strict=True)
        return target.with_(fields=tuple(new.with_(type=part(old.type, new.type)) for old, new in pairs))
    pairs_of_children = zip(source.children, target.children, strict=True)
    return target.with_(children=tuple(part(old, new) for old, new in pairs_of_children))


def cast_overflows(source: DataType, target: DataType) -> bool:
    """Whether CAST makes NULL of some value: one with more digits before the point than the DECIMAL has."""
    if target.root is not _R.DECIMAL:
        return False
    room = target.precision - target.scale
    if source.root is _R.BOOLEAN:
        return room < 1
    digits = whole_digits(source)
    if digits is None:
        # A text that does not fit fails.
        return source.is_approximate
    # 9.99 rounded to one digit has a digit more before the point.
    carried = source.root is _R.DECIMAL and source.scale > target.scale
    return digits + carried > room
