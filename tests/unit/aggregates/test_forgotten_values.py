"""Texts that groups no longer hold are forgotten: state follows what is live, not all that has ever come."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from connectors.memory import MemoryTable
from runtime.core.changelog import DELETE, ChangelogBatch
from runtime.core.schema import Schema
from runtime.core.types import STRING
from runtime.eval.aggregates.distinct import DistinctValues
from runtime.eval.aggregates.extremes import RetractableExtreme
from runtime.eval.aggregates.value_bag import ValueBag

ROWS = 2_000

Change = Callable[[pa.Array, int], None]


def _extreme() -> tuple[Change, Callable[[], int]]:
    state = RetractableExtreme(pa.string(), True)

    def change(values: pa.Array, sign: int) -> None:
        slots = np.arange(len(values)) % 7
        state.update(slots, np.full(len(values), sign, np.int8), [values], np.arange(len(values)))

    return change, lambda: state.nbytes


def _distinct() -> tuple[Change, Callable[[], int]]:
    state = DistinctValues([pa.string()], 1, mergeable=False)

    def change(values: pa.Array, sign: int) -> None:
        slots = np.arange(len(values)) % 7
        state.change(slots, [values], np.arange(len(values)), [np.full(len(values), sign, np.int64)])

    return change, lambda: state.nbytes


def _bag() -> tuple[Change, Callable[[], int]]:
    state = ValueBag([pa.string()], retract=True)

    def change(values: pa.Array, sign: int) -> None:
        state.add(np.arange(len(values)) % 7, np.full(len(values), sign, np.int8), [values], np.arange(len(values)))

    return change, lambda: state.nbytes


def _table() -> tuple[Change, Callable[[], int]]:
    schema = Schema.of(("v", STRING))
    table = MemoryTable("t", schema)

    def change(values: pa.Array, sign: int) -> None:
        kinds = None if sign > 0 else np.full(len(values), DELETE, np.int8)
        table.apply(ChangelogBatch.of([values], schema, kinds))
        table.publish()

    return change, lambda: table.nbytes


@pytest.mark.parametrize("make", [_extreme, _distinct, _bag, _table])
def test_state_does_not_grow_with_values_that_are_gone(make: Callable[[], tuple[Change, Callable[[], int]]]) -> None:
    change, nbytes = make()
    kept = pa.array([f"kept-{n}" for n in range(50)])
    change(kept, 1)
    sizes: list[int] = []
    for epoch in range(60):
        values = pa.array([f"value-{epoch}-{n}" for n in range(ROWS)])
        change(values, 1)
        change(values, -1)
        sizes.append(nbytes())
    assert max(sizes[30:]) <= 1.1 * max(sizes[:30])
    # What stays is still found by its text.
    change(kept, -1)
    change(kept, 1)
    change(kept, -1)
    assert nbytes() <= 1.1 * max(sizes[:30])
