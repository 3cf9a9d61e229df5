"""A subquery that stands as a condition of its own in WHERE or HAVING becomes a semi or anti join.

    Filter p AND EXISTS (S)  X          DependentJoin SEMI          (Filter p X)  S
    Filter p AND NOT EXISTS (S)  X  →   DependentJoin ANTI          (Filter p X)  S
    Filter p AND x IN (S)  X            DependentJoin SEMI x = s    (Filter p X)  S
    Filter p AND x NOT IN (S)  X        up to three ANTI joins, see below

EXISTS does not care how many rows there are: LIMIT and ORDER BY at the top of S go. NOT IN follows SQL's NULL rule. A
row passes when S is empty, or x is not NULL, S holds no NULL and no s equals x. As plain anti joins, so that each is
kept up to date by the ordinary join operator: no s equals x; no s is NULL; and, where x itself is NULL, no row in S at
all. The second falls away when s cannot be NULL, the third when x cannot be.
Several operands (`(a, b) NOT IN ...`) use one anti join on "not surely different".

Streaming: both sides stay in state as long as they live. SEMI of append-only inputs is append-only, ANTI retracts.
Not for subqueries below OR, CASE or in the SELECT list, nor for those that have exactly one row:
`convert_subquery_to_join` does those.
"""

from __future__ import annotations

from planner.logical.build import call, equal, filtered
from planner.logical.expressions import outer_ids
from planner.logical.nodes import Aggregate, DependentJoin, Filter, Limit, LogicalNode, Project, Sort
from planner.rule import Rule, RuleContext
from planner.rules.subquery.convert_subquery_to_join import has_one_row
from runtime.core.types import BOOLEAN
from runtime.expr.analysis import conjuncts, contains_subquery
from runtime.expr.nodes import TRUE, Call, Expr, SubqueryExpr, SubqueryKind, fresh_column
from runtime.expr.rewrite import conjunction, disjunction
from runtime.plan.nodes import JoinKind

__all__ = ["RULE"]


def convert_filter_subquery_to_join(node: Filter, context: RuleContext) -> LogicalNode | None:
    parts = conjuncts(node.predicate)
    found = next((p for p in parts if _subquery(p) is not None), None)
    if found is None:
        return None
    # Conditions without subqueries go first: they make the input of the join small.
    plain = [p for p in parts if not contains_subquery(p)]
    rest = [p for p in parts if contains_subquery(p) and p is not found]
    return filtered(_joined(filtered(node.input, plain), found), rest)


def _subquery(part: Expr) -> tuple[SubqueryExpr, bool] | None:
    """The EXISTS or IN that a condition consists of, and whether it is negated."""
    negated = False
    while isinstance(part, Call) and part.function == "NOT":
        part, negated = part.args[0], not negated
    if (
        isinstance(part, SubqueryExpr)
        and part.kind is not SubqueryKind.SCALAR
        and not any(contains_subquery(o) for o in part.operands)
        and not (len(part.operands) <= 1 and isinstance(part.plan, LogicalNode) and has_one_row(part.plan))
    ):
        return part, negated
    return None


def _joined(left: LogicalNode, part: Expr) -> LogicalNode:
    found = _subquery(part)
    assert found is not None
    subquery, negated = found
    right = subquery.plan
    assert isinstance(right, LogicalNode)
    if subquery.kind is SubqueryKind.EXISTS:
        return DependentJoin(left, _without_limit(right), JoinKind.ANTI if negated else JoinKind.SEMI, TRUE)
    pairs = list(zip(subquery.operands, (c.ref() for c in right.columns), strict=True))
    if not negated:
        return DependentJoin(left, right, JoinKind.SEMI, conjunction(equal(x, s) for x, s in pairs))
    if len(pairs) > 1:
        return DependentJoin(left, right, JoinKind.ANTI, conjunction(_not_surely_different(x, s) for x, s in pairs))
    ((x, s),) = pairs
    plan: LogicalNode = DependentJoin(left, right, JoinKind.ANTI, equal(x, s))
    if s.type.nullable:
        plan = DependentJoin(plan, _any_row(filtered(right, [_is_null(s)])), JoinKind.ANTI, TRUE)
    if x.type.nullable:
        plan = DependentJoin(plan, _any_row(right), JoinKind.ANTI, _is_null(x))
    return plan


def _without_limit(plan: LogicalNode) -> LogicalNode:
    """A plan that has rows when the given one has: which rows, and how many, is nothing to EXISTS."""
    match plan:
        case Project():
            return plan.with_inputs(_without_limit(plan.input))
        case Limit(limit=limit, offset=0) | Sort(limit=limit, offset=0) if limit != 0:
            return _without_limit(plan.input)
        case _:
            return plan


def _is_null(expr: Expr) -> Expr:
    return Call("IS NULL", (expr,), BOOLEAN.not_null())


def _not_surely_different(x: Expr, s: Expr) -> Expr:
    nulls = [_is_null(e) for e in (x, s) if e.type.nullable]
    return disjunction([call("=", x, s), *nulls])


def _any_row(plan: LogicalNode) -> LogicalNode:
    """One row when the plan has any: an anti join without keys then touches each left row once, not once per right
    row."""
    if outer_ids(plan):
        return plan
    there = fresh_column("found", BOOLEAN.not_null())
    return Aggregate(Project(plan, ((there, TRUE),)), (there.ref(),), ())


RULE = Rule("convert_filter_subquery_to_join", Filter, convert_filter_subquery_to_join, essential=True)
