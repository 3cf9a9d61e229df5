"""Filters whose rows come in and leave when time passes."""

from __future__ import annotations

from planner.logical import nodes as n
from planner.lower.lowering import Lowered, Lowering
from planner.traits.changes import changes
from planner.traits.time_conditions import Bound, parted
from runtime.core.types import TypeRoot
from runtime.expr.analysis import PASSING_TIME
from runtime.expr.nodes import Call, Cast, Expr, InputRef, Literal, transform
from runtime.plan.nodes import TimeBound, TimeFilterExec
from runtime.plan.time_filter_nodes import NOW

__all__ = ["time_filter"]


def time_filter(plan: n.Filter, run: Lowering) -> Lowered:
    """A filter that follows the time that passes, behind one for what does not."""
    rest, bounds = parted(plan.predicate, run.context.functions, run.context.time_zone)
    source = run.projected(run.input(plan, 0), rest, [(c, c.ref()) for c in plan.columns])
    node = TimeFilterExec(
        source.node,
        tuple(_bound(b, source, run.context.time_zone) for b in bounds),
        source.node.schema,
        changes(plan, run.traits).mode(before=True),
    )
    return Lowered(node, source.ids)


def _bound(bound: Bound, source: Lowered, zone: str) -> TimeBound:
    unless = None if bound.unless is None else source.expr(bound.unless)
    moment = transform(bound.moment, _as_column)
    return TimeBound(source.expr(bound.value), moment, _shift(bound.moment, zone), bound.upper, bound.strict, unless)


def _as_column(expr: Expr) -> Expr:
    return InputRef(0, NOW) if isinstance(expr, Call) and expr.function == PASSING_TIME else expr


def _shift(moment: Expr, zone: str) -> int | None:
    """How many milliseconds a moment is behind now; None where that is not always the same."""
    match moment:
        case Call(function=name) if name == PASSING_TIME:
            return 0
        case Cast(value=value, type=target) if target.precision >= 3 and (
            target.root is TypeRoot.TIMESTAMP_LTZ or (target.root is TypeRoot.TIMESTAMP and zone == "UTC")
        ):
            return _shift(value, zone)
        case Call(function="+" | "-" as sign, args=(left, right)):
            point, length = (left, right) if isinstance(right, Literal) else (right, left)
            before = _shift(point, zone)
            if before is None or not isinstance(length, Literal) or length.type.root is not TypeRoot.INTERVAL_SECOND:
                return None
            return before + (length.value if sign == "+" else -length.value)
        case _:
            return None
