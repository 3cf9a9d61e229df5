"""Random states of a job over its epochs, beside a plain model of what a restore must give."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from runtime.checkpoint.epoch_state import EpochState, Restored
from runtime.state.snapshot import SavedOperator, TaskState
from runtime.state.table import SLOT, TableChanges

Row = tuple[Any, ...]
Contents = dict[tuple[str, int, str], list[dict[str, Any]]]
"""The rows of each table that has any, by operator, task and table, in order of their slots."""

TABLES: dict[str, Sequence[tuple[str, pa.DataType]]] = {
    "groups": [("key", pa.int64()), ("name", pa.string()), ("tags", pa.list_(pa.int32()))],
    "values": [("$owner", pa.int64()), ("price", pa.decimal128(12, 2)), ("at", pa.timestamp("us"))],
    "figure": [("value", pa.int64())],
}
TASKS = {"Aggregate[a]": 2, "Join[b]": 1, "Calc[c]": 1}


def changes(name: str, rows: dict[int, Row], removed: Sequence[int] = (), complete: bool = False) -> TableChanges:
    """Changes of a table of `TABLES`: rows by slot."""
    columns = TABLES[name]
    schema = pa.schema([pa.field(SLOT, pa.int64()), *(pa.field(n, t) for n, t in columns)])
    arrays = [pa.array(list(rows), pa.int64())]
    arrays += [pa.array([row[i] for row in rows.values()], t) for i, (_, t) in enumerate(columns)]
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
    return TableChanges(name, batch, np.array(removed, np.int64), complete)


class RandomJob:
    """A job whose tables change at random; `slots` is how many each has at most."""

    def __init__(self, seed: int, slots: int = 40) -> None:
        self._rng = np.random.default_rng(seed)
        self._slots = slots
        self._live: dict[tuple[str, int, str], dict[int, Row]] = {}
        self._epoch = 0
        self._plan = 0

    def next(self, complete: bool = False) -> EpochState:
        """The state after one more epoch: changes, or all when asked for and the first time."""
        complete = complete or self._epoch == 0
        self._epoch += 1
        if self._rng.random() < 0.05:
            self._plan += 1
        if complete:
            # Slots are other ones after a restore.
            for key, rows in self._live.items():
                slots = self._rng.permutation(self._slots)[: len(rows)].tolist()
                self._live[key] = dict(zip(slots, rows.values(), strict=True))
        operators = tuple(
            SavedOperator(
                name,
                self._epoch * 10,
                self._epoch * 10 + 1,
                tuple(tuple(self._table((name, task, table), complete) for table in TABLES) for task in range(tasks)),
            )
            for name, tasks in TASKS.items()
        )
        return self.state(operators)

    def again(self) -> EpochState:
        """The whole state after the same epoch."""
        return self.state(
            tuple(
                SavedOperator(
                    name,
                    self._epoch * 10,
                    self._epoch * 10 + 1,
                    tuple(
                        tuple(changes(table, self._live.get((name, task, table), {}), (), True) for table in TABLES)
                        for task in range(tasks)
                    ),
                )
                for name, tasks in TASKS.items()
            )
        )

    def state(self, operators: Sequence[SavedOperator]) -> EpochState:
        number = self._epoch
        return EpochState(
            number,
            1000 * number,
            f'{{"plan": "größer {self._plan}"}}',
            operators,
            {"orders": {"offset": number, "splits": ["a", None]}},
            {"out": [f"part-{number}"]} if number % 3 else {},
            number % 7 == 0,
        )

    def expected(self) -> tuple[Any, ...]:
        """What `seen` gives for a restore of the last epoch."""
        state = self.state(())
        contents = {key: _listed(key[2], rows) for key, rows in self._live.items() if rows}
        marks = {name: (self._epoch * 10, self._epoch * 10 + 1, tasks) for name, tasks in TASKS.items()}
        return (
            state.epoch, state.processing_time, state.plan, marks, contents, state.sources, state.sinks, state.finished,
        )  # fmt: skip

    def _table(self, key: tuple[str, int, str], complete: bool) -> TableChanges:
        rows = self._live.setdefault(key, {})
        if key[2] == "figure":
            rows[0] = (self._epoch * 3,)
            return changes(key[2], rows, (), True)
        share = self._rng.choice([0.0, 0.05, 0.05, 0.3, 1.0])
        removed = [slot for slot in rows if self._rng.random() < share / 2]
        for slot in removed:
            del rows[slot]
        written = {
            slot: self._row(key[2]) for slot in range(self._slots) if self._rng.random() < share and slot not in removed
        }
        rows.update(written)
        # Slots that were taken and given back between two saves were never heard of.
        unheard = [s for s in range(self._slots, self._slots + 3) if self._rng.random() < 0.2]
        return changes(key[2], rows, (), True) if complete else changes(key[2], written, sorted(removed + unheard))

    def _row(self, table: str) -> Row:
        number = int(self._rng.integers(0, 10**9))
        if table == "groups":
            return (
                number,
                None if number % 5 == 0 else "ä" * (number % 4),
                None if number % 7 == 0 else list(range(number % 3)),
            )
        price = None if number % 4 == 0 else decimal.Decimal(number).scaleb(-2)
        return number % 9, price, datetime.datetime(2024, 1, 1) + datetime.timedelta(microseconds=number)


def seen(restored: Restored) -> tuple[Any, ...]:
    """A restore in plain values."""
    contents: Contents = {}
    marks: dict[str, tuple[int, int, int]] = {}
    for name, saved in restored.operators.items():
        marks[name] = (saved.watermark, saved.input_watermark, len(saved.tasks))
        for number, task in enumerate(saved.tasks):
            contents |= {(name, number, table): rows for table, rows in _plain(task).items()}
    return (
        restored.epoch, restored.processing_time, restored.plan, marks, contents, restored.sources, restored.sinks,
        restored.finished,
    )  # fmt: skip


def _plain(task: TaskState) -> dict[str, list[dict[str, Any]]]:
    for name, batch in task.items():
        assert batch.schema.names == [SLOT, *(n for n, _ in TABLES[name])]
        assert batch.schema.types[1:] == [t for _, t in TABLES[name]]
    return {name: batch.sort_by(SLOT).to_pylist() for name, batch in task.items()}


def _listed(table: str, rows: dict[int, Row]) -> list[dict[str, Any]]:
    return changes(table, dict(sorted(rows.items()))).rows.to_pylist()
