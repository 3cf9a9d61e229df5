"""`EMIT ON WINDOW CLOSE` (RisingWave) and `EMIT CHANGES` (ksqlDB): whether the rows of groups are final or change."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from planner.logical.expressions import walk_plan
from planner.logical.nodes import LogicalNode, WindowTable
from planner.lower.emit import emits_between
from runtime.core.errors import BindError, Span, UnsupportedError
from runtime.expr.nodes import ColumnRef
from runtime.plan.windows import CumulateWindow, HopWindow, SessionWindow, TumbleWindow, WindowEmit
from sqlengine.bind.grouping import GroupBy
from sqlengine.catalog.objects import BindContext
from sqlengine.parse.spans import span_of

__all__ = ["emitted"]


def emitted(clause: exp.Expr | None, group: GroupBy, plan: LogicalNode, context: BindContext) -> GroupBy:
    """The groups with their rows given as the clause says; `plan` is what is grouped.

    ON WINDOW CLOSE: once, when the window is over. Groups by one bound of a window that tells the other are groups by
    both. CHANGES: after every epoch.

    Raises:
        BindError: E1216 where this cannot be.
        UnsupportedError: E1600 for early and late results of window functions in FROM, as in Flink.
    """
    tables = [(t, _bounds(t, group)) for t in walk_plan(plan) if isinstance(t, WindowTable)]
    if clause is None:
        if any(all(bounds) for _, bounds in tables) and not context.batch and emits_between(context.options):
            raise UnsupportedError(
                "window functions in FROM have no early and late results",
                code="E1600",
                hint="GROUP BY TUMBLE(time, size) or HOP(..), or end the query with EMIT ON WINDOW CLOSE",
            )
        return group
    span = span_of(clause)
    if clause.name == "CHANGES":
        return _changing(group, any(all(bounds) for _, bounds in tables), span)
    if group.window is not None:
        return replace(group, window=replace(group.window, emit=None))
    for table, (by_start, by_end) in tables:
        if by_start and by_end:
            return group
        if by_start and isinstance(table.window, TumbleWindow | HopWindow):
            return _also_by(group, table.end.ref())
        if by_end and isinstance(table.window, TumbleWindow | HopWindow | CumulateWindow):
            return _also_by(group, table.start.ref())
    raise BindError(
        "EMIT ON WINDOW CLOSE needs GROUP BY a window",
        code="E1216",
        span=span,
        hint="group by window_start and window_end of a window function in FROM",
    )


def _changing(group: GroupBy, by_window: bool, span: Span | None) -> GroupBy:
    window = group.window
    if by_window or (window is not None and isinstance(window.spec, SessionWindow)):
        raise BindError(
            "this window gives its rows once, when it is over",
            code="E1216",
            span=span,
            hint="GROUP BY TUMBLE(time, size) or HOP(..) has rows that change; leave EMIT CHANGES out for final rows",
        )
    if window is None or window.emit is not None:
        return group
    return replace(group, window=replace(window, emit=WindowEmit(0, None, 0)))


def _bounds(table: WindowTable, group: GroupBy) -> tuple[bool, bool]:
    """Whether every grouping set has the window's start, and its end."""
    keys = {k.id for i, k in enumerate(group.keys) if isinstance(k, ColumnRef) and i in group.common}
    return table.start.id in keys, table.end.id in keys


def _also_by(group: GroupBy, key: ColumnRef) -> GroupBy:
    number = len(group.keys)
    return replace(group, keys=(*group.keys, key), sets=tuple((*s, number) for s in group.sets))
