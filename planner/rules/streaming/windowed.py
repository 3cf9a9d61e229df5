"""Which columns of a plan are the start and end of the window that its rows belong to."""

from __future__ import annotations

from dataclasses import dataclass, replace

from planner.logical.nodes import (
    Expand,
    Filter,
    LogicalNode,
    LookupJoin,
    Over,
    Project,
    TemporalJoin,
    Unnest,
    VectorSearch,
    WindowAggregate,
    WindowJoin,
    WindowProperty,
    WindowTable,
    WindowTopN,
)
from planner.rule import RuleContext
from planner.traits.context import TraitContext
from planner.traits.time_conditions import has_time_condition
from runtime.expr.analysis import follows_time
from runtime.expr.nodes import ColumnRef
from runtime.plan.windows import AttachedWindow, WindowSpec

__all__ = ["Windowed", "window_on", "windowed"]


@dataclass(frozen=True, slots=True)
class Windowed:
    """Column ids of a window's start, end and time (None when it was dropped), and the window function that made it."""

    start: int
    end: int
    time: int | None
    spec: WindowSpec

    @property
    def columns(self) -> frozenset[int]:
        return frozenset(i for i in (self.start, self.end, self.time) if i is not None)


def windowed(plan: LogicalNode, context: RuleContext) -> tuple[Windowed, ...]:
    """The windows that a plan's rows carry: none, one, or one from each side of a window join."""
    return context.traits.derive(_derive, plan)


def window_on(plan: LogicalNode, columns: frozenset[int], context: RuleContext) -> Windowed | None:
    """The window whose start and end are both among the given columns."""
    return next((w for w in windowed(plan, context) if {w.start, w.end} <= columns), None)


def _derive(plan: LogicalNode, traits: TraitContext) -> tuple[Windowed, ...]:
    def below(source: LogicalNode) -> tuple[Windowed, ...]:
        return traits.derive(_derive, source)

    match plan:
        case Filter(predicate=predicate) if follows_time(predicate):
            # Rows leave when their window has long ended.
            return ()
        case WindowTable(input=source, time=time) if has_time_condition(source) or (
            time.type.time_attribute is None and not traits.batch
        ):
            return ()
        case WindowTable(start=start, end=end, window_time=time, window=window):
            return (Windowed(start.id, end.id, time.id, window),)
        case Project(input=source, items=items):
            names = {e.id: c.id for c, e in reversed(items) if isinstance(e, ColumnRef)}
            return _renamed(below(source), names)
        case Expand(input=source, projections=projections, produced=produced):
            lists = zip(*projections, strict=True)
            names = {
                es[0].id: c.id
                for c, es in zip(produced, lists, strict=True)
                if isinstance(es[0], ColumnRef) and all(e == es[0] for e in es)
            }
            return _renamed(below(source), names)
        case WindowAggregate(emit=emit) if emit is not None:
            # Its rows change after their window has ended.
            return ()
        case WindowAggregate(input=source, window=window, properties=properties):
            columns = {kind: c.id for c, kind in properties}
            if WindowProperty.START not in columns or WindowProperty.END not in columns:
                return ()
            if isinstance(window, AttachedWindow):
                inner = next((w for w in below(source) if plan.start is not None and w.start == plan.start.id), None)
                if inner is None:
                    return ()
                window = inner.spec
            return (
                Windowed(
                    columns[WindowProperty.START], columns[WindowProperty.END], columns.get(WindowProperty.TIME), window
                ),
            )
        case WindowJoin(left=left, right=right, kind=kind):
            return below(left) if kind.left_only else below(left) + below(right)
        case Filter() | Over() | WindowTopN() | Unnest() | LookupJoin():
            return below(plan.input)
        case TemporalJoin(left=left) | VectorSearch(left=left):
            return below(left)
        case _:
            return ()


def _renamed(found: tuple[Windowed, ...], names: dict[int, int]) -> tuple[Windowed, ...]:
    return tuple(
        replace(w, start=names[w.start], end=names[w.end], time=None if w.time is None else names.get(w.time))
        for w in found
        if w.start in names and w.end in names
    )
