"""Window aggregation against a naive model: every row in every window it falls in, windows closed by the watermark."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from aggregate_harness import Rejected, batch, call, context, source, time

from runtime.core.changelog import APPEND
from runtime.core.clock import MAX_WATERMARK, MIN_WATERMARK
from runtime.core.schema import Schema
from runtime.core.types import BIGINT, INT, STRING, TimeAttribute, timestamp, timestamp_ltz
from runtime.operators.window_aggregate import WindowAggregateOperator
from runtime.operators.window_assign import windows_of
from runtime.plan.nodes import AggregateSpec, WindowAggregateExec, WindowProperty
from runtime.plan.windows import AttachedWindow, CumulateWindow, HopWindow, TumbleWindow, WindowSpec

SCHEMA = Schema.of(("k", STRING), ("v", INT), ("ts", timestamp(3, TimeAttribute.ROWTIME)))
WINDOWS = [
    TumbleWindow(10),
    TumbleWindow(10, 3),
    HopWindow(5, 10),
    HopWindow(4, 12, 1),
    HopWindow(4, 6),
    HopWindow(7, 5),
    CumulateWindow(5, 20),
    CumulateWindow(3, 12, -2),
]
ROW_PROPERTIES = (WindowProperty.START, WindowProperty.END, WindowProperty.TIME)


def node(
    window: WindowSpec,
    calls: list[AggregateSpec],
    retract: bool = False,
    schema: Schema = SCHEMA,
    zone: str | None = None,
    keys: tuple[int, ...] = (0,),
    **options: Any,
) -> WindowAggregateExec:
    time_type = timestamp_ltz(3) if zone else timestamp(3)
    output = [(schema[i].name, schema[i].type) for i in keys] + [(f"a{n}", c.type) for n, c in enumerate(calls)]
    output += [("window_start", timestamp(3)), ("window_end", timestamp(3)), ("window_time", time_type)]
    return WindowAggregateExec(
        source(schema, retract),
        window,
        2,
        keys,
        tuple(calls),
        ROW_PROPERTIES,
        zone,
        Schema.of(*output),
        APPEND,
        **options,
    )


def ms(row: dict[str, Any], name: str) -> int:
    value = row[name].replace(tzinfo=None)
    return round((value - type(value)(1970, 1, 1)).total_seconds() * 1000)


def as_rows(times: list[tuple[Any, Any, int | None]]) -> list[tuple[Any, Any, Any]]:
    return [(k, v, None if t is None else np.datetime64(t, "ms").astype("datetime64[us]").item()) for k, v, t in times]


def calls(retract: bool) -> list[AggregateSpec]:
    return [
        call(SCHEMA, "COUNT", retract=retract),
        call(SCHEMA, "SUM", 1, retract=retract),
        call(SCHEMA, "MAX", 1, retract=retract),
        call(SCHEMA, "COUNT", 1, distinct=True, retract=retract),
        call(SCHEMA, "AVG", 1, retract=retract),
        call(SCHEMA, "LAST_VALUE", 1, retract=retract),
    ]


def answers(values: list[int]) -> tuple[Any, ...]:
    return len(values), sum(values), max(values), len(set(values)), int(sum(values) / len(values)), values[-1]


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("retract", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_equals_a_naive_model(window: WindowSpec, retract: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rejected = Rejected()
    operator = WindowAggregateOperator(node(window, calls(retract), retract), context(rejected))
    previous, watermark, clock = MIN_WATERMARK, MIN_WATERMARK, -60
    open_rows: dict[tuple[int, int, str], list[int]] = {}
    live: list[tuple[str, int, int]] = []
    late = 0
    for epoch in range(15):
        clock += int(rng.integers(0, 12))
        changes: list[tuple[str, int, int]] = []
        signs: list[int] = []
        for _ in range(int(rng.integers(0, 10))):
            # Values are unique, so that the naive model knows which row is taken back.
            if retract and live and rng.random() < 0.3:
                row = live.pop(rng.integers(len(live)))
                sign = -1
            else:
                row = ("ab"[rng.integers(2)], int(rng.integers(1_000_000)), clock + int(rng.integers(-25, 12)))
                live.append(row)
                sign = 1
            changes.append(row)
            signs.append(sign)
            _, starts, ends = windows_of(window, np.array([row[2]]))
            if len(ends) and ends[-1] - 1 <= watermark:
                late += 1
                if sign > 0:
                    live.remove(row)
                continue
            for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
                if end - 1 > watermark:
                    members = open_rows.setdefault((end, start, row[0]), [])
                    members.append(row[1]) if sign > 0 else members.remove(row[1])
        previous, watermark = watermark, max(watermark, clock - 8) if epoch < 14 else MAX_WATERMARK
        output = operator.step(
            [batch(SCHEMA, as_rows(changes), signs if retract else None) if changes else None],
            time(epoch, watermark, previous),
        )
        given: Counter[Any] = Counter()
        shown_ends: list[int] = []
        if output is not None:
            assert output.kinds is None
            for row in output.rows.to_pylist():
                assert ms(row, "window_time") == ms(row, "window_end") - 1
                shown_ends.append(ms(row, "window_end"))
                given[
                    (ms(row, "window_end"), ms(row, "window_start"), row["k"], *(row[f"a{n}"] for n in range(6)))
                ] += 1
        due = [key for key in open_rows if key[0] - 1 <= watermark]
        wanted = Counter((*key, *answers(members)) for key in due if (members := open_rows.pop(key)))
        assert given == wanted
        assert shown_ends == sorted(shown_ends)
    assert sum(len(rows) for _, rows in rejected.rows) == late
    assert operator.state_size.rows == 0


def test_rows_without_time_are_rejected() -> None:
    rejected = Rejected()
    operator = WindowAggregateOperator(node(TumbleWindow(10), [call(SCHEMA, "COUNT")]), context(rejected))
    assert operator.step([batch(SCHEMA, as_rows([("a", 1, None)]))], time(0)) is None
    assert [reason for reason, _ in rejected.rows] == ["NULL event time"]


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York"])
def test_days_of_the_session_zone(zone: str) -> None:
    hour = 3_600_000
    schema = Schema.of(("k", STRING), ("v", INT), ("ts", timestamp_ltz(3, TimeAttribute.ROWTIME)))
    # 2024-03-30 21:30 UTC and the hours after it: the clocks change in between.
    moments = [np.datetime64(1_711_834_200_000 + n * hour, "ms").item() for n in range(40)]
    operator = WindowAggregateOperator(
        node(TumbleWindow(24 * hour), [call(schema, "COUNT")], schema=schema, zone=zone), context(zone=zone)
    )
    output = operator.step([batch(schema, [("a", 1, m) for m in moments])], time(0, MAX_WATERMARK))
    assert output is not None
    wanted = Counter(m.replace(tzinfo=dt.UTC).astimezone(ZoneInfo(zone)).date() for m in moments)
    assert {r["window_start"].date(): r["a0"] for r in output.rows.to_pylist()} == wanted


def test_windows_that_rows_carry() -> None:
    schema = Schema.of(("k", STRING), ("v", INT), ("s", timestamp(3)), ("e", timestamp(3)))
    rejected = Rejected()
    operator = WindowAggregateOperator(
        node(AttachedWindow(), [call(schema, "SUM", 1)], schema=schema, start=2, end=3), context(rejected)
    )

    def moment(t: int) -> Any:
        return np.datetime64(t, "ms").astype("datetime64[us]").item()

    rows = [
        ("a", 1, moment(0), moment(10)),
        ("a", 2, moment(0), moment(10)),
        ("a", 5, moment(5), moment(10)),
        ("b", 7, moment(0), moment(20)),
    ]
    output = operator.step([batch(schema, rows)], time(0, 9))
    assert output is not None
    assert [(r["k"], r["a0"], ms(r, "window_start")) for r in output.rows.to_pylist()] == [("a", 3, 0), ("a", 5, 5)]
    output = operator.step([batch(schema, rows[:1])], time(1, 30, 9))
    assert output is not None and [r["a0"] for r in output.rows.to_pylist()] == [7]
    assert [reason for reason, _ in rejected.rows] == ["late"]


def test_processing_time_windows_close_by_the_clock_and_at_the_end() -> None:
    operator = WindowAggregateOperator(node(TumbleWindow(10), [call(SCHEMA, "COUNT")], proctime=True), context())
    rows = batch(SCHEMA, as_rows([("a", 1, None)]))
    assert operator.step([rows], time(0, now=9)) is None
    output = operator.step([rows], time(1, now=10))
    assert output is not None and [r["a0"] for r in output.rows.to_pylist()] == [1]
    last = operator.step([None], time(2, MAX_WATERMARK, now=11))
    assert last is not None and [ms(r, "window_end") for r in last.rows.to_pylist()] == [20]
    assert BIGINT.nullable
