"""Values that would be others if they were computed again: those of RAND and UUID, of the clock, of a program that says
so of itself.

A row of an updating stream passes an expression twice, when it comes and when it is taken back (reference 7.5). So where
rows may be updated or removed, such values are computed in one place, `Remember`, which gives them back as they were, and
expressions read them as columns. The rule `remember_values` sees to that; what is left here is a mistake of ours, or a
form that has no plan.
"""

from __future__ import annotations

from collections.abc import Iterable

from planner.logical import nodes as n
from planner.logical.expressions import node_expressions
from planner.logical.nodes import LogicalNode
from planner.traits.changes import is_append_only
from planner.traits.context import TraitContext
from runtime.core.errors import PlanningError, Span
from runtime.core.options import text_option
from runtime.expr.analysis import PASSING_TIME
from runtime.expr.function import AggregateFunction, ScalarFunction, shown_name
from runtime.expr.nodes import AggregateCall, Call, Expr, WindowCall, walk

__all__ = ["NON_DETERMINISTIC_UPDATE", "check_determinism", "culprit", "gives_others", "is_deterministic", "takes_back"]

NON_DETERMINISTIC_UPDATE = text_option(
    "table.optimizer.non-deterministic-update.strategy",
    "IGNORE",
    "taken for Flink's sake: whatever it says, a row is taken back with the values that it was given",
    ("IGNORE", "TRY_RESOLVE"),
)


def is_deterministic(expr: Expr, context: TraitContext) -> bool:
    """Whether the same row always gives the same value: no random function and none that reads the clock."""
    return culprit(expr, context) is None


def culprit(expr: Expr, context: TraitContext) -> Call | None:
    """The first call that may give another value each time; None in what is deterministic. The time that passes is no
    value: what filters by it knows the rows that it has let in."""
    for part in walk(expr):
        if isinstance(part, Call) and part.function != PASSING_TIME:
            function = context.functions.find(part.function)
            if isinstance(function, ScalarFunction) and (
                not function.deterministic or (function.dynamic and not (function.dynamic_alone and part.args))
            ):
                return part
    return None


def gives_others(
    calls: Iterable[AggregateCall | WindowCall], context: TraitContext
) -> AggregateCall | WindowCall | None:
    """The first aggregate that may give another result over the same rows."""
    for call in calls:
        function = context.functions.find(call.function)
        if isinstance(function, AggregateFunction) and not function.deterministic:
            return call
    return None


def takes_back(plan: LogicalNode, context: TraitContext) -> bool:
    """Whether the node computes its expressions again for rows that are taken back.

    A watermark only moves on. Joins with what is there at the moment keep what they found for a row (`EnrichingOperator`).
    A temporal join looks at versions for rows of its left side.
    """
    match plan:
        case n.Remember() | n.AssignWatermark() | n.CurrentJoin() | n.LookupJoin() | n.VectorSearch():
            return False
        case n.TemporalJoin(left=left):
            return not is_append_only(left, context)
        case _:
            return not all(is_append_only(source, context) for source in plan.inputs)


def check_determinism(plan: LogicalNode, context: TraitContext) -> None:
    """Raise PlanningError E1706 where a row would be taken back with other values than it was given."""
    for source in (plan.plan,) if isinstance(plan, n.Shared) else plan.inputs:
        check_determinism(source, context)
    if isinstance(plan, n.Over) and not is_append_only(plan, context):
        other = gives_others((call for _, call in plan.calls), context)
        if other is not None:
            hint = "order by an event time of rows that only come, or aggregate with GROUP BY"
            raise _refused(other.function, other.span, hint)
    if not takes_back(plan, context):
        return
    for expr in node_expressions(plan):
        call = culprit(expr, context)
        if call is not None:
            hint = "compute the value in a subquery or view over one of the tables, and join that"
            raise _refused(call.function, call.span, hint)


def _refused(function: str, span: Span | None, hint: str) -> PlanningError:
    message = f"{shown_name(function)} may give another value when a row is updated or removed"
    return PlanningError(message, code="E1706", span=span, hint=hint)
