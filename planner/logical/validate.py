"""Checks that a logical plan hangs together: every reference finds its column, types agree, ids are not used twice.

The optimizer runs it after every rule. Problems are sentences for developers; a plan of a user never has one unless
we have a bug.
"""

from __future__ import annotations

from collections.abc import Sequence

from planner.logical.expressions import node_expressions
from planner.logical.nodes import (
    AsofJoin,
    Binary,
    CurrentJoin,
    DependentJoin,
    Except,
    Filter,
    Intersect,
    IntervalJoin,
    Join,
    JoinKind,
    LogicalNode,
    LookupJoin,
    Match,
    MultiJoin,
    Project,
    Recursive,
    Remember,
    Shared,
    Sink,
    TemporalJoin,
    TopN,
    Union,
    Values,
    VectorSearch,
    WindowJoin,
)
from runtime.core.errors import InternalError
from runtime.core.types import DataType, TypeRoot
from runtime.expr.analysis import columns_of
from runtime.expr.nodes import Column, ColumnRef, Expr, OuterRef, SubqueryExpr, walk

__all__ = ["Validator", "validate"]


def validate(plan: LogicalNode) -> None:
    """Raise InternalError with the first problem of the plan."""
    problem = Validator().problem(plan)
    if problem is not None:
        raise InternalError(f"wrong plan: {problem}")


class Validator:
    """Remembers sub-plans that were found valid, so that only new nodes are looked at when a plan is checked again
    and again."""

    def __init__(self) -> None:
        self._valid: set[LogicalNode] = set()

    def problem(self, plan: LogicalNode) -> str | None:
        """The first problem of the plan, inputs first, or None. References to enclosing queries (`OuterRef`) are not
        resolved here."""
        if plan in self._valid:
            return None
        for source in (plan.plan,) if isinstance(plan, Shared) else plan.inputs:
            found = self.problem(source)
            if found is not None:
                return found
        found = _problem(plan) or self._inner_problem(plan)
        if found is None:
            self._valid.add(plan)
        return found

    def _inner_problem(self, plan: LogicalNode) -> str | None:
        for expression in node_expressions(plan):
            for expr in walk(expression):
                if isinstance(expr, SubqueryExpr) and isinstance(expr.plan, LogicalNode):
                    found = self.problem(expr.plan)
                    if found is not None:
                        return found
        return None


def _problem(node: LogicalNode) -> str | None:
    name = type(node).__name__
    ids = [c.id for c in node.columns]
    if len(set(ids)) != len(ids):
        return f"{name} has a column twice: {_listed(node.columns)}"
    known = {c.id: c for source in node.inputs for c in source.columns}
    if isinstance(node, LookupJoin):
        known.update({c.id: c for c in node.produced})
    if isinstance(node, Match):
        known.update({item.column.id: item.column for item in node.tested})
    for expression in node_expressions(node):
        for expr in walk(expression):
            if isinstance(expr, ColumnRef):
                column = known.get(expr.id)
                if column is None:
                    return f"{name} refers to {expr.name}#{expr.id}, which is not in {_listed(list(known.values()))}"
                if not _fits(column.type, expr.type):
                    return f"{name} refers to {column} as {expr.type}, but it is {column.type}"
            elif isinstance(expr, OuterRef) and isinstance(node, DependentJoin) and expr.id in known:
                return f"{name} refers to {expr.name}#{expr.id} of its own input as if it were an outer query's"
    return _shape_problem(node)


def _shape_problem(node: LogicalNode) -> str | None:
    match node:
        case Filter(predicate=condition) if not _boolean(condition):
            return f"the predicate of a Filter is {condition.type}"
        case (Join() | CurrentJoin() | DependentJoin() | TemporalJoin() | IntervalJoin() | WindowJoin()) as join if (
            not _boolean(join.condition)
        ):
            return f"the condition of a join is {join.condition.type}"
        case (
            Join()
            | DependentJoin()
            | TemporalJoin()
            | IntervalJoin()
            | WindowJoin()
            | AsofJoin()
            | CurrentJoin()
            | VectorSearch()
        ):
            return _overlap(node)
        case MultiJoin():
            return _several_problem(node)
        case Project(items=items) | Remember(values=items):
            return next(
                (f"{c} is {c.type} but its expression is {e.type}" for c, e in items if not _fits(e.type, c.type)), None
            )
        case Values(rows=rows, produced=produced):
            return next(
                (
                    f"a row of Values has {len(r)} expressions for {len(produced)} columns"
                    for r in rows
                    if len(r) != len(produced)
                ),
                None,
            )
        case Union(parts=parts, produced=produced):
            return next((p for p in (_positions(part.columns, produced) for part in parts) if p is not None), None)
        case Shared(plan=inner, produced=produced):
            return _positions(inner.columns, produced)
        case Recursive(left=left, right=right, produced=produced):
            return _positions(left.columns, produced) or _positions(right.columns[:-1], produced)
        case (Intersect() | Except()) as operation:
            return _positions(operation.left.columns, operation.produced) or _positions(
                operation.right.columns, operation.produced
            )
        case TopN(start=start, end=end) if start < 1 or (end is not None and end < 0):
            return f"TopN with ranks {start} to {end}"
        case Sink(table=table, input=source) if len(table.schema) != len(source.columns):
            return f"the sink {node.name} takes {len(table.schema)} columns, not {len(source.columns)}"
        case _:
            return None


def _overlap(node: Binary) -> str | None:
    both = {c.id for c in node.left.columns} & {c.id for c in node.right.columns}
    return f"both sides of a {type(node).__name__} have the columns with ids {sorted(both)}" if both else None


def _several_problem(node: MultiJoin) -> str | None:
    if not len(node.parts) == len(node.kinds) == len(node.keys) or len({len(keys) for keys in node.keys}) != 1:
        return "the inputs of a MultiJoin do not have a kind and the same number of keys each"
    if node.kinds[0] is not JoinKind.INNER or not set(node.kinds) <= {JoinKind.INNER, JoinKind.LEFT}:
        return "the inputs of a MultiJoin are INNER, the first one too, or LEFT"
    for part, keys in zip(node.parts, node.keys, strict=True):
        if not columns_of(keys) <= {c.id for c in part.columns}:
            return "a key of a MultiJoin reads another input"
    return None


def _positions(columns: Sequence[Column], produced: Sequence[Column]) -> str | None:
    if len(columns) != len(produced):
        return f"a set operation has inputs of {len(columns)} and {len(produced)} columns"
    return next(
        (
            f"{a} is {a.type} but goes to {b}, which is {b.type}"
            for a, b in zip(columns, produced, strict=True)
            if not _fits(a.type, b.type)
        ),
        None,
    )


def _fits(actual: DataType, seen: DataType) -> bool:
    """Whether a value of type `actual` may be referred to as `seen`: the same type, at most seen as nullable or as a
    plain timestamp."""
    if actual.root is TypeRoot.NULL or actual.materialized() == seen.materialized():
        return True
    return actual.same_ignoring_nullability(seen) and (seen.nullable or not actual.nullable)


def _boolean(expr: Expr) -> bool:
    return expr.type.root in (TypeRoot.BOOLEAN, TypeRoot.NULL)


def _listed(columns: Sequence[Column]) -> str:
    return "(" + ", ".join(str(c) for c in columns) + ")"
