"""Materialized views that the session reads while its epoch is open.

What a view keeps follows published changes, so it does not know those of the open epoch. Its query over the tables as
they are now gives the answer that the view will have, where that follows from the contents alone: then the query stands
in the place of the view. Otherwise (it follows a stream, event time, the clock or the order of arrival) nobody can tell,
and the statement is refused.
"""

from __future__ import annotations

from planner.traits.context import TraitContext
from planner.traits.determinism import is_deterministic
from runtime.core.errors import PlanningError, Span
from runtime.expr.function import AggregateFunction, FunctionRegistry
from runtime.plan.base import Follows
from runtime.plan.walk import expressions_of, walk
from sqlengine.catalog.objects import ObjectPath
from sqlengine.database.open_epoch import OpenEpoch
from sqlengine.database.views import MaintainedView, Views

__all__ = ["check_unchanged", "stands_for_view"]


def stands_for_view(
    storage: ObjectPath,
    views: Views,
    epoch: OpenEpoch,
    functions: FunctionRegistry,
    time_zone: str,
    span: Span | None,
) -> bool:
    """Whether the open epoch has changed what a view reads, so that its query must answer.

    Raises PlanningError E1714 when it has, and the answer does not follow from the contents of tables.
    """
    view = next((v for v in views.jobs() if v.path == storage), None)
    if view is None:
        return False
    changed = _changed(view, views, epoch)
    if changed is None:
        return False
    reason = _follows_more(view, functions, time_zone)
    if reason is not None:
        raise PlanningError(
            f'the open epoch has changed "{changed.name}", and what the materialized view "{storage.name}" makes of that is '
            f"not known before its end: it follows {reason}",
            code="E1714",
            span=span,
            hint="END EPOCH first, or read the tables themselves",
        )
    return True


def check_unchanged(storage: ObjectPath, epoch: OpenEpoch | None, span: Span | None) -> None:
    """Raises PlanningError E1715 for a table that the open epoch has changed: it cannot be dropped or replaced."""
    if epoch is not None and epoch.find(storage) is not None:
        raise PlanningError(
            f'the open epoch has changed "{storage.name}"',
            code="E1715",
            span=span,
            hint="END EPOCH or ROLLBACK EPOCH first",
        )


def _changed(view: MaintainedView, views: Views, epoch: OpenEpoch) -> ObjectPath | None:
    """A table below a view, or below those that it reads, with changes of the open epoch."""
    kept = {v.path: v for v in views.jobs()}
    waiting, seen = [view], {view.path}
    while waiting:
        for path in sorted(waiting.pop().inputs, key=str):
            if epoch.find(path) is not None:
                return path
            if path in kept and path not in seen:
                seen.add(path)
                waiting.append(kept[path])
    return None


def _follows_more(view: MaintainedView, functions: FunctionRegistry, time_zone: str) -> str | None:
    """What a view follows beside the contents of tables in memory; views that it reads are asked for themselves."""
    if view.outside:
        return "a stream"
    if view.job.time_zone != time_zone:
        return f"the time zone {view.job.time_zone}"
    traits = TraitContext(functions)
    for root in view.job.roots:
        for node in walk(root):
            follows = node.follows()
            if follows & (Follows.EVENT_TIME | Follows.CLOCK | Follows.END):
                return "time"
            if Follows.OUTSIDE in follows:
                return "another system"
            if node.expires:
                return "the time to live of its state"
            if Follows.ARRIVAL in follows:
                return "the order of arrival"
            if not all(is_deterministic(expr, traits) for expr in expressions_of(node)):
                return "a function that is not deterministic"
            for call in node.aggregates:
                function = functions.find(call.function)
                if isinstance(function, AggregateFunction) and (function.order_sensitive or not function.deterministic):
                    return f"the order of arrival, for {call.function}"
    return None
