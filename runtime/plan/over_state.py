"""What OVER keeps beside rows: one rule for the operators and for EXPLAIN STATE."""

from __future__ import annotations

from collections.abc import Sequence

from runtime.expr.nodes import Frame, FrameBound
from runtime.plan.aggregate_state import call_names, is_distinct
from runtime.plan.nodes import AggregateSpec, OverAggregateExec

__all__ = [
    "ADDITIVE",
    "ENDS",
    "RANKS",
    "begins_with_partition",
    "carries_totals",
    "keeps_past_rows",
    "keeps_totals",
    "over_names",
    "time_bounds_rows",
    "values_table",
    "values_tables",
]

ADDITIVE = frozenset(
    {
        "COUNT",
        "APPROX_COUNT_DISTINCT",
        "SUM",
        "SUM0",
        "$SUM0",
        "AVG",
        "VAR_POP",
        "VAR_SAMP",
        "VARIANCE",
        "STDDEV_POP",
        "STDDEV_SAMP",
        "STDDEV",
    }
)
"""Functions whose state is a sum."""
ENDS = frozenset({"MIN", "MAX", "FIRST_VALUE", "LAST_VALUE"})
"""Functions whose state is one value."""
RANKS = frozenset({"ROW_NUMBER", "RANK", "DENSE_RANK"})
"""Functions whose state is how many rows, or peers, came before."""


def begins_with_partition(frame: Frame | None) -> bool:
    """Whether frames begin at the first row of the partition."""
    return frame is None or frame.lower is FrameBound.UNBOUNDED_PRECEDING


def carries_totals(node: OverAggregateExec) -> bool:
    """For time order: whether frames are told by what a partition carries from row to row, so that no row past is
    needed but for LAG."""
    frame = node.frame
    by_clock = node.proctime and frame is not None and not frame.rows and begins_with_partition(frame)
    ends_here = frame is None or by_clock or frame.upper is FrameBound.CURRENT_ROW
    return begins_with_partition(frame) and ends_here and all(_carries(c) or _looks_back(c) for c in node.calls)


def keeps_totals(node: OverAggregateExec) -> bool:
    """For time order: whether something is carried for each partition."""
    if carries_totals(node):
        return any(_carries(call) for call in node.calls)
    return any(call.function.upper() in RANKS for call in node.calls)


def keeps_past_rows(node: OverAggregateExec) -> bool:
    """For time order: whether rows that have come out are kept, for the frames of later ones."""
    return not carries_totals(node) or any(_looks_back(call) for call in node.calls)


def time_bounds_rows(node: OverAggregateExec) -> bool:
    """For time order: whether rows past go when time has passed them by the length of the frames (RANGE), so that no
    time to live is needed."""
    frame = node.frame
    if carries_totals(node) or begins_with_partition(frame) or any(_looks_back(call) for call in node.calls):
        return False
    return frame is not None and not frame.rows


def over_names(calls: Sequence[AggregateSpec]) -> list[str]:
    """A name of each call, no two the same: equal calls are evaluated apart, and so is their state."""
    known = call_names(calls)
    taken: dict[str, int] = {}
    names: list[str] = []
    for name in (known[call] for call in calls):
        taken[name] = taken.get(name, 0) + 1
        names.append(name if taken[name] == 1 else f"{name} again {taken[name] - 1}")
    return names


def values_table(name: str) -> str:
    """The name of the table of the distinct values that a call, told by its name, has seen."""
    return f"values of {name}"


def values_tables(node: OverAggregateExec) -> list[tuple[str, AggregateSpec]]:
    """For time order: the tables of distinct values, with their calls."""
    if not carries_totals(node):
        return []
    named = zip(over_names(node.calls), node.calls, strict=True)
    return [(values_table(name), call) for name, call in named if is_distinct(call)]


def _carries(call: AggregateSpec) -> bool:
    return call.function.upper() in ADDITIVE | ENDS | RANKS


def _looks_back(call: AggregateSpec) -> bool:
    return call.function.upper() == "LAG"
