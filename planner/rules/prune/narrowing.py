"""How each class of node is narrowed to the columns that are wanted of it.

`prune(plan, wanted)` gives a plan with at least the wanted columns, under the same ids; it may have more, where
leaving them out would cost a projection that saves nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import singledispatch

from planner.logical.build import passing, projected
from planner.logical.expressions import node_expressions
from planner.logical.nodes import (
    Aggregate,
    AsofJoin,
    AssignWatermark,
    CurrentJoin,
    Deduplicate,
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
from runtime.expr.analysis import columns_of
from runtime.expr.nodes import Column
from runtime.spi.abilities import SupportsProjection

__all__ = ["prune"]

Wanted = frozenset[int]


def prune(plan: LogicalNode, wanted: Wanted) -> LogicalNode:
    """The plan without what nobody wants; the same object when there is nothing to leave out."""
    return _prune(plan, wanted)


@singledispatch
def _prune(plan: LogicalNode, wanted: Wanted) -> LogicalNode:
    raise InternalError(f"pruning of {type(plan).__name__} is not known")


def _reads(plan: LogicalNode) -> Wanted:
    return columns_of(node_expressions(plan))


def _of(columns: Iterable[Column], wanted: Collection[int]) -> tuple[Column, ...]:
    """The wanted columns, in order; the narrowest one when none is, since a batch without columns has no length."""
    columns = tuple(columns)
    kept = tuple(c for c in columns if c.id in wanted)
    return kept or tuple(sorted(columns, key=_width)[:1])


def _width(column: Column) -> int:
    arrow = column.type.arrow
    try:
        return int(arrow.bit_width)
    except ValueError:
        return 1000


def _narrow(plan: LogicalNode, wanted: Wanted) -> LogicalNode:
    """The input of a node that keeps rows: exactly the wanted columns."""
    kept = _of(plan.columns, wanted)
    below = prune(plan, frozenset(c.id for c in kept))
    return below if {c.id for c in below.columns} == {c.id for c in kept} else projected(below, kept)


@_prune.register
def _(plan: Scan, wanted: Wanted) -> LogicalNode:
    table = plan.table
    if table is None or not isinstance(table, SupportsProjection):
        return plan
    needed = set(wanted)
    if table.changelog_mode.is_upsert and plan.keys:
        needed |= set(plan.keys[0])
    kept = _of(plan.scanned, needed)
    if len(kept) == len(plan.scanned):
        return plan
    there = {c.id for c in kept}
    keys, known = (tuple(k for k in given if set(k) <= there) for given in (plan.keys, plan.known_keys))
    names = [f.name for f, c in zip(table.schema, plan.scanned, strict=True) if c.id in there]
    return plan.with_(table=table.with_columns(names), scanned=kept, keys=keys, known_keys=known, lookup=None)


@_prune.register(LastRound)
@_prune.register(Shared)
def _(plan: LastRound | Shared, wanted: Wanted) -> LogicalNode:
    return plan


@_prune.register
def _(plan: Values, wanted: Wanted) -> LogicalNode:
    if not plan.produced:
        return plan
    kept = {c.id for c in _of(plan.produced, wanted)}
    if len(kept) == len(plan.produced):
        return plan
    positions = [i for i, c in enumerate(plan.produced) if c.id in kept]
    return Values(
        tuple(tuple(row[i] for i in positions) for row in plan.rows), tuple(plan.produced[i] for i in positions)
    )


@_prune.register
def _(plan: Project, wanted: Wanted) -> LogicalNode:
    kept = {c.id for c in _of(plan.columns, wanted)}
    items = plan.items if len(kept) == len(plan.items) else tuple(i for i in plan.items if i[0].id in kept)
    below = prune(plan.input, columns_of(e for _, e in items))
    return plan if items is plan.items and below is plan.input else Project(below, items)


@_prune.register(Filter)
@_prune.register(Limit)
@_prune.register(Sort)
@_prune.register(AssignWatermark)
def _(plan: Filter | Limit | Sort | AssignWatermark, wanted: Wanted) -> LogicalNode:
    return plan.with_inputs(prune(plan.input, wanted | _reads(plan)))


@_prune.register
def _(plan: Sink, wanted: Wanted) -> LogicalNode:
    columns = plan.input.columns
    return plan.with_inputs(projected(prune(plan.input, frozenset(c.id for c in columns)), columns))


@_prune.register(Join)
@_prune.register(CurrentJoin)
@_prune.register(IntervalJoin)
@_prune.register(WindowJoin)
def _(plan: Join | CurrentJoin | IntervalJoin | WindowJoin, wanted: Wanted) -> LogicalNode:
    needed = wanted | _reads(plan)
    return plan.with_inputs(_narrow(plan.left, needed), _narrow(plan.right, needed))


@_prune.register
def _(plan: AsofJoin, wanted: Wanted) -> LogicalNode:
    # Which of several right rows of one time counts is told by all of their columns.
    whole = frozenset(c.id for c in plan.right.columns)
    return plan.with_inputs(_narrow(plan.left, wanted | _reads(plan)), _narrow(plan.right, whole))


@_prune.register
def _(plan: MultiJoin, wanted: Wanted) -> LogicalNode:
    needed = wanted | _reads(plan)
    return plan.with_inputs(*(_narrow(part, needed) for part in plan.parts))


@_prune.register
def _(plan: TemporalJoin, wanted: Wanted) -> LogicalNode:
    needed = wanted | _reads(plan)
    versions = frozenset(c.id for c in plan.right.columns if c.type.time_attribute is not None)
    return plan.with_inputs(_narrow(plan.left, needed), _narrow(plan.right, needed | versions))


@_prune.register
def _(plan: VectorSearch, wanted: Wanted) -> LogicalNode:
    needed = wanted | _reads(plan)
    return plan.with_inputs(_narrow(plan.left, needed), _narrow(plan.right, needed))


@_prune.register
def _(plan: LookupJoin, wanted: Wanted) -> LogicalNode:
    return plan.with_inputs(prune(plan.input, wanted | _reads(plan)))


@_prune.register
def _(plan: Aggregate, wanted: Wanted) -> LogicalNode:
    calls = tuple(c for c in plan.calls if c[0].id in wanted)
    if not calls and not plan.group:
        calls = plan.calls[:1]
    kept = plan if len(calls) == len(plan.calls) else plan.with_(calls=calls)
    return kept.with_inputs(_narrow(plan.input, _reads(kept)))


@_prune.register
def _(plan: WindowAggregate, wanted: Wanted) -> LogicalNode:
    calls = tuple(c for c in plan.calls if c[0].id in wanted)
    kept = plan if len(calls) == len(plan.calls) else plan.with_(calls=calls)
    return kept.with_inputs(_narrow(plan.input, _reads(kept)))


@_prune.register
def _(plan: Expand, wanted: Wanted) -> LogicalNode:
    kept = {c.id for c in _of(plan.produced, wanted)}
    if len(kept) < len(plan.produced):
        positions = [i for i, c in enumerate(plan.produced) if c.id in kept]
        lists = tuple(tuple(p[i] for i in positions) for p in plan.projections)
        plan = plan.with_(projections=lists, produced=tuple(plan.produced[i] for i in positions))
    return plan.with_inputs(prune(plan.input, _reads(plan)))


@_prune.register
def _(plan: FromChangelog, wanted: Wanted) -> LogicalNode:
    kept = frozenset(c.id for c in _of(plan.columns, wanted))
    return plan.with_inputs(_narrow(plan.input, kept | _reads(plan)))


@_prune.register
def _(plan: ToChangelog, wanted: Wanted) -> LogicalNode:
    # Without a column the input may have fewer changes, each of which is a row here.
    return plan.with_inputs(
        projected(prune(plan.input, frozenset(c.id for c in plan.input.columns)), plan.input.columns)
    )


@_prune.register
def _(plan: ProcessTables, wanted: Wanted) -> LogicalNode:
    # The function sees all columns of its tables.
    return plan.with_inputs(*(projected(prune(p, frozenset(c.id for c in p.columns)), p.columns) for p in plan.parts))


@_prune.register
def _(plan: WindowTable, wanted: Wanted) -> LogicalNode:
    return plan.with_inputs(_narrow(plan.input, wanted | _reads(plan)))


@_prune.register
def _(plan: Over, wanted: Wanted) -> LogicalNode:
    return _prune_added(plan, "calls", plan.calls, wanted)


@_prune.register
def _(plan: Remember, wanted: Wanted) -> LogicalNode:
    return _prune_added(plan, "values", plan.values, wanted)


def _prune_added(plan: LogicalNode, name: str, added: Sequence[tuple[Column, object]], wanted: Wanted) -> LogicalNode:
    """A node that puts columns behind those of its input: without those that nobody wants, and without itself where that
    are all."""
    left = tuple(one for one in added if one[0].id in wanted)
    if not left:
        return prune(plan.inputs[0], wanted)
    kept = plan if len(left) == len(added) else plan.with_(**{name: left})
    return kept.with_inputs(_narrow(plan.inputs[0], wanted | _reads(kept)))


@_prune.register
def _(plan: Match, wanted: Wanted) -> LogicalNode:
    found = tuple(item for item in plan.found if item.column.id in wanted)
    if not found and not plan.partition:
        found = plan.found[:1]
    kept = plan if len(found) == len(plan.found) else plan.with_(found=found)
    return kept.with_inputs(_narrow(plan.input, _reads(kept)))


@_prune.register(TopN)
@_prune.register(WindowTopN)
def _(plan: TopN | WindowTopN, wanted: Wanted) -> LogicalNode:
    kept = plan if plan.rank is None or plan.rank.id in wanted else plan.with_(rank=None)
    return kept.with_inputs(_narrow(plan.input, wanted | _reads(kept)))


@_prune.register
def _(plan: Deduplicate, wanted: Wanted) -> LogicalNode:
    return plan.with_inputs(_narrow(plan.input, wanted | _reads(plan)))


@_prune.register
def _(plan: Unnest, wanted: Wanted) -> LogicalNode:
    return plan.with_inputs(_narrow(plan.input, wanted | _reads(plan)))


@_prune.register
def _(plan: Union, wanted: Wanted) -> LogicalNode:
    kept = {c.id for c in _of(plan.produced, wanted)}
    positions = [i for i, c in enumerate(plan.produced) if c.id in kept]
    parts: list[LogicalNode] = []
    for part in plan.parts:
        columns = tuple(part.columns[i] for i in positions)
        below = prune(part, frozenset(c.id for c in columns))
        parts.append(below if [c.id for c in below.columns] == [c.id for c in columns] else _exactly(below, columns))
    if len(kept) == len(plan.produced) and all(a is b for a, b in zip(parts, plan.parts, strict=True)):
        return plan
    return Union(tuple(parts), tuple(plan.produced[i] for i in positions))


def _exactly(plan: LogicalNode, columns: tuple[Column, ...]) -> LogicalNode:
    own = {c.id: c for c in plan.columns}
    return Project(plan, passing(own[c.id] for c in columns))


@_prune.register(Intersect)
@_prune.register(Except)
@_prune.register(Recursive)
def _(plan: Intersect | Except | Recursive, wanted: Wanted) -> LogicalNode:
    sides = [projected(prune(side, frozenset(c.id for c in side.columns)), side.columns) for side in plan.inputs]
    return plan.with_inputs(*sides)
