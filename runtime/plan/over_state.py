"""What calls with OVER keep beside rows, and what it is called: for their node and for the operators."""

from __future__ import annotations

from collections.abc import Sequence

from runtime.expr.nodes import Frame, FrameBound
from runtime.plan.aggregate_state import call_names
from runtime.plan.parts import AggregateSpec

__all__ = [
    "ADDITIVE",
    "ENDS",
    "NTH",
    "RANKS",
    "begins_with_partition",
    "carries",
    "looks_back",
    "over_names",
    "values_table",
]

MOMENTS = frozenset({"VAR_POP", "VAR_SAMP", "VARIANCE", "STDDEV_POP", "STDDEV_SAMP", "STDDEV"})
"""Variances and standard deviations."""
PAIRS = frozenset(
    {
        "CORR",
        "COVAR_POP",
        "COVAR_SAMP",
        "REGR_AVGX",
        "REGR_AVGY",
        "REGR_COUNT",
        "REGR_INTERCEPT",
        "REGR_R2",
        "REGR_SLOPE",
        "REGR_SXX",
        "REGR_SXY",
        "REGR_SYY",
    }
)
"""Functions of pairs (y, x)."""
ADDITIVE = frozenset(
    {
        "COUNT",
        "APPROX_COUNT_DISTINCT",
        "SUM",
        "SUM0",
        "$SUM0",
        "AVG",
        *MOMENTS,
        *PAIRS,
    }
)
"""Functions whose state is a sum."""
ENDS = frozenset({"MIN", "MAX", "FIRST_VALUE", "LAST_VALUE"})
"""Functions whose state is one value."""
NTH = frozenset({"NTH_VALUE", "FIRST_VALUE_RESPECT_NULLS", "LAST_VALUE_RESPECT_NULLS"})
"""Functions of the row at a place of the frame."""
RANKS = frozenset({"ROW_NUMBER", "RANK", "DENSE_RANK"})
"""Functions whose state is how many rows, or peers, came before."""


def begins_with_partition(frame: Frame | None) -> bool:
    """Whether frames are all rows from the first of the partition on up to an end."""
    return frame is None or (frame.lower is FrameBound.UNBOUNDED_PRECEDING and frame.exclude is None)


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


def carries(call: AggregateSpec) -> bool:
    """Whether its result is told by a few values that a partition carries from row to row."""
    return call.function.upper() in ADDITIVE | ENDS | RANKS


def looks_back(call: AggregateSpec) -> bool:
    """Whether it reads rows before its frame."""
    return call.function.upper() == "LAG"
