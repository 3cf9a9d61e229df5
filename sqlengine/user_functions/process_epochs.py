"""The operator of process table functions of users that are called by epoch (`func_type="arrow"`).

`eval` gets all rows of an epoch at once, then `on_timer` the timers that its watermark has passed, at most one of a key in a
call, the earliest first: what a key sees is what it sees row by row. With ORDER BY rows wait until the watermark has
passed their time, and come in order; such a function has no timers, because they would not come between its rows.

State is columns by key slot; only timers are Python objects.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import ExpressionError, SqlEngineError
from runtime.core.types import timestamp_ltz
from runtime.operators.operator import EpochTime, OperatorContext
from runtime.operators.window_assign import milliseconds, timestamps
from runtime.operators.window_columns import reject_null_times
from runtime.plan.nodes import ProcessTablesExec
from sqlengine.user_functions.process_base import ProcessBase
from sqlengine.user_functions.process_epoch_context import Collected, EpochContext, Part
from sqlengine.user_functions.process_state import Timers
from sqlengine.user_functions.process_vectors import ColumnState

__all__ = ["EpochOperator"]

_NO_SLOTS = np.empty(0, np.int64)
_CLOCK = timestamp_ltz(3)


class EpochOperator(ProcessBase[ColumnState]):
    """See the module. Output: as of the row-wise form."""

    def __init__(self, function: Any, node: ProcessTablesExec, context: OperatorContext) -> None:
        super().__init__(function, node, context, ColumnState)
        fires = hasattr(self._function, "on_timer")
        self._call = EpochContext(self._name, self._result, self._states, self._timers, fires, self._clock)

    def step(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> ChangelogBatch | None:
        self._open()
        touched = [s.expire(time.processing_time) for s in self._states]
        self._call.watermark, self._call.processing = time.previous_watermark, time.processing_time
        parts, outputs = list[list[pa.Array]](), list[ChangelogBatch]()
        kinds: list[np.ndarray | None] = []
        for number, batch in enumerate(inputs):
            kinds.append(None)
            if batch is not None and len(batch) and self._waiting:
                self._wait(number, batch, time)
            elif batch is not None and len(batch):
                if self._node.times:
                    batch = reject_null_times(batch, self._node.times[number], self._context)
                kinds[-1] = batch.kinds
                parts.append(list(batch.columns))
                continue
            if self._waiting:
                parts.append(self._due(number, time.watermark))
            else:
                parts.append([pa.nulls(0, f.type.arrow) for f in self._node.parts[number].schema])
        if any(len(columns[0]) for columns in parts):
            slots, found = self._rows(parts, kinds)
            touched.append(slots)
            outputs += found
        fired = list[tuple[Timers, int, int | None]]()
        if self._clock is not None:
            fired.append((self._clock, self._clock_until(time), self._beside(time.previous_watermark)))
        if self._timers is not None and hasattr(self._function, "on_timer"):
            fired.append((self._timers, time.watermark, None))
        for timers, until, at in fired:
            self._call.watermark = time.watermark if at is None else time.previous_watermark
            for slots, found in self._fire(timers, until, at):
                touched.append(slots)
                outputs += found
        if self._keys is not None and touched:
            self._settle(np.unique(np.concatenate(touched)), time.processing_time)
        return ChangelogBatch.concat(outputs) if outputs else None

    def _rows(
        self, tables: list[list[pa.Array]], kinds: list[np.ndarray | None]
    ) -> tuple[np.ndarray, list[ChangelogBatch]]:
        """The rows of an epoch: the slots of their keys, and what `eval` made of them."""
        node, call, values = self._node, self._call, list(self._template)
        parts: list[Part] = []
        clocks: list[np.ndarray] = []
        for number, (columns, place) in enumerate(zip(tables, self._places, strict=True)):
            count, slots = len(columns[0]), _NO_SLOTS
            if self._keys is not None:
                slots, _ = self._keys.insert([columns[k] for k in node.keys[number]], count)
            parts.append(Part(count, slots, kinds[number]))
            if node.times:
                clocks.append(milliseconds(columns[node.times[number]]))
            values[place] = pa.RecordBatch.from_arrays(columns, names=list(node.names[number]))
        call.begin(self._table_names, parts, 0 if self._keys is None else self._keys.capacity)
        for place, state in self._filled:
            values[place] = call.view(state)
        self._called(self._eval, values, f"for an epoch of {sum(p.rows for p in parts)} rows")
        outputs = [
            self._output(
                one,
                [c.take(pa.array(one.rows)) for c in tables[one.table]] if node.passes else [],
                parts[one.table].slots,
                clocks[one.table] if clocks else None,
            )
            for one in call.collected
        ]
        return call.slots, outputs

    def _fire(self, timers: Timers, until: int, at: int | None) -> Iterator[tuple[np.ndarray, list[ChangelogBatch]]]:
        """The timers until a time, call after call, with the slots of their keys. `at`: the event time of the rows of
        timers of processing time."""
        call, keys = self._call, self._keys
        assert keys is not None
        waiting: dict[int, list[tuple[int, int, str | int]]] = {}
        timers.begin()
        while True:
            for time, number, slot, key in timers.due(until):
                heapq.heappush(waiting.setdefault(slot, []), (time, number, key))
            fired: list[tuple[int, int, str | None]] = []
            for slot in list(waiting):
                of_slot = waiting[slot]
                while of_slot:
                    time, number, key = heapq.heappop(of_slot)
                    if timers.fires(slot, time, number, key, until):
                        fired.append((time, slot, key if isinstance(key, str) else None))
                        break
                if not of_slot:
                    del waiting[slot]
            if not fired:
                if timers.next is None or timers.next > until:
                    return
                continue
            fired.sort(key=lambda timer: timer[0])
            slots = np.array([slot for _, slot, _ in fired], np.int64)
            times = np.array([time for time, _, _ in fired], np.int64)
            call.begin(["timers"], [Part(len(fired), slots)], keys.capacity)
            type_ = self._node.schema[-1].type if at is None else _CLOCK
            batch = self._timer_rows(slots, timestamps(times, type_), [name for _, _, name in fired])
            method = self._function.on_timer if at is None else self._function.on_clock
            states = self._timer_states if at is None else self._clock_states
            self._called(method, [batch, *(call.view(s) for s in states)], f"in {len(fired)} timers")
            clock = times if at is None else np.full(len(times), at, np.int64)
            of_rows = clock if self._node.times else None
            yield slots, [self._output(one, [], slots, of_rows) for one in call.collected]

    def _timer_rows(self, slots: np.ndarray, times: pa.Array, names: list[str | None]) -> pa.RecordBatch:
        """Timers as the function gets them: the columns of their keys, `name` and `time`."""
        assert self._keys is not None
        return pa.RecordBatch.from_arrays(
            [*self._keys.columns(slots), pa.array(names, pa.string()), times],
            names=[*(f.name for f in self._node.key_fields), "name", "time"],
        )

    def _called(self, method: Any, values: Sequence[Any], where: str) -> None:
        """Calls the function; what it returns or yields is collected."""
        call = self._call
        try:
            given = method(call, *values)
            if given is None:
                return
            for one in given if _is_many(given) else [given]:
                call.collect(one)
        except SqlEngineError:
            raise
        except Exception as error:
            raise self._failed(error, where) from error

    def _output(
        self, given: Collected, front: list[pa.Array], slots: np.ndarray, clock: np.ndarray | None
    ) -> ChangelogBatch:
        node = self._node
        if not node.passes and self._keys is not None:
            front = self._front(slots[given.rows])
        times = [] if clock is None else [timestamps(clock[given.rows], node.schema[-1].type)]
        kinds = given.kinds
        if kinds is not None and node.mode.is_append_only:
            if kinds.any():
                raise ExpressionError(
                    f"the Python function {self._name} gave a row that is no insertion",
                    code="E2111",
                    hint="declare it with changelog=True",
                )
            kinds = None
        return ChangelogBatch.of([*front, *given.columns, *times], node.schema, kinds)


def _is_many(given: Any) -> bool:
    """Whether a function gave results one after another (a generator, a list), not one of them."""
    return isinstance(given, (Iterator, list)) and not isinstance(given, Mapping)
