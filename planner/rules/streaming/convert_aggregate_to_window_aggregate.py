"""GROUP BY both window_start and window_end is a window aggregate.

    Aggregate by (k, window_start, window_end) c (Project … (WindowTable TUMBLE of ts X))
      →  WindowAggregate TUMBLE of ts by (k) c, window_start, window_end (Project … X)
    Aggregate by (window_start, window_end) c (any rows that carry their window)
      →  WindowAggregate ATTACHED(window_start, window_end) c, …

Streaming: one final row per window and key, when the watermark passes the window's end; append-only; state is freed
then. A window in GROUP BY may have early and late results (`emit`): then rows change. The first form assigns windows
inside the aggregate (panes shared by HOP and CUMULATE); the second is for rows that have their window columns from an
earlier window operator, and for what the first cannot do: expressions over window columns, and SESSION windows whose
partition is not the group or whose rows are filtered. Not applied when only one of the two columns is grouped: that is
an ordinary, updating aggregate, as in Flink.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.logical.build import passing, projected
from planner.logical.expressions import walk_plan
from planner.logical.nodes import Aggregate, Filter, LogicalNode, Project, WindowAggregate, WindowProperty, WindowTable
from planner.rule import Rule, RuleContext
from planner.rules.streaming.windowed import Windowed, window_on
from runtime.core.errors import InternalError
from runtime.expr.analysis import columns_of
from runtime.expr.nodes import Column, ColumnRef, Expr
from runtime.plan.windows import AttachedWindow, SessionWindow

__all__ = ["RULE"]


def convert_aggregate_to_window_aggregate(node: Aggregate, context: RuleContext) -> LogicalNode | None:
    window = window_on(node.input, frozenset(g.id for g in node.group), context)
    if window is None:
        return None
    columns = {c.id: c for c in node.columns}
    changed = _assigning(node, columns)
    if changed is None:
        if any(isinstance(n, WindowTable) and n.emit is not None for n in walk_plan(node.input)):
            raise InternalError("early and late results of windows that rows carry")
        changed = _attached(node, window, columns)
    return projected(changed, node.columns)


def _attached(node: Aggregate, window: Windowed, columns: dict[int, Column]) -> WindowAggregate:
    kinds = {window.start: WindowProperty.START, window.end: WindowProperty.END}
    if window.time is not None:
        kinds[window.time] = WindowProperty.TIME
    refs = {g.id: g for g in node.group}
    return WindowAggregate(
        node.input,
        AttachedWindow(),
        None,
        refs[window.start],
        refs[window.end],
        tuple(g for g in node.group if g.id not in kinds),
        node.calls,
        tuple((columns[g.id], kinds[g.id]) for g in node.group if g.id in kinds),
    )


def _assigning(node: Aggregate, columns: dict[int, Column]) -> WindowAggregate | None:
    found = _without_windows(node.input)
    if found is None or any(columns_of(call) & found.properties.keys() for _, call in node.calls):
        return None
    group = tuple(g for g in node.group if g.id not in found.properties)
    table = found.table
    if isinstance(table.window, SessionWindow):
        # A session belongs to its partition; the operator keeps sessions per group.
        partition = {found.names.get(p.id) for p in table.partition}
        if partition != {g.id for g in group}:
            return None
    properties = tuple((columns[g.id], found.properties[g.id]) for g in node.group if g.id in found.properties)
    return WindowAggregate(found.plan, table.window, table.time, None, None, group, node.calls, properties, table.emit)


@dataclass(frozen=True, slots=True)
class _Stripped:
    """A chain of filters and projections without the window function below it. `properties`: which of the chain's
    columns were window columns; `names`: what the function's input columns are called at the top."""

    plan: LogicalNode
    table: WindowTable
    properties: dict[int, WindowProperty]
    names: dict[int, int]


def _without_windows(plan: LogicalNode) -> _Stripped | None:
    match plan:
        case WindowTable(input=source, start=start, end=end, window_time=time):
            properties = {start.id: WindowProperty.START, end.id: WindowProperty.END, time.id: WindowProperty.TIME}
            return _Stripped(source, plan, properties, {c.id: c.id for c in source.columns})
        case Filter(input=source, predicate=predicate):
            found = _without_windows(source)
            if found is None or columns_of(predicate) & found.properties.keys():
                return None
            if isinstance(found.table.window, SessionWindow):
                # A session goes on through rows that the filter leaves out.
                return None
            return _Stripped(Filter(found.plan, predicate), found.table, found.properties, found.names)
        case Project(input=source, items=items):
            found = _without_windows(source)
            return None if found is None else _projected(found, items)
        case _:
            return None


def _projected(found: _Stripped, items: tuple[tuple[Column, Expr], ...]) -> _Stripped | None:
    kept: list[tuple[Column, Expr]] = []
    properties: dict[int, WindowProperty] = {}
    names: dict[int, int] = {}
    below = {top: bottom for bottom, top in found.names.items()}
    for column, expr in items:
        if isinstance(expr, ColumnRef):
            if expr.id in found.properties:
                properties[column.id] = found.properties[expr.id]
                continue
            if expr.id in below:
                names.setdefault(below[expr.id], column.id)
        elif columns_of(expr) & found.properties.keys():
            return None
        kept.append((column, expr))
    time = next(c for c in found.plan.columns if c.id == found.table.time.id)
    if time.id not in {c.id for c, _ in kept}:
        kept.extend(passing((time,)))
    return _Stripped(Project(found.plan, tuple(kept)), found.table, properties, names)


RULE = Rule("convert_aggregate_to_window_aggregate", Aggregate, convert_aggregate_to_window_aggregate)
