"""Session windows against a naive model that clusters rows anew in every epoch, and Flink's worked vectors."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from aggregate_harness import Rejected, batch, call, context, source, time

from runtime.core.changelog import APPEND
from runtime.core.clock import MAX_WATERMARK, MIN_WATERMARK
from runtime.core.schema import Schema
from runtime.core.types import INT, STRING, TimeAttribute, timestamp
from runtime.operators.window_aggregate import WindowAggregateOperator
from runtime.operators.window_table import WindowTableOperator
from runtime.plan.nodes import WindowAggregateExec, WindowProperty, WindowTableExec
from runtime.plan.windows import HopWindow, SessionWindow

SCHEMA = Schema.of(("k", STRING), ("v", INT), ("ts", timestamp(3, TimeAttribute.ROWTIME)))
BOUNDS = [
    ("window_start", timestamp(3)),
    ("window_end", timestamp(3)),
    ("window_time", timestamp(3, TimeAttribute.ROWTIME)),
]


def aggregate(gap: int, retract: bool, keys: tuple[int, ...] = (0,)) -> WindowAggregateExec:
    calls = [
        call(SCHEMA, f, *a, retract=retract, **o)
        for f, a, o in (
            ("COUNT", (), {}),
            ("SUM", (1,), {}),
            ("LISTAGG", (0,), {}),
            ("MAX", (1,), {}),
            ("COUNT", (1,), {"distinct": True}),
        )
    ]
    output = (
        [(SCHEMA[i].name, SCHEMA[i].type) for i in keys] + [(f"a{n}", c.type) for n, c in enumerate(calls)] + BOUNDS
    )
    return WindowAggregateExec(
        source(SCHEMA, retract),
        SessionWindow(gap),
        2,
        keys,
        tuple(calls),
        (WindowProperty.START, WindowProperty.END, WindowProperty.TIME),
        None,
        Schema.of(*output),
        APPEND,
    )


def rows_at(rows: list[tuple[str, int, int]]) -> list[tuple[Any, ...]]:
    return [(k, v, np.datetime64(t, "ms").astype("datetime64[us]").item()) for k, v, t in rows]


def ms(value: Any) -> int:
    return round((value - type(value)(1970, 1, 1)).total_seconds() * 1000)


class Model:
    """Open sessions as lists of (key, start, end, live rows in order of arrival)."""

    def __init__(self, gap: int) -> None:
        self.gap = gap
        self.open: list[tuple[str, int, int, list[tuple[str, int, int]]]] = []

    def add(self, changes: list[tuple[tuple[str, int, int], int]], watermark: int) -> list[tuple[str, int, int]]:
        """Takes in an epoch's changes; returns the late rows."""
        items = [(k, s, e, rows, []) for k, s, e, rows in self.open]
        items += [(row[0], row[2], row[2] + self.gap, [], [(n, row, sign)]) for n, (row, sign) in enumerate(changes)]
        items.sort(key=lambda i: (i[0], i[1]))
        merged: list[list[Any]] = []
        for k, s, e, rows, new in items:
            if merged and merged[-1][0] == k and s <= merged[-1][2]:
                last = merged[-1]
                last[2], last[3], last[4] = max(last[2], e), last[3] + rows, last[4] + new
            else:
                merged.append([k, s, e, list(rows), list(new)])
        late = [row for m in merged if m[2] - 1 <= watermark for _, row, _ in m[4]]
        self.open = []
        for k, s, e, rows, new in merged:
            if e - 1 > watermark:
                for _, row, sign in sorted(new):
                    rows.append(row) if sign > 0 else rows.remove(row)
                self.open.append((k, s, e, rows))
        return late

    def fire(self, watermark: int) -> list[tuple[str, int, int, list[tuple[str, int, int]]]]:
        due = [s for s in self.open if s[2] - 1 <= watermark]
        self.open = [s for s in self.open if s[2] - 1 > watermark]
        return [s for s in due if s[3]]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("retract", [False, True])
def test_equals_a_naive_model(seed: int, retract: bool) -> None:
    rng = np.random.default_rng(seed)
    rejected = Rejected()
    operator = WindowAggregateOperator(aggregate(10, retract), context(rejected))
    model = Model(10)
    previous, watermark, clock, late, value = MIN_WATERMARK, MIN_WATERMARK, -100, 0, 0
    for epoch in range(25):
        clock += int(rng.integers(0, 14))
        changes: list[tuple[tuple[str, int, int], int]] = []
        live = [row for s in model.open for row in s[3]]
        for _ in range(int(rng.integers(0, 8))):
            if retract and live and rng.random() < 0.3:
                changes.append((live.pop(rng.integers(len(live))), -1))
            else:
                value += 1
                changes.append((("ab"[rng.integers(2)], value, clock + int(rng.integers(-40, 14))), 1))
        late += len(model.add(changes, watermark))
        previous, watermark = watermark, max(watermark, clock - 15) if epoch < 24 else MAX_WATERMARK
        rows = rows_at([row for row, _ in changes])
        output = operator.step(
            [batch(SCHEMA, rows, [s for _, s in changes] if retract else None) if rows else None],
            time(epoch, watermark, previous),
        )
        given = (
            Counter(
                (r["k"], ms(r["window_start"]), ms(r["window_end"]), *(r[f"a{n}"] for n in range(5)))
                for r in output.rows.to_pylist()
            )
            if output is not None
            else Counter()
        )
        wanted = Counter(
            (
                k,
                s,
                e,
                len(rows),
                sum(r[1] for r in rows),
                ",".join(r[0] for r in rows),
                max(r[1] for r in rows),
                len(rows),
            )
            for k, s, e, rows in model.fire(watermark)
        )
        assert given == wanted
        if output is not None:
            ends = [r["window_end"] for r in output.rows.to_pylist()]
            assert ends == sorted(ends)
    assert sum(len(rows) for _, rows in rejected.rows) == late
    assert operator.state_size.rows == 0


MINUTE = 60_000
DOCUMENTED = [
    ("A", 4, 487 * MINUTE),
    ("A", 2, 486 * MINUTE),
    ("B", 5, 489 * MINUTE),
    ("A", 3, 488 * MINUTE),
    ("B", 1, 497 * MINUTE),
]


@pytest.mark.parametrize(
    ("keys", "wanted"),
    [
        ((0,), [("A", 486, 493, 9), ("B", 489, 494, 5), ("B", 497, 502, 1)]),
        ((), [(None, 486, 494, 14), (None, 497, 502, 1)]),
    ],
)
@pytest.mark.parametrize("one_by_one", [False, True])
def test_documented_sessions(keys: tuple[int, ...], wanted: list[Any], one_by_one: bool) -> None:
    operator = WindowAggregateOperator(aggregate(5 * MINUTE, False, keys), context())
    for n, part in enumerate([[r] for r in DOCUMENTED] if one_by_one else [DOCUMENTED]):
        assert operator.step([batch(SCHEMA, rows_at(part))], time(n)) is None
    output = operator.step([None], time(9, MAX_WATERMARK))
    assert output is not None
    shown = [
        (r.get("k"), ms(r["window_start"]) // MINUTE, ms(r["window_end"]) // MINUTE, r["a1"])
        for r in output.rows.to_pylist()
    ]
    assert shown == wanted


def table(window: Any) -> WindowTableExec:
    columns = [(f.name, f.type) for f in SCHEMA] + BOUNDS
    return WindowTableExec(source(SCHEMA), window, 2, (0,), None, Schema.of(*columns), APPEND)


def test_a_session_table_gives_rows_when_their_session_closes() -> None:
    operator = WindowTableOperator(table(SessionWindow(10)), context())
    assert operator.step([batch(SCHEMA, rows_at([("a", 1, 0), ("b", 2, 3), ("a", 3, 20)]))], time(0, 5)) is None
    output = operator.step([batch(SCHEMA, rows_at([("a", 4, 10)]))], time(1, 28, 5))
    assert output is not None
    assert [(r["v"], ms(r["window_start"]), ms(r["window_end"])) for r in output.rows.to_pylist()] == [(2, 3, 13)]
    output = operator.step([None], time(2, 29, 28))
    assert output is not None
    assert [(r["v"], ms(r["window_start"]), ms(r["window_end"])) for r in output.rows.to_pylist()] == [
        (1, 0, 30),
        (3, 0, 30),
        (4, 0, 30),
    ]
    assert operator.state_size.rows == 0


def test_a_hop_table_gives_each_row_once_per_window_with_its_kind() -> None:
    operator = WindowTableOperator(table(HopWindow(5, 10)), context())
    output = operator.step([batch(SCHEMA, rows_at([("a", 1, -1), ("b", 2, 7)]), [1, -1])], time(0))
    assert output is not None
    assert [(r["v"], ms(r["window_start"]), ms(r["window_end"])) for r in output.rows.to_pylist()] == [
        (1, -10, 0),
        (1, -5, 5),
        (2, 0, 10),
        (2, 5, 15),
    ]
    assert output.kinds_or_inserts().tolist() == [0, 0, 3, 3]
