"""What the operators of process table functions share, whether they call row by row or epoch by epoch: the function and
its arguments, keys, rows that wait for their time with ORDER BY, and what becomes of keys that keep nothing."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa

from runtime.core.changelog import ChangelogBatch
from runtime.core.clock import MAX_WATERMARK, MIN_WATERMARK
from runtime.core.errors import ExpressionError
from runtime.expr.job_functions import JobFunctions
from runtime.kernels.sort import sort_indices
from runtime.operators.operator import EpochTime, Operator, OperatorContext, StateSize
from runtime.operators.window_assign import milliseconds
from runtime.operators.window_columns import reject_null_times
from runtime.plan.nodes import ProcessTablesExec
from runtime.state.keyed import KeyIndex
from runtime.state.table import StateTable
from runtime.state.timed import TimedRows, bound, microseconds
from runtime.state.timed_table import timed_table
from sqlengine.user_functions.context import FunctionContext
from sqlengine.user_functions.failures import failed_call
from sqlengine.user_functions.process_state import KeptState, Timers
from sqlengine.user_functions.process_vectors import ColumnState
from sqlengine.values.rows import python_values

__all__ = ["ProcessBase"]


State = TypeVar("State", KeptState, ColumnState)


class ProcessBase(Operator, Generic[State]):
    """See the module. `state` makes a state of a key.

    `_template`: the arguments of `eval` behind the context, constants filled in. `_places`: where those of the tables
    stand in it; `_filled`: those of state.
    """

    def __init__(
        self, function: Any, node: ProcessTablesExec, context: OperatorContext, state: Callable[..., State]
    ) -> None:
        self._node = node
        self._context = context
        self._function: Any = function() if inspect.isclass(function) else copy.copy(function)
        self._opened = False
        declared = context.functions.process(node.function)
        self._name = declared.name.removeprefix("$").partition("$")[0].lower()
        self._result = declared.result
        self._keys = KeyIndex([f.type.arrow for f in node.key_fields]) if not node.each else None
        self._states = [
            state(self._name, node.kept(f.name), len(node.key_fields), f.type, ttl, self._keys)
            for f, ttl in zip(node.states, node.ttls, strict=True)
            if self._keys is not None
        ]
        self._timers = self._made_timers("timers", bool(node.times))
        self._clock = self._made_timers("clock", node.clock)
        self._waiting = [TimedRows(p.schema, keyed=False) for p in node.parts] if node.order else []
        self._waits = [timed_table(w, node.kept(f"waiting{i}"), _no_key) for i, w in enumerate(self._waiting)]
        self._eval = self._function.eval
        given = dict(node.arguments)
        self._table_names = [t.name for t in declared.tables]
        by_name = {s.name: s for s in self._states}
        self._template: list[Any] = []
        self._filled: list[tuple[int, State]] = []
        self._places: list[int] = [0] * len(self._table_names)
        parameters = list(inspect.signature(self._eval).parameters.values())[1:]
        for place, parameter in enumerate(parameters):
            self._template.append(None)
            if parameter.name in by_name:
                self._filled.append((place, by_name[parameter.name]))
            elif parameter.name in self._table_names:
                self._places[self._table_names.index(parameter.name)] = place
            elif parameter.name in given:
                literal = given[parameter.name]
                value = pa.array([literal.value], literal.type.arrow)
                self._template[place] = python_values(value, literal.type)[0]
            else:
                self._template[place] = parameter.default
        self._timer_states = self._asked("on_timer", by_name) if self._timers is not None else []
        self._clock_states = self._asked("on_clock", by_name) if self._clock is not None else []

    def _made_timers(self, name: str, kept: bool) -> Timers | None:
        if not kept or self._keys is None:
            return None
        return Timers(self._name, self._node.kept(name), len(self._node.key_fields), self._keys)

    def _asked(self, method: str, by_name: dict[str, State]) -> list[State]:
        """The state that a method for timers names behind its context."""
        if not hasattr(self._function, method):
            return []
        names = list(inspect.signature(getattr(self._function, method)).parameters)[1:]
        return [by_name[n] for n in names if n in by_name]

    @property
    def _all_timers(self) -> list[Timers]:
        return [timers for timers in (self._timers, self._clock) if timers is not None]

    @property
    def tables(self) -> Sequence[StateTable]:
        return [*(s.table for s in self._states), *self._waits, *(t.table for t in self._all_timers)]

    @property
    def state_size(self) -> StateSize:
        if self._keys is None:
            return StateSize(0, 0)
        objects = [*self._states, *self._all_timers]
        rows = sum(w.rows for w in self._waiting)
        size = self._keys.nbytes + sum(o.nbytes for o in (*objects, *self._waiting))
        return StateSize(rows + sum(len(o) for o in objects), size)

    def restored(self) -> None:
        for timers in self._all_timers:
            timers.restored()

    def next_timer(self) -> int | None:
        return None if self._clock is None else self._clock.next

    @staticmethod
    def _clock_until(time: EpochTime) -> int:
        """Until when timers of processing time fire; at the end of the input all do."""
        return MAX_WATERMARK if time.ends else time.processing_time

    @staticmethod
    def _beside(watermark: int) -> int:
        """The event time of rows that come by the clock: just not late; 1970-01-01 while there is no watermark."""
        return 0 if watermark == MIN_WATERMARK else watermark + 1

    def _open(self) -> None:
        """Opens the function, before it is first called."""
        if not self._opened:
            self._opened = True
            if hasattr(self._function, "open"):
                functions = self._context.functions
                job = functions.job if isinstance(functions, JobFunctions) else None
                self._function.open(FunctionContext(self._name, job))

    def close(self) -> None:
        if self._opened and hasattr(self._function, "close"):
            self._function.close()

    def _wait(self, number: int, batch: ChangelogBatch, time: EpochTime) -> None:
        """Keeps the rows of an input until their time has come; rows that come later than that are rejected."""
        at = self._node.times[number]
        batch = reject_null_times(batch, at, self._context)
        column = batch.column(at)
        late = milliseconds(column) <= time.previous_watermark
        if late.any():
            mask = pa.array(late)
            self._context.reject("late", batch.rows.filter(mask), time.previous_watermark, column.filter(mask))
            batch = batch.filter(~late)
        if len(batch):
            times = microseconds(batch.column(at))
            self._waiting[number].add(batch.columns, np.full(len(times), -1, np.int64), times)

    def _due(self, number: int, watermark: int) -> list[pa.Array]:
        """The rows of an input whose time has come, in their order; they wait no longer."""
        waiting, order = self._waiting[number], self._node.order[number]
        due = waiting.due(bound(watermark, 1))
        columns = waiting.take(due)
        waiting.free(due)
        ranked = sort_indices(
            [columns[s.index] for s in order], [s.descending for s in order], [s.nulls_last for s in order]
        )
        return [c.take(pa.array(ranked)) for c in columns]

    @property
    def _zoned(self) -> bool:
        return self._node.schema[-1].type.arrow.tz is not None

    def _front(self, slots: np.ndarray) -> list[pa.Array]:
        """The keys of the result's rows, as they stand before the columns of the function."""
        assert self._keys is not None
        keys = self._keys.columns(slots) * len(self._node.parts)
        return [k.cast(f.type.arrow) if k.type != f.type.arrow else k for k, f in zip(keys, self._node.schema)]

    def _settle(self, touched: np.ndarray, now: int) -> None:
        """Notes what has changed, and lets keys go that keep nothing."""
        assert self._keys is not None
        kept = np.zeros(len(touched), np.bool_)
        slots = touched.tolist()
        for state in (*self._states, *self._all_timers):
            live = state.settle(slots, touched, now)
            kept |= live
        self._keys.remove(touched[~kept])

    def _failed(self, error: BaseException, where: str) -> ExpressionError:
        return failed_call(self._name, error, f" {where}")


def _no_key(columns: list[pa.Array]) -> np.ndarray:
    return np.full(len(columns[0]), -1, np.int64)
