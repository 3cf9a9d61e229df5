"""Small constructors of plans and expressions that many rules need."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from planner.logical.nodes import Aggregate, Filter, LogicalNode, Project
from runtime.core.types import BOOLEAN, DataType
from runtime.expr.function import AggregateFunction, FunctionRegistry
from runtime.expr.nodes import (
    TRUE,
    Call,
    Case,
    Column,
    ColumnRef,
    Expr,
    Literal,
    OuterRef,
    fresh_column,
    transform,
    walk,
)
from runtime.expr.rewrite import conjunction

__all__ = [
    "call",
    "coalesce",
    "equal",
    "filtered",
    "has_outer",
    "not_distinct",
    "null",
    "only_columns",
    "passing",
    "projected",
    "renaming",
    "resolve_outer",
    "to_outer",
    "to_outer_columns",
    "without_row_of_nothing",
]


def null(type_: DataType) -> Literal:
    """The NULL of a type."""
    return Literal(None, type_.materialized().with_nullable(True))


def call(function: str, *args: Expr, type_: DataType = BOOLEAN) -> Call:
    """A call whose value may be NULL when an argument may."""
    return Call(function, args, type_.with_nullable(any(a.type.nullable for a in args)))


def equal(left: Expr, right: Expr) -> Expr:
    return call("=", left, right)


def not_distinct(left: Expr, right: Expr) -> Expr:
    """`left IS NOT DISTINCT FROM right`, as a plain `=` where neither side can be NULL."""
    if not left.type.nullable and not right.type.nullable:
        return equal(left, right)
    return Call("IS NOT DISTINCT FROM", (left, right), BOOLEAN.not_null())


def coalesce(value: Expr, otherwise: Expr) -> Expr:
    """`value`, or `otherwise` where it is NULL; both have the value's type."""
    type_ = value.type.with_nullable(otherwise.type.nullable)
    test = Call("IS NULL", (value,), BOOLEAN.not_null())
    return Case(((test, otherwise),), value, type_)


def filtered(plan: LogicalNode, parts: Iterable[Expr]) -> LogicalNode:
    """The plan, filtered by all of the parts; the plan itself when there is nothing to test."""
    predicate = conjunction(parts)
    return plan if predicate == TRUE else Filter(plan, predicate)


def passing(columns: Iterable[Column]) -> tuple[tuple[Column, Expr], ...]:
    """Items of a projection that pass columns under their own ids."""
    return tuple((c, c.ref()) for c in columns)


def projected(plan: LogicalNode, columns: Sequence[Column]) -> LogicalNode:
    """The plan with exactly these of its columns, in this order; the plan itself when it is so already."""
    if [c.id for c in plan.columns] == [c.id for c in columns]:
        return plan
    own = {c.id: c for c in plan.columns}
    return Project(plan, passing(own[c.id] for c in columns))


def renaming(plan: LogicalNode, columns: Sequence[Column]) -> tuple[LogicalNode, tuple[Column, ...]]:
    """The given columns of the plan under fresh ids, and these."""
    fresh = tuple(fresh_column(c.name, c.type) for c in columns)
    return Project(plan, tuple((f, c.ref()) for f, c in zip(fresh, columns, strict=True))), fresh


def only_columns(items: Iterable[tuple[Column, Expr]]) -> dict[int, Expr]:
    """What stands behind each column of a projection."""
    return {c.id: e for c, e in items}


def has_outer(expr: Expr) -> bool:
    """Whether the expression reads a column of an enclosing query."""
    return any(isinstance(e, OuterRef) for e in walk(expr))


def resolve_outer(expr: Expr, columns: Mapping[int, Column]) -> Expr:
    """Outer references whose columns are now at hand become plain references (`columns`: by the id that the outer
    reference uses)."""

    def change(e: Expr) -> Expr:
        return columns[e.id].ref() if isinstance(e, OuterRef) and e.id in columns else e

    return transform(expr, change)


def to_outer(expr: Expr) -> Expr:
    """The expression as a subquery of its own query sees it: columns become outer references."""
    return transform(expr, lambda e: OuterRef(e.id, e.name, e.type) if isinstance(e, ColumnRef) else e)


def to_outer_columns(expr: Expr, columns: Collection[int]) -> Expr:
    """The same for some columns only, by id."""

    def change(e: Expr) -> Expr:
        return OuterRef(e.id, e.name, e.type) if isinstance(e, ColumnRef) and e.id in columns else e

    return transform(expr, change)


def without_row_of_nothing(
    aggregate: Aggregate, functions: FunctionRegistry, source: LogicalNode, group: tuple[Column, ...] = ()
) -> tuple[LogicalNode, tuple[tuple[Column, Expr], ...]]:
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
