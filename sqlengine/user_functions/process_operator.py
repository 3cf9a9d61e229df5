"""The operator of process table functions of users.

Row after row of a key, in the order of their arrival, goes through `eval`; when all rows of an epoch are through, the timers
that its watermark has passed fire in order of time. With ORDER BY rows wait until the watermark has passed their time,
and go through in order of time, with the timers between them: then it does not matter where epochs end. SQL forces no
order here, a function with state does: these are the loops over rows and keys that a user's function is.

State is Python objects by key slot, saved as columns: a table for each state, and one for the timers. An object that is
empty again (all fields None, no item) is forgotten with its key.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from runtime.core.changelog import KIND_NAMES, ChangelogBatch
from runtime.core.errors import ExpressionError, SqlEngineError
from runtime.kernels.sort import sort_indices
from runtime.operators.operator import EpochTime, Operator, OperatorContext, StateSize
from runtime.operators.window_assign import milliseconds, timestamps
from runtime.operators.window_columns import reject_null_times
from runtime.plan.nodes import ProcessTablesExec
from runtime.state.keyed import KeyIndex
from runtime.state.table import StateTable
from runtime.state.timed import TimedRows, bound, microseconds
from runtime.state.timed_table import timed_table
from sqlengine.api.rows import Row, python_values
from sqlengine.user_functions.opened import FunctionContext
from sqlengine.user_functions.process_context import ProcessContext
from sqlengine.user_functions.process_state import KeptState, Timers
from sqlengine.user_functions.scalar import as_column
from sqlengine.user_functions.table import cells_of

__all__ = ["ProcessOperator"]

_KINDS = {name: kind for kind, name in enumerate(KIND_NAMES)}


@dataclass(slots=True)
class _Given:
    """Of each row that was collected the slot of its key and its time."""

    slots: list[int]
    clock: list[int]

    def mark(self, call: ProcessContext, at: int) -> None:
        """The rows since the last time are those of the key at hand."""
        new = len(call.rows) - len(self.slots)
        self.slots += [call.slot] * new
        self.clock += [at] * new


class ProcessOperator(Operator):
    """See the module. Output: the keys of all inputs (or the columns of the input that is passed through), the columns of
    the function, and the time of the row or timer with `on_time`."""

    def __init__(self, function: Any, node: ProcessTablesExec, context: OperatorContext) -> None:
        self._node = node
        self._context = context
        self._function: Any = function() if inspect.isclass(function) else copy.copy(function)
        self._opened = False
        declared = context.functions.process(node.function)
        self._name = declared.name.removeprefix("$").partition("$")[0].lower()
        self._result = declared.result
        self._keys = KeyIndex([f.type.arrow for f in node.key_fields]) if not node.each else None
        self._states = [
            KeptState(self._name, node.kept(f.name), len(node.key_fields), f.type, ttl, self._keys)
            for f, ttl in zip(node.states, node.ttls, strict=True)
            if self._keys is not None
        ]
        self._timers = (
            Timers(self._name, node.kept("timers"), len(node.key_fields), self._keys)
            if node.times and self._keys is not None
            else None
        )
        self._waiting = [TimedRows(p.schema, keyed=False) for p in node.parts] if node.order else []
        self._waits = [timed_table(w, node.kept(f"waiting{i}"), _no_key) for i, w in enumerate(self._waiting)]
        self._call = ProcessContext(self._name, self._states, self._timers, hasattr(self._function, "on_timer"))
        self._row_types = [_row_type(names) for names in node.names]
        self._eval = self._function.eval
        given = dict(node.arguments)
        names = [t.name for t in declared.tables]
        by_name = {s.name: s for s in self._states}
        self._template: list[Any] = []
        self._filled: list[tuple[int, KeptState]] = []
        self._places: list[int] = [0] * len(names)
        parameters = list(inspect.signature(self._eval).parameters.values())[1:]
        for place, parameter in enumerate(parameters):
            self._template.append(None)
            if parameter.name in by_name:
                self._filled.append((place, by_name[parameter.name]))
            elif parameter.name in names:
                self._places[names.index(parameter.name)] = place
            elif parameter.name in given:
                literal = given[parameter.name]
                value = pa.array([literal.value], literal.type.arrow)
                self._template[place] = python_values(value, literal.type)[0]
            else:
                self._template[place] = parameter.default
        self._timer_states = self._of_timers(by_name)

    def _of_timers(self, by_name: dict[str, KeptState]) -> list[KeptState]:
        """The state that `on_timer` names behind its context."""
        if self._timers is None or not hasattr(self._function, "on_timer"):
            return []
        names = list(inspect.signature(self._function.on_timer).parameters)[1:]
        return [by_name[n] for n in names if n in by_name]

    @property
    def tables(self) -> Sequence[StateTable]:
        timers = [] if self._timers is None else [self._timers.table]
        return [*(s.table for s in self._states), *self._waits, *timers]

    @property
    def state_size(self) -> StateSize:
        if self._keys is None:
            return StateSize(0, 0)
        objects = [*self._states, *([] if self._timers is None else [self._timers])]
        rows = sum(w.rows for w in self._waiting)
        size = self._keys.nbytes + sum(o.nbytes for o in (*objects, *self._waiting))
        return StateSize(rows + sum(len(o) for o in objects), size)

    def restored(self) -> None:
        if self._timers is not None:
            self._timers.restored()

    def close(self) -> None:
        if self._opened and hasattr(self._function, "close"):
            self._function.close()

    def step(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> ChangelogBatch | None:
        if not self._opened:
            self._opened = True
            if hasattr(self._function, "open"):
                self._function.open(FunctionContext())
        touched = [s.expire(time.processing_time) for s in self._states]
        call, outputs = self._call, []
        call.watermark = time.previous_watermark
        for number, batch in enumerate(inputs):
            if batch is None or not len(batch):
                continue
            if self._waiting:
                self._wait(number, batch, time)
                continue
            slots, output = self._rows(number, batch)
            touched.append(slots)
            if output is not None:
                outputs.append(output)
        if self._waiting:
            slots, output = self._in_order(time.watermark)
            touched.append(slots)
            if output is not None:
                outputs.append(output)
        elif self._timers is not None:
            call.watermark = time.watermark
            slots, output = self._fire(time.watermark)
            touched.append(slots)
            if output is not None:
                outputs.append(output)
        if self._keys is not None and touched:
            self._settle(np.unique(np.concatenate(touched)), time.processing_time)
        return ChangelogBatch.concat(outputs) if outputs else None

    def _rows(self, number: int, batch: ChangelogBatch) -> tuple[np.ndarray, ChangelogBatch | None]:
        """The rows of an input, one after another, and the slots of their keys."""
        node, call = self._node, self._call
        source = node.parts[number].schema
        clock: np.ndarray | None = None
        if node.times:
            batch = reject_null_times(batch, node.times[number], self._context)
            clock = milliseconds(batch.column(node.times[number]))
        columns = [python_values(c, f.type) for c, f in zip(batch.columns, source, strict=True)]
        made = self._row_types[number]
        kinds = None if batch.kinds is None else batch.kinds.tolist()
        slots = np.zeros(len(batch), np.int64)
        if self._keys is not None:
            slots, _ = self._keys.insert([batch.column(k) for k in node.keys[number]], len(batch))
        times = columns[node.times[number]] if node.times else None
        place, filled, values, evaluate = self._places[number], self._filled, list(self._template), self._eval
        new, counts, row = tuple.__new__, [], None
        call.begin()
        try:
            for at, (slot, cells) in enumerate(zip(slots.tolist(), zip(*columns, strict=True), strict=True)):
                row = values[place] = new(made, cells)
                if kinds is not None:
                    row.kind = KIND_NAMES[kinds[at]]
                call.slot = slot
                if times is not None:
                    call.now = times[at]
                for position, state in filled:
                    values[position] = state.at(slot)
                given = evaluate(call, *values)
                if given is not None:
                    call.take(given)
                counts.append(len(call.rows))
        except SqlEngineError:
            raise
        except Exception as error:
            raise self._failed(error, f"for {row!r}") from error
        index = np.repeat(np.arange(len(counts)), np.diff(np.array(counts, np.int64), prepend=0))
        if not len(index):
            return slots, None
        taken = pa.array(index)
        front = batch.columns if node.passes else []
        out = [c.take(taken) for c in front]
        return slots, self._output(out, slots[index], None if clock is None else clock[index])

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

    def _in_order(self, watermark: int) -> tuple[np.ndarray, ChangelogBatch | None]:
        """The rows whose time has come, of all inputs in order of time, with the timers between them."""
        node, call, timers = self._node, self._call, self._timers
        assert timers is not None and self._keys is not None
        clock: list[np.ndarray] = []
        rows: list[tuple[list[int], list[Row], list[Any]]] = []
        for number, (waiting, order) in enumerate(zip(self._waiting, node.order, strict=True)):
            due = waiting.due(bound(watermark, 1))
            columns = waiting.take(due)
            waiting.free(due)
            ranked = sort_indices(
                [columns[s.index] for s in order], [s.descending for s in order], [s.nulls_last for s in order]
            )
            columns = [c.take(pa.array(ranked)) for c in columns]
            source = node.parts[number].schema
            values = [python_values(c, f.type) for c, f in zip(columns, source, strict=True)]
            slots, _ = self._keys.insert([columns[k] for k in node.keys[number]], len(due))
            made = [tuple.__new__(self._row_types[number], cells) for cells in zip(*values, strict=True)]
            clock.append(milliseconds(columns[node.times[number]]))
            rows.append((slots.tolist(), made, values[node.times[number]]))
        inputs = np.repeat(np.arange(len(rows)), [len(c) for c in clock])
        places = np.concatenate([np.arange(len(c)) for c in clock])
        times = np.concatenate(clock)
        order_of = np.argsort(times, kind="stable")
        touched: list[int] = []
        out = _Given([], [])
        call.begin()
        timers.begin()
        row: Row | None = None
        try:
            for at, number, place in zip(
                times[order_of].tolist(), inputs[order_of].tolist(), places[order_of].tolist(), strict=True
            ):
                self._fire_until(at - 1, call, out, touched)
                slots_of, rows_of, times_of = rows[number]
                values_of = list(self._template)
                row = values_of[self._places[number]] = rows_of[place]
                call.slot, call.now, call.watermark = slots_of[place], times_of[place], at - 1
                for position, state in self._filled:
                    values_of[position] = state.at(call.slot)
                given = self._eval(call, *values_of)
                if given is not None:
                    call.take(given)
                out.mark(call, at)
                touched.append(call.slot)
            row = None
            self._fire_until(watermark, call, out, touched)
        except SqlEngineError:
            raise
        except Exception as error:
            where = f"in a timer at {call.now}" if row is None or call.fires_now else f"for {row!r}"
            raise self._failed(error, where) from error
        slots = np.array(touched, np.int64)
        if not out.slots:
            return slots, None
        return slots, self._output([], np.array(out.slots, np.int64), np.array(out.clock, np.int64))

    def _fire_until(self, watermark: int, call: ProcessContext, out: _Given, touched: list[int]) -> None:
        """The timers until a time, in order of time and then of setting."""
        timers = self._timers
        assert timers is not None
        call.watermark = watermark
        while (due := timers.pop(watermark)) is not None:
            at, slot, name = due
            call.slot, call.timer, call.fires_now = slot, name, True
            call.now = timers.moment(at, self._zoned)
            given = self._function.on_timer(call, *(s.at(slot) for s in self._timer_states))
            if given is not None:
                call.take(given)
            out.mark(call, at)
            touched.append(slot)
            call.timer, call.fires_now = None, False

    def _fire(self, watermark: int) -> tuple[np.ndarray, ChangelogBatch | None]:
        """The timers that the watermark has passed, in order of time and then of setting."""
        call, touched, out = self._call, list[int](), _Given([], [])
        assert self._timers is not None
        call.begin()
        self._timers.begin()
        try:
            self._fire_until(watermark, call, out, touched)
        except SqlEngineError:
            raise
        except Exception as error:
            raise self._failed(error, f"in a timer at {call.now}") from error
        slots = np.array(touched, np.int64)
        if not out.slots:
            return slots, None
        return slots, self._output([], np.array(out.slots, np.int64), np.array(out.clock, np.int64))

    @property
    def _zoned(self) -> bool:
        return self._node.schema[-1].type.arrow.tz is not None

    def _output(self, front: list[pa.Array], slots: np.ndarray, clock: np.ndarray | None) -> ChangelogBatch:
        """The rows that were collected, behind the columns that stand before them."""
        node, rows = self._node, self._call.rows
        if not node.passes and self._keys is not None:
            keys = self._keys.columns(slots)
            front = [
                k.cast(f.type.arrow) if k.type != f.type.arrow else k
                for k, f in zip(keys * len(node.parts), node.schema)
            ]
        values = zip(*self._cells(rows), strict=True)
        made = [as_column(self._name, list(v), t) for v, (_, t) in zip(values, self._result, strict=True)]
        times = [] if clock is None else [timestamps(clock, node.schema[-1].type)]
        kinds = None
        if not node.mode.is_append_only:
            kinds = np.array([_KINDS[r.kind] if isinstance(r, Row) else 0 for r in rows], np.int8)
        elif any(isinstance(r, Row) and r.kind != "+I" for r in rows):
            raise ExpressionError(
                f"the Python function {self._name} gave a row that is no insertion",
                code="E2111",
                hint="declare it with changelog=True",
            )
        return ChangelogBatch.of([*front, *made, *times], node.schema, kinds)

    def _cells(self, rows: list[Any]) -> list[Sequence[Any]]:
        names = [n for n, _ in self._result]
        try:
            return [cells_of(one, names) for one in rows]
        except ValueError as error:
            raise ExpressionError(
                f"the Python function {self._name} gave {error}", code="E2111", hint="give a tuple, or a dict by column"
            ) from error

    def _settle(self, touched: np.ndarray, now: int) -> None:
        """Notes what has changed, and lets keys go that keep nothing."""
        assert self._keys is not None
        kept = np.zeros(len(touched), np.bool_)
        slots = touched.tolist()
        for state in (*self._states, *([] if self._timers is None else [self._timers])):
            live = state.settle(slots, touched, now)
            kept |= live
        self._keys.remove(touched[~kept])

    def _failed(self, error: BaseException, where: str) -> ExpressionError:
        return ExpressionError(
            f"the Python function {self._name} failed {where}: {type(error).__name__}: {error}",
            code="E2110",
            hint="filter out such rows, or have it return None",
        )


def _row_type(names: tuple[str, ...]) -> type[Row]:
    """Rows with these columns as attributes: found faster than by a search for the name."""
    taken = {"kind", "names", *dir(Row)}
    found: dict[str, Any] = {n: property(itemgetter(i)) for i, n in enumerate(names) if n not in taken}

    def unknown(row: Row, name: str) -> Any:
        if name in names:
            return row[names.index(name)]
        raise AttributeError(f"the row has no column {name!r}; it has {', '.join(names)}")

    found["__getattr__"] = unknown
    return type("Row", (Row,), {**found, "kind": "+I", "names": names})


def _no_key(columns: list[pa.Array]) -> np.ndarray:
    return np.full(len(columns[0]), -1, np.int64)
