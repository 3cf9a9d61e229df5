"""An aggregate that has a row even over no input is joined as one that has not, and its missing row is made above the
join.

    DependentJoin LEFT X (Project f(n) (Aggregate scalar n = COUNT(*) Y))
      →  Project X, f(n) (Project X, n = (0 where m is NULL, else m) (DependentJoin LEFT X (Aggregate m = COUNT(*) Y)))

This is the right answer to the "count bug": a left row without rows in Y has COUNT 0 (and SUM NULL), and expressions
over them are computed from that. What stands between (projections, HAVING) moves above the join; a HAVING that fails
makes the whole row NULL for LEFT, and removes it for INNER.

Streaming: a LEFT join and a group aggregate per correlation key; retracts. Not for SEMI and ANTI:
`decorrelate_by_domain` does those.
"""

from __future__ import annotations

from planner.logical.build import filtered, null, passing, projected, resolve_outer, without_row_of_nothing
from planner.logical.nodes import Aggregate, DependentJoin, Filter, LogicalNode, Project
from planner.rule import Rule, RuleContext
from runtime.expr.nodes import TRUE, Case, Column, Expr, fresh_column
from runtime.expr.rewrite import conjunction
from runtime.plan.nodes import JoinKind

__all__ = ["RULE"]


def decorrelate_scalar_aggregate(node: DependentJoin, context: RuleContext) -> LogicalNode | None:
    if node.kind not in (JoinKind.LEFT, JoinKind.INNER):
        return None
    chain: list[Project | Filter] = []
    source = node.right
    while isinstance(source, Project | Filter):
        chain.append(source)
        source = source.input
    if not isinstance(source, Aggregate) or source.group or not source.scalar:
        return None
    plan = _with_empty_values(node.left, source, context)
    outer = {c.id: c for c in node.left.columns}
    left = node.left.columns
    tests: list[Expr] = []
    for step in reversed(chain):
        if isinstance(step, Project):
            tested, kept = _kept(tests)
            items = tuple((c, resolve_outer(e, outer)) for c, e in step.items)
            plan = Project(plan, (*passing(left), *items, *kept))
            tests = tested
        else:
            tests.append(resolve_outer(step.predicate, outer))
    if node.condition != TRUE:
        tests.append(resolve_outer(node.condition, outer))
    if node.kind is JoinKind.INNER:
        return projected(filtered(plan, tests), node.columns)
    return _padded(plan, node, conjunction(tests))


def _with_empty_values(left: LogicalNode, aggregate: Aggregate, context: RuleContext) -> LogicalNode:
    """Each left row with the values of the aggregate over its rows, or over none; columns keep their ids."""
    right, values = without_row_of_nothing(aggregate, context.functions, aggregate.input)
    return Project(DependentJoin(left, right, JoinKind.LEFT, TRUE), (*passing(left.columns), *values))


def _kept(tests: list[Expr]) -> tuple[list[Expr], tuple[tuple[Column, Expr], ...]]:
    """Tests so far as one column, so that they survive a projection."""
    if not tests:
        return [], ()
    test = conjunction(tests)
    column = fresh_column("having", test.type)
    return [column.ref()], ((column, test),)


def _padded(plan: LogicalNode, node: DependentJoin, test: Expr) -> LogicalNode:
    """The right columns as NULL where the test is not true."""
    if test == TRUE:
        return projected(plan, node.columns)
    left, right = node.left.columns, node.right.columns
    passed = fresh_column("having", test.type)
    inner = tuple(fresh_column(c.name, c.type) for c in right)
    tested = Project(plan, (*passing(left), *((f, c.ref()) for f, c in zip(inner, right, strict=True)), (passed, test)))
    items = tuple(
        (c, Case(((passed.ref(), f.ref()),), null(c.type), c.type.with_nullable(True)))
        for c, f in zip(node.columns[len(left) :], inner, strict=True)
    )
    return Project(tested, (*passing(left), *items))


RULE = Rule("decorrelate_scalar_aggregate", DependentJoin, decorrelate_scalar_aggregate, essential=True)
