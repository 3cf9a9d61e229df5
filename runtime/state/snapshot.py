"""State as it is saved: what each operator's tables held or how they changed, and how a chain of changes adds up."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from runtime.core.errors import CheckpointError
from runtime.core.key_group import KeyGroups
from runtime.state.table import SLOT, Moved, StateTable, TableChanges

__all__ = ["SavedOperator", "SavedState", "TaskState", "merge_changes", "restore_task", "single_batch"]

TaskState = Mapping[str, pa.RecordBatch]
"""What the tables of one task held: `SLOT` and columns, by table name."""


@dataclass(frozen=True, slots=True)
class SavedOperator:
    """How an operator's state changed up to the end of an epoch: its name in the plan, the watermarks behind and before
    it, and the tables of its tasks (each has a range of the key groups)."""

    name: str
    watermark: int
    input_watermark: int
    tasks: tuple[tuple[TableChanges, ...], ...]


@dataclass(frozen=True, slots=True)
class SavedState:
    """An operator's whole state as it is restored: the watermarks, and what the tables of each task held. `goes_on`: the
    tables of which the next save may tell only what has changed since, as `StateTable.restore` says. `unread`: tasks read
    a table when somebody asks for it (`runtime/checkpoint/away.py`)."""

    watermark: int
    input_watermark: int
    tasks: tuple[TaskState, ...]
    goes_on: Collection[str] = ()
    unread: bool = False

    @staticmethod
    def of(chain: Sequence[SavedOperator]) -> SavedState:
        """What a chain of saves of one operator adds up to, from one in which all of its tables are complete on."""
        last = chain[-1]
        tasks: list[TaskState] = []
        for number in range(len(last.tasks)):
            tables: dict[str, list[TableChanges]] = {}
            for saved in chain:
                for changes in saved.tasks[number]:
                    tables.setdefault(changes.table, []).append(changes)
            tasks.append({name: merge_changes(found) for name, found in tables.items()})
        return SavedState(last.watermark, last.input_watermark, tuple(tasks))


def merge_changes(chain: Sequence[TableChanges]) -> pa.RecordBatch:
    """The rows of a table after a complete image and the changes that followed it, in order of saving."""
    start = max(i for i, changes in enumerate(chain) if changes.complete)
    chain = chain[start:]
    if len(chain) == 1:
        return chain[0].rows
    written = [changes.rows.column(SLOT).to_numpy() for changes in chain]
    high = max((int(s.max()) + 1 for s in (*written, *(c.removed for c in chain)) if len(s)), default=0)
    # The number of the save that had the last word on a slot; removed ones get a number that no row has.
    last = np.full(high, -1, np.int32)
    for number, changes in enumerate(chain):
        last[written[number]] = number
        last[changes.removed] = -1
    parts = [
        changes.rows.filter(pa.array(last[slots] == number))
        for number, (slots, changes) in enumerate(zip(written, chain, strict=True))
    ]
    return single_batch(parts)


def restore_task(
    tables: Sequence[StateTable], saved: Sequence[TaskState], groups: KeyGroups | None, *, goes_on: Collection[str] = ()
) -> None:
    """Loads into the tables of a task, just made, what all saved tasks held of its key groups (None: all groups).

    Tables of the task that nobody saved stay empty. `goes_on`: see `SavedState`; only where there
    is one saved task, and all of its groups are loaded.
    """
    for task in saved:
        moved: dict[str, Moved] = {}
        for table in tables:
            rows = task.get(table.name)
            if rows is not None and not table.shared:
                table.restore(rows, groups, moved, goes_on=table.name in goes_on)
    for table in tables:
        if table.shared:
            values = [task[table.name] for task in saved if table.name in task]
            if values:
                table.restore(single_batch(values), None, {})


def single_batch(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """All rows of batches (at least one) in one.

    Raises:
        CheckpointError: they do not fit into one: texts within lists, rows or maps are more than 2 GB.
    """
    filled = [batch for batch in batches if batch.num_rows]
    if len(filled) <= 1:
        return filled[0] if filled else batches[0]
    # Older versions saved strings in another type.
    tables = [pa.Table.from_batches([batch]) for batch in filled]
    found = pa.concat_tables(tables, promote_options="permissive").combine_chunks().to_batches()
    if len(found) > 1:
        raise CheckpointError(
            "a table of state has more than 2 GB of texts within a column of arrays, maps or rows in one task",
            hint="raise parallelism.default, so that each task has a smaller share of it",
        )
    return found[0]
