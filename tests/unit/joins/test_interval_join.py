"""Interval joins against DuckDB: with rows in bounded disorder, each epoch gives what can be known at its watermark."""

from __future__ import annotations

import datetime as dt
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from join_drive import Folded, Rejected, answer, at, batch_of, context, in_pieces, joined, leaf

from runtime.core.changelog import APPEND, INSERT
from runtime.core.clock import MAX_WATERMARK, MIN_WATERMARK
from runtime.core.schema import Schema
from runtime.core.types import BIGINT, BOOLEAN, STRING, timestamp
from runtime.expr.nodes import Call, InputRef
from runtime.operators.interval_join import IntervalJoinOperator
from runtime.plan.nodes import IntervalJoinExec, JoinKind

LEFT = Schema.of(("id", BIGINT), ("k", STRING), ("t", timestamp(3)))
RIGHT = Schema.of(("rid", BIGINT), ("rk", STRING), ("rt", timestamp(3)))
LESS = Call("<", (InputRef(0, BIGINT), InputRef(3, BIGINT)), BOOLEAN)
LAG = 4
KINDS = {JoinKind.INNER, JoinKind.LEFT, JoinKind.RIGHT, JoinKind.FULL, JoinKind.SEMI, JoinKind.ANTI}


def when(ms: int) -> dt.datetime:
    return dt.datetime(1970, 1, 1) + dt.timedelta(milliseconds=ms)


def operator(
    kind: JoinKind,
    lower: int,
    upper: int,
    *,
    condition: bool = False,
    proctime: bool = False,
    rejected: Rejected | None = None,
    piece: int | None = None,
) -> IntervalJoinOperator:
    schema = LEFT if kind.left_only else joined(LEFT, RIGHT)
    node = IntervalJoinExec(
        leaf(LEFT),
        leaf(RIGHT),
        kind,
        (1,),
        (1,),
        2,
        2,
        lower,
        upper,
        LESS if condition else None,
        schema,
        APPEND,
        proctime,
    )
    return IntervalJoinOperator(node, context(rejected, piece))


def expected(
    kind: JoinKind, lower: int, upper: int, watermark: int, condition: bool, left: pa.Table, right: pa.Table
) -> Counter:
    on = f"k = rk AND epoch_ms(t) - epoch_ms(rt) BETWEEN {lower} AND {upper}" + (" AND id < rid" if condition else "")
    known_left = f"epoch_ms(t) - {lower} < {watermark} AND NOT EXISTS (SELECT 1 FROM r WHERE {on})"
    known_right = f"epoch_ms(rt) + {upper} < {watermark} AND NOT EXISTS (SELECT 1 FROM l WHERE {on})"
    pairs = f"SELECT * FROM l JOIN r ON {on}"
    lone_left = f" UNION ALL SELECT *, NULL, NULL, NULL FROM l WHERE {known_left}"
    lone_right = f" UNION ALL SELECT NULL, NULL, NULL, * FROM r WHERE {known_right}"
    sql = {
        JoinKind.INNER: pairs,
        JoinKind.LEFT: pairs + lone_left,
        JoinKind.RIGHT: pairs + lone_right,
        JoinKind.FULL: pairs + lone_left + lone_right,
        JoinKind.SEMI: f"SELECT * FROM l WHERE EXISTS (SELECT 1 FROM r WHERE {on})",
        JoinKind.ANTI: f"SELECT * FROM l WHERE {known_left}",
    }[kind]
    return answer(sql, l=left, r=right)


@pytest.mark.parametrize("bounds", [(-5, 3), (0, 0), (2, 6), (-9, -4)], ids=str)
@pytest.mark.parametrize("kind", list(JoinKind), ids=lambda k: k.value)
def test_equals_batch_answer(kind: JoinKind, bounds: tuple[int, int]) -> None:
    for seed in range(3):
        rng = np.random.default_rng(seed)
        condition = seed == 2
        # Of the first seed no batch has more than two rows.
        join = operator(kind, *bounds, condition=condition, piece=2 if seed == 0 else None)
        rows: tuple[list, list] = ([], [])
        newest = [0, 0]
        previous, folded = MIN_WATERMARK, Folded()
        for epoch in range(9):
            batches = []
            for side, schema in enumerate((LEFT, RIGHT)):
                new = []
                for _ in range(int(rng.integers(0, 6))):
                    ms = max(0, newest[side] + int(rng.integers(-LAG + 1, 6)))
                    newest[side] = max(newest[side], ms)
                    key = (None, "a", "b")[int(rng.integers(3))]
                    new.append((int(rng.integers(4)), key, when(ms)))
                rows[side].extend(new)
                batches.append(batch_of(schema, [(INSERT, r) for r in new]))
            watermark = MAX_WATERMARK if epoch == 8 else max(previous, min(newest) - LAG)
            time = at(epoch, watermark, previous)
            output = in_pieces(join, batches, time, 2) if seed == 0 else join.step(batches, time)
            assert output is None or output.kinds is None
            folded.add(output)
            tables = [
                pa.table([pa.array([r[i] for r in side], f.type.arrow) for i, f in enumerate(s)], names=s.names)
                for side, s in zip(rows, (LEFT, RIGHT), strict=True)
            ]
            known = 2**60 if watermark == MAX_WATERMARK else watermark
            assert folded.rows == expected(kind, *bounds, known, condition, *tables), f"seed {seed} epoch {epoch}"
            previous = watermark
        assert join.state_size.rows == 0
        assert len(join._keys) == 0


def test_watermark_is_held_back_by_the_longer_bound() -> None:
    assert operator(JoinKind.LEFT, -600, 100).output_watermark(at(0, 1000)) == 400
    assert operator(JoinKind.LEFT, -1, 700).output_watermark(at(0, 1000)) == 300
    assert operator(JoinKind.LEFT, -600, 100).output_watermark(at(0, MAX_WATERMARK)) == MAX_WATERMARK
    assert operator(JoinKind.LEFT, -600, 100).output_watermark(at(0, MIN_WATERMARK)) == MIN_WATERMARK


def test_a_late_row_still_finds_the_rows_that_wait() -> None:
    join = operator(JoinKind.LEFT, -10, 10)
    assert join.step([None, batch_of(RIGHT, [(INSERT, (7, "a", when(100)))])], at(0, 105)) is None
    output = join.step([batch_of(LEFT, [(INSERT, (1, "a", when(91)))]), None], at(1, 105, 105))
    assert output is not None and output.column(3).to_pylist() == [7]
    lone = join.step([batch_of(LEFT, [(INSERT, (2, "a", when(80)))]), None], at(2, 105, 105))
    assert lone is not None and lone.column(0).to_pylist() == [2] and lone.column(3).to_pylist() == [None]


def test_rows_without_a_time_are_rejected() -> None:
    rejected = Rejected()
    join = operator(JoinKind.LEFT, -10, 10, rejected=rejected)
    assert join.step([batch_of(LEFT, [(INSERT, (1, "a", None))]), None], at(0, MAX_WATERMARK)) is None
    assert rejected.rows == [(1, "a", None)]


def test_processing_time_is_the_time_of_arrival() -> None:
    join = operator(JoinKind.LEFT, -10, 0, proctime=True)
    left = [batch_of(LEFT, [(INSERT, (i, "a", None))]) for i in (1, 2)]
    right = batch_of(RIGHT, [(INSERT, (7, "a", None))])
    assert join.step([left[0], None], at(0, clock=100)) is None
    lone = join.step([left[1], None], at(1, clock=111))
    assert lone is not None and lone.column(0).to_pylist() == [1]
    output = join.step([None, right], at(2, clock=121))
    assert output is not None and (output.column(0).to_pylist(), output.column(3).to_pylist()) == ([2], [7])
    assert join.step([None, None], at(3, clock=200)) is None
    assert join.state_size.rows == 0
