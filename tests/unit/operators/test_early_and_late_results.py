"""Windows with early and late results against a naive model: Flink's trigger, window by window and key by key."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from aggregate_harness import Rejected, batch, call, context, source

from runtime.core.changelog import DELETE, INSERT, RETRACT, UPDATE_AFTER, UPDATE_BEFORE
from runtime.core.clock import MAX_WATERMARK, MIN_WATERMARK
from runtime.core.schema import Schema
from runtime.core.types import INT, STRING, TimeAttribute, timestamp
from runtime.operators.operator import EpochTime
from runtime.operators.window_aggregate import WindowAggregateOperator
from runtime.operators.window_assign import windows_of
from runtime.plan.nodes import WindowAggregateExec, WindowProperty
from runtime.plan.windows import HopWindow, TumbleWindow, WindowEmit, WindowSpec

SCHEMA = Schema.of(("k", STRING), ("v", INT), ("ts", timestamp(3, TimeAttribute.ROWTIME)))
EMITS = [
    WindowEmit(0, None, 0),
    WindowEmit(0, 0, 15),
    WindowEmit(None, 0, 8),
    WindowEmit(None, 6, 30),
    WindowEmit(7, None, 12),
    WindowEmit(9, 5, 20),
    WindowEmit(25, 25, 0),
]


@dataclass
class Window:
    """One window and key: what is in it, what was shown of it, and when a change of it is due."""

    fired: bool
    values: list[int] = field(default_factory=list)
    shown: tuple[int, ...] | None = None
    since: int | None = None
    due: int | None = None

    def wait(self, delay: int, now: int) -> None:
        if self.due is None:
            self.since = now if self.since is None else self.since
            self.due = self.since + ((now - self.since) // delay + 1) * delay

    def give(self) -> list[tuple[int, tuple[int, ...]]]:
        new = (len(self.values), sum(self.values), max(self.values)) if self.values else None
        old, self.shown = self.shown, new
        if old == new:
            return []
        if new is None:
            return [(DELETE, old or ())]
        return [(INSERT, new)] if old is None else [(UPDATE_BEFORE, old), (UPDATE_AFTER, new)]


def made(window: WindowSpec, emit: WindowEmit, retract: bool) -> WindowAggregateExec:
    calls = tuple(call(SCHEMA, n, *args, retract=retract) for n, args in (("COUNT", ()), ("SUM", (1,)), ("MAX", (1,))))
    output = Schema.of(("k", STRING), *((f"a{n}", c.type) for n, c in enumerate(calls)), ("e", timestamp(3)))
    properties = (WindowProperty.END,)
    return WindowAggregateExec(
        source(SCHEMA, retract), window, 2, (0,), calls, properties, None, output, RETRACT, emit=emit
    )


@pytest.mark.parametrize("window", [TumbleWindow(10), TumbleWindow(10, 3), HopWindow(4, 12), HopWindow(7, 5)], ids=str)
@pytest.mark.parametrize("emit", EMITS, ids=str)
@pytest.mark.parametrize("retract", [False, True])
def test_equals_a_naive_model(window: WindowSpec, emit: WindowEmit, retract: bool) -> None:
    rng = np.random.default_rng(len(str(window)) + len(str(emit)))
    rejected = Rejected()
    operator = WindowAggregateOperator(made(window, emit, retract), context(rejected))
    model: dict[tuple[int, str], Window] = {}
    live: list[tuple[str, int, int]] = []
    previous, watermark, clock, now, late, given_rows = MIN_WATERMARK, MIN_WATERMARK, -30, 1000, 0, 0
    for epoch in range(40):
        clock += int(rng.integers(0, 9))
        now += int(rng.integers(0, 6))
        rows: list[tuple[str, int, int]] = []
        signs: list[int] = []
        wanted: Counter[Any] = Counter()
        touched: dict[tuple[int, str], bool] = {}
        for _ in range(int(rng.integers(0, 8))):
            if retract and live and rng.random() < 0.3:
                row, sign = live.pop(rng.integers(len(live))), -1
            else:
                row, sign = ("ab"[rng.integers(2)], int(rng.integers(100)), clock + int(rng.integers(-25, 12))), 1
            rows.append(row)
            signs.append(sign)
            ends = windows_of(window, np.array([row[2]]))[2].tolist()
            open_ = [e for e in ends if e - 1 + emit.lateness > watermark]
            late += bool(ends) and not open_
            # A row that was in windows that are gone by now is taken back from the others alone.
            if sign > 0 and len(open_) == len(ends):
                live.append(row)
            for end in open_:
                one = model.get((end, row[0]))
                touched.setdefault((end, row[0]), one is None)
                one = one or model.setdefault((end, row[0]), Window(False))
                one.values.append(row[1]) if sign > 0 else one.values.remove(row[1])
        previous, watermark = watermark, max(watermark, clock - 6) if epoch < 39 else MAX_WATERMARK
        for (end, key), one in model.items():
            changes: list[tuple[int, tuple[int, ...]]] = []
            fresh = touched.get((end, key))
            if not one.fired and end - 1 <= previous:
                one.fired = True  # it came to be after its end
                changes = one.give()
            elif not one.fired and end - 1 <= watermark:
                one.fired, one.since, one.due = True, None, None
                changes = one.give()
            elif fresh is not None:
                delay = emit.late if one.fired else emit.early
                if delay == 0 or (one.fired and delay is None):
                    changes = one.give()
                elif delay is not None:
                    one.wait(delay, now)
            if one.due is not None and one.due <= now:
                one.due = None
                changes += one.give()
            wanted.update((kind, key, end, *values) for kind, values in changes)
        for found in [f for f in model if f[0] - 1 + emit.lateness <= watermark]:
            del model[found]
        output = operator.step(
            [batch(SCHEMA, _moments(rows), signs if retract else None) if rows else None],
            EpochTime(epoch, watermark, previous, now),
        )
        given: Counter[Any] = Counter()
        if output is not None:
            for kind, row in zip(output.kinds_or_inserts().tolist(), output.rows.to_pylist(), strict=True):
                given[kind, row["k"], _ms(row["e"]), row["a0"], row["a1"], row["a2"]] += 1
        assert given == wanted, epoch
        given_rows += sum(given.values())
    assert sum(len(rows) for _, rows in rejected.rows) == late
    assert not operator.state_size.rows
    assert given_rows > 10


def _moments(rows: list[tuple[str, int, int]]) -> list[tuple[Any, ...]]:
    return [(k, v, np.datetime64(t, "ms").astype("datetime64[us]").item()) for k, v, t in rows]


def _ms(value: Any) -> int:
    return round((value - type(value)(1970, 1, 1)).total_seconds() * 1000)
