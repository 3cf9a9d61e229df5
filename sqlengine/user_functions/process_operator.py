"""The operator of process table functions of users.

Row after row of a key, in the order of their arrival, goes through `eval`; when all rows of an epoch are through, the timers
that its watermark has passed fire in order of time. With ORDER BY rows wait until the watermark has passed their time,
and go through in order of time, with the timers between them: then it does not matter where epochs end. SQL forces no
order here, a function with state does: these are the loops over rows and keys that a user's function is.

State is Python objects by key slot, saved as columns: a table for each state, and one for the timers. An object that is
empty again (all fields None, no item) is forgotten with its key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from runtime.core.changelog import KIND_NAMES, ChangelogBatch
from runtime.core.errors import ExpressionError, SqlEngineError
from runtime.operators.operator import EpochTime, OperatorContext
from runtime.operators.window_assign import milliseconds, timestamps
from runtime.operators.window_columns import reject_null_times
from runtime.plan.nodes import ProcessTablesExec
from sqlengine.user_functions.process_base import ProcessBase
from sqlengine.user_functions.process_context import ProcessContext
from sqlengine.user_functions.process_state import KeptState
from sqlengine.user_functions.scalar import as_column
from sqlengine.user_functions.table import columns_of
from sqlengine.values.rows import Row, python_values

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


class ProcessOperator(ProcessBase[KeptState]):
    """See the module. Output: the keys of all inputs (or the columns of the input that is passed through), the columns of
    the function, and the time of the row or timer with `on_time`."""

    def __init__(self, function: Any, node: ProcessTablesExec, context: OperatorContext) -> None:
        super().__init__(function, node, context, KeptState)
        fires = hasattr(self._function, "on_timer")
        self._call = ProcessContext(self._name, self._states, self._timers, fires, self._clock)
        self._row_types = [_row_type(names) for names in node.names]

    def step(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> ChangelogBatch | None:
        self._open()
        touched = [s.expire(time.processing_time) for s in self._states]
        call, outputs = self._call, []
        call.watermark, call.processing = time.previous_watermark, time.processing_time
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
        if self._clock is not None:
            slots, output = self._fire_clock(time)
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
        place, values, evaluate = self._places[number], list(self._template), self._eval
        filled = [(position, state.at) for position, state in self._filled]
        rows = map(tuple.__new__, repeat(made), zip(*columns, strict=True))
        call.begin()
        counts, collected, row = list[int](), call.rows, None
        try:
            for at, (slot, row) in enumerate(zip(slots.tolist(), rows, strict=True)):
                values[place] = row
                if kinds is not None:
                    row.kind = KIND_NAMES[kinds[at]]
                call.slot = slot
                if times is not None:
                    call.now = times[at]
                for position, of_key in filled:
                    values[position] = of_key(slot)
                given = evaluate(call, *values)
                if given is not None:
                    call.take(given)
                counts.append(len(collected))
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

    def _in_order(self, watermark: int) -> tuple[np.ndarray, ChangelogBatch | None]:
        """The rows whose time has come, of all inputs in order of time, with the timers between them."""
        node, call, timers = self._node, self._call, self._timers
        assert timers is not None and self._keys is not None
        clock: list[np.ndarray] = []
        rows: list[tuple[list[int], list[Row], list[Any]]] = []
        for number in range(len(self._waiting)):
            columns = self._due(number, watermark)
            source = node.parts[number].schema
            values = [python_values(c, f.type) for c, f in zip(columns, source, strict=True)]
            slots, _ = self._keys.insert([columns[k] for k in node.keys[number]], len(columns[0]))
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

    def _fire_clock(self, time: EpochTime) -> tuple[np.ndarray, ChangelogBatch | None]:
        """The timers that the clock has reached, in order of time and then of setting."""
        call, timers, until = self._call, self._clock, self._clock_until(time)
        assert timers is not None
        touched, out = list[int](), _Given([], [])
        at = self._beside(time.previous_watermark)
        call.begin()
        timers.begin()
        try:
            while (due := timers.pop(until)) is not None:
                call.slot, call.timer = due[1], due[2]
                call.now = timers.moment(at, self._zoned) if self._node.times else None
                given = self._function.on_clock(call, *(s.at(call.slot) for s in self._clock_states))
                if given is not None:
                    call.take(given)
                out.mark(call, at)
                touched.append(call.slot)
        except SqlEngineError:
            raise
        except Exception as error:
            raise self._failed(error, "in a timer of processing time") from error
        call.timer = None
        slots = np.array(touched, np.int64)
        if not out.slots:
            return slots, None
        clock = np.array(out.clock, np.int64) if self._node.times else None
        return slots, self._output([], np.array(out.slots, np.int64), clock)

    def _output(self, front: list[pa.Array], slots: np.ndarray, clock: np.ndarray | None) -> ChangelogBatch:
        """The rows that were collected, behind the columns that stand before them."""
        node, rows = self._node, self._call.rows
        if not node.passes and self._keys is not None:
            front = self._front(slots)
        made = [as_column(self._name, v, t) for v, (_, t) in zip(self._columns(rows), self._result, strict=True)]
        times = [] if clock is None else [timestamps(clock, node.schema[-1].type)]
        kinds = None
        if not node.mode.is_append_only:
            kinds = np.array([_KINDS[r.kind] if isinstance(r, Row) else 0 for r in rows], np.int8)
        elif any(issubclass(kind, Row) for kind in set(map(type, rows))) and any(
            isinstance(r, Row) and r.kind != "+I" for r in rows
        ):
            raise ExpressionError(
                f"the Python function {self._name} gave a row that is no insertion",
                code="E2111",
                hint="declare it with changelog=True",
            )
        return ChangelogBatch.of([*front, *made, *times], node.schema, kinds)

    def _columns(self, rows: list[Any]) -> list[list[Any]]:
        try:
            return columns_of(rows, [n for n, _ in self._result])
        except ValueError as error:
            raise ExpressionError(
                f"the Python function {self._name} gave {error}", code="E2111", hint="give a tuple, or a dict by column"
            ) from error


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
