"""What bounds the state that a plan node keeps while it runs for ever."""

from __future__ import annotations

import enum
from functools import singledispatch

from planner.logical import nodes as n
from planner.logical.nodes import LogicalNode
from planner.traits.changes import is_append_only
from planner.traits.context import TraitContext
from planner.traits.keys import unique_keys
from planner.traits.time import has_watermark, is_bounded
from runtime.expr.nodes import ColumnRef

__all__ = ["StateBound", "follows_watermark", "state_bound"]


class StateBound(enum.Enum):
    """Why a node's state does not grow for ever, or that it does."""

    STATELESS = "no state"
    WATERMARK = "watermark"
    KEYS = "number of keys"
    ROWS = "limit"
    INPUT = "nothing"

    @property
    def grows(self) -> bool:
        """Whether the state follows the number of rows ever read."""
        return self is StateBound.INPUT


def state_bound(plan: LogicalNode, context: TraitContext) -> StateBound:
    """The bound of the node's own state, not of its inputs'. State of a plan whose sources end is bounded by the
    input's size."""
    return _bound(plan, context)


def unbounded_nodes(plan: LogicalNode, context: TraitContext) -> list[LogicalNode]:
    """The nodes below (and with) `plan` whose state grows with an input that never ends, in reading order."""
    sources = (plan.plan,) if isinstance(plan, n.Shared) else plan.inputs
    found = [node for source in sources for node in unbounded_nodes(source, context)]
    if state_bound(plan, context).grows and not is_bounded(plan, context):
        found.append(plan)
    return found


__all__ += ["unbounded_nodes"]


@singledispatch
def _bound(plan: LogicalNode, context: TraitContext) -> StateBound:
    return StateBound.STATELESS


def follows_watermark(plan: n.AsofJoin, context: TraitContext) -> bool:
    """Whether rows only come on both sides of an ASOF join, and the times that it compares are event times with a
    watermark: then its state does not grow."""
    if context.batch:
        return False
    times = (plan.left_time, plan.right_time)
    timed = all(isinstance(time, ColumnRef) and time.type.is_rowtime for time in times)
    return timed and all(is_append_only(side, context) and has_watermark(side, context) for side in plan.inputs)


def _by_watermark(plan: LogicalNode, context: TraitContext) -> StateBound:
    return StateBound.WATERMARK if has_watermark(plan, context) else StateBound.INPUT


@_bound.register
def _(plan: n.ProcessTables, context: TraitContext) -> StateBound:
    return StateBound.STATELESS if plan.each else StateBound.KEYS


@_bound.register(n.WindowAggregate)
@_bound.register(n.WindowJoin)
@_bound.register(n.WindowTopN)
@_bound.register(n.IntervalJoin)
@_bound.register(n.TemporalJoin)
def _(plan: LogicalNode, context: TraitContext) -> StateBound:
    return _by_watermark(plan, context)


@_bound.register
def _(plan: n.Aggregate, context: TraitContext) -> StateBound:
    return StateBound.KEYS


@_bound.register
def _(plan: n.Remember, context: TraitContext) -> StateBound:
    return StateBound.KEYS if unique_keys(plan.input, context) else StateBound.INPUT


@_bound.register
def _(plan: n.Deduplicate, context: TraitContext) -> StateBound:
    return StateBound.KEYS


@_bound.register
def _(plan: n.VectorSearch, context: TraitContext) -> StateBound:
    return StateBound.STATELESS if is_bounded(plan.right, context) else StateBound.INPUT


@_bound.register(n.Join)
@_bound.register(n.MultiJoin)
@_bound.register(n.CurrentJoin)
@_bound.register(n.DependentJoin)
@_bound.register(n.Intersect)
@_bound.register(n.Recursive)
@_bound.register(n.Except)
def _(plan: LogicalNode, context: TraitContext) -> StateBound:
    return StateBound.INPUT


@_bound.register
def _(plan: n.AsofJoin, context: TraitContext) -> StateBound:
    return _by_watermark(plan, context) if follows_watermark(plan, context) else StateBound.INPUT


@_bound.register
def _(plan: n.Over, context: TraitContext) -> StateBound:
    timed = all(c.order_by and c.order_by[0].expr.type.time_attribute is not None for _, c in plan.calls)
    return _by_watermark(plan, context) if timed else StateBound.INPUT


@_bound.register
def _(plan: n.Match, context: TraitContext) -> StateBound:
    # Runs that are not too long yet keep their rows.
    return _by_watermark(plan, context) if plan.pattern.within else StateBound.INPUT


@_bound.register
def _(plan: n.Sort, context: TraitContext) -> StateBound:
    if plan.limit is None:
        return _by_watermark(plan, context)
    return StateBound.ROWS if is_append_only(plan.input, context) else StateBound.INPUT


@_bound.register
def _(plan: n.Limit, context: TraitContext) -> StateBound:
    return StateBound.ROWS if is_append_only(plan.input, context) else StateBound.INPUT


@_bound.register
def _(plan: n.TopN, context: TraitContext) -> StateBound:
    if not is_append_only(plan.input, context) or plan.end is None:
        return StateBound.INPUT
    return StateBound.KEYS
