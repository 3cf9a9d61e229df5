"""A subquery anywhere inside an expression becomes a column that a join brings.

    Project a, (S) X                →  Project a, s      (DependentJoin LEFT X S)
    Filter p OR EXISTS (S)  X       →  Filter p OR n > 0 (DependentJoin INNER X (Aggregate scalar COUNT(*) S))
    Filter p OR x IN (S)  X
      →  Filter p OR n > 0 (DependentJoin INNER X (Aggregate scalar COUNT(*) (Filter s = x S)))

A scalar subquery that could have many rows gets SINGLE_VALUE around it, which fails on the second row. An aggregate
without GROUP BY at the top of it has a row even over no input (`scalar`): COUNT is 0 there. IN keeps its three
values: NULL when there is no match but x or some s is NULL, unless S is empty; where only TRUE counts (below AND and
OR of a WHERE) the match alone is asked. Of a subquery that has exactly one row by its form, EXISTS is TRUE and IN
compares with its value.

Streaming: a LEFT join, so every left row comes out at once and again when its subquery's answer changes: the output
retracts.
"""

from __future__ import annotations

from planner.logical.build import equal, null, projected, to_outer
from planner.logical.expressions import map_outer
from planner.logical.nodes import Aggregate, DependentJoin, Filter, LogicalNode, Project, Sort, Values
from planner.rule import Rule, RuleContext
from planner.traits.keys import unique_keys
from runtime.core.types import BIGINT, BOOLEAN
from runtime.expr.analysis import contains_subquery
from runtime.expr.nodes import (
    TRUE,
    AggregateCall,
    Call,
    Case,
    Expr,
    Literal,
    OuterRef,
    SubqueryExpr,
    SubqueryKind,
    fresh_column,
    map_children,
)
from runtime.expr.rewrite import FALSE, conjunction, disjunction
from runtime.plan.nodes import JoinKind

__all__ = ["RULE", "has_one_row"]

_ZERO = Literal(0, BIGINT.not_null())


def convert_subquery_to_join(node: Filter | Project, context: RuleContext) -> LogicalNode | None:
    if isinstance(node, Filter):
        if not contains_subquery(node.predicate):
            return None
        joins = _Joins(node.input, context)
        predicate = joins.replace(node.predicate, only_true=True)
        return projected(Filter(joins.plan, predicate), node.columns)
    if not any(contains_subquery(e) for _, e in node.items):
        return None
    joins = _Joins(node.input, context)
    items = tuple((c, joins.replace(e, only_true=False)) for c, e in node.items)
    return Project(joins.plan, items)


class _Joins:
    """Collects the joins that bring the values of the subqueries of one node."""

    def __init__(self, plan: LogicalNode, context: RuleContext) -> None:
        self.plan = plan
        self._context = context
        self._found: dict[tuple[SubqueryExpr, bool], Expr] = {}

    def replace(self, expr: Expr, only_true: bool) -> Expr:
        """The expression without subqueries. `only_true`: FALSE and NULL mean the same to whoever reads the value.

        One subquery that stands in several places (`(S) BETWEEN a AND b` is two comparisons) is joined once.
        """
        if not isinstance(expr, SubqueryExpr):
            deeper = only_true and isinstance(expr, Call) and expr.function in ("AND", "OR")
            return map_children(expr, lambda e: self.replace(e, deeper))
        if (expr, only_true) not in self._found:
            self._found[expr, only_true] = self._joined(expr, only_true)
        return self._found[expr, only_true]

    def _joined(self, expr: SubqueryExpr, only_true: bool) -> Expr:
        operands = tuple(self.replace(o, False) for o in expr.operands)
        plan = expr.plan
        assert isinstance(plan, LogicalNode)
        if expr.kind is SubqueryKind.SCALAR:
            return self._scalar(plan)
        if expr.kind is SubqueryKind.EXISTS:
            return TRUE if has_one_row(plan) else self._positive(self._count(plan))
        if len(operands) == 1 and has_one_row(plan):
            same = equal(operands[0], self._scalar(plan))
            return same if expr.type.nullable else Call("IS TRUE", (same,), expr.type)
        return self._contained(operands, plan, only_true)

    def _scalar(self, plan: LogicalNode) -> Expr:
        plan = _with_scalar_aggregate(plan)
        (column,) = plan.columns
        if not _one_row(plan, self._context):
            value = fresh_column(column.name, column.type.with_nullable(True))
            call = AggregateCall("SINGLE_VALUE", (column.ref(),), value.type)
            plan, column = Aggregate(plan, (), ((value, call),)), value
        if column.id in {c.id for c in self.plan.columns}:
            again = fresh_column(column.name, column.type)
            plan, column = Project(plan, ((again, column.ref()),)), again
        self.plan = DependentJoin(self.plan, plan, JoinKind.LEFT, TRUE)
        return column.with_type(column.type.with_nullable(True)).ref()

    def _count(self, plan: LogicalNode, *args: Expr) -> Expr:
        """The number of rows of a subquery (in which an argument is not NULL)."""
        count = fresh_column("n", BIGINT.not_null())
        aggregate = Aggregate(plan, (), ((count, AggregateCall("COUNT", args, count.type)),), scalar=True)
        # A count has exactly one row, so no left row is lost.
        self.plan = DependentJoin(self.plan, aggregate, JoinKind.INNER, TRUE)
        return count.ref()

    @staticmethod
    def _positive(count: Expr) -> Expr:
        return Call(">", (count, _ZERO), BOOLEAN.with_nullable(count.type.nullable))

    def _contained(self, operands: tuple[Expr, ...], plan: LogicalNode, only_true: bool) -> Expr:
        pairs = list(zip(operands, (c.ref() for c in plan.columns), strict=True))
        same = conjunction(equal(s, to_outer(x)) for x, s in pairs)
        matched = self._positive(self._count(Filter(plan, same)))
        if only_true or not any(e.type.nullable for pair in pairs for e in pair):
            return matched
        # Rows that are neither equal nor surely different make the answer unknown.
        unknown = conjunction(disjunction([equal(s, to_outer(x)), *_null_inner(s), *_null_outer(x)]) for x, s in pairs)
        unsure = self._positive(self._count(Filter(plan, unknown)))
        return Case(((matched, TRUE), (unsure, null(BOOLEAN))), FALSE, BOOLEAN)


def _is_null(expr: Expr) -> Expr:
    return Call("IS NULL", (expr,), BOOLEAN.not_null())


def _null_inner(s: Expr) -> list[Expr]:
    return [_is_null(s)] if s.type.nullable else []


def _null_outer(x: Expr) -> list[Expr]:
    return [_is_null(to_outer(x))] if x.type.nullable else []


def has_one_row(plan: LogicalNode) -> bool:
    """Whether a subquery has exactly one row by its form, also over no input: `SELECT COUNT(*) FROM t`, `SELECT 1`."""
    match plan:
        case Aggregate(group=()) | Values(rows=(_,)):
            return True
        case Project() | Sort(limit=None, offset=0):
            return has_one_row(plan.input)
        case _:
            return False


def _with_scalar_aggregate(plan: LogicalNode) -> LogicalNode:
    """The plan with its topmost aggregate without GROUP BY marked: in a scalar subquery it has a row even over no
    input."""
    match plan:
        case Aggregate(group=(), scalar=False):
            return plan.with_(scalar=True)
        case Project() | Filter():
            return plan.with_inputs(_with_scalar_aggregate(plan.input))
        case Sort(limit=None, offset=0):
            return _with_scalar_aggregate(plan.input)
        case _:
            return plan


def _one_row(plan: LogicalNode, context: RuleContext) -> bool:
    """Whether there is at most one row for one row of the enclosing query: its columns are constants then."""

    def constant(e: OuterRef) -> Expr:
        return null(e.type)

    return frozenset[int]() in unique_keys(map_outer(plan, constant), context.traits)


RULE = Rule(
    "convert_subquery_to_join",
    (Filter, Project),
    convert_subquery_to_join,
    after=("convert_filter_subquery_to_join",),
    essential=True,
)
