"""Time in a plan: its event-time columns, and whether a watermark reaches it."""

from __future__ import annotations

from planner.logical import nodes as n
from planner.logical.nodes import LogicalNode
from planner.traits.context import TraitContext
from runtime.core.types import DataType
from runtime.expr.nodes import Column

__all__ = ["has_watermark", "is_bounded", "proctime_columns", "rowtime_columns", "window_time_type"]


def rowtime_columns(plan: LogicalNode, context: TraitContext) -> tuple[Column, ...]:
    """The columns that carry event time, in order."""
    return tuple(c for c in plan.columns if c.type.is_rowtime)


def proctime_columns(plan: LogicalNode, context: TraitContext) -> tuple[Column, ...]:
    """The columns that stand for processing time, in order."""
    return tuple(c for c in plan.columns if c.type.is_proctime)


def has_watermark(plan: LogicalNode, context: TraitContext) -> bool:
    """Whether every way from a source to this plan passes a watermark, so that event time moves while input arrives."""
    return context.derive(_watermark, plan)


def _watermark(plan: LogicalNode, context: TraitContext) -> bool:
    match plan:
        case n.AssignWatermark() | n.Values():
            return True
        case n.Scan(scanned=columns):
            # A materialized view has the watermark of its query.
            return any(c.type.is_rowtime for c in columns)
        case n.Shared(plan=inner):
            return has_watermark(inner, context)
        case _:
            return all(has_watermark(source, context) for source in plan.inputs)


def is_bounded(plan: LogicalNode, context: TraitContext) -> bool:
    """Whether all sources end by themselves."""
    return context.derive(_bounded, plan)


def _bounded(plan: LogicalNode, context: TraitContext) -> bool:
    if isinstance(plan, n.Scan):
        return plan.table is not None and plan.table.bounded
    if isinstance(plan, n.Shared):
        return is_bounded(plan.plan, context)
    return all(is_bounded(source, context) for source in plan.inputs)


def window_time_type(plan: LogicalNode, context: TraitContext) -> DataType | None:
    """The type of the time attribute by which the rows of a plan were cut into windows; None when they were not.

    Window columns are plain timestamps. Who waits for a window's end must know whether it is one of processing time,
    and whether it is local time (TIMESTAMP_LTZ), so that it can be turned into an instant.
    """
    return context.derive(_window_time, plan)


def _window_time(plan: LogicalNode, context: TraitContext) -> DataType | None:
    if isinstance(plan, n.WindowTable):
        return plan.time.type
    if isinstance(plan, n.WindowAggregate) and plan.time is not None:
        return plan.time.type
    for source in plan.inputs:
        found = window_time_type(source, context)
        if found is not None:
            return found
    return None
