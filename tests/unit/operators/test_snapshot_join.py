"""The join with a snapshot against a naive model, thrown away between epochs and made anew."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from aggregate_harness import context, source
from restart_harness import Twins

from runtime.core.changelog import APPEND, DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, ChangelogBatch
from runtime.core.clock import MAX_WATERMARK, MIN_WATERMARK
from runtime.core.schema import Schema
from runtime.core.types import BIGINT, BOOLEAN, STRING, TimeAttribute, timestamp
from runtime.expr.library import builtin_functions
from runtime.expr.nodes import Call, InputRef
from runtime.operators.operator import EpochTime
from runtime.operators.snapshot_join import SnapshotJoinOperator
from runtime.plan.nodes import JoinKind, SnapshotJoinExec
from runtime.plan.parts import SnapshotLoad

LEFT = Schema.of(("id", BIGINT), ("k", STRING))
RIGHT = Schema.of(("rk", STRING), ("v", BIGINT), ("at", timestamp(3, TimeAttribute.ROWTIME)))
LESS = Call("<", (InputRef(0, BIGINT), InputRef(3, BIGINT)), BOOLEAN)
KEYS = ["a", "b", "c", None]

Row = tuple[Any, ...]


def made(kind: JoinKind, load: SnapshotLoad, condition: bool, retract: bool) -> SnapshotJoinOperator:
    nullable = [(f.name, f.type.with_nullable(True)) for f in RIGHT]
    schema = Schema.of(*((f.name, f.type) for f in LEFT), *nullable)
    node = SnapshotJoinExec(
        source(LEFT), source(RIGHT, retract), kind, (1,), (0,), 2, load, LESS if condition else None, schema, APPEND
    )
    return SnapshotJoinOperator(node, replace(context(), functions=builtin_functions()))


def moment(ms: int) -> Any:
    return np.datetime64(ms, "ms").astype("datetime64[us]").item()


def batch(schema: Schema, rows: list[Row], kinds: list[int] | None = None) -> ChangelogBatch | None:
    if not rows:
        return None
    codes = None if kinds is None else np.array(kinds, np.int8)
    columns = [pa.array([row[i] for row in rows], field.type.arrow) for i, field in enumerate(schema)]
    return ChangelogBatch.of(columns, schema, codes)


def changes_of(rng: np.random.Generator, live: list[Row], retract: bool, clock: int) -> tuple[list[Row], list[int]]:
    """Random changes of the right side: rows that come, go, and are updated in place."""
    rows: list[Row] = []
    kinds: list[int] = []
    for _ in range(int(rng.integers(0, 4))):
        row = (KEYS[rng.integers(4)], int(rng.integers(40)), moment(clock + int(rng.integers(-6, 9))))
        if retract and live and rng.random() < 0.5:
            old = live.pop(int(rng.integers(len(live))))
            if rng.random() < 0.5:
                rows.append(old)
                kinds.append(DELETE)
                continue
            row = (old[0], row[1], max(row[2], old[2]))
            rows += [old, row]
            kinds += [UPDATE_BEFORE, UPDATE_AFTER]
        else:
            rows.append(row)
            kinds.append(INSERT)
        live.append(row)
    return rows, kinds


@pytest.mark.parametrize("kind", [JoinKind.INNER, JoinKind.LEFT])
@pytest.mark.parametrize(
    "load", [SnapshotLoad(30, None, None), SnapshotLoad(None, 7, None), SnapshotLoad(60, 25, None)], ids=str
)
@pytest.mark.parametrize(("condition", "retract"), [(False, True), (True, True), (True, False)])
def test_equals_a_naive_model_and_a_restart_changes_nothing(
    kind: JoinKind, load: SnapshotLoad, condition: bool, retract: bool
) -> None:
    rng = np.random.default_rng(len(str(load)) + 2 * condition + retract)
    twins = Twins(lambda: made(kind, load, condition, retract), rng, ordered=False)
    operator = made(kind, load, condition, retract)
    live: list[Row] = []
    pending: list[tuple[Any, int, Row]] = []
    table: Counter[Row] = Counter()
    waiting: list[Row] = []
    loaded, until, moved, last = False, load.until, None, MIN_WATERMARK
    clock, now, number, marks, given_rows = 0, 1000, 0, (MIN_WATERMARK, MIN_WATERMARK), 0
    for epoch in range(40):
        clock += int(rng.integers(0, 4))
        now += int(rng.integers(0, 4))
        left: list[Row] = []
        for _ in range(int(rng.integers(0, 4))):
            left.append((number := number + 1, KEYS[rng.integers(4)]))
        rows, kinds = changes_of(rng, live, retract, clock)
        ends = epoch == 39
        marks = (MAX_WATERMARK, MAX_WATERMARK) if ends else (clock, max(marks[1], clock - 3))
        time = EpochTime(epoch, min(marks), min(marks), now, None, marks)
        inputs = [batch(LEFT, left), batch(RIGHT, rows, kinds if retract else None)]
        twins.step(inputs, time)
        output = operator.step(inputs, time)

        for i, (row, code) in enumerate(zip(rows, kinds, strict=True)):
            at = max(row[2], rows[i + 1][2]) if code == UPDATE_BEFORE else row[2]
            pending.append((at, -1 if code in (UPDATE_BEFORE, DELETE) else 1, row))
        for entry in [p for p in pending if ends or p[0] <= moment(max(marks[1], -100))]:
            pending.remove(entry)
            table[entry[2]] += entry[1]
        if not loaded:
            until = now if until is None else until
            moved = now if moved is None or marks[1] > last else moved
            last = marks[1]
            loaded = marks[1] >= until or (load.idle is not None and now - moved >= load.idle)
        waiting += left
        wanted: Counter[Row] = Counter()
        if loaded:
            for one in waiting:
                found = [
                    r
                    for r, n in table.items()
                    for _ in range(n)
                    if r[0] is not None and r[0] == one[1] and (not condition or one[0] < r[1])
                ]
                wanted.update((*one, *r) for r in found)
                if not found and kind is JoinKind.LEFT:
                    wanted[(*one, None, None, None)] += 1
            waiting = []
        given = Counter() if output is None else Counter(tuple(r.values()) for r in output.rows.to_pylist())
        assert given == wanted, epoch
        assert operator.output_watermark(time) == (marks[0] if loaded else MIN_WATERMARK)
        given_rows += sum(given.values())
    assert given_rows > 10
    assert twins.restarts > 5
