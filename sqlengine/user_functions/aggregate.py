"""State and evaluation of Python aggregate functions.

Two kinds: a function with an accumulator keeps one Python object per group, and is called once a row (SQL forces that);
a function of whole columns, or one that cannot take rows back where rows are taken back, keeps the values of each group
and computes a changed group anew, so that its cost follows the size of the groups that change.
"""

from __future__ import annotations

import functools
import pickle
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from runtime.core.errors import UnsupportedError
from runtime.core.types import DataType
from runtime.eval.aggregates.accumulator import Accumulator, ColumnAccumulator, TableAccumulator
from runtime.eval.aggregates.value_bag import ValueBag
from runtime.expr.function import EvalContext, Value
from runtime.plan.nodes import AggregateSpec
from runtime.state.table import StateTable
from sqlengine.user_functions.limits import Mark, TimeLimit
from sqlengine.user_functions.opened import plain
from sqlengine.user_functions.saved_objects import SavedObjects
from sqlengine.user_functions.scalar import VECTORS, as_column, as_rows, called, each_row, limited, rows_of
from sqlengine.values.rows import python_values

__all__ = ["ObjectAccumulator", "ReplayedAccumulator", "fold_rows", "fold_vectors", "trial_calls"]

GroupFunction = Callable[[list[pa.Array]], Any]
"""The value of a group from the columns of its rows, in order of arrival."""


class ObjectAccumulator(ColumnAccumulator):
    """One Python object per group, changed by `accumulate` and `retract`. It is saved by pickle."""

    def __init__(
        self,
        name: str,
        function: Any,
        spec: AggregateSpec,
        value_of: Callable[[Any], Any],
        limit: TimeLimit | None = None,
    ) -> None:
        self._name = name
        self._limit = limit
        self._function = function
        self._types = spec.arg_types
        self._type = spec.type
        self._value_of = value_of
        self._objects: dict[int, Any] = {}
        self._saving = SavedObjects(name, plain(function))

    def update(self, slots: np.ndarray, signs: np.ndarray | None, args: Sequence[pa.Array], seqs: np.ndarray) -> None:
        """Row after row, in order of arrival: `accumulate` may depend on it."""
        columns = [python_values(a, t) for a, t in zip(args, self._types, strict=False)]
        rows = zip(*columns, strict=True) if columns else iter([()] * len(slots))
        ups = [True] * len(slots) if signs is None else (signs > 0).tolist()
        work = functools.partial(self._take_in, slots.tolist(), ups, rows)
        if self._limit is None:
            work(None)
        else:
            self._limit.run(work)

    def _take_in(self, slots: list[int], ups: list[bool], rows: Iterable[tuple[Any, ...]], mark: Mark | None) -> None:
        for slot, up, row in zip(slots, ups, rows, strict=True):
            if mark is not None:
                mark.begin(0, row)
            found = self._objects.get(slot)
            if found is None:
                found = self._objects[slot] = self._function.create_accumulator()
            method = self._function.accumulate if up else self._function.retract
            changed = called(self._name, method, (found, *row))
            if changed is not None:
                # Accumulators that are values (numbers, tuples) are given back changed.
                self._objects[slot] = changed

    def result(self, slots: np.ndarray) -> pa.Array:
        accumulators = [(self._object(slot),) for slot in slots.tolist()]
        values = each_row(self._name, self._value_of, accumulators, self._limit, None)
        return as_column(self._name, values, self._type)

    def _object(self, slot: int) -> Any:
        found = self._objects.get(slot)
        return self._function.create_accumulator() if found is None else found

    def release(self, slots: np.ndarray) -> None:
        for slot in slots.tolist():
            self._objects.pop(slot, None)

    def merge(self, targets: np.ndarray, other: Accumulator, sources: np.ndarray) -> None:
        """Raises UnsupportedError E1626 when the function has no `merge`."""
        assert isinstance(other, ObjectAccumulator)
        if not hasattr(self._function, "merge"):
            raise UnsupportedError(
                f"the aggregate function {self._name} has no merge, which HOP, CUMULATE and SESSION windows need",
                code="E1626",
                hint="define merge(self, accumulator, accumulators), or use TUMBLE",
            )
        for target, source in zip(targets.tolist(), sources.tolist(), strict=True):
            if source in other._objects:
                # The source stays as it is: what is merged is a copy of it.
                copy = pickle.loads(pickle.dumps(other._objects[source]))
                mine = self._objects.get(target)
                mine = self._function.create_accumulator() if mine is None else mine
                changed = limited(self._name, self._function.merge, (mine, [copy]), self._limit, shown=False)
                self._objects[target] = mine if changed is None else changed

    @property
    def nbytes(self) -> int:
        return sum(map(sys.getsizeof, self._objects.values()))

    def columns(self) -> list[tuple[str, pa.DataType]]:
        return [("accumulator", pa.binary())]

    def save(self, slots: np.ndarray) -> list[pa.Array]:
        saved = [self._saving.dumps(self._objects[s]) if s in self._objects else None for s in slots.tolist()]
        return [pa.array(saved, pa.binary())]

    def restore(self, slots: np.ndarray, columns: Sequence[pa.Array]) -> None:
        for slot, saved in zip(slots.tolist(), columns[0].to_pylist(), strict=True):
            if saved is not None:
                self._objects[slot] = self._saving.loads(saved)


def trial_calls(name: str, function: Any, limit: TimeLimit | None) -> Callable[..., Value]:
    """An evaluation that is TRUE for each row that `accumulate` takes in, and fails for the others: with an accumulator of
    the row's own (SQL forces rows one by one)."""

    def accumulates(*row: Any) -> bool:
        function.accumulate(function.create_accumulator(), *row)
        return True

    def evaluate(context: EvalContext, *args: Value) -> Value:
        values = each_row(name, accumulates, rows_of(args, context), limit, context.failed)
        return as_rows(name, values, context.result_type, context.failed)

    return evaluate


class ReplayedAccumulator(TableAccumulator):
    """The values of each group; its value is computed from all of them when it is asked for."""

    def __init__(self, name: str, spec: AggregateSpec, value_of: GroupFunction) -> None:
        self._name = name
        self._type = spec.type
        self._value_of = value_of
        self._width = len(spec.arg_types)
        self._bag = ValueBag([t.arrow for t in spec.arg_types], spec.retract)

    def update(self, slots: np.ndarray, signs: np.ndarray | None, args: Sequence[pa.Array], seqs: np.ndarray) -> None:
        self._bag.add(slots, signs, args[: self._width], seqs)

    def result(self, slots: np.ndarray) -> pa.Array:
        index, rows = self._bag.read(slots)
        ends = np.cumsum(np.bincount(index, minlength=len(slots)))
        columns = [self._bag.column(i, rows) for i in range(self._width)]
        values = []
        start = 0
        for end in ends.tolist():
            values.append(self._value_of([c.slice(start, end - start) for c in columns]))
            start = end
        return as_column(self._name, values, self._type)

    def release(self, slots: np.ndarray) -> None:
        self._bag.release(slots)

    def merge(self, targets: np.ndarray, other: Accumulator, sources: np.ndarray) -> None:
        assert isinstance(other, ReplayedAccumulator)
        self._bag.merge(targets, other._bag, sources)

    @property
    def nbytes(self) -> int:
        return self._bag.nbytes

    def tables(self, name: str, groups: StateTable) -> list[StateTable]:
        return [self._bag.keep_in(f"values of {name}", [f"value {i + 1}" for i in range(self._width)], groups)]


def fold_rows(
    name: str,
    function: Any,
    types: Sequence[DataType],
    value_of: Callable[[Any], Any],
    limit: TimeLimit | None = None,
) -> GroupFunction:
    """A group's value by calling `accumulate` for each of its rows."""

    def fold(columns: list[pa.Array]) -> Any:
        rows = zip(*(python_values(c, t) for c, t in zip(columns, types, strict=True)), strict=True)
        return folded(rows, None) if limit is None else limit.run(lambda mark: folded(rows, mark))

    def folded(rows: Iterable[tuple[Any, ...]], mark: Mark | None) -> Any:
        accumulator = function.create_accumulator()
        for row in rows:
            if mark is not None:
                mark.begin(0, row)
            changed = called(name, function.accumulate, (accumulator, *row))
            accumulator = accumulator if changed is None else changed
        if mark is not None:
            mark.begin(0, (accumulator,))
        return called(name, value_of, (accumulator,))

    return fold


def fold_vectors(name: str, function: Callable[..., Any], kind: str, limit: TimeLimit | None = None) -> GroupFunction:
    """A group's value by one call with its columns; NULL for a group without rows."""
    given = VECTORS[kind]

    def fold(columns: list[pa.Array]) -> Any:
        if columns and len(columns[0]) == 0:
            return None
        value = limited(name, function, [given(c) for c in columns], limit, shown=False)
        if isinstance(value, pa.Scalar):
            return value.as_py()
        return value.item() if isinstance(value, np.generic) else value

    return fold
