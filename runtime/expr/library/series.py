"""GENERATE_SERIES, a table function: whole numbers, or points in time, from one to another by steps.

As in PostgreSQL the end belongs to it when a step meets it, a negative step goes down, and a series that leads away from
its end is empty. Steps in time are of days and shorter.
"""

from __future__ import annotations

import numpy as np

from runtime.core.errors import ExpressionError
from runtime.core.types import BIGINT, DataType, TypeRoot, array, timestamp
from runtime.expr.columns import combine_valid, from_numpy, numbers
from runtime.expr.function import CallTypes, EvalContext, Value
from runtime.expr.library.declare import Family
from runtime.expr.lists import built
from runtime.expr.moments import ticks_per_day

__all__ = ["FAMILY", "LONGEST"]

FAMILY = Family("series")
LONGEST = 100_000_000
"""The most values of the series that are computed at once: 800 MB."""
_DAY = 86_400_000
_R = TypeRoot
_Typed = tuple[tuple[DataType, ...], DataType]


def _rule(types: CallTypes) -> _Typed | None:
    if len(types) not in (2, 3):
        return None
    nullable = any(t.nullable for t in types)
    ends = [BIGINT if t.root is _R.NULL else t for t in types[:2]]
    if all(t.is_integer for t in ends) and (len(types) == 2 or types[2].is_integer):
        wanted = tuple(BIGINT.with_nullable(t.nullable) for t in types)
        return wanted, array(BIGINT.not_null()).with_nullable(nullable)
    if len(types) == 2 or types[2].root is not _R.INTERVAL_SECOND:
        return None
    if any(not t.is_timestamp and t.root is not _R.DATE for t in ends):
        return None
    roots = {t.root for t in ends if t.is_timestamp}
    if len(roots) > 1:
        return None
    precision = max((t.precision for t in ends if t.is_timestamp), default=0)
    point = next((t for t in ends if t.is_timestamp), timestamp(0)).materialized().with_(precision=max(precision, 3))
    wanted = (*(point.with_nullable(t.nullable) for t in ends), types[2])
    return wanted, array(point.not_null()).with_nullable(nullable)


@FAMILY.special(
    "GENERATE_SERIES",
    _rule,
    "Table function: the values from a first to a last by steps of 1, or of a third argument, a number or a day-time "
    "interval: FROM GENERATE_SERIES(1, 5) AS s (n).",
    form=("INTEGER or TIMESTAMP", "INTEGER or TIMESTAMP", "INTEGER or INTERVAL?"),
    can_fail=True,
    gives_rows=True,
)
def generate_series(context: EvalContext, first: Value, last: Value, step: Value | None = None) -> Value:
    length = context.num_rows
    start, valid_start = numbers(first, length)
    end, valid_end = numbers(last, length)
    by, valid_by = (np.ones(1, np.int64), None) if step is None else numbers(step, length)
    if context.arg_types[0].is_timestamp:
        by = by * (ticks_per_day(context.arg_types[0]) // _DAY)
    start, end, by = (np.broadcast_to(values.astype(np.int64), length) for values in (start, end, by))
    valid = combine_valid(valid_start, valid_end, valid_by)
    known = np.ones(length, np.bool_) if valid is None else valid
    if (known & (by == 0)).any():
        raise ExpressionError(
            "the step of GENERATE_SERIES is 0",
            code="E2016",
            hint="give a step that leads from the first to the last value",
        )
    steps = _steps(start, end, by)
    counts = np.where(known & (steps >= 0), steps + 1, 0)
    # Together they are one column: of each no more than all may be, so that the sum fits, too.
    total = int(np.minimum(counts, LONGEST + 1).sum())
    if total > LONGEST:
        most = int(counts.max())
        raise ExpressionError(
            f"GENERATE_SERIES would give {max(most, total):,} values at once, and {LONGEST:,} are the most",
            code="E2016",
            hint="give a longer step, or ends that are nearer",
        )
    offsets = np.cumsum(counts) - counts
    place = np.arange(int(counts.sum())) - np.repeat(offsets, counts)
    values = np.repeat(start, counts) + place * np.repeat(by, counts)
    element = context.result_type.children[0].arrow
    return built(from_numpy(values, None, element), counts, valid, context.result_type.arrow)


def _steps(start: np.ndarray, end: np.ndarray, by: np.ndarray) -> np.ndarray:
    """How many steps lead from start to end without passing it, -1 where the first one leads away; distances are
    computed without a sign, because they may not fit 64 bits with one."""
    up = end >= start
    low, high = np.where(up, start, end), np.where(up, end, start)
    distance = high.view(np.uint64) - low.view(np.uint64)
    size = np.abs(np.where(by == 0, 1, by)).view(np.uint64)
    steps = np.minimum(distance // size, np.uint64(2**62)).astype(np.int64)
    return np.where((up == (by > 0)) | (distance == 0), steps, -1)
