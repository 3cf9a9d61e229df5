"""Windows of time: the table function, aggregation per window, and sorting by time."""

from __future__ import annotations

from planner.logical import nodes as n
from planner.lower.aggregate import aggregate_input
from planner.lower.lowering import Lowered, Lowering, lower_node, schema_of
from planner.traits.time import window_time_type
from planner.traits.update_kind import Demand
from runtime.core.changelog import APPEND
from runtime.core.schema import Schema
from runtime.core.types import DataType, TypeRoot
from runtime.plan.nodes import WindowAggregateExec, WindowTableExec
from runtime.plan.windows import AttachedWindow

__all__ = ["window_is_proctime", "window_zone", "zone_of"]


def zone_of(type_: DataType | None, run: Lowering) -> str | None:
    """The time zone in which windows over a time column of this type are cut: the session's for local time, else
    None."""
    return run.context.time_zone if type_ is not None and type_.root is TypeRoot.TIMESTAMP_LTZ else None


def window_zone(plan: n.LogicalNode, run: Lowering) -> str | None:
    """The same for a plan whose rows carry their window columns."""
    return zone_of(window_time_type(plan, run.traits), run)


def window_is_proctime(plan: n.LogicalNode, run: Lowering) -> bool:
    """Whether the windows that the plan's rows carry close by the clock."""
    type_ = window_time_type(plan, run.traits)
    return type_ is not None and type_.is_proctime


@lower_node.register
def _(plan: n.WindowTable, run: Lowering, demand: Demand) -> Lowered:
    source = run.input(plan, 0)
    time = source.position(plan.time)
    fields = [f if i != time else type(f)(f.name, f.type.materialized()) for i, f in enumerate(source.node.schema)]
    added = (plan.start, plan.end, plan.window_time)
    node = WindowTableExec(
        source.node,
        plan.window,
        time,
        source.positions_of(plan.partition),
        zone_of(plan.time.type, run),
        Schema((*fields, *schema_of(added).fields)),
        source.node.mode,
    )
    return Lowered(node, source.ids + tuple(c.id for c in added))


@lower_node.register
def _(plan: n.WindowAggregate, run: Lowering, demand: Demand) -> Lowered:
    windows = [r for r in (plan.time, plan.start, plan.end) if r is not None]
    source, positions, specs = aggregate_input(
        run, run.input(plan, 0), [*plan.group, *windows], [call for _, call in plan.calls], run.retracts(plan.input)
    )
    keys = positions[: len(plan.group)]
    at = dict(zip((r.id for r in windows), positions[len(plan.group) :], strict=True))
    attached = isinstance(plan.window, AttachedWindow)
    time_type = window_time_type(plan.input, run.traits) if plan.time is None else plan.time.type
    node = WindowAggregateExec(
        source.node,
        plan.window,
        -1 if plan.time is None or attached else at[plan.time.id],
        keys,
        specs,
        tuple(kind for _, kind in plan.properties),
        zone_of(time_type, run),
        schema_of(plan.columns),
        APPEND if plan.emit is None else run.mode(plan, demand),
        -1 if plan.start is None else at[plan.start.id],
        -1 if plan.end is None else at[plan.end.id],
        time_type is not None and time_type.is_proctime,
        plan.emit,
    )
    return Lowered(node, tuple(c.id for c in plan.columns))
