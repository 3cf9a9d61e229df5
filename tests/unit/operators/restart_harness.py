"""An operator that is thrown away between epochs and made anew from what was saved, beside one that is not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from runtime.core.changelog import ChangelogBatch
from runtime.core.key_group import key_group_range
from runtime.operators.operator import EpochTime, Operator
from runtime.state.snapshot import SavedOperator, SavedState, TaskState, restore_task
from runtime.state.table import OWNER, SLOT

Changes = list[tuple[int, str]]


class Twins:
    """Feeds both alike. `step` fails when what comes out differs: row by row in order, and in any order once the state
    has been divided among tasks and put together again, as keys of several tasks have no order."""

    def __init__(self, make: Callable[[], Operator], rng: np.random.Generator) -> None:
        self._make = make
        self._rng = rng
        self._steady, self._restarted = make(), make()
        self._chain: list[SavedOperator] = []
        self._ordered = True
        self.restarts = 0
        self.rows = 0

    def step(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> None:
        wanted, found = (_changes(o.step(inputs, time)) for o in (self._steady, self._restarted))
        if not self._ordered:
            wanted, found = sorted(wanted), sorted(found)
        assert found == wanted
        self.rows += len(found)
        self._chain.append(_saved([self._restarted]))
        if self._rng.random() < 0.6:
            return
        state = SavedState.of(self._chain)
        for table in self._restarted.tables:
            assert _by_slot(state.tasks[0][table.name]) == _by_slot(table.contents()), table.name
        if self.restarts > 4 and self._rng.random() < 0.3:
            state = self._divided(state)
            self._ordered = False
        self._restarted = self._restored(state.tasks, None)
        self._chain.clear()
        self.restarts += 1

    def _divided(self, state: SavedState) -> SavedState:
        """The state as three tasks save it that each got a third of the key groups."""
        parts = [self._restored(state.tasks, key_group_range(number, 3)) for number in range(3)]
        divided = SavedState.of([_saved(parts)])
        for table in self._restarted.tables:
            if not table.shared:
                whole = _values([state.tasks[0][table.name]])
                assert _values([task[table.name] for task in divided.tasks]) == whole, table.name
        return divided

    def _restored(self, tasks: Sequence[TaskState], groups: range | None) -> Operator:
        made = self._make()
        restore_task(made.tables, tasks, groups)
        made.restored()
        return made


def _saved(tasks: Sequence[Operator]) -> SavedOperator:
    return SavedOperator("op", 0, 0, tuple(tuple(t.changes() for t in task.tables) for task in tasks))


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
