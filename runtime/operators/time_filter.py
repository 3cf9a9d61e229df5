"""Filters over the time that passes: rows come in and leave when their time has come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import pyarrow as pa

from runtime.core.changelog import DELETE, ChangelogBatch, Kinds
from runtime.core.clock import MIN_WATERMARK
from runtime.core.schema import Schema
from runtime.kernels.sorted_runs import SortedRuns
from runtime.operators.operator import EpochTime, Operator, OperatorContext, StateSize
from runtime.operators.time_limits import NEVER, Limits
from runtime.plan.nodes import TimeFilterExec
from runtime.plan.state import StateSpec
from runtime.state.keyed import KeyIndex
from runtime.state.multiset import RowMultiset
from runtime.state.row_table import row_table
from runtime.state.rows import Identity
from runtime.state.table import StateTable, shared_value
from runtime.state.timed import time_words

__all__ = ["TimeFilterOperator"]

_FROM, _UNTIL = -2, -1
"""Where the columns that tell a row's span stand behind those of the input."""


class TimeFilterOperator(Operator):
    """`TimeFilterExec`. A row is in from a time on until another, both told by its columns alone.

    State: the rows that have not come in yet by the time at which they will, and those that are in by the time at which
    they leave, equal ones once with their number; rows whose time is over are forgotten. So an epoch costs what its
    changes and the rows whose time has come cost. A row that is taken back is looked for where it must be by its time.
    The clock does not go back: what has left stays out.
    """

    def __init__(self, node: TimeFilterExec, context: OperatorContext) -> None:
        self._node = node
        self._limits = Limits(node, context)
        identity = Identity.APPEND if node.input.mode.is_append_only else Identity.FULL
        self._entering = _Waiting(node.kept("entering"), _FROM, identity) if node.enters else None
        self._leaving = _Waiting(node.kept("leaving"), _UNTIL, identity) if node.leaves else None
        self._now = MIN_WATERMARK
        self._tables = (
            *(waiting.table for waiting in self._waiting),
            shared_value("now", pa.int64(), lambda: self._now, self._go_on_from),
        )

    @property
    def _waiting(self) -> list[_Waiting]:
        return [waiting for waiting in (self._entering, self._leaving) if waiting is not None]

    @property
    def tables(self) -> Sequence[StateTable]:
        return self._tables

    @property
    def state_size(self) -> StateSize:
        return StateSize(sum(w.rows for w in self._waiting), sum(w.nbytes for w in self._waiting))

    def _go_on_from(self, given: list[object]) -> None:
        self._now = max(cast("list[int]", given))

    def next_timer(self) -> int | None:
        return min((t for w in self._waiting if (t := w.next_time()) is not None), default=None)

    def step(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> ChangelogBatch | None:
        (batch,) = inputs
        now = self._now = max(self._now, time.processing_time)
        outputs: list[ChangelogBatch] = []
        if self._entering is not None and (come := self._entering.due(now)) is not None:
            until = come.columns[_UNTIL].to_numpy()
            outputs.append(self._given(come.filter(until > now)))
            self._keep(self._leaving, come, (until > now) & (until != NEVER))
        if self._leaving is not None and (gone := self._leaving.due(now)) is not None:
            outputs.append(self._given(gone, np.full(len(gone), DELETE, np.int8)))
        if batch is not None and len(batch):
            since, until = self._limits.of(batch, time)
            within = (since <= now) & (now < until)
            outputs.append(batch.filter(within))
            kept = ChangelogBatch.of([*batch.columns, pa.array(since), pa.array(until)], self._kept_schema, batch.kinds)
            self._keep(self._leaving, kept, within & (until != NEVER))
            self._keep(self._entering, kept, (now < since) & (since < until))
        outputs = [output for output in outputs if len(output)]
        return ChangelogBatch.concat(outputs) if outputs else None

    @property
    def _kept_schema(self) -> Schema:
        return self._waiting[0].schema

    def _given(self, kept: ChangelogBatch, kinds: Kinds | None = None) -> ChangelogBatch:
        return ChangelogBatch.of(kept.columns[:_FROM], self._node.schema, kept.kinds if kinds is None else kinds)

    @staticmethod
    def _keep(waiting: _Waiting | None, batch: ChangelogBatch, those: np.ndarray) -> None:
        if waiting is not None and those.any():
            waiting.keep(batch if those.all() else batch.filter(those))


class _Waiting:
    """Rows by the time, in milliseconds, that one of their columns holds: `at`, from the end."""

    def __init__(self, spec: StateSpec, at: int, identity: Identity) -> None:
        self.schema = spec.schema
        self._at = at
        self._times = KeyIndex([pa.int64()])
        self._queue = SortedRuns(1)
        self._rows = RowMultiset(spec.schema, identity)
        self.table = row_table(self._rows, spec, self._slots)

    @property
    def rows(self) -> int:
        return self._rows.rows

    @property
    def nbytes(self) -> int:
        return self._rows.nbytes + self._times.nbytes + self._queue.nbytes

    def next_time(self) -> int | None:
        first = self._queue.first(np.zeros(1, np.int64), 1)[1]
        return int(self._times.columns(first)[0][0].as_py()) if len(first) else None

    def keep(self, batch: ChangelogBatch) -> None:
        """Takes changes in."""
        slots = self._slots(batch.columns)
        changed = self._rows.apply(batch, slots)
        self._rows.settle(changed)
        if batch.kinds is not None:
            slots = np.unique(slots)
            empty = slots[self._rows.bag_sizes(slots) == 0]
            self._queue.remove(empty)
            self._times.remove(empty)

    def due(self, now: int) -> ChangelogBatch | None:
        """Takes out the rows whose time has come, as insertions in order of time."""
        slots = self._queue.pop_below(0, time_words(np.array([now], np.int64))[0], True)
        if not len(slots):
            return None
        _, rows = self._rows.all(slots)
        times = np.repeat(rows, self._rows.count[rows])
        found = ChangelogBatch.of(self._rows.take(times), self.schema)
        self._rows.settle(self._rows.take_away(rows))
        self._times.remove(slots)
        return found

    def _slots(self, columns: Sequence[pa.Array]) -> np.ndarray:
        times = columns[self._at]
        slots, is_new = self._times.insert([times])
        if is_new.any():
            new = slots[is_new]
            self._queue.insert(np.zeros(len(new), np.int64), time_words(times.to_numpy()[is_new]), None, new)
        return slots
