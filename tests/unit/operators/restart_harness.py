"""An operator that is thrown away between epochs and made anew from what was saved, beside one that is not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from runtime.core.changelog import ChangelogBatch
from runtime.core.key_group import KeyGroups, key_group_range
from runtime.core.options import Options
from runtime.local.spilling import SpillingOperator, spilling
from runtime.operators.operator import EpochTime, Operator
from runtime.plan.nodes import PhysicalNode
from runtime.state import table
from runtime.state.backend import StateBackend
from runtime.state.snapshot import SavedOperator, SavedState, TaskState, restore_task, single_batch
from runtime.state.table import OWNER, SLOT, TableChanges

Changes = list[tuple[int, str]]
BACKENDS = ("memory", "rocksdb")


def on_backend(backend: str, node: PhysicalNode, make: Callable[[], Operator], kept: int = 2) -> Callable[[], Operator]:
    """Makes the operator for a state backend; with RocksDB no more than so many keys stay in memory after an epoch."""
    if backend == "memory":
        return make
    options = Options({"state.backend.type": backend, "sqlengine.state.keys-in-memory": str(kept)})

    def spilled() -> Operator:
        made = spilling(make(), node, StateBackend(options))
        assert isinstance(made, SpillingOperator)
        return made

    return spilled


class Twins:
    """Feeds both alike; `other` makes the one that is thrown away, where that is another backend's.

    `step` fails when what comes out differs: row by row in order, and in any order with another backend, or once the
    state has been divided among tasks and put together again, as keys of several tasks have no order; always in any
    order if not `ordered`. Half of what is saved is read only after the next step, from where it is."""

    def __init__(
        self,
        make: Callable[[], Operator],
        rng: np.random.Generator,
        other: Callable[[], Operator] | None = None,
        ordered: bool = True,
    ) -> None:
        self._make = other or make
        self._rng = rng
        self._steady, self._restarted = make(), self._make()
        self._chain: list[SavedOperator] = []
        self._held: SavedOperator | None = None
        self._ordered = ordered and not isinstance(self._restarted, SpillingOperator)
        self.restarts = 0
        self.rows = 0

    def step(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> None:
        wanted, found = (_changes(o.step(inputs, time)) for o in (self._steady, self._restarted))
        if not self._ordered:
            wanted, found = sorted(wanted), sorted(found)
        assert found == wanted
        # Also what has left memory goes when its time to live is over.
        kept, left = ([t.contents().num_rows for t in o.tables] for o in (self._steady, self._restarted))
        assert left == kept
        self.rows += len(found)
        self._read_held()
        self._held = _saved([self._restarted], hold=True)
        if self._rng.random() < 0.5:
            return
        self._read_held()
        if self._rng.random() < 0.2:
            return
        state = SavedState.of(self._chain)
        for kept in self._restarted.tables:
            assert _by_slot(state.tasks[0][kept.name]) == _by_slot(kept.contents()), kept.name
        if self.restarts > 4 and self._rng.random() < 0.3:
            state = self._divided(state)
            self._ordered = False
        self._restarted.close()
        self._restarted = self._restored(state.tasks, None)
        self._chain.clear()
        self.restarts += 1

    def close(self) -> None:
        self._restarted.close()

    def _read_held(self) -> None:
        if self._held is not None:
            tasks = tuple(tuple(_read(changes) for changes in task) for task in self._held.tasks)
            self._chain.append(replace(self._held, tasks=tasks))
        self._held = None

    def _divided(self, state: SavedState) -> SavedState:
        """The state as three tasks save it that each got a third of the key groups."""
        parts = [self._restored(state.tasks, key_group_range(number, 3)) for number in range(3)]
        divided = SavedState.of([_saved(parts)])
        for kept in self._restarted.tables:
            if not kept.shared:
                whole = _values([state.tasks[0][kept.name]])
                assert _values([task[kept.name] for task in divided.tasks]) == whole, kept.name
        for part in parts:
            part.close()
        return divided

    def _restored(self, tasks: Sequence[TaskState], groups: KeyGroups | None) -> Operator:
        made = self._make()
        restore_task(made.tables, tasks, groups)
        made.restored()
        return made


def _saved(tasks: Sequence[Operator], *, hold: bool = False) -> SavedOperator:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table, "MANY_ROWS", 1)
        return SavedOperator("op", 0, 0, tuple(tuple(t.changes(hold=hold) for t in task.tables) for task in tasks))


def _read(changes: TableChanges) -> TableChanges:
    """With the rows that were held, which are let go of."""
    rows = single_batch(list(changes.batches()))
    changes.release()
    return replace(changes, rows=rows, held=None)


def _changes(output: ChangelogBatch | None) -> Changes:
    if output is None:
        return []
    return list(zip(output.kinds_or_inserts().tolist(), map(repr, output.rows.to_pylist()), strict=True))


def _by_slot(rows: pa.RecordBatch) -> dict[int, str]:
    return {row[SLOT]: repr(row) for row in rows.to_pylist()}


def _values(batches: Sequence[pa.RecordBatch]) -> Counter[str]:
    """The rows without where they stand, and without numbers that only tell their order."""
    return Counter(
        repr({n: v for n, v in row.items() if n not in (SLOT, OWNER, "$arrival")})
        for batch in batches
        for row in batch.to_pylist()
    )
