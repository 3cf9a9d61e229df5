"""Window operators, thrown away between epochs and made anew from what was saved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from aggregate_harness import Rejected, batch, call, context, source, time
from restart_harness import Twins

from runtime.core.changelog import APPEND, RETRACT, ChangelogBatch
from runtime.core.clock import MAX_WATERMARK, MIN_WATERMARK
from runtime.core.schema import Schema
from runtime.core.types import BIGINT, DOUBLE, INT, STRING, DataType, TimeAttribute, timestamp, timestamp_ltz
from runtime.eval.aggregates.value_bag import ValueBag
from runtime.operators.build import build_operator
from runtime.operators.guards import undeclared
from runtime.operators.operator import EpochTime, Operator
from runtime.plan.nodes import (
    JoinKind,
    PhysicalNode,
    RankFunction,
    SortSpec,
    WindowAggregateExec,
    WindowJoinExec,
    WindowProperty,
    WindowTableExec,
    WindowTopNExec,
)
from runtime.plan.windows import (
    AttachedWindow,
    CumulateWindow,
    HopWindow,
    SessionWindow,
    TumbleWindow,
    WindowEmit,
    WindowSpec,
)

pytestmark = pytest.mark.long

BOUNDS = [("window_start", timestamp(3)), ("window_end", timestamp(3))]
BERLIN = "Europe/Berlin"
ZONED_HOUR = 1_698_541_200_000
"""2023-10-29 01:00 UTC: in Berlin the clock shows 02:00 for the second time."""


def schema_of(zone: str | None) -> Schema:
    time_type = timestamp_ltz(3, TimeAttribute.ROWTIME) if zone else timestamp(3, TimeAttribute.ROWTIME)
    return Schema.of(("k", STRING), ("v", INT), ("ts", time_type), ("s", STRING), ("d", DOUBLE), *BOUNDS)


SCHEMA = schema_of(None)


def aggregate(
    window: WindowSpec,
    keys: tuple[int, ...],
    retract: bool,
    zone: str | None = None,
    proctime: bool = False,
    emit: WindowEmit | None = None,
) -> WindowAggregateExec:
    schema = schema_of(zone)
    calls = [
        call(schema, name, *args, retract=retract, **options)
        for name, args, options in (
            ("COUNT", (), {}),
            ("SUM", (4,), {}),
            ("MAX", (1,), {}),
            ("MIN", (3,), {}),
            ("FIRST_VALUE", (1,), {}),
            ("LAST_VALUE", (3,), {}),
            ("LISTAGG", (3,), {}),
            ("COUNT", (1,), {"distinct": True}),
            ("LISTAGG", (3,), {"distinct": True}),
        )
    ]
    output: list[tuple[str, DataType]] = [(schema[k].name, schema[k].type) for k in keys]
    output += [(f"a{n}", c.type) for n, c in enumerate(calls)] + BOUNDS
    properties = (WindowProperty.START, WindowProperty.END)
    made, mode = Schema.of(*output), APPEND if emit is None else RETRACT
    return WindowAggregateExec(
        source(schema, retract), window, 2, keys, tuple(calls), properties, zone, made, mode, 5, 6, proctime, emit
    )


def table(retract: bool) -> WindowTableExec:
    columns = [(f.name, f.type) for f in SCHEMA]
    made = Schema.of(*columns, ("ws", timestamp(3)), ("we", timestamp(3)), ("wt", timestamp(3, TimeAttribute.ROWTIME)))
    return WindowTableExec(source(SCHEMA, retract), SessionWindow(10), 2, (0,), None, made, APPEND)


def top_n(partition: tuple[int, ...], latest: bool) -> WindowTopNExec:
    columns = [(f.name, f.type) for f in SCHEMA]
    end = 1 if latest else 2
    order = (SortSpec(1, False, True),)
    made = Schema.of(*columns, ("rank", BIGINT))
    return WindowTopNExec(
        source(SCHEMA),
        RankFunction.ROW_NUMBER,
        partition,
        (5, 6),
        order,
        1,
        end,
        True,
        None,
        made,
        APPEND,
        latest=latest,
    )


def join(kind: JoinKind) -> WindowJoinExec:
    columns = [(f.name, f.type) for f in SCHEMA]
    both = [*columns, *((f"{n}0", t) for n, t in columns)]
    made = SCHEMA if kind.left_only else Schema.of(*both)
    return WindowJoinExec(
        source(SCHEMA), source(SCHEMA), kind, (0,), (0,), (False,), (5, 6), (5, 6), None, None, made, APPEND
    )


CASES: dict[str, PhysicalNode] = {
    **{
        f"{window} {keys} {'changes' if retract else 'inserts'}": aggregate(window, keys, retract)
        for window in (
            TumbleWindow(10),
            HopWindow(5, 15),
            HopWindow(7, 5),
            CumulateWindow(5, 20),
            AttachedWindow(),
            SessionWindow(6),
        )
        for keys, retract in (((0,), False), ((0, 3), True), ((), True))
    },
    "tumble in Berlin": aggregate(TumbleWindow(3_600_000), (0,), False, BERLIN),
    "cumulate in Berlin": aggregate(CumulateWindow(3_600_000, 7_200_000), (0,), True, BERLIN),
    "session in Berlin": aggregate(SessionWindow(600_000), (0,), True, BERLIN),
    "tumble by the clock": aggregate(TumbleWindow(10), (0,), True, proctime=True),
    "tumble by the clock, early": aggregate(TumbleWindow(10), (0,), True, proctime=True, emit=WindowEmit(3, None, 0)),
    **{
        f"{window} early {emit.early} late {emit.late} lateness {emit.lateness}": aggregate(
            window, (0,), retract, emit=emit
        )
        for window in (TumbleWindow(10), HopWindow(5, 15))
        for emit, retract in (
            (WindowEmit(0, None, 0), True),
            (WindowEmit(5, None, 6), False),
            (WindowEmit(None, 0, 10), True),
            (WindowEmit(7, 4, 20), True),
        )
    },
    "early and late in Berlin": aggregate(
        TumbleWindow(3_600_000), (0, 3), True, BERLIN, emit=WindowEmit(500_000, 0, 1_000_000)
    ),
    "session by the clock": aggregate(SessionWindow(6), (0,), False, proctime=True),
    "session table": table(False),
    "session table of changes": table(True),
    "top 2": top_n((5, 6, 0), False),
    "top 2 of all": top_n((5, 6), False),
    "last one": top_n((0, 5, 6), True),
    **{f"{kind.value} join": join(kind) for kind in JoinKind},
}


class Stream:
    """Random rows around a clock that moves on, some of them late; windows of 10 ms (an hour in Berlin)."""

    def __init__(self, plan: PhysicalNode, rng: np.random.Generator) -> None:
        zoned = getattr(plan, "zone", None) is not None
        self._rng = rng
        self._schema = plan.inputs[0].schema
        self._retracts = not plan.inputs[0].mode.is_append_only
        self._unit, self.clock = (360_000, ZONED_HOUR - 3_600_000) if zoned else (1, 0)
        self._live: list[tuple[Any, ...]] = []

    def advance(self) -> int:
        self.clock += self._unit * int(self._rng.integers(0, 9))
        return self.clock - 4 * self._unit

    def batch(self) -> ChangelogBatch | None:
        rng = self._rng
        rows: list[tuple[Any, ...]] = []
        signs: list[int] = []
        for _ in range(int(rng.integers(0, 9))):
            if self._retracts and self._live and rng.random() < 0.3:
                rows.append(self._live.pop(int(rng.integers(len(self._live)))))
                signs.append(-1)
                continue
            at = self.clock + self._unit * int(rng.integers(-14, 10))
            start = at - at % 10
            row = (
                None if rng.random() < 0.1 else "abcde"[rng.integers(5)],
                int(rng.integers(8)),
                _moment(at),
                "xyz"[rng.integers(3)],
                float(rng.choice([0.1, 1e17, -2.5, 3.0])),
                _moment(start - 10 * int(rng.integers(2))),
                _moment(start + 10),
            )
            rows.append(row)
            signs.append(1)
            self._live.append(row)
        return batch(self._schema, rows, signs if self._retracts else None) if rows else None


def _moment(ms: int) -> Any:
    return np.datetime64(ms, "ms").astype("datetime64[us]").item()


@pytest.mark.parametrize("name", CASES)
def test_a_restart_changes_nothing(name: str) -> None:
    plan = CASES[name]
    rng = np.random.default_rng(len(name))
    rejected: list[Rejected] = []
    twins = Twins(_maker(plan, rejected), rng)
    stream, previous = Stream(plan, rng), MIN_WATERMARK
    for epoch in range(32):
        mark = stream.advance() if epoch < 31 else MAX_WATERMARK
        when = EpochTime(epoch, mark, previous, stream.clock, (mark,) * len(plan.inputs))
        twins.step([stream.batch() for _ in plan.inputs], when)
        previous = mark
    assert twins.restarts > 5
    assert twins.rows > 1
    # What was rejected by the one that goes on, and by all those together that took over from each other.
    steady, *others = rejected
    assert sorted(map(repr, steady.rows)) == sorted(repr(rows) for other in others for rows in other.rows)


def _maker(plan: PhysicalNode, rejected: list[Rejected]) -> Callable[[], Operator]:
    def make() -> Operator:
        rejected.append(Rejected())
        return build_operator(plan, context(rejected[-1], BERLIN))

    return make


@pytest.mark.parametrize("name", CASES)
def test_the_tables_are_those_that_the_plan_declares(name: str) -> None:
    plan = CASES[name]
    assert undeclared(build_operator(plan, context()), plan) == []


def test_merged_groups_give_back_the_value_that_came_first() -> None:
    bag = ValueBag([pa.string()], retract=True)
    bag.add(np.array([0, 0, 1]), None, [pa.array(["x", "y", "x"])], np.array([5, 6, 2]))
    bag.merge(np.array([0]), bag, np.array([1]))
    bag.release(np.array([1]))
    bag.add(np.array([0]), np.array([-1], np.int8), [pa.array(["x"])], np.array([7]))
    _, rows = bag.read(np.array([0]))
    assert bag.seqs(rows).tolist() == [5, 6]


def test_slices_of_equal_ends_come_by_start_whichever_was_first() -> None:
    def starts(first: list[int]) -> list[Any]:
        operator = build_operator(aggregate(AttachedWindow(), (), False), context())
        for epoch, start in enumerate(first):
            row = ("a", 1, _moment(0), "x", 1.0, _moment(start), _moment(50))
            operator.step([batch(SCHEMA, [row])], time(epoch))
        output = operator.step([None], time(9, MAX_WATERMARK))
        assert output is not None
        return output.rows.column("window_start").to_pylist()

    assert starts([10, 40, 20, 30]) == starts([40, 30, 10, 20]) == [_moment(t) for t in (10, 20, 30, 40)]
