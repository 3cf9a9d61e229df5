"""Rows by rank: top-n, deduplication, ORDER BY, LIMIT, and functions with OVER."""

from __future__ import annotations

from planner.logical import nodes as n
from planner.logical.nodes import LogicalNode
from planner.lower.aggregate import aggregate_input
from planner.lower.consumers import require_append_only
from planner.lower.lowering import Lowered, Lowering, lower_node, schema_of
from planner.lower.window import window_is_proctime, window_zone
from planner.traits.changes import is_append_only, ordered_by_time
from planner.traits.keys import unique_keys, upsert_keys
from planner.traits.naming import place_of
from planner.traits.time import is_bounded
from planner.traits.update_kind import Demand
from runtime.core.changelog import APPEND, RETRACT
from runtime.core.errors import UnsupportedError
from runtime.core.schema import Schema
from runtime.expr.nodes import TRUE, AggregateCall, Column, Expr, Frame, FrameBound, SortKey, WindowCall
from runtime.plan.nodes import (
    DeduplicateExec,
    LimitExec,
    OverAggregateExec,
    RankFunction,
    SortExec,
    TopNExec,
    WindowTopNExec,
)

__all__: list[str] = []


def _with_rank(source: Lowered, rank: Column | None) -> tuple[Schema, tuple[int, ...]]:
    if rank is None:
        return source.node.schema, source.ids
    return Schema((*source.node.schema.fields, *schema_of([rank]).fields)), (*source.ids, rank.id)


def _row_key(plan: LogicalNode, source: Lowered, run: Lowering) -> tuple[int, ...] | None:
    """The key by which rows are found again: one that they keep for life, if there is one."""
    return source.key_positions((*upsert_keys(plan, run.traits), *unique_keys(plan, run.traits)))


@lower_node.register
def _(plan: n.TopN, run: Lowering, demand: Demand) -> Lowered:
    # Without an order (LIMIT in a correlated subquery) rows rank by a constant: as they come.
    source, order = run.sort_specs(run.input(plan, 0), plan.order or (SortKey(TRUE),))
    schema, ids = _with_rank(source, plan.rank)
    node = TopNExec(
        source.node,
        plan.function,
        source.positions_of(plan.partition),
        order,
        plan.start,
        plan.end,
        plan.rank is not None,
        _row_key(plan.input, source, run),
        schema,
        run.mode(plan, demand),
        run.ttl_of(plan.ttl),
    )
    return run.restored(Lowered(node, ids), plan.columns)


@lower_node.register
def _(plan: n.Deduplicate, run: Lowering, demand: Demand) -> Lowered:
    source = run.input(plan, 0)
    time = None if plan.time.type.is_proctime else source.position(plan.time)
    node = DeduplicateExec(
        source.node,
        source.positions_of(plan.keys),
        time,
        plan.keep_last,
        source.node.schema,
        run.mode(plan, demand),
        run.ttl_of(plan.ttl),
    )
    return Lowered(node, source.ids)


@lower_node.register
def _(plan: n.WindowTopN, run: Lowering, demand: Demand) -> Lowered:
    require_append_only(plan, "a top-n per window", run.traits)
    latest = _keeps_last(plan)
    keys = tuple(k.with_(descending=False) for k in plan.order) if latest else plan.order
    source, order = run.sort_specs(run.input(plan, 0), keys)
    schema, ids = _with_rank(source, plan.rank)
    start, end = source.positions_of(plan.window)
    node = WindowTopNExec(
        source.node,
        plan.function,
        source.positions_of(plan.partition),
        (start, end),
        order,
        plan.start,
        plan.end,
        plan.rank is not None,
        window_zone(plan.input, run),
        schema,
        APPEND,
        proctime=window_is_proctime(plan.input, run),
        latest=latest,
    )
    return run.restored(Lowered(node, ids), plan.columns)


def _keeps_last(plan: n.WindowTopN) -> bool:
    """Whether it is a deduplication that keeps the last row by time: of equal times the row that came last, as outside
    of windows."""
    first_only = plan.function is RankFunction.ROW_NUMBER and plan.start == plan.end == 1
    return (
        first_only
        and len(plan.order) == 1
        and plan.order[0].descending
        and plan.order[0].expr.type.time_attribute is not None
    )


@lower_node.register
def _(plan: n.Sort, run: Lowering, demand: Demand) -> Lowered:
    if plan.limit is None and plan.offset == 0 and not run.traits.batch:
        return _sort_all(plan, run)
    source, order = run.sort_specs(run.input(plan, 0), plan.keys)
    end = None if plan.limit is None else plan.offset + plan.limit
    node = TopNExec(
        source.node,
        RankFunction.ROW_NUMBER,
        (),
        order,
        plan.offset + 1,
        end,
        False,
        _row_key(plan.input, source, run),
        source.node.schema,
        run.mode(plan, demand),
        run.ttl,
    )
    return run.restored(Lowered(node, source.ids), plan.columns)


def _sort_all(plan: n.Sort, run: Lowering) -> Lowered:
    """ORDER BY without LIMIT: by event time, rows wait for the watermark; by anything else there is no end to wait
    for."""
    if not ordered_by_time(plan.keys):
        raise UnsupportedError(
            "a stream cannot be sorted by a column that is not an ascending time attribute",
            code="E1614",
            span=place_of(plan),
            hint="add LIMIT, or sort by the event-time column first",
        )
    require_append_only(plan, "ORDER BY time", run.traits, "add LIMIT to keep the first rows up to date")
    source, order = run.sort_specs(run.input(plan, 0), plan.keys)
    if plan.keys[0].expr.type.is_proctime:
        # Rows come in the order of processing time already; one epoch has one time, so only further keys would matter.
        return source
    return run.restored(Lowered(SortExec(source.node, order, source.node.schema, APPEND), source.ids), plan.columns)


@lower_node.register
def _(plan: n.Limit, run: Lowering, demand: Demand) -> Lowered:
    source = run.input(plan, 0)
    node = LimitExec(source.node, plan.offset, plan.limit, source.node.schema, run.mode(plan, demand), run.ttl)
    return Lowered(node, source.ids)


_RANKING = frozenset({"ROW_NUMBER", "RANK", "DENSE_RANK", "NTILE", "PERCENT_RANK", "CUME_DIST", "LAG", "LEAD"})
_RUNNING = Frame(False, FrameBound.UNBOUNDED_PRECEDING, FrameBound.CURRENT_ROW)
_WHOLE = Frame(False, FrameBound.UNBOUNDED_PRECEDING, FrameBound.UNBOUNDED_FOLLOWING)

_Window = tuple[tuple[Expr, ...], tuple[SortKey, ...], Frame | None]


def _frame(call: WindowCall) -> Frame | None:
    if call.function in _RANKING:
        return None
    if call.frame is not None:
        return call.frame
    return _RUNNING if call.order_by else _WHOLE


@lower_node.register
def _(plan: n.Over, run: Lowering, demand: Demand) -> Lowered:
    """One operator per distinct window, one above the other."""
    groups: dict[_Window, list[tuple[Column, WindowCall]]] = {}
    for column, call in plan.calls:
        groups.setdefault((call.partition_by, call.order_by, _frame(call)), []).append((column, call))
    timed = all(ordered_by_time(order) for _, order, _ in groups)
    if timed:
        require_append_only(
            plan, "OVER ordered by time", run.traits, "order the window by a column that is not a time attribute"
        )
    current = run.input(plan, 0)
    appends = is_append_only(plan.input, run.traits)
    ttl = run.ttl_of(plan.ttl)
    for (partition, order, frame), calls in groups.items():
        current = _over(run, current, plan.input, partition, order, frame, calls, appends, ttl)
        appends = appends and current.node.mode.is_append_only
    return run.restored(current, plan.columns)


def _over(
    run: Lowering,
    source: Lowered,
    below: LogicalNode,
    partition: tuple[Expr, ...],
    order: tuple[SortKey, ...],
    frame: Frame | None,
    calls: list[tuple[Column, WindowCall]],
    appends: bool,
    ttl: int,
) -> Lowered:
    by_time = appends and ordered_by_time(order)
    source, keys = run.with_columns(source, partition)
    source, specs = run.sort_specs(source, order)
    plain = [AggregateCall(c.function, c.args, c.type, c.distinct, c.filter) for _, c in calls]
    source, _, aggregates = aggregate_input(run, source, (), plain, not appends)
    rowtime = by_time and order[0].expr.type.is_rowtime
    proctime = by_time and order[0].expr.type.is_proctime
    if proctime and frame is not None and frame.reaches_ahead:
        raise UnsupportedError(
            "a frame over processing time cannot end after the current row",
            span=calls[0][1].span,
            hint="end it with CURRENT ROW, or order by event time: then rows wait for those that follow",
        )
    if (
        rowtime
        and frame is not None
        and frame.upper is FrameBound.UNBOUNDED_FOLLOWING
        and not is_bounded(below, run.traits)
    ):
        raise UnsupportedError(
            "no row of a stream without end has a frame that ends with UNBOUNDED FOLLOWING",
            span=calls[0][1].span,
            hint="say how far it reaches, for example INTERVAL '1' HOUR FOLLOWING",
        )
    columns = [c for c, _ in calls]
    schema = Schema((*source.node.schema.fields, *schema_of(columns).fields))
    mode = APPEND if rowtime or proctime or run.traits.batch else RETRACT
    node = OverAggregateExec(source.node, keys, specs, frame, aggregates, rowtime, proctime, schema, mode, ttl)
    return Lowered(node, source.ids + tuple(c.id for c in columns))
