"""Window joins against DuckDB, window by window as they close."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest
from join_drive import Folded, Rejected, answer, at, batch_of, context, in_pieces, joined, leaf

from runtime.core.changelog import APPEND, INSERT
from runtime.core.clock import MAX_WATERMARK, MIN_WATERMARK
from runtime.core.schema import Schema
from runtime.core.types import BIGINT, BOOLEAN, STRING, timestamp
from runtime.expr.nodes import Call, InputRef
from runtime.operators.window_join import WindowJoinOperator
from runtime.plan.nodes import JoinKind, WindowJoinExec

LEFT = Schema.of(("id", BIGINT), ("k", STRING), ("ws", timestamp(3)), ("we", timestamp(3)))
RIGHT = Schema.of(("rid", BIGINT), ("rk", STRING), ("rws", timestamp(3)), ("rwe", timestamp(3)))
LESS = Call("<", (InputRef(0, BIGINT), InputRef(4, BIGINT)), BOOLEAN)
SQL = {
    JoinKind.INNER: "SELECT * FROM l JOIN r ON {0}",
    JoinKind.LEFT: "SELECT * FROM l LEFT JOIN r ON {0}",
    JoinKind.RIGHT: "SELECT * FROM l RIGHT JOIN r ON {0}",
    JoinKind.FULL: "SELECT * FROM l FULL JOIN r ON {0}",
    JoinKind.SEMI: "SELECT * FROM l WHERE EXISTS (SELECT 1 FROM r WHERE {0})",
    JoinKind.ANTI: "SELECT * FROM l WHERE NOT EXISTS (SELECT 1 FROM r WHERE {0})",
}


def when(ms: int) -> dt.datetime:
    return dt.datetime(1970, 1, 1) + dt.timedelta(milliseconds=ms)


def operator(
    kind: JoinKind,
    *,
    null_safe: bool = False,
    condition: bool = False,
    zone: str | None = None,
    proctime: bool = False,
    rejected: Rejected | None = None,
    piece: int | None = None,
) -> WindowJoinOperator:
    schema = LEFT if kind.left_only else joined(LEFT, RIGHT)
    node = WindowJoinExec(
        leaf(LEFT),
        leaf(RIGHT),
        kind,
        (1,),
        (1,),
        (null_safe,),
        (2, 3),
        (2, 3),
        zone,
        LESS if condition else None,
        schema,
        APPEND,
        proctime,
    )
    return WindowJoinOperator(node, context(rejected, piece))


@pytest.mark.parametrize("null_safe", [False, True], ids=["equal", "null-safe"])
@pytest.mark.parametrize("kind", list(JoinKind), ids=lambda k: k.value)
def test_equals_batch_answer_of_closed_windows(kind: JoinKind, null_safe: bool) -> None:
    for seed in range(3):
        rng = np.random.default_rng(seed)
        condition = seed == 1
        # Of the first seed no batch has more than two rows.
        join = operator(kind, null_safe=null_safe, condition=condition, piece=2 if seed == 0 else None)
        rows: tuple[list, list] = ([], [])
        previous, folded = MIN_WATERMARK, Folded()
        for epoch in range(8):
            batches = []
            for side, schema in enumerate((LEFT, RIGHT)):
                new = []
                for _ in range(int(rng.integers(0, 6))):
                    first = max(previous, 0) // 10
                    window = first + int(rng.integers(3))
                    end = (window + 1) * 10
                    if end - 1 > previous:
                        new.append(
                            (int(rng.integers(4)), (None, "a", "b")[int(rng.integers(3))], when(end - 10), when(end))
                        )
                rows[side].extend(new)
                batches.append(batch_of(schema, [(INSERT, r) for r in new]))
            watermark = MAX_WATERMARK if epoch == 7 else max(previous, 0) + int(rng.integers(0, 15))
            time = at(epoch, watermark, previous)
            output = in_pieces(join, batches, time, 2) if seed == 0 else join.step(batches, time)
            assert output is None or output.kinds is None
            folded.add(output)
            known = 2**60 if watermark == MAX_WATERMARK else watermark
            tables = []
            for side, schema in enumerate((LEFT, RIGHT)):
                closed = [r for r in rows[side] if (r[3] - when(0)) / dt.timedelta(milliseconds=1) - 1 <= known]
                tables.append(
                    pa.table(
                        [pa.array([r[i] for r in closed], f.type.arrow) for i, f in enumerate(schema)],
                        names=schema.names,
                    )
                )
            equal = "IS NOT DISTINCT FROM" if null_safe else "="
            on = f"k {equal} rk AND ws = rws AND we = rwe" + (" AND id < rid" if condition else "")
            assert folded.rows == answer(SQL[kind].format(on), l=tables[0], r=tables[1])
            previous = watermark
        assert join.state_size.rows == 0


def test_rows_of_closed_windows_are_rejected() -> None:
    rejected = Rejected()
    join = operator(JoinKind.LEFT, rejected=rejected)
    row = (1, "a", when(0), when(10))
    assert join.step([batch_of(LEFT, [(INSERT, row)]), None], at(0, 9, 9)) is None
    assert rejected.rows == [row]
    assert join.step([batch_of(LEFT, [(INSERT, row)]), None], at(0, 8, 8)) is None
    output = join.step([None, None], at(1, 9, 8))
    assert output is not None and output.column(0).to_pylist() == [1]


def test_windows_of_a_zone_close_at_the_instant_of_their_last_millisecond() -> None:
    # The times between 02:00 and 03:00 do not exist in Berlin that night: such a window closes when the clock jumps.
    join = operator(JoinKind.LEFT, zone="Europe/Berlin")
    row = (1, "a", dt.datetime(2024, 3, 31, 1, 30), dt.datetime(2024, 3, 31, 2, 30))
    jump = int(dt.datetime(2024, 3, 31, 1, tzinfo=dt.UTC).timestamp() * 1000)
    assert join.step([batch_of(LEFT, [(INSERT, row)]), None], at(0, jump - 1, 0)) is None
    assert join.step([None, None], at(1, jump, jump - 1)) is not None


def test_windows_of_processing_time_close_by_the_clock() -> None:
    join = operator(JoinKind.LEFT, proctime=True)
    rows = [(INSERT, (1, "a", when(0), when(10)))]
    assert join.step([batch_of(LEFT, rows), None], at(0, clock=9)) is None
    assert join.step([None, batch_of(RIGHT, rows)], at(1, clock=9)) is None
    output = join.step([None, None], at(2, clock=10))
    assert output is not None and output.column(4).to_pylist() == [1]
