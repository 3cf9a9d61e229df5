"""Pull the correlated conditions of the right side up into the join.

    DependentJoin k c X (… (Filter y = outer(x) Y))   →   Join k (c AND y = x) X (… Y)

A condition passes filters, projections (which then keep its columns), inner joins, and the left side of other joins
as it is. An equality `y = outer(x)` also passes what works per group, and adds y to the group: GROUP BY, DISTINCT,
OVER, and ORDER BY with LIMIT, which becomes a top-n per y.

    DependentJoin INNER X (Sort a DESC limit 3 (Filter y = outer(x) Y))
      →   Join INNER y = x X (TopN 1..3 by y order a DESC Y)

Streaming: the right side is computed for every y, also those that no left row asks for; in exchange no copy of the
left side is kept in state. Not applied when another condition would have to pass an aggregate or a limit, or when an
expression other than a condition reads the left row: `decorrelate_by_domain` does that.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.logical.build import filtered, passing, projected, resolve_outer
from planner.logical.expressions import node_expressions, outer_ids
from planner.logical.nodes import (
    Aggregate,
    DependentJoin,
    Filter,
    Join,
    Limit,
    LogicalNode,
    Over,
    Project,
    Sort,
    TopN,
    Unnest,
    WindowTable,
)
from planner.rule import Rule, RuleContext
from runtime.expr.analysis import columns_of, conjuncts, outer_columns_of
from runtime.expr.nodes import Call, Column, ColumnRef, Expr, fresh_column
from runtime.expr.rewrite import conjunction
from runtime.plan.nodes import JoinKind, RankFunction
from runtime.plan.windows import SessionWindow

__all__ = ["RULE"]


def decorrelate_by_predicate(node: DependentJoin, context: RuleContext) -> LogicalNode | None:
    columns = {c.id: c for c in node.left.columns}
    if not outer_ids(node.right) & columns.keys():
        return None
    found = _pull(node.right, frozenset(columns))
    if found is None:
        return None
    condition = conjunction(resolve_outer(p, columns) for p in (node.condition, *found.conditions))
    return projected(Join(node.left, found.plan, node.kind, condition), node.columns)


@dataclass(frozen=True, slots=True)
class _Pulled:
    """A plan that no longer depends on the outer row, with at least the columns it had, and the conditions taken out
    of it."""

    plan: LogicalNode
    conditions: tuple[Expr, ...]


def _pull(plan: LogicalNode, outer: frozenset[int]) -> _Pulled | None:
    if not outer_ids(plan) & outer:
        return _Pulled(plan, ())
    match plan:
        case Filter(input=source, predicate=predicate):
            inner = _pull(source, outer)
            if inner is None:
                return None
            parts = conjuncts(predicate)
            correlated = tuple(p for p in parts if outer_columns_of(p) & outer)
            return _Pulled(
                filtered(inner.plan, (p for p in parts if p not in correlated)), inner.conditions + correlated
            )
        case Join():
            return _through_join(plan, outer)
        case _ if len(plan.inputs) == 1 and not outer_columns_of(node_expressions(plan)) & outer:
            inner = _pull(plan.inputs[0], outer)
            return None if inner is None else _above(plan, inner, outer)
        case _:
            return None


def _through_join(join: Join, outer: frozenset[int]) -> _Pulled | None:
    parts = conjuncts(join.condition)
    correlated = tuple(p for p in parts if outer_columns_of(p) & outer)
    if join.kind is JoinKind.INNER:
        left, right = _pull(join.left, outer), _pull(join.right, outer)
        if left is None or right is None:
            return None
        plain = conjunction(p for p in parts if p not in correlated)
        return _Pulled(
            Join(left.plan, right.plan, join.kind, plain, join.hints), left.conditions + right.conditions + correlated
        )
    if join.kind not in (JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI) or correlated or outer_ids(join.right) & outer:
        return None
    left = _pull(join.left, outer)
    return None if left is None else _Pulled(join.with_(left=left.plan), left.conditions)


def _above(plan: LogicalNode, inner: _Pulled, outer: frozenset[int]) -> _Pulled | None:
    """The node over an input whose conditions were pulled out."""
    match plan:
        case Project(items=items):
            there = {c.id for c, _ in items}
            needed = columns_of(inner.conditions)
            more = tuple(c for c in inner.plan.columns if c.id in needed and c.id not in there)
            if any(c.id in needed and not (isinstance(e, ColumnRef) and e.id == c.id) for c, e in items):
                return None
            return _Pulled(Project(inner.plan, items + passing(more)), inner.conditions)
        case Sort(limit=None, offset=0):
            return inner
        case Unnest():
            return _Pulled(plan.with_inputs(inner.plan), inner.conditions)
        case WindowTable(window=window) if not isinstance(window, SessionWindow):
            return _Pulled(plan.with_inputs(inner.plan), inner.conditions)
        case Aggregate(scalar=False) | Over() | Sort() | Limit():
            keyed = _keyed(inner, outer)
            return None if keyed is None else _per_key(plan, *keyed)
        case _:
            return None


def _keyed(inner: _Pulled, outer: frozenset[int]) -> tuple[LogicalNode, tuple[ColumnRef, ...], tuple[Expr, ...]] | None:
    """The input with one column per equality, those columns, and the conditions over them; None when a condition is
    no such equality."""
    plan = inner.plan
    keys: list[ColumnRef] = []
    conditions: list[Expr] = []
    computed: list[tuple[Column, Expr]] = []
    for condition in inner.conditions:
        if (
            not isinstance(condition, Call)
            or condition.function not in ("=", "IS NOT DISTINCT FROM")
            or len(condition.args) != 2
        ):
            return None
        own, other = condition.args if outer_columns_of(condition.args[1]) else condition.args[::-1]
        if outer_columns_of(own) or columns_of(other) or not columns_of(own):
            return None
        if isinstance(own, ColumnRef):
            key = own
        else:
            column = fresh_column("key", own.type)
            computed.append((column, own))
            key = column.ref()
        if key not in keys:
            keys.append(key)
        conditions.append(condition.with_(args=(key, other)))
    if computed:
        plan = Project(plan, (*passing(plan.columns), *computed))
    return plan, tuple(keys), tuple(conditions)


def _per_key(
    plan: LogicalNode, source: LogicalNode, keys: tuple[ColumnRef, ...], conditions: tuple[Expr, ...]
) -> _Pulled | None:
    match plan:
        case Aggregate(group=group):
            return _Pulled(plan.with_(input=source, group=group + tuple(k for k in keys if k not in group)), conditions)
        case Over(calls=calls):
            by_key = tuple(
                (c, w.with_(partition_by=w.partition_by + tuple(k for k in keys if k not in w.partition_by)))
                for c, w in calls
            )
            return _Pulled(plan.with_(input=source, calls=by_key), conditions)
        case Sort(offset=offset, limit=limit) | Limit(offset=offset, limit=limit):
            order = plan.keys if isinstance(plan, Sort) else ()
            last = None if limit is None else offset + limit
            return _Pulled(TopN(source, RankFunction.ROW_NUMBER, keys, order, offset + 1, last, None), conditions)
        case _:
            return None


RULE = Rule(
    "decorrelate_by_predicate",
    DependentJoin,
    decorrelate_by_predicate,
    after=("convert_dependent_to_join", "decorrelate_scalar_aggregate"),
    essential=True,
)
