"""OVER against naive Python: every frame by hand, after every epoch."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from aggregate_harness import Rejected, batch, call, context, fold, source, time

from runtime.core.changelog import APPEND, RETRACT
from runtime.core.clock import MAX_WATERMARK, MIN_WATERMARK
from runtime.core.schema import Schema
from runtime.core.types import BIGINT, DOUBLE, INT, STRING, TimeAttribute, timestamp
from runtime.expr.nodes import Frame, FrameBound, FrameExclusion
from runtime.operators.over_aggregate import OverAggregateOperator
from runtime.plan.nodes import AggregateSpec, OverAggregateExec, SortSpec

P, C, F = FrameBound.PRECEDING, FrameBound.CURRENT_ROW, FrameBound.FOLLOWING
START, END = FrameBound.UNBOUNDED_PRECEDING, FrameBound.UNBOUNDED_FOLLOWING
SCHEMA = Schema.of(
    ("k", STRING),
    ("v", INT),
    ("d", DOUBLE),
    ("s", STRING),
    ("ts", timestamp(3, TimeAttribute.ROWTIME)),
    ("one", INT),
    ("two", INT),
)
Row = tuple[Any, ...]


def window(name: str, type_: Any, *args: int) -> AggregateSpec:
    return AggregateSpec(name, args, tuple(SCHEMA[i].type for i in args), type_)


def aggregates() -> list[AggregateSpec]:
    return [
        call(SCHEMA, "COUNT"),
        call(SCHEMA, "SUM", 1),
        call(SCHEMA, "AVG", 2),
        call(SCHEMA, "MIN", 1),
        call(SCHEMA, "MAX", 3),
        call(SCHEMA, "FIRST_VALUE", 1),
        call(SCHEMA, "LAST_VALUE", 3),
        call(SCHEMA, "COUNT", 3, distinct=True),
        call(SCHEMA, "MAX", 2),
        window("NTH_VALUE", INT, 1, 6),
        window("FIRST_VALUE_RESPECT_NULLS", STRING, 3),
        window("LAST_VALUE_RESPECT_NULLS", DOUBLE, 2),
    ]


def frame_answers(rows: list[Row]) -> tuple[Any, ...]:
    v, d, s = ([r[i] for r in rows if r[i] is not None] for i in (1, 2, 3))
    return (
        len(rows),
        sum(v) if v else None,
        sum(d) / len(d) if d else None,
        min(v, default=None),
        max(s, default=None),
        v[0] if v else None,
        s[-1] if s else None,
        len(set(s)),
        max(d, default=None),
        rows[1][1] if len(rows) > 1 else None,
        rows[0][3] if rows else None,
        rows[-1][2] if rows else None,
    )


def naive(rows: list[Row], frame: Frame | None, key: Any, peers: bool = True) -> list[list[Row]]:
    """The frame of each row of one partition, sorted by `key` already."""
    frames = []
    if frame is not None and frame.groups:
        numbers = {k: n for n, k in enumerate(dict.fromkeys(map(key, rows)))}
        return naive(rows, frame.with_(groups=False), lambda row: numbers[key(row)])
    exclude = None if frame is None else frame.exclude
    for i, row in enumerate(rows):

        def inside(j: int, other: Row, i: int = i, row: Row = row) -> bool:
            if frame is None:
                return j <= i or (peers and key(other) == key(row))
            low, high = frame.lower_offset or 0, frame.upper_offset or 0
            if frame.rows:
                a = {START: -(10**9), P: i - low, C: i, F: i + low}[frame.lower]
                b = {END: 10**9, P: i - high, C: i, F: i + high}[frame.upper]
                return a <= j <= b
            if key(row) is None or key(other) is None:
                null = key(row) is None and key(other) is None
                return (
                    null or (key(row) is not None and frame.lower is START) or (key(row) is None and frame.upper is END)
                )
            a = {START: -(10**9), P: key(row) - low, C: key(row), F: key(row) + low}[frame.lower]
            b = {END: 10**9, P: key(row) - high, C: key(row), F: key(row) + high}[frame.upper]
            return a <= key(other) <= b

        def left_out(j: int, other: Row, i: int = i, row: Row = row) -> bool:
            if exclude is FrameExclusion.CURRENT_ROW:
                return j == i
            equal = exclude is not None and key(other) == key(row)
            return equal and (exclude is FrameExclusion.GROUP or j != i)

        frames.append([other for j, other in enumerate(rows) if inside(j, other) and not left_out(j, other)])
    return frames


def moment(t: int) -> Any:
    return np.datetime64(t, "ms").astype("datetime64[us]").item()


def random_row(rng: np.random.Generator, t: int) -> Row:
    def maybe(value: Any) -> Any:
        return None if rng.random() < 0.2 else value

    return (
        "ab"[rng.integers(2)],
        maybe(int(rng.integers(-9, 9))),
        maybe(float(rng.integers(-8, 8)) / 4),
        maybe("xyz"[rng.integers(3)]),
        moment(t),
        int(rng.integers(1, 4)),
        2,
    )


def node(
    calls: list[AggregateSpec], frame: Frame | None, order: tuple[SortSpec, ...], retract: bool, **options: Any
) -> OverAggregateExec:
    columns = [(f.name, f.type) for f in SCHEMA] + [(f"a{n}", c.type) for n, c in enumerate(calls)]
    mode = APPEND if options.get("rowtime") or options.get("proctime") else RETRACT
    return OverAggregateExec(
        source(SCHEMA, retract),
        (0,),
        order,
        frame,
        tuple(calls),
        schema=Schema.of(*columns),
        mode=mode,
        **{"rowtime": False, "proctime": False, **options},
    )


TIME_FRAMES = [
    None,
    Frame(True, START, C),
    Frame(True, P, C, 2),
    Frame(False, P, C, 6),
    Frame(True, C, C),
    Frame(True, P, P, 3, 1),
    Frame(True, START, C, exclude=FrameExclusion.CURRENT_ROW),
    Frame(False, P, C, 6, exclude=FrameExclusion.TIES),
    Frame(False, P, F, 3, 2),
    Frame(False, F, F, 1, 4, exclude=FrameExclusion.GROUP),
    Frame(False, START, F, None, 3, exclude=FrameExclusion.TIES),
    Frame(False, C, END),
    Frame(True, P, F, 1, 2),
    Frame(True, F, F, 1, 2),
    Frame(True, START, F, None, 1, exclude=FrameExclusion.GROUP),
    Frame(True, C, END, exclude=FrameExclusion.CURRENT_ROW),
    Frame(False, P, C, 2, groups=True),
    Frame(False, P, F, 1, 1, groups=True, exclude=FrameExclusion.TIES),
    Frame(False, F, F, 1, 2, groups=True),
]


def whole(item: tuple[int, int, Row], mine: list[tuple[int, int, Row]], frame: Frame | None, watermark: int) -> bool:
    """Whether an event-time frame has all its rows."""
    if item[0] > watermark:
        return False
    if frame is None or watermark == MAX_WATERMARK or frame.upper not in (F, END):
        return True
    if frame.upper is END or frame.upper_offset is None:
        return False
    later = [t for t, n, _ in mine if (t, n) > item[:2] and t <= watermark]
    if frame.rows:
        return len(later) >= frame.upper_offset
    if frame.groups:
        return len({t for t in later if t > item[0]}) >= frame.upper_offset
    return item[0] + frame.upper_offset <= watermark


@pytest.mark.parametrize("frame", TIME_FRAMES, ids=str)
@pytest.mark.parametrize("collect", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_event_time(frame: Frame | None, collect: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    calls = aggregates()
    if collect:
        calls.append(call(SCHEMA, "LISTAGG", 3))
    if frame is None or frame.lower is START:
        calls += [window("ROW_NUMBER", BIGINT), window("LAG", INT, 1), window("LAG", INT, 1, 5, 5)]
    rejected = Rejected()
    operator = OverAggregateOperator(node(calls, frame, (SortSpec(4),), False, rowtime=True), context(rejected))
    accepted: list[tuple[int, int, Row]] = []
    given: list[Row] = []
    shown: list[Row] = []
    done: set[int] = set()
    held = MIN_WATERMARK
    watermark, clock, late, arrival = MIN_WATERMARK, 0, 0, 0
    for epoch in range(14):
        clock += int(rng.integers(0, 8))
        rows = []
        for _ in range(int(rng.integers(0, 9))):
            t = clock + int(rng.integers(-8, 6))
            rows.append(random_row(rng, t))
            arrival += 1
            if t > watermark:
                accepted.append((t, arrival, rows[-1]))
            else:
                late += 1
        previous, watermark = watermark, max(watermark, clock - 5) if epoch < 13 else MAX_WATERMARK
        output = operator.step([batch(SCHEMA, rows) if rows else None], time(epoch, watermark, previous))
        if output is not None:
            assert output.kinds is None
            given.extend(tuple(r.values()) for r in output.rows.to_pylist())
        accepted.sort(key=lambda item: item[:2])
        wanted: dict[int, Row] = {}
        now: list[tuple[int, int]] = []
        for key in "ab":
            mine = [item for item in accepted if item[2][0] == key]
            members = [item[2] for item in mine]
            now += [item[:2] for item in mine if item[1] not in done and whole(item, mine, frame, watermark)]
            for i, framed in enumerate(
                naive(members, frame, lambda r: round((r[4] - moment(0)).total_seconds() * 1000))
            ):
                extra: tuple[Any, ...] = ()
                if collect:
                    extra = (",".join(r[3] for r in framed if r[3] is not None) or None,)
                if frame is None or frame.lower is START:
                    back = i - members[i][5]
                    extra += (i + 1, members[i - 1][1] if i else None, members[back][1] if back >= 0 else members[i][5])
                wanted[mine[i][1]] = (*members[i], *frame_answers(framed), *extra)
        assert operator.output_watermark(time(epoch, watermark, previous)) <= watermark
        assert all(t > held for t, _ in now)
        held = operator.output_watermark(time(epoch, watermark, previous))
        done |= {n for _, n in now}
        shown += [wanted[n] for _, n in sorted(now)]
        assert given == shown
    assert len(done) == len(accepted)
    assert sum(len(rows) for _, rows in rejected.rows) == late
    if frame is not None and frame.lower is not START and not (frame.upper is END and frame.rows):
        assert operator.state_size.rows <= 8


def test_bounded_frames_keep_only_rows_that_are_still_reached() -> None:
    for frame, most in ((Frame(True, P, C, 2), 4), (Frame(False, P, C, 10), 12)):
        operator = OverAggregateOperator(
            node([call(SCHEMA, "SUM", 1)], frame, (SortSpec(4),), False, rowtime=True), context()
        )
        for epoch in range(20):
            rows = [("a", 1, None, None, moment(epoch * 10 + i), 1, 2) for i in range(10)]
            operator.step([batch(SCHEMA, rows)], time(epoch, epoch * 10 + 9, epoch * 10 - 1))
            assert operator.state_size.rows <= most


def test_processing_time_comes_out_at_once() -> None:
    calls = [call(SCHEMA, "SUM", 1), window("ROW_NUMBER", BIGINT)]
    operator = OverAggregateOperator(node(calls, None, (SortSpec(4),), False, proctime=True), context())
    shown: list[Any] = []
    for epoch in range(3):
        rows = [(k, v, None, None, None, 1, 2) for k, v in (("a", 1), ("b", 10), ("a", 2))]
        output = operator.step([batch(SCHEMA, rows)], time(epoch, now=epoch))
        assert output is not None
        shown += [(r["k"], r["a0"], r["a1"]) for r in output.rows.to_pylist()]
    assert shown == [
        ("a", 1, 1),
        ("b", 10, 1),
        ("a", 3, 2),
        ("a", 4, 3),
        ("b", 20, 2),
        ("a", 6, 4),
        ("a", 7, 5),
        ("b", 30, 3),
        ("a", 9, 6),
    ]


ANY_FRAMES = [
    None,
    Frame(True, START, C),
    Frame(True, P, F, 1, 2),
    Frame(False, P, C, 3),
    Frame(False, P, F, 2, 1),
    Frame(False, START, END),
    Frame(True, F, F, 1, 2),
    Frame(False, C, END),
    Frame(True, START, C, exclude=FrameExclusion.CURRENT_ROW),
    Frame(True, P, F, 2, 2, exclude=FrameExclusion.GROUP),
    Frame(True, START, END, exclude=FrameExclusion.TIES),
    Frame(False, P, F, 2, 3, exclude=FrameExclusion.TIES),
    Frame(False, START, C, exclude=FrameExclusion.GROUP),
    Frame(False, P, F, 1, 1, groups=True),
    Frame(False, F, F, 1, 2, groups=True, exclude=FrameExclusion.CURRENT_ROW),
]


@pytest.mark.parametrize("frame", ANY_FRAMES, ids=str)
@pytest.mark.parametrize("resumed", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_any_order_with_updates(frame: Frame | None, resumed: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    calls = [*aggregates(), window("RANK", BIGINT), window("DENSE_RANK", BIGINT), window("ROW_NUMBER", BIGINT)]
    if resumed:
        # Without DISTINCT and the functions that look ahead only what follows a change is computed anew.
        calls[7] = call(SCHEMA, "VAR_POP", 1)
    else:
        calls += [
            window("PERCENT_RANK", DOUBLE),
            window("CUME_DIST", DOUBLE),
            window("LEAD", INT, 5),
            window("NTILE", BIGINT, 5),
        ]
    operator = OverAggregateOperator(node(calls, frame, (SortSpec(1),), True), context())
    live: Counter[str] = Counter()
    rows: list[Row] = []
    for epoch in range(12):
        changes: list[Row] = []
        signs: list[int] = []
        for _ in range(int(rng.integers(0, 8))):
            if rows and rng.random() < 0.4:
                # The oldest equal row goes.
                changes.append(rows.pop(rows.index(rows[rng.integers(len(rows))])))
                signs.append(-1)
            else:
                # Parts of NTILE are one number for all rows, as SQL asks.
                changes.append((*random_row(rng, 0)[:5], 2, 2))
                signs.append(1)
                rows.append(changes[-1])
        fold(live, operator.step([batch(SCHEMA, changes, signs) if changes else None], time(epoch)))
        wanted: Counter[str] = Counter()
        for key in "ab":
            members = sorted((r for r in rows if r[0] == key), key=lambda r: (r[1] is not None, r[1] or 0))
            values = [r[1] for r in members]
            size = len(members)
            for i, framed in enumerate(naive(members, frame, lambda r: r[1])):
                rank, last = values.index(values[i]), size - 1 - values[::-1].index(values[i])
                ordered = list(dict.fromkeys(values))
                half = (size + 1) // 2
                found = list(frame_answers(framed))
                numbers = [r[1] for r in framed if r[1] is not None]
                if resumed:
                    # Flink's integer variance: every division is cut.
                    n = len(numbers)
                    found[7] = (sum(x * x for x in numbers) - sum(numbers) ** 2 // n) // n if n else None
                found += [rank + 1, ordered.index(values[i]) + 1, i + 1]
                if not resumed:
                    found += [
                        rank / (size - 1) if size > 1 else 0.0,
                        (last + 1) / size,
                        members[i + 1][5] if i + 1 < size else None,
                        1 if i < half else 2,
                    ]
                wanted[repr((*members[i], *found))] += 1
        assert live == wanted
    assert operator.state_size.rows == len(rows)


def test_only_changed_rows_are_sent_again() -> None:
    operator = OverAggregateOperator(node([call(SCHEMA, "SUM", 1)], None, (SortSpec(5),), True), context())
    rows = [("a", v, None, None, None, n, 2) for n, v in enumerate((1, 2, 3))]
    operator.step([batch(SCHEMA, rows)], time(0))
    output = operator.step([batch(SCHEMA, [rows[1], ("a", 7, None, None, None, 1, 2)], [-1, 1])], time(1))
    assert output is not None
    shown = [
        (k, r["one"], r["a0"]) for k, r in zip(output.kinds_or_inserts().tolist(), output.rows.to_pylist(), strict=True)
    ]
    assert shown == [(3, 1, 3), (1, 2, 6), (2, 2, 11), (0, 1, 8)]


def test_without_an_order_the_frame_is_the_whole_partition() -> None:
    operator = OverAggregateOperator(node([call(SCHEMA, "COUNT"), call(SCHEMA, "MAX", 1)], None, (), True), context())
    rows = [(k, v, None, None, None, 1, 2) for k, v in (("a", 4), ("b", 5), ("a", 6))]
    live: Counter[str] = Counter()
    fold(live, operator.step([batch(SCHEMA, rows)], time(0)))
    assert live == Counter(repr((*r, *v)) for r, v in zip(rows, ((2, 6), (1, 5), (2, 6)), strict=True))
    fold(live, operator.step([batch(SCHEMA, rows[2:], [-1])], time(1)))
    assert live == Counter(repr((*r, *v)) for r, v in zip(rows, ((1, 4), (1, 5)), strict=False))


def test_a_change_at_the_end_sends_only_what_follows_it() -> None:
    operator = OverAggregateOperator(
        node([call(SCHEMA, "SUM", 2), window("RANK", BIGINT)], None, (SortSpec(1),), True), context()
    )
    operator.step([batch(SCHEMA, [("a", n, 1.0, None, None, 1, 2) for n in range(1000)])], time(0))
    output = operator.step([batch(SCHEMA, [("a", 998, 0.5, None, None, 1, 2)])], time(1))
    assert output is not None
    shown = [
        (k, r["v"], r["a0"], r["a1"])
        for k, r in zip(output.kinds_or_inserts().tolist(), output.rows.to_pylist(), strict=True)
    ]
    assert shown == [
        (1, 998, 999.0, 999),
        (2, 998, 999.5, 999),
        (1, 999, 1000.0, 1000),
        (2, 999, 1000.5, 1001),
        (0, 998, 999.5, 999),
    ]
