"""The row that an aggregate has over no rows, where it is joined as one that has none then."""

from __future__ import annotations

from planner.logical.build import coalesce, passing
from planner.logical.nodes import Aggregate, LogicalNode, Project
from runtime.core.types import BOOLEAN
from runtime.expr.function import AggregateFunction, FunctionRegistry
from runtime.expr.nodes import TRUE, Call, Case, Column, Expr, Literal, fresh_column

__all__ = ["without_row_of_nothing"]

Values = tuple[tuple[Column, Expr], ...]


def without_row_of_nothing(
    aggregate: Aggregate, functions: FunctionRegistry, source: LogicalNode, group: tuple[Column, ...] = ()
) -> tuple[LogicalNode, Values]:
    """The plan to put at the right of a LEFT join in the place of an aggregate with `scalar`, which has no row over no
    rows; and above the join the value of each of the aggregate's columns, which keep their ids.

        Aggregate scalar n = COUNT(*), s = SUM0(x) Y
          →  Project m, r, TRUE AS there (Aggregate m = COUNT(*), r = SUM0(x) Y)
             n = (0 where m is NULL, else m), s = (0 where `there` is NULL, else r)

    `there` tells the row that is missing from one that is NULL, where a function has both: a DECIMAL sum overflows.

    Args:
        source: the input to aggregate over.
        group: the columns to group it by.
    """
    inner = tuple((fresh_column(c.name, c.type), call) for c, call in aggregate.calls)
    plan: LogicalNode = Aggregate(source, tuple(c.ref() for c in group), inner, False, aggregate.ttl)
    empty = [_over_no_rows(call.function, column, functions) for column, call in aggregate.calls]
    there = None
    if any(e is not None and c.type.nullable for e, (c, _) in zip(empty, inner, strict=True)):
        there = fresh_column("there", TRUE.type)
        plan = Project(plan, (*passing(plan.columns), (there, TRUE)))
    values = tuple(
        (column, _value(found, otherwise, there))
        for (column, _), (found, _), otherwise in zip(aggregate.calls, inner, empty, strict=True)
    )
    return plan, values


def _over_no_rows(name: str, column: Column, functions: FunctionRegistry) -> Literal | None:
    function = functions.find(name)
    empty = function.empty if isinstance(function, AggregateFunction) else None
    return None if empty is None else Literal(empty, column.type.not_null())


def _value(found: Column, otherwise: Literal | None, there: Column | None) -> Expr:
    ref = found.with_type(found.type.with_nullable(True)).ref()
    if otherwise is None:
        return ref
    if there is None or not found.type.nullable:
        return coalesce(ref, otherwise)
    missing = Call("IS NULL", (there.with_type(BOOLEAN.with_nullable(True)).ref(),), BOOLEAN.not_null())
    return Case(((missing, otherwise),), ref, ref.type)
