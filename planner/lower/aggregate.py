"""Unwindowed aggregation, grouping sets, INTERSECT and EXCEPT, UNION ALL, UNNEST."""

from __future__ import annotations

from collections.abc import Sequence

from planner.logical import nodes as n
from planner.logical.build import without_row_of_nothing
from planner.lower.lowering import HIDDEN, Lowered, Lowering, lower_node, schema_of
from planner.lower.projection import calc
from planner.traits.determinism import gives_others
from planner.traits.update_kind import Demand
from runtime.core.changelog import APPEND, ChangelogMode
from runtime.core.errors import UnsupportedError
from runtime.core.schema import Field, Schema
from runtime.expr.analysis import rejects_rows
from runtime.expr.nodes import TRUE, AggregateCall, Column, ColumnRef, Expr
from runtime.plan.nodes import (
    AggregateSpec,
    ChangelogNormalizeExec,
    ExpandExec,
    GroupAggregateExec,
    JoinKind,
    PhysicalNode,
    SetOperationExec,
    SortSpec,
    UnionExec,
    UnnestExec,
)

__all__ = ["aggregate_input"]


def aggregate_input(
    run: Lowering, source: Lowered, refs: Sequence[ColumnRef], calls: Sequence[AggregateCall], retract: bool
) -> tuple[Lowered, tuple[int, ...], tuple[AggregateSpec, ...]]:
    """The input with all arguments, filters and sort keys as columns; the positions of `refs`; the calls by
    position."""
    needed: list[Expr] = list(refs)
    for call in calls:
        needed.extend(call.args)
        needed.extend([] if call.filter is None else [call.filter])
        needed.extend(k.expr for k in call.order_by)
    widened, positions = run.with_columns(source, needed)
    at = dict(zip(needed, positions, strict=True))
    specs = tuple(
        AggregateSpec(
            call.function,
            tuple(at[a] for a in call.args),
            tuple(a.type for a in call.args),
            call.type,
            call.distinct,
            None if call.filter is None else at[call.filter],
            retract,
            tuple(SortSpec(at[k.expr], k.descending, k.nulls_last) for k in call.order_by),
        )
        for call in calls
    )
    return widened, tuple(at[r] for r in refs), specs


@lower_node.register
def _(plan: n.Aggregate, run: Lowering, demand: Demand) -> Lowered:
    if plan.scalar and not plan.group:
        return run.lower(_with_row_of_nothing(plan, run), demand)
    source, keys, specs = aggregate_input(
        run, run.input(plan, 0), plan.group, [call for _, call in plan.calls], run.retracts(plan.input)
    )
    ttl = run.ttl_of(plan.ttl)
    schema, ids = schema_of(plan.columns), tuple(c.id for c in plan.columns)
    if not plan.columns:
        # An edge has at least one column: the group of all rows is that of a constant.
        source, keys = run.with_columns(source, [TRUE])
        schema, ids = Schema((Field("$any", TRUE.type),)), (HIDDEN,)
    mode = run.mode(plan, demand)
    if run.traits.batch or gives_others((call for _, call in plan.calls), run.traits) is None:
        return Lowered(GroupAggregateExec(source.node, keys, specs, schema, mode, ttl), ids)
    # The result that was shown cannot be computed again: it is kept by the group.
    given = ChangelogMode(True, False, mode.update_after, mode.delete)
    node: PhysicalNode = GroupAggregateExec(source.node, keys, specs, schema, given, ttl)
    if mode.update_before or (mode.delete and demand.full_deletes):
        node = ChangelogNormalizeExec(node, tuple(range(len(plan.group))), schema, mode, ttl)
    return Lowered(node, ids)


def _with_row_of_nothing(plan: n.Aggregate, run: Lowering) -> n.Project:
    """An aggregate that has its row over no input, too: one constant row, left joined with the aggregate of streams.

    Aggregate scalar n = COUNT(*) X   →   Project n = (0 where m is NULL, else m) (Join LEFT (Values ()) (Aggregate
    m = COUNT(*) X))
    """
    aggregate, values = without_row_of_nothing(plan, run.context.functions, plan.input)
    row = n.Values(((),), ())
    return n.Project(n.Join(row, aggregate, JoinKind.LEFT, TRUE), values)


@lower_node.register
def _(plan: n.Expand, run: Lowering, demand: Demand) -> Lowered:
    source = run.input(plan, 0)
    projections = tuple(tuple(source.expr(e) for e in projection) for projection in plan.projections)
    node = ExpandExec(source.node, projections, schema_of(plan.produced), source.node.mode)
    return Lowered(node, tuple(c.id for c in plan.produced))


@lower_node.register
def _(plan: n.Union, run: Lowering, demand: Demand) -> Lowered:
    ids = tuple(c.id for c in plan.produced)
    parts = [run.restored(run.input(plan, i), part.columns) for i, part in enumerate(plan.parts)]
    if len(parts) == 1:
        return Lowered(parts[0].node, ids)
    mode = APPEND
    for part in parts:
        mode = mode.union(part.node.mode)
    return Lowered(UnionExec(tuple(p.node for p in parts), schema_of(plan.produced), mode), ids)


@lower_node.register(n.Intersect)
@lower_node.register(n.Except)
def _(plan: n.Intersect | n.Except, run: Lowering, demand: Demand) -> Lowered:
    left = run.restored(run.input(plan, 0), plan.left.columns)
    right = run.restored(run.input(plan, 1), plan.right.columns)
    kind = "INTERSECT" if isinstance(plan, n.Intersect) else "EXCEPT"
    mode = run.mode(plan, demand)
    node = SetOperationExec(left.node, right.node, kind, plan.all, schema_of(plan.produced), mode, run.ttl)
    return Lowered(node, tuple(c.id for c in plan.produced))


@lower_node.register
def _(plan: n.Unnest, run: Lowering, demand: Demand) -> Lowered:
    source = run.input(plan, 0)
    added: tuple[Column, ...] = plan.columns[len(plan.input.columns) :]
    if rejects_rows(source.expr(plan.collection), run.context.functions):
        return _unnested_below(plan, run, source, added)
    schema = type(source.node.schema)(source.node.schema.fields + schema_of(added).fields)
    node = UnnestExec(source.node, source.expr(plan.collection), plan.ordinality, plan.outer, schema, source.node.mode)
    return Lowered(node, source.ids + tuple(c.id for c in added))


def _unnested_below(plan: n.Unnest, run: Lowering, source: Lowered, added: tuple[Column, ...]) -> Lowered:
    """UNNEST of what a function gives that rejects rows: a projection below computes it, which can leave rows out."""
    count = len(source.ids)
    below, (at,) = run.with_columns(source, [plan.collection])
    given = below.node.schema
    schema = type(given)((*given.fields, *schema_of(added).fields))
    node = UnnestExec(below.node, below.ref(at), plan.ordinality, plan.outer, schema, below.node.mode)
    whole = Lowered(node, below.ids + tuple(c.id for c in added))
    positions = [*range(count), *range(len(given), len(schema))]
    names = tuple(schema.names[i] for i in positions)
    picked = calc(node, None, tuple(whole.ref(i) for i in positions), names, run.context.functions)
    return Lowered(picked, tuple(whole.ids[i] for i in positions))


@lower_node.register
def _(plan: n.DependentJoin, run: Lowering, demand: Demand) -> Lowered:
    raise UnsupportedError(
        "this subquery depends on the outer query in a way that cannot be turned into a join",
        code="E1615",
        hint="write it as a join, or compare the outer column with = in the subquery's WHERE",
    )
