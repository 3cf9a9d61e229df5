"""The part of a join condition that is not equality of keys, evaluated over candidate pairs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.eval.evaluator import BatchContext, Evaluator
from runtime.expr.nodes import Expr, InputRef, transform, walk
from runtime.operators.operator import EpochTime, OperatorContext

__all__ = ["JoinCondition", "TakeColumn"]

TakeColumn = Callable[[int, np.ndarray], pa.Array]
"""A column of one side, by position, at these rows of it."""


class JoinCondition:
    """A condition over left columns, then right columns; NULL counts as false. Only the columns it uses are read.

    Args:
        condition: its `InputRef`s count left columns first.
        left_width: the number of left columns.
    """

    def __init__(self, condition: Expr, left_width: int, context: OperatorContext) -> None:
        used = sorted({e.index for e in walk(condition) if isinstance(e, InputRef)})
        place = {position: i for i, position in enumerate(used)}

        def move(expr: Expr) -> Expr:
            return expr.with_(index=place[expr.index]) if isinstance(expr, InputRef) else expr

        self._used = used
        self._left_width = left_width
        self._evaluator = Evaluator((transform(condition, move),), context.functions)
        self._time_zone = context.time_zone

    def holds(
        self, left: TakeColumn, left_rows: np.ndarray, right: TakeColumn, right_rows: np.ndarray, time: EpochTime
    ) -> np.ndarray:
        """Whether the condition is true for each pair of rows, bool (n,)."""
        count = len(left_rows)
        columns = [
            left(p, left_rows) if p < self._left_width else right(p - self._left_width, right_rows) for p in self._used
        ]
        if not columns:
            columns = [pa.nulls(count)]
        rows = pa.RecordBatch.from_arrays(columns, names=[f"c{i}" for i in range(len(columns))])
        (value,) = self._evaluator.evaluate(rows, BatchContext.at(time, count, self._time_zone))
        if isinstance(value, pa.Scalar):
            return np.full(count, value.as_py() is True)
        return pc.fill_null(value, False).to_numpy(zero_copy_only=False)
