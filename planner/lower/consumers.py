"""Operators that only take insertions, and the message when something updates below them."""

from __future__ import annotations

from planner.logical.nodes import LogicalNode
from planner.traits.changes import is_append_only
from planner.traits.context import TraitContext
from planner.traits.naming import describe, place_of, updating_origin
from runtime.core.errors import PlanningError

__all__ = ["require_append_only"]


def require_append_only(plan: LogicalNode, consumer: str, context: TraitContext, hint: str | None = None) -> None:
    """Raises PlanningError E1702 when an input of the node updates or removes rows, naming what does so."""
    for source in plan.inputs:
        if not is_append_only(source, context):
            origin = updating_origin(source, context)
            raise PlanningError(
                f"{consumer} takes only insertions, but {describe(origin)} updates or removes rows",
                code="E1702",
                span=place_of(origin),
                hint=hint or "aggregate by window before it, so that each result comes once",
            )
