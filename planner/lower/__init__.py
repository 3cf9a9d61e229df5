"""From the logical to the physical plan.

    physical = lower(plan, LowerContext(TraitContext(functions, options), "Europe/Berlin"))

The root of a query that is shown or kept as a view sends full images; a `Sink` at the root decides by what its table
takes.
"""

from __future__ import annotations

from collections.abc import Sequence

from planner.logical.nodes import LogicalNode, Sink
from planner.lower import aggregate, calc, join, match, rank, recursive, sink, window
from planner.lower.lowering import LowerContext, Lowering
from planner.lower.projection import renamed
from planner.lower.sharing import share
from planner.traits.determinism import check_determinism
from planner.traits.update_kind import FULL_IMAGES
from runtime.plan.nodes import PhysicalNode

__all__ = ["LowerContext", "lower", "lower_statement_set"]

# The families register the physical forms of their nodes when they are loaded.
FAMILIES = (aggregate, calc, join, match, rank, recursive, sink, window)


def lower(plan: LogicalNode, context: LowerContext, names: Sequence[str] | None = None) -> PhysicalNode:
    """The physical plan of one query or INSERT. `names` are those of a query's columns, where rules have lost them.

    Raises:
        PlanningError: no correct plan exists, for example updates into a table that takes only insertions (E1701).
        UnsupportedError: the plan holds a form that streams cannot have, for example a sort without an end (E1614).
    """
    (root,) = lower_statement_set([plan], context)
    if names is None or isinstance(plan, Sink) or len(names) != len(root.schema):
        return root
    return renamed(root, tuple(names))


def lower_statement_set(plans: Sequence[LogicalNode], context: LowerContext) -> tuple[PhysicalNode, ...]:
    """The physical plans of statements that run as one dataflow; what they have in common is equal in all of them."""
    return share(tuple(_root(plan, context) for plan in plans))


def _root(plan: LogicalNode, context: LowerContext) -> PhysicalNode:
    run = Lowering(context)
    check_determinism(plan, run.traits)
    lowered = run.lower(plan, FULL_IMAGES)
    if isinstance(plan, Sink):
        return lowered.node
    node = run.restored(lowered, plan.columns).node
    if len(plan.columns) != len(node.schema):
        return node
    return renamed(node, tuple(c.name for c in plan.columns))
