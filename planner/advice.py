"""What in a plan may surprise whoever runs it for long: state without bound, groups that never end.

Said by EXPLAIN PLAN_ADVICE, and (`warnings`) as warnings of a statement that begins to run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from planner.logical import nodes as n
from planner.logical.nodes import LogicalNode
from planner.traits.boundedness import state_bound, unbounded_nodes
from planner.traits.context import STATE_TTL, TraitContext
from planner.traits.naming import describe
from planner.traits.time import is_bounded
from runtime.core.errors import Span
from runtime.expr.nodes import Call, Expr

__all__ = ["advice", "warnings"]

TTL = "SET 'table.exec.state.ttl'"


def advice(plans: Sequence[LogicalNode], traits: TraitContext) -> list[str]:
    """One line for each surprise, each once."""
    lines: list[str] = []
    for plan in plans:
        said = [text for text, _ in warnings(plan, traits)]
        lines.extend(said)
        lines.extend(
            f"state without bound: {describe(node)} keeps all rows; {TTL} or join within a window or an interval"
            for node in unbounded_nodes(plan, traits)
        )
    return list(dict.fromkeys(lines))


def warnings(plan: LogicalNode, traits: TraitContext) -> list[tuple[str, Span | None]]:
    """What is most likely a mistake, with the place in the SQL text where that is known.

    A join of two streams that both have event time and is bounded by neither; an aggregate over a window function whose
    GROUP BY leaves out the window.
    """
    found: dict[str, Span | None] = {}
    for node in _walk(plan):
        match node:
            case n.Join(left=left, right=right, condition=condition) if _for_ever(node, traits):
                mine, theirs = _event_time(left), _event_time(right)
                if mine is not None and theirs is not None:
                    text = (
                        "this join keeps all rows of both sides for ever: no condition says how far apart in time rows "
                        f"may be; add one to ON, such as right.{theirs} BETWEEN left.{mine} AND left.{mine} + INTERVAL '1' HOUR, which "
                        f"makes an interval join of it, or {TTL}"
                    )
                    found.setdefault(text, _place(condition))
            case n.Aggregate(group=group) if not is_bounded(node, traits):
                window = _window_below(node.input)
                if window is not None and not {window.start.id, window.end.id} <= {g.id for g in group}:
                    text = (
                        "groups over a window function never end, because GROUP BY leaves out window_start or "
                        "window_end; group by both to have one final row for each window"
                    )
                    found.setdefault(text, None)
            case _:
                pass
    return list(found.items())


def _for_ever(node: LogicalNode, traits: TraitContext) -> bool:
    """Whether a node keeps rows without bound, and no time to live is set."""
    return state_bound(node, traits).grows and not is_bounded(node, traits) and not traits.options.get(STATE_TTL)


def _walk(plan: LogicalNode) -> Iterator[LogicalNode]:
    yield plan
    for source in (plan.plan,) if isinstance(plan, n.Shared) else plan.inputs:
        yield from _walk(source)


def _event_time(plan: LogicalNode) -> str | None:
    """The event time of a join's side whose rows come from one table: the name of the column, also where the join does
    not need it."""
    while isinstance(plan, n.Project | n.Filter):
        plan = plan.input
    if isinstance(plan, n.AssignWatermark):
        return plan.time.name
    return next((column.name for column in plan.columns if column.type.is_rowtime), None)


def _window_below(plan: LogicalNode) -> n.WindowTable | None:
    while isinstance(plan, n.Project | n.Filter):
        plan = plan.input
    return plan if isinstance(plan, n.WindowTable) else None


def _place(condition: Expr) -> Span | None:
    if isinstance(condition, Call):
        return condition.span or next((place for part in condition.args if (place := _place(part)) is not None), None)
    return None
