"""The expressions that a logical node holds: read them all, or rewrite them all.

One place knows where each node class keeps its expressions; rules, validation and display ask here. A new node class
that holds expressions is added to both functions (`tests/unit/planner_rules/test_expressions.py` fails until it is).
"""

from __future__ import annotations

from collections.abc import Callable

from planner.logical.match import MatchItem
from planner.logical.nodes import (
    Aggregate,
    AsofJoin,
    AssignWatermark,
    CurrentJoin,
    Deduplicate,
    DependentJoin,
    Except,
    Expand,
    Filter,
    FromChangelog,
    Intersect,
    IntervalJoin,
    Join,
    LastRound,
    Limit,
    LogicalNode,
    LookupJoin,
    Match,
    MultiJoin,
    Over,
    ProcessTables,
    Project,
    Recursive,
    Remember,
    Scan,
    Shared,
    Sink,
    Sort,
    TemporalJoin,
    ToChangelog,
    TopN,
    Union,
    Unnest,
    Values,
    VectorSearch,
    WindowAggregate,
    WindowJoin,
    WindowTable,
    WindowTopN,
)
from runtime.core.errors import InternalError
from runtime.expr.nodes import (
    AggregateCall,
    ColumnRef,
    Expr,
    Literal,
    OuterRef,
    SortKey,
    SubqueryExpr,
    WindowCall,
    transform,
    walk,
)

__all__ = ["all_expressions", "map_expressions", "map_outer", "node_expressions", "outer_ids", "walk_plan"]


def node_expressions(node: LogicalNode) -> tuple[Expr, ...]:
    """The expressions of the node itself (not of its inputs), column references of keys and windows included."""
    match node:
        case Scan() | Shared() | Union() | Intersect() | Except() | Limit() | Sink() | ToChangelog():
            return ()
        case LastRound() | Recursive():
            return ()
        case Values(rows=rows):
            return tuple(e for r in rows for e in r)
        case Project(items=items):
            return tuple(e for _, e in items)
        case Remember(values=values):
            return tuple(e for _, e in values)
        case Filter(predicate=predicate):
            return (predicate,)
        case Join(condition=condition) | DependentJoin(condition=condition) | CurrentJoin(condition=condition):
            return (condition,)
        case TemporalJoin(time=time, condition=condition):
            return (time, condition)
        case Aggregate(group=group, calls=calls):
            return (*group, *(c for _, c in calls))
        case Expand(projections=projections):
            return tuple(e for p in projections for e in p)
        case WindowTable(time=time, partition=partition):
            return (time, *partition)
        case Over(calls=calls):
            return tuple(c for _, c in calls)
        case Match():
            keys = (*(ref for _, ref in node.partition), *(k.expr for k in node.order))
            return (*keys, *(e for _, e in (*node.alone, *node.asked)), *(i.call for i in (*node.tested, *node.found)))
        case Sort(keys=keys):
            return tuple(k.expr for k in keys)
        case FromChangelog(op=op):
            return (op,)
        case ProcessTables(keys=keys, times=times, order=order):
            return (*(k for each in keys for k in each), *times, *(s.expr for each in order for s in each))
        case Unnest(collection=collection):
            return (collection,)
        case AssignWatermark(time=time, expr=expr):
            return (time, expr)
        case WindowAggregate(time=time, start=start, end=end, group=group, calls=calls):
            return (*(r for r in (time, start, end) if r is not None), *group, *(c for _, c in calls))
        case IntervalJoin(left_time=left, right_time=right, condition=condition):
            return (left, right, condition)
        case WindowJoin(left_window=left, right_window=right, condition=condition):
            return (*left, *right, condition)
        case AsofJoin(left_time=left, right_time=right, equal=equal):
            return (left, right, equal)
        case MultiJoin(keys=keys):
            return tuple(e for each in keys for e in each)
        case LookupJoin(keys=keys, condition=condition):
            return (*(e for e, _ in keys), condition)
        case VectorSearch(query=query, column=column):
            return (query, column)
        case TopN(partition=partition, order=order):
            return (*partition, *(k.expr for k in order))
        case Deduplicate(keys=keys, time=time):
            return (*keys, time)
        case WindowTopN(partition=partition, window=window, order=order):
            return (*partition, *window, *(k.expr for k in order))
        case _:
            raise InternalError(f"the expressions of {type(node).__name__} are not known")


def map_expressions(node: LogicalNode, change: Callable[[Expr], Expr]) -> LogicalNode:
    """The node with `change` applied to each of its expressions; the same object when nothing changed.

    Where the node holds a column reference (group columns, sort and partition columns, windows), `change` must give a
    column reference again.
    """
    match node:
        case Scan() | Shared() | Union() | Intersect() | Except() | Limit() | Sink() | ToChangelog():
            return node
        case LastRound() | Recursive():
            return node
        case Values(rows=rows):
            # There may be thousands, and nothing is to be made of a constant.
            return _with(node, rows=tuple(tuple(e if type(e) is Literal else change(e) for e in r) for r in rows))
        case Project(items=items):
            return _with(node, items=tuple((c, change(e)) for c, e in items))
        case Remember(values=values):
            return _with(node, values=tuple((c, change(e)) for c, e in values))
        case Filter(predicate=predicate):
            return _with(node, predicate=change(predicate))
        case Join(condition=condition) | DependentJoin(condition=condition) | CurrentJoin(condition=condition):
            return _with(node, condition=change(condition))
        case TemporalJoin(time=time, condition=condition):
            return _with(node, time=change(time), condition=change(condition))
        case Aggregate(group=group, calls=calls):
            return _with(node, group=_refs(group, change), calls=_calls(calls, change))
        case Expand(projections=projections):
            return _with(node, projections=tuple(tuple(change(e) for e in p) for p in projections))
        case WindowTable(time=time, partition=partition):
            return _with(node, time=_ref(time, change), partition=_refs(partition, change))
        case Over(calls=calls):
            return _with(node, calls=_window_calls(calls, change))
        case Match(partition=partition, order=order):
            return _with(
                node,
                partition=tuple((c, _ref(ref, change)) for c, ref in partition),
                order=_keys(order, change),
                alone=tuple((v, change(e)) for v, e in node.alone),
                asked=tuple((v, change(e)) for v, e in node.asked),
                tested=tuple(_item(item, change) for item in node.tested),
                found=tuple(_item(item, change) for item in node.found),
            )
        case Sort(keys=keys):
            return _with(node, keys=_keys(keys, change))
        case FromChangelog(op=op):
            return _with(node, op=_ref(op, change))
        case VectorSearch(query=query, column=column):
            return _with(node, query=change(query), column=_ref(column, change))
        case ProcessTables(keys=keys, times=times, order=order):
            return _with(
                node,
                keys=tuple(_refs(k, change) for k in keys),
                times=_refs(times, change),
                order=tuple(_keys(o, change) for o in order),
            )
        case Unnest(collection=collection):
            return _with(node, collection=change(collection))
        case AssignWatermark(time=time, expr=expr):
            return _with(node, time=_ref(time, change), expr=change(expr))
        case WindowAggregate(time=time, start=start, end=end, group=group, calls=calls):
            return _with(
                node,
                time=_maybe(time, change),
                start=_maybe(start, change),
                end=_maybe(end, change),
                group=_refs(group, change),
                calls=_calls(calls, change),
            )
        case IntervalJoin(left_time=left, right_time=right, condition=condition):
            return _with(
                node, left_time=_ref(left, change), right_time=_ref(right, change), condition=change(condition)
            )
        case WindowJoin(left_window=left, right_window=right, condition=condition):
            return _with(
                node, left_window=_refs(left, change), right_window=_refs(right, change), condition=change(condition)
            )
        case AsofJoin(left_time=left, right_time=right, equal=equal):
            return _with(node, left_time=change(left), right_time=change(right), equal=change(equal))
        case MultiJoin(keys=keys):
            return _with(node, keys=tuple(tuple(change(e) for e in each) for each in keys))
        case LookupJoin(keys=keys, condition=condition):
            return _with(node, keys=tuple((change(e), name) for e, name in keys), condition=change(condition))
        case TopN(partition=partition, order=order):
            return _with(node, partition=_refs(partition, change), order=_keys(order, change))
        case Deduplicate(keys=keys, time=time):
            return _with(node, keys=_refs(keys, change), time=_ref(time, change))
        case WindowTopN(partition=partition, window=window, order=order):
            return _with(
                node, partition=_refs(partition, change), window=_refs(window, change), order=_keys(order, change)
            )
        case _:
            raise InternalError(f"the expressions of {type(node).__name__} are not known")


def walk_plan(plan: LogicalNode) -> list[LogicalNode]:
    """The node and all nodes below it, inputs left to right, parents first; not the plans inside subquery
    expressions."""
    found = [plan]
    for source in plan.inputs:
        found.extend(walk_plan(source))
    return found


def all_expressions(plan: LogicalNode) -> list[Expr]:
    """Every expression of the plan with its parts, those of subqueries' plans included."""
    found: list[Expr] = []
    for node in walk_plan(plan):
        for root in node_expressions(node):
            for expr in walk(root):
                found.append(expr)
                if isinstance(expr, SubqueryExpr) and isinstance(expr.plan, LogicalNode):
                    found.extend(all_expressions(expr.plan))
    return found


def outer_ids(plan: LogicalNode) -> frozenset[int]:
    """Ids of the columns of enclosing queries that the plan refers to and does not resolve itself: free outer
    references."""
    free: set[int] = set()
    for expression in node_expressions(plan):
        for expr in walk(expression):
            if isinstance(expr, OuterRef):
                free.add(expr.id)
            elif isinstance(expr, SubqueryExpr) and isinstance(expr.plan, LogicalNode):
                own = {c.id for source in plan.inputs for c in source.columns}
                free |= outer_ids(expr.plan) - own
    if isinstance(plan, DependentJoin):
        bound = {c.id for c in plan.left.columns}
        return frozenset(free | outer_ids(plan.left) | (outer_ids(plan.right) - bound))
    for source in plan.inputs:
        free |= outer_ids(source)
    return frozenset(free)


def map_outer(plan: LogicalNode, change: Callable[[OuterRef], Expr]) -> LogicalNode:
    """The plan with its outer references replaced, in subqueries inside its expressions too (those that refer further
    in are passed to `change` as well: it tells them apart by id)."""

    def in_expression(expr: Expr) -> Expr:
        def at(e: Expr) -> Expr:
            if isinstance(e, OuterRef):
                return change(e)
            if isinstance(e, SubqueryExpr) and isinstance(e.plan, LogicalNode):
                inner = map_outer(e.plan, change)
                return e if inner is e.plan else e.with_(plan=inner)
            return e

        return transform(expr, at)

    inputs = tuple(map_outer(source, change) for source in plan.inputs)
    return map_expressions(plan.with_inputs(*inputs) if inputs else plan, in_expression)


def _with(node: LogicalNode, **fields: object) -> LogicalNode:
    same = all(_identical(value, getattr(node, name)) for name, value in fields.items())
    return node if same else node.with_(**fields)


def _item(item: MatchItem, change: Callable[[Expr], Expr]) -> MatchItem:
    call = change(item.call)
    return item if call is item.call else item.with_(call=call)


def _identical(new: object, old: object) -> bool:
    if isinstance(new, tuple) and isinstance(old, tuple):
        return len(new) == len(old) and all(_identical(a, b) for a, b in zip(new, old, strict=True))
    return new is old


def _ref(ref: ColumnRef, change: Callable[[Expr], Expr]) -> ColumnRef:
    changed = change(ref)
    if not isinstance(changed, ColumnRef):
        raise InternalError(f"column {ref.name} became an expression in a place that takes only columns")
    return changed


def _maybe(ref: ColumnRef | None, change: Callable[[Expr], Expr]) -> ColumnRef | None:
    return None if ref is None else _ref(ref, change)


def _refs(refs: tuple[ColumnRef, ...], change: Callable[[Expr], Expr]) -> tuple[ColumnRef, ...]:
    return tuple(_ref(r, change) for r in refs)


def _keys(keys: tuple[SortKey, ...], change: Callable[[Expr], Expr]) -> tuple[SortKey, ...]:
    changed = tuple((k, change(k.expr)) for k in keys)
    return tuple(k if e is k.expr else k.with_(expr=e) for k, e in changed)


def _calls(
    calls: tuple[tuple[object, AggregateCall], ...], change: Callable[[Expr], Expr]
) -> tuple[tuple[object, Expr], ...]:
    return tuple((c, change(e)) for c, e in calls)


def _window_calls(
    calls: tuple[tuple[object, WindowCall], ...], change: Callable[[Expr], Expr]
) -> tuple[tuple[object, Expr], ...]:
    return tuple((c, change(e)) for c, e in calls)
