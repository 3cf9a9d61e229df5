"""The rows that an expression is evaluated on: all of a batch, or the ones that reach a branch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.core.changelog import plain_column
from runtime.eval.context import BatchContext
from runtime.expr.function import Value
from runtime.expr.nodes import Expr

__all__ = ["Frame"]


class Frame:
    """Columns by position, values of shared sub-expressions, and lambda variables.

    A sub-frame is a selection of the rows of its parent; columns and shared values are selected when they are first
    asked for, so a branch pays only for what it reads.
    """

    __slots__ = ("_cache", "_columns", "_given", "_parent", "_selection", "context", "memo", "num_rows", "variables")

    def __init__(self, columns: list[pa.Array], num_rows: int, context: BatchContext) -> None:
        self._columns = columns
        self._parent: Frame | None = None
        self._selection: Any = None
        self._cache: dict[int, pa.Array] = {}
        self._given: dict[int, pa.Array] = {}
        self.num_rows = num_rows
        self.context = context
        self.memo: dict[Expr, Value] = {}
        self.variables: dict[str, Value] = {}

    @staticmethod
    def of(rows: pa.RecordBatch, context: BatchContext) -> Frame:
        return Frame(rows.columns, rows.num_rows, context)

    def where(self, mask: np.ndarray[Any, np.dtype[np.bool_]], count: int) -> Frame:
        """The rows at which the mask is true (`count` of them)."""
        return self._sub(pa.array(mask), count)

    def at(self, rows: np.ndarray[Any, np.dtype[np.int64]], variables: Mapping[str, Value]) -> Frame:
        """A row of this frame for each position in `rows`, with lambda variables of that length."""
        frame = self._sub(pa.array(rows), len(rows))
        frame.variables.update(variables)
        return frame

    def _sub(self, selection: pa.Array, count: int) -> Frame:
        frame = Frame([], count, self.context.with_rows(count))
        frame._parent = self
        frame._selection = selection
        return frame

    def _select(self, value: Value) -> Value:
        if isinstance(value, pa.Scalar):
            return value
        if pa.types.is_boolean(self._selection.type):
            return pc.filter(value, self._selection)
        return pc.take(value, self._selection)

    def column(self, index: int) -> pa.Array:
        """The values of a column."""
        found = self._cache.get(index)
        if found is None:
            found = self._cache[index] = plain_column(self.as_given(index))
        return found

    def as_given(self, index: int) -> pa.Array:
        """A column, which may be an Arrow dictionary."""
        if self._parent is None:
            return self._columns[index]
        found = self._given.get(index)
        if found is None:
            found = self._given[index] = self._select(self._parent.as_given(index))
        return found

    def positions(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Where the rows stand in the batch."""
        if self._parent is None:
            return np.arange(self.num_rows, dtype=np.int64)
        return self._select(pa.array(self._parent.positions())).to_numpy(zero_copy_only=False)

    def without_failed(self) -> tuple[Frame, np.ndarray[Any, np.dtype[np.int64]]] | None:
        """The rows for which nothing has failed yet, and where they stand in this frame; None: all of them."""
        failures = self.context.failures
        if failures is None or not failures.errors:
            return None
        good = ~failures.mask[self.positions()]
        rows = np.flatnonzero(good)
        return None if len(rows) == self.num_rows else (self.where(good, len(rows)), rows)

    def select(self, value: Value) -> Value:
        """A value over the rows of the frame that this one was selected from, over its own."""
        return self._select(value)

    def variable(self, name: str) -> Value:
        if name in self.variables:
            return self.variables[name]
        if self._parent is None:
            raise KeyError(name)
        found = self.variables[name] = self._select(self._parent.variable(name))
        return found

    def known(self, expr: Expr) -> Value | None:
        """The value of a shared expression, when it has been computed on these rows or on all rows that they were
        selected from."""
        found = self.memo.get(expr)
        if found is None and self._parent is not None:
            above = self._parent.known(expr)
            if above is not None:
                found = self.memo[expr] = self._select(above)
        return found
