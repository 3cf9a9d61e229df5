"""From when on and until when rows are in, by bounds over the time that passes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from runtime.core.changelog import ChangelogBatch
from runtime.core.types import BOOLEAN
from runtime.eval.evaluator import BatchContext, Evaluator
from runtime.expr.nodes import Call, InputRef
from runtime.kernels.arrow_buffers import fixed_values, null_mask
from runtime.operators.operator import EpochTime, OperatorContext
from runtime.plan.nodes import TimeFilterExec
from runtime.plan.time_filter_nodes import NOW, TimeBound

__all__ = ["ALWAYS", "NEVER", "Limits"]

ALWAYS, NEVER = -(1 << 62), 1 << 62
"""Before and behind all times, milliseconds."""
_FIRST, _LAST = -62_135_596_800_000, 253_402_300_799_999
"""The years 1 to 9999, milliseconds."""
_REACH = 1 << 37
"""Farther than any calendar moves a moment from where it is a constant time behind now: four years, milliseconds."""


class Limits:
    """The span of time of each row, milliseconds: in from the first on, no more at the second."""

    def __init__(self, node: TimeFilterExec, context: OperatorContext) -> None:
        self._bounds = node.bounds
        self._zone = context.time_zone
        values = [bound.value for bound in node.bounds]
        excepted = [bound.unless for bound in node.bounds if bound.unless is not None]
        self._values = Evaluator([*values, *excepted], context.functions)
        self._passed = [
            None if b.shift is not None else Evaluator([_passed(b)], context.functions) for b in node.bounds
        ]
        self._moments = [None if b.shift is not None else Evaluator([b.moment], context.functions) for b in node.bounds]

    def of(self, batch: ChangelogBatch, time: EpochTime) -> tuple[np.ndarray, np.ndarray]:
        """Of each row the times from when and until when; a row of which a bound is unknown is never in."""
        count = len(batch)
        found = self._values.evaluate(batch.rows, BatchContext.at(time, count, self._zone))
        excepted = iter(found[len(self._bounds) :])
        since, until = np.full(count, ALWAYS), np.full(count, NEVER)
        for number, bound in enumerate(self._bounds):
            values = found[number]
            limit = (
                self._exact(bound, bound.shift, values)
                if bound.shift is not None
                else self._searched(number, values, time)
            )
            nulls = null_mask(values)
            if nulls is not None:
                limit = np.where(nulls, ALWAYS if bound.upper else NEVER, limit)
            if bound.unless is not None:
                free = next(excepted).fill_null(False).to_numpy(zero_copy_only=False)
                limit = np.where(free, NEVER if bound.upper else ALWAYS, limit)
            if bound.upper:
                until = np.minimum(until, limit)
            else:
                since = np.maximum(since, limit)
        return since, until

    @staticmethod
    def _exact(bound: TimeBound, shift: int, values: pa.Array) -> np.ndarray:
        """The first millisecond at which `now + shift` is no more below the value (`strict`), or is above it."""
        per = _per_millisecond(values)
        times = fixed_values(values)
        whole = times // per
        exact = whole * per == times
        after = _from_here_on(bound)
        return np.where(exact & (not after), whole, whole + 1) - shift

    def _searched(self, number: int, values: pa.Array, time: EpochTime) -> np.ndarray:
        """The first millisecond at which the moment has passed the value, halving the time in which it may be."""
        passed, moments = self._passed[number], self._moments[number]
        assert passed is not None and moments is not None
        count = len(values)
        start = pa.RecordBatch.from_arrays([_milliseconds(np.zeros(1, np.int64))], ["now"])
        (origin,) = moments.evaluate(start, BatchContext.at(time, 1, self._zone))
        behind = int(_in_milliseconds(origin)[0])
        near = np.nan_to_num(_in_milliseconds(values.fill_null(0))) - behind
        low = np.clip(near - _REACH, _FIRST, _LAST)
        high = np.clip(near + _REACH, _FIRST, _LAST)
        while (high > low).any():
            middle = low + (high - low) // 2
            rows = pa.RecordBatch.from_arrays([_milliseconds(middle), values], ["now", "value"])
            (answer,) = passed.evaluate(rows, BatchContext.at(time, count, self._zone))
            there = answer.fill_null(False).to_numpy(zero_copy_only=False)
            high = np.where(there, middle, high)
            low = np.where(there, low, np.minimum(middle + 1, high))
        return low


def _from_here_on(bound: TimeBound) -> bool:
    """Whether the limit lies behind the moment at which both are equal: `value >= moment` ends, `value < moment` begins
    there."""
    return bound.upper != bound.strict


def _passed(bound: TimeBound) -> Call:
    value = InputRef(1, bound.value.type)
    return Call(">" if _from_here_on(bound) else ">=", (bound.moment, value), BOOLEAN)


def _milliseconds(times: np.ndarray) -> pa.Array:
    return pa.array(times).cast(pa.timestamp("ms")).cast(NOW.arrow)


def _per_millisecond(values: pa.Array) -> int:
    return {"ms": 1, "us": 1000, "ns": 1_000_000}[values.type.unit]


def _in_milliseconds(values: pa.Array) -> np.ndarray:
    if pt.is_date(values.type):
        return values.cast(pa.int32()).to_numpy().astype(np.int64) * 86_400_000
    return fixed_values(values) // _per_millisecond(values)
