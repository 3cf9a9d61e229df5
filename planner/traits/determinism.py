"""Non-deterministic updates: expressions that may give another value when a row is taken back than they gave for the
row (reference 7.5).

A row of an updating stream passes an expression twice, when it comes and when it is taken back. RAND(), NOW() or a
lookup of a table that changes may answer differently, and the retraction then cancels nothing. Insert-only streams have
no such problem.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.logical import nodes as n
from planner.logical.nodes import LogicalNode
from planner.traits.changes import is_append_only
from planner.traits.context import TraitContext
from runtime.core.errors import PlanningError, Span
from runtime.core.options import text_option
from runtime.expr.analysis import conjuncts, follows_time
from runtime.expr.function import ScalarFunction
from runtime.expr.nodes import Call, Expr, walk

__all__ = ["NON_DETERMINISTIC_UPDATE", "Finding", "check_determinism", "is_deterministic", "non_deterministic_updates"]

NON_DETERMINISTIC_UPDATE = text_option(
    "table.optimizer.non-deterministic-update.strategy",
    "IGNORE",
    "what to do about expressions that may retract another value than they sent: IGNORE, or TRY_RESOLVE to refuse them",
    ("IGNORE", "TRY_RESOLVE"),
)


@dataclass(frozen=True, slots=True)
class Finding:
    """A place where a retraction may not cancel: a sentence for people, and where it is in the query if that is
    known."""

    message: str
    span: Span | None = None


def is_deterministic(expr: Expr, context: TraitContext) -> bool:
    """Whether the same row always gives the same value: no random function and none that reads the clock."""
    return _culprit(expr, context) is None


def _culprit(expr: Expr, context: TraitContext) -> Call | None:
    for part in walk(expr):
        if isinstance(part, Call):
            function = context.functions.find(part.function)
            if isinstance(function, ScalarFunction) and (not function.deterministic or function.dynamic):
                return part
    return None


def _expressions(plan: LogicalNode) -> list[Expr]:
    match plan:
        case n.Filter(predicate=predicate):
            # What follows the time that passes knows the rows that it has let in.
            return [part for part in conjuncts(predicate) if not follows_time(part)]
        case n.Project(items=items):
            # PROCTIME() marks a column, it is not a value that is stored.
            return [expr for column, expr in items if not column.type.is_proctime]
        case n.Join(condition=condition) | n.TemporalJoin(condition=condition) | n.LookupJoin(condition=condition):
            return [condition]
        case n.AsofJoin(left_time=left, right_time=right, equal=equal):
            return [left, right, equal]
        case n.CurrentJoin(condition=condition):
            return [condition]
        case n.MultiJoin(keys=keys):
            return [expr for each in keys for expr in each]
        case n.Unnest(collection=collection):
            return [collection]
        case n.Expand(projections=projections):
            return [expr for projection in projections for expr in projection]
        case _:
            return []


def non_deterministic_updates(plan: LogicalNode, context: TraitContext) -> list[Finding]:
    """All places in the plan where a retraction may not cancel what it should."""
    sources = (plan.plan,) if isinstance(plan, n.Shared) else plan.inputs
    found = [finding for source in sources for finding in non_deterministic_updates(source, context)]
    if all(is_append_only(source, context) for source in plan.inputs):
        return found
    for expr in _expressions(plan):
        call = _culprit(expr, context)
        if call is not None:
            found.append(Finding(f"{call.function} may give another value when a row is updated or removed", call.span))
    if isinstance(plan, n.LookupJoin):
        found.append(Finding(f"the lookup of {plan.name} may find another row when a row is updated or removed"))
    return found


def check_determinism(plan: LogicalNode, context: TraitContext) -> list[Finding]:
    """The findings as advice, or as PlanningError E1706 when the strategy is TRY_RESOLVE."""
    found = non_deterministic_updates(plan, context)
    if found and context.options.get(NON_DETERMINISTIC_UPDATE).upper() == "TRY_RESOLVE":
        raise PlanningError(
            found[0].message,
            code="E1706",
            span=found[0].span,
            hint="compute the value before the rows become updates, or SET 'table.optimizer.non-deterministic-update.strategy' = 'IGNORE'",
        )
    return found
