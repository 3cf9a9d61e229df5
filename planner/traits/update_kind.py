"""Who needs old images, and who may do without: the second and third pass of changelog inference (reference 0.3).

A consumer asks each input for a `Demand`: whether `-U` must come before each `+U`, and whether a `-D` must carry the
whole row. The demand goes down the plan; where a source cannot meet it, a ChangelogNormalize stands above it
(`planner/lower/scan.py`).

A plan can be followed by after-images alone when `follows_by_after(plan)`: its rows keep an upsert key for life, and
nothing on the way lets a row drop out because of a column that may change. Aggregates, top-n, deduplications and
sources are such; a filter on a column outside the key, a join, a union, a window function are not, so they ask for full
images below and give full images above.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Final

from planner.logical import nodes as n
from planner.logical.nodes import LogicalNode
from planner.traits.changes import changes, filters_on_key
from planner.traits.context import TraitContext
from planner.traits.keys import upsert_keys
from runtime.core.node import Node, node
from runtime.expr.analysis import rejects_rows
from runtime.plan.nodes import RankFunction

__all__ = [
    "AFTER_IMAGES",
    "FULL_IMAGES",
    "Demand",
    "follows_by_after",
    "input_demand",
    "is_native_upsert",
    "needs_memory",
]


@node
class Demand(Node):
    """What a consumer asks of the changes it is given.

    `before`: old images (`-U`) are needed. `full_deletes`: a `-D` carries all columns, not only the key.
    """

    before: bool
    full_deletes: bool = True


FULL_IMAGES: Final = Demand(True)
AFTER_IMAGES: Final = Demand(False)


def follows_by_after(plan: LogicalNode, context: TraitContext) -> bool:
    """Whether after-images by an upsert key tell all that happens to the plan's rows; true for insert-only plans."""
    return context.derive(_follows_derived, plan)


def _follows_derived(plan: LogicalNode, context: TraitContext) -> bool:
    given = changes(plan, context)
    if given.append_only:
        return True
    return len(upsert_keys(plan, context)) == 1 and _follows(plan, context)


@singledispatch
def _follows(plan: LogicalNode, context: TraitContext) -> bool:
    return False


@_follows.register
def _(plan: n.Scan, context: TraitContext) -> bool:
    # By a key that is only known, an old row may come behind the new one.
    return bool(plan.keys)


@_follows.register
def _(plan: n.Shared, context: TraitContext) -> bool:
    return follows_by_after(plan.plan, context)


@_follows.register
def _(plan: n.Filter, context: TraitContext) -> bool:
    if rejects_rows(plan.predicate, context.functions):
        return False
    return filters_on_key(plan, context) and follows_by_after(plan.input, context)


@_follows.register
def _(plan: n.Project, context: TraitContext) -> bool:
    # A row that is rejected drops out.
    if any(rejects_rows(expr, context.functions) for _, expr in plan.items):
        return False
    return follows_by_after(plan.input, context)


@_follows.register(n.Remember)
@_follows.register(n.AssignWatermark)
def _(plan: n.Remember | n.AssignWatermark, context: TraitContext) -> bool:
    return follows_by_after(plan.input, context)


@_follows.register
def _(plan: n.Aggregate, context: TraitContext) -> bool:
    # Where part of the group is a key already, a row of that key moves from group to group.
    return not plan.scalar and upsert_keys(plan, context) == (frozenset(g.id for g in plan.group),)


@_follows.register
def _(plan: n.WindowAggregate, context: TraitContext) -> bool:
    return bool(upsert_keys(plan, context))


@_follows.register
def _(plan: n.Sort, context: TraitContext) -> bool:
    return True


@_follows.register
def _(plan: n.Deduplicate, context: TraitContext) -> bool:
    return _stays(plan, frozenset(k.id for k in plan.keys), context)


@_follows.register
def _(plan: n.TopN, context: TraitContext) -> bool:
    # With the rank shown, a row moves from rank to rank; only ROW_NUMBER gives each rank to one row.
    ranked = plan.rank is None or plan.function is RankFunction.ROW_NUMBER
    return ranked and _stays(plan, frozenset(p.id for p in plan.partition), context)


def _stays(plan: n.TopN | n.Deduplicate, partition: frozenset[int], context: TraitContext) -> bool:
    """Whether a row never moves from partition to partition: each is a task's own, and nobody knows whether the `-D` of
    one comes before the `+I` of the other."""
    return changes(plan.input, context).append_only or all(partition <= key for key in upsert_keys(plan, context))


def is_native_upsert(plan: LogicalNode, context: TraitContext) -> bool:
    """Whether the rows come from a source that sends after-images with whole deletes, through operators that keep its
    key.

    Asking such a plan for old images costs a copy of the table in state (ChangelogNormalize).
    """
    return context.derive(_native, plan)


def _native(plan: LogicalNode, context: TraitContext) -> bool:
    if not follows_by_after(plan, context):
        return False
    match plan:
        case n.Scan(table=table):
            return table is not None and table.changelog_mode.is_upsert and not table.changelog_mode.key_only_deletes
        case n.Shared():
            return is_native_upsert(plan.plan, context)
        case n.Project() | n.Filter() | n.AssignWatermark():
            return is_native_upsert(plan.input, context)
        case _:
            return False


def input_demand(plan: LogicalNode, index: int, demand: Demand, context: TraitContext) -> Demand:
    """What a node asks of its input number `index` when `demand` is asked of the node itself."""
    return _demand(plan, index, demand, context)


@singledispatch
def _demand(plan: LogicalNode, index: int, demand: Demand, context: TraitContext) -> Demand:
    return FULL_IMAGES


@_demand.register(n.Project)
@_demand.register(n.AssignWatermark)
def _(plan: n.Project | n.AssignWatermark, index: int, demand: Demand, context: TraitContext) -> Demand:
    full = demand.full_deletes or isinstance(plan, n.AssignWatermark)
    return Demand(demand.before or not follows_by_after(plan, context), full)


@_demand.register
def _(plan: n.Remember, index: int, demand: Demand, context: TraitContext) -> Demand:
    return FULL_IMAGES if needs_memory(plan, demand, context) else demand


def needs_memory(plan: n.Remember, demand: Demand, context: TraitContext) -> bool:
    """Whether the values must be known when a row is taken back: not for who goes by key alone, and replaces and removes
    what has the key."""
    return demand.before or demand.full_deletes or not follows_by_after(plan, context)


@_demand.register
def _(plan: n.Filter, index: int, demand: Demand, context: TraitContext) -> Demand:
    if demand.before or not follows_by_after(plan, context):
        return FULL_IMAGES
    return demand


@_demand.register(n.Join)
@_demand.register(n.MultiJoin)
@_demand.register(n.AsofJoin)
@_demand.register(n.TopN)
@_demand.register(n.Sort)
def _(plan: LogicalNode, index: int, demand: Demand, context: TraitContext) -> Demand:
    # These find the old row of a unique key in their own state.
    return AFTER_IMAGES if is_native_upsert(plan.inputs[index], context) else FULL_IMAGES


@_demand.register
def _(plan: n.CurrentJoin, index: int, demand: Demand, context: TraitContext) -> Demand:
    # Old rows of a key are found in the state of the right side.
    return AFTER_IMAGES if index == 1 and is_native_upsert(plan.right, context) else FULL_IMAGES


@_demand.register
def _(plan: n.TemporalJoin, index: int, demand: Demand, context: TraitContext) -> Demand:
    if plan.snapshot is not None:
        return FULL_IMAGES
    return AFTER_IMAGES if index == 1 and follows_by_after(plan.right, context) else FULL_IMAGES
