"""Temporal joins against DuckDB's ASOF meaning: each row with the newest version of its key that is not newer than
it."""

from __future__ import annotations

import datetime as dt
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from join_drive import Rejected, answer, at, batch_of, context, joined, leaf, rows_of

from runtime.core.changelog import (
    APPEND,
    DELETE,
    INSERT,
    RETRACT,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    ChangelogBatch,
    ChangelogMode,
)
from runtime.core.clock import MAX_WATERMARK, MIN_WATERMARK
from runtime.core.schema import Schema
from runtime.core.types import BIGINT, BOOLEAN, STRING, timestamp
from runtime.expr.nodes import Call, InputRef
from runtime.operators.temporal_join import TemporalJoinOperator
from runtime.plan.nodes import JoinKind, TemporalJoinExec

ORDERS = Schema.of(("id", BIGINT), ("k", STRING), ("t", timestamp(3)))
RATES = Schema.of(("rk", STRING), ("rate", BIGINT), ("rt", timestamp(3)))
LESS = Call("<", (InputRef(0, BIGINT), InputRef(4, BIGINT)), BOOLEAN)
UPSERT = ChangelogMode(update_after=True, delete=True)
LAG = 4


def when(ms: int) -> dt.datetime:
    return dt.datetime(1970, 1, 1) + dt.timedelta(milliseconds=ms)


def operator(
    kind: JoinKind,
    left: ChangelogMode = APPEND,
    right: ChangelogMode = UPSERT,
    *,
    condition: bool = False,
    rejected: Rejected | None = None,
) -> TemporalJoinOperator:
    node = TemporalJoinExec(
        leaf(ORDERS, left),
        leaf(RATES, right),
        kind,
        (1,),
        (0,),
        2,
        2,
        LESS if condition else None,
        joined(ORDERS, RATES),
        left,
    )
    return TemporalJoinOperator(node, context(rejected))


def fold(into: Counter, output: ChangelogBatch | None) -> None:
    if output is not None:
        for sign, row in zip(output.signs().tolist(), rows_of(output.columns), strict=True):
            into[row] += sign
            assert into[row] >= 0
            if not into[row]:
                del into[row]


def expected(kind: JoinKind, orders: list, versions: list, watermark: int, condition: bool) -> Counter:
    """Versions are (key, rate, time, deleted), the later of two at one time last."""
    left = pa.table([pa.array([r[i] for r in orders], f.type.arrow) for i, f in enumerate(ORDERS)], names=ORDERS.names)
    columns = [pa.array([v[i] for v in versions], f.type.arrow) for i, f in enumerate(RATES)]
    right = pa.table(
        [*columns, pa.array([v[3] for v in versions], pa.bool_()), pa.array(range(len(versions)))],
        names=[*RATES.names, "gone", "seq"],
    )
    sql = f"""
        SELECT l.*, CASE WHEN ok THEN rk END, CASE WHEN ok THEN rate END, CASE WHEN ok THEN rt END FROM (
            SELECT l.*, v.*, NOT gone {"AND l.id < v.rate" if condition else ""} AS ok,
            FROM (SELECT *, row_number() OVER () AS n FROM l WHERE epoch_ms(t) <= {watermark}) l LEFT JOIN r v ON k =
            rk AND rt <= t QUALIFY row_number() OVER (PARTITION BY n ORDER BY rt DESC NULLS LAST, seq DESC) = 1
        ) l {"WHERE ok" if kind is JoinKind.INNER else ""}"""
    found = answer(sql.replace("SELECT l.*, CASE", "SELECT id, k, t, CASE"), l=left, r=right)
    return found


@pytest.mark.parametrize("mode", [UPSERT, APPEND, RETRACT], ids=["upsert", "append", "retract"])
@pytest.mark.parametrize("kind", [JoinKind.INNER, JoinKind.LEFT], ids=lambda k: k.value)
def test_equals_batch_answer(kind: JoinKind, mode: ChangelogMode) -> None:
    for seed in range(5):
        rng = np.random.default_rng(seed)
        condition = seed == 4
        join = operator(kind, right=mode, condition=condition)
        orders: list = []
        versions: list = []
        current: dict = {}
        newest = [0, 0]
        previous = MIN_WATERMARK
        result: Counter = Counter()
        for epoch in range(10):
            left, right = [], []
            for _ in range(int(rng.integers(0, 5))):
                ms = max(0, newest[0] + int(rng.integers(-LAG + 1, 6)))
                newest[0] = max(newest[0], ms)
                orders.append((int(rng.integers(5)), (None, "a", "b", "c")[int(rng.integers(4))], when(ms)))
                left.append((INSERT, orders[-1]))
            for _ in range(int(rng.integers(0, 5))):
                # Versions of a key come in order of time, so that a changelog can be told.
                newest[1] += int(rng.integers(0, 4))
                key = ("a", "b", "c")[int(rng.integers(3))]
                row = (key, int(rng.integers(6)), when(newest[1]))
                old = current.get(key)
                gone = mode is not APPEND and old is not None and rng.random() < 0.3
                versions.append((*row, gone))
                if gone:
                    right.append((DELETE, row))
                    current.pop(key)
                else:
                    right += [(UPDATE_BEFORE, old)] if mode is RETRACT and old is not None else []
                    right.append((INSERT if old is None or mode is APPEND else UPDATE_AFTER, row))
                    current[key] = row
            watermark = MAX_WATERMARK if epoch == 9 else max(previous, min(newest[0] - LAG, newest[1] - 1))
            fold(result, join.step([batch_of(ORDERS, left), batch_of(RATES, right)], at(epoch, watermark, previous)))
            known = 2**60 if watermark == MAX_WATERMARK else watermark
            assert result == expected(kind, orders, versions, known, condition), f"seed {seed} epoch {epoch}"
            previous = watermark
        # At the end only the last version of each key is kept.
        assert join.state_size.rows == len(current)


@pytest.mark.parametrize("kind", [JoinKind.INNER, JoinKind.LEFT], ids=lambda k: k.value)
def test_rows_taken_back_leave_with_the_version_they_came_with(kind: JoinKind) -> None:
    for seed in range(6):
        rng = np.random.default_rng(seed)
        join = operator(kind, left=RETRACT)
        live: Counter = Counter()
        versions: list = []
        result: Counter = Counter()
        previous = MIN_WATERMARK
        for epoch in range(12):
            left, right = [], []
            for _ in range(int(rng.integers(0, 5))):
                if live and rng.random() < 0.5:
                    row = list(live)[int(rng.integers(len(live)))]
                    live[row] -= 1
                    live += Counter()
                    left.append((DELETE, row))
                else:
                    # Never late when they come, but taken back at any time.
                    row = (
                        int(rng.integers(3)),
                        ("a", "b")[int(rng.integers(2))],
                        when(max(previous, 0) + int(rng.integers(1, 9))),
                    )
                    live[row] += 1
                    left.append((INSERT, row))
            for _ in range(int(rng.integers(0, 3))):
                gone = rng.random() < 0.2
                row = (
                    ("a", "b")[int(rng.integers(2))],
                    int(rng.integers(9)),
                    when(max(previous, 0) + int(rng.integers(1, 6))),
                )
                right.append((DELETE if gone else UPDATE_AFTER, row))
                versions.append((*row, gone))
            watermark = max(previous, 0) + int(rng.integers(0, 5)) if epoch < 11 else MAX_WATERMARK
            fold(result, join.step([batch_of(ORDERS, left), batch_of(RATES, right)], at(epoch, watermark, previous)))
            assert result == expected(kind, list(live.elements()), versions, min(watermark, 2**60), False), (
                f"seed {seed} epoch {epoch}"
            )
            previous = watermark


def test_late_rows_are_answered_while_their_version_is_known_and_rejected_afterwards() -> None:
    rejected = Rejected()
    join = operator(JoinKind.LEFT, rejected=rejected)
    rates = [(INSERT, ("a", 1, when(10))), (UPDATE_AFTER, ("a", 2, when(50))), (INSERT, ("b", 7, when(60)))]
    assert join.step([None, batch_of(RATES, rates)], at(0, 55)) is None
    late = [
        (INSERT, (1, "a", when(52))),
        (INSERT, (2, "a", when(20))),
        (INSERT, (3, "b", when(20))),
        (INSERT, (4, "c", when(20))),
    ]
    output = join.step([batch_of(ORDERS, late), None], at(1, 55, 55))
    assert output is not None
    assert list(zip(output.column(0).to_pylist(), output.column(4).to_pylist(), strict=True)) == [
        (3, None),
        (4, None),
        (1, 2),
    ]
    assert rejected.rows == [(2, "a", when(20))]


def test_a_late_version_does_not_change_what_a_taken_back_row_came_with() -> None:
    join = operator(JoinKind.LEFT, left=RETRACT)
    row = (1, "a", when(40))
    first = join.step([batch_of(ORDERS, [(INSERT, row)]), batch_of(RATES, [(INSERT, ("a", 1, when(10)))])], at(0, 50))
    assert first is not None and first.column(4).to_pylist() == [1]
    assert join.step([None, batch_of(RATES, [(UPDATE_AFTER, ("a", 2, when(30)))])], at(1, 50, 50)) is None
    back = join.step([batch_of(ORDERS, [(DELETE, row), (INSERT, (2, "a", when(60)))]), None], at(2, 60, 50))
    assert back is not None
    assert list(zip(back.signs().tolist(), back.column(4).to_pylist(), strict=True)) == [(-1, 1), (1, 2)]


def test_a_delete_by_key_alone_holds_from_the_watermark_it_met() -> None:
    join = operator(JoinKind.LEFT, right=ChangelogMode(update_after=True, delete=True, key_only_deletes=True))
    join.step([None, batch_of(RATES, [(INSERT, ("a", 1, when(10)))])], at(0, 20))
    join.step([None, batch_of(RATES, [(DELETE, ("a", None, None))])], at(1, 20, 20))
    output = join.step([batch_of(ORDERS, [(INSERT, (1, "a", when(30)))]), None], at(2, 40, 20))
    assert output is not None and output.column(4).to_pylist() == [None]
