"""Operators that keep rows, thrown away between epochs and made anew from what was saved, beside ones that are not."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from aggregate_harness import Rejected, call
from restart_harness import BACKENDS, Twins, on_backend

from runtime.core.changelog import (
    APPEND,
    DELETE,
    INSERT,
    RETRACT,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    UPSERT,
    ChangelogBatch,
    ChangelogMode,
)
from runtime.core.clock import MIN_WATERMARK
from runtime.core.options import Options
from runtime.core.schema import Field, Schema
from runtime.core.types import BIGINT, BOOLEAN, DOUBLE, INT, STRING, TimeAttribute, array, timestamp, timestamp_ltz
from runtime.expr.library import builtin_functions
from runtime.expr.nodes import Call, Expr, Frame, FrameBound, InputRef
from runtime.operators.build import build_operator
from runtime.operators.guards import undeclared
from runtime.operators.operator import EpochTime, Operator, OperatorContext
from runtime.plan import nodes as p
from runtime.plan.distribution import leaves_memory
from runtime.plan.nodes import AggregateSpec, JoinKind, PhysicalNode, RankFunction, SortSpec, ValuesExec
from runtime.state.snapshot import restore_task

pytestmark = pytest.mark.long

SCHEMA = Schema.of(
    ("id", BIGINT),
    ("k", STRING),
    ("v", INT),
    ("d", DOUBLE),
    ("s", STRING),
    ("ts", timestamp(3, TimeAttribute.ROWTIME)),
    ("back", INT),
)
ID, K, V, D, S, TS, BACK = range(7)
RANKED = Schema((*SCHEMA.fields, *Schema.of(("rn", BIGINT.not_null())).fields))
PAIRS = Schema((*SCHEMA.fields, *SCHEMA.fields))
TTL = 40
NOW = Call("CURRENT_TIMESTAMP", (), timestamp_ltz(3).not_null())
Row = tuple[Any, ...]

START, P, HERE = FrameBound.UNBOUNDED_PRECEDING, FrameBound.PRECEDING, FrameBound.CURRENT_ROW


def context(rejected: Rejected | None = None) -> OperatorContext:
    return OperatorContext("op", Options(), builtin_functions(), "UTC", rejected or Rejected())


def given(mode: ChangelogMode) -> ValuesExec:
    return ValuesExec((), SCHEMA, mode)


class Feed:
    """A random changelog of a mode; ids are unique among live rows. Times lie around the watermark."""

    def __init__(self, rng: np.random.Generator, mode: ChangelogMode) -> None:
        self._rng = rng
        self._mode = mode
        self._live: list[Row] = []
        self._next = 0

    def batch(self, watermark: int) -> ChangelogBatch | None:
        changes: list[tuple[int, Row]] = []
        for _ in range(int(self._rng.integers(0, 9))):
            if self._mode.is_append_only or not self._live or self._rng.random() < 0.5:
                changes.append((INSERT, self._row(watermark)))
                self._live.append(changes[-1][1])
                continue
            old = self._live.pop(int(self._rng.integers(len(self._live))))
            if self._rng.random() < 0.5:
                changes.append((DELETE, old))
                continue
            new = (old[ID], *self._row(watermark)[1:])
            if self._rng.random() < 0.6:
                # Within its key: the second half of an update, also of a version.
                new = (old[ID], old[K], *new[2:])
            changes += [(UPDATE_AFTER, new)] if self._mode.is_upsert else [(UPDATE_BEFORE, old), (UPDATE_AFTER, new)]
            self._live.append(new)
        if not changes:
            return None
        arrays = [pa.array([row[i] for _, row in changes], f.type.arrow) for i, f in enumerate(SCHEMA)]
        kinds = None if self._mode.is_append_only else np.array([kind for kind, _ in changes], np.int8)
        return ChangelogBatch.of(arrays, SCHEMA, kinds)

    def _row(self, watermark: int) -> Row:
        rng = self._rng
        self._next += 1

        def maybe(value: Any) -> Any:
            return None if rng.random() < 0.1 else value

        time = max(watermark, 0) + int(rng.integers(-15, 40))
        return (
            self._next,
            maybe("abcde"[rng.integers(5)]),
            maybe(int(rng.integers(-5, 5))),
            maybe(float(rng.choice([0.1, -0.25, 1e17, -1e17, 1.5]))),
            maybe("xyz"[rng.integers(3)]),
            dt.datetime(1970, 1, 1) + dt.timedelta(milliseconds=time),
            int(rng.integers(0, 4)),
        )


def run(node: PhysicalNode, modes: Sequence[ChangelogMode], *, epochs: int = 24, ordered: bool = True) -> None:
    """Compares what comes out, and the names of the tables with those that EXPLAIN STATE shows; on every backend."""
    check_names(node)
    for backend in BACKENDS:
        if backend == "memory" or leaves_memory(node):
            run_on(backend, node, modes, epochs, ordered)


def run_on(backend: str, node: PhysicalNode, modes: Sequence[ChangelogMode], epochs: int, ordered: bool) -> None:
    rng = np.random.default_rng(0)
    feeds = [Feed(rng, mode) for mode in modes]

    def make() -> Operator:
        return build_operator(node, context(Rejected()))

    twins = Twins(make, rng, on_backend(backend, node, make), ordered)
    watermark, previous, clock = MIN_WATERMARK, MIN_WATERMARK, 1000
    for epoch in range(epochs):
        clock += int(rng.integers(0, 25))
        if rng.random() < 0.6:
            watermark = max(watermark, 0) + int(rng.integers(0, 20))
        marks = (watermark,) * len(feeds)
        inputs = [feed.batch(watermark) for feed in feeds]
        twins.step(inputs, EpochTime(epoch, watermark, previous, clock, marks))
        previous = watermark
    twins.close()
    assert twins.restarts > 4 and twins.rows > 1


def check_names(node: PhysicalNode) -> None:
    """The operator opens the tables that its node declares."""
    assert undeclared(build_operator(node, context()), node) == []


@pytest.mark.parametrize("ttl", [0, TTL])
@pytest.mark.parametrize("last", [False, True], ids=["first", "last"])
@pytest.mark.parametrize("time", [None, TS], ids=["arrival", "time"])
@pytest.mark.parametrize("mode", [APPEND, RETRACT], ids=["append", "retract"])
def test_deduplicate(ttl: int, last: bool, time: int | None, mode: ChangelogMode) -> None:
    output = RETRACT if last or mode is RETRACT else APPEND
    run(p.DeduplicateExec(given(mode), (K,), time, last, SCHEMA, output, ttl), [mode])


def test_one_row_of_all() -> None:
    run(p.DeduplicateExec(given(RETRACT), (), None, True, SCHEMA, RETRACT), [RETRACT])


@pytest.mark.parametrize("ttl", [0, TTL])
@pytest.mark.parametrize("ranked", [False, True], ids=["rows", "ranks"])
@pytest.mark.parametrize(
    ("mode", "unique", "function", "end"),
    [
        (APPEND, None, RankFunction.ROW_NUMBER, 3),
        (APPEND, None, RankFunction.ROW_NUMBER, 300),
        (APPEND, None, RankFunction.RANK, 2),
        (RETRACT, None, RankFunction.ROW_NUMBER, 2),
        (RETRACT, (ID,), RankFunction.DENSE_RANK, 2),
        (UPSERT, (ID,), RankFunction.ROW_NUMBER, None),
    ],
    ids=lambda value: str(getattr(value, "value", value)),
)
def test_top_n(
    ttl: int, ranked: bool, mode: ChangelogMode, unique: tuple[int, ...] | None, function: RankFunction, end: int | None
) -> None:
    schema = RANKED if ranked else SCHEMA
    order = (SortSpec(V, True, True), SortSpec(S, False, False))
    run(p.TopNExec(given(mode), function, (K,), order, 1, end, ranked, unique, schema, RETRACT, ttl), [mode])


@pytest.mark.parametrize(("mode", "ttl"), [(APPEND, 0), (RETRACT, 0), (RETRACT, TTL)], ids=["append", "retract", "ttl"])
def test_limit(mode: ChangelogMode, ttl: int) -> None:
    run(p.LimitExec(given(mode), 5, 60, SCHEMA, mode, ttl), [mode])


def test_sort() -> None:
    run(p.SortExec(given(APPEND), (SortSpec(TS), SortSpec(V, True, True)), SCHEMA, APPEND), [APPEND])


def test_constant_rows_come_once() -> None:
    from_ = p.ValuesExec(((InputRef(0, INT),),), Schema.of(("x", INT)), APPEND)
    (table,) = build_operator(from_, context()).tables
    assert table.contents().column("value").to_pylist() == [False]


@pytest.mark.parametrize("ttl", [0, TTL])
def test_changelog_normalize(ttl: int) -> None:
    run(p.ChangelogNormalizeExec(given(UPSERT), (ID,), SCHEMA, RETRACT, ttl), [UPSERT])


@pytest.mark.parametrize("ttl", [0, TTL])
@pytest.mark.parametrize("keys", [None, (ID,), (ID, K)], ids=["row", "key", "two"])
def test_remembered_values(keys: tuple[int, ...] | None, ttl: int) -> None:
    schema = Schema((*SCHEMA.fields, *Schema.of(("since", NOW.type), ("bag", array(NOW.type))).fields))
    values = (NOW, Call("ARRAY", (NOW,), array(NOW.type)))
    node = p.RememberExec(given(RETRACT), values, keys, schema, RETRACT, ttl)
    check_names(node)
    run(node, [RETRACT])


@pytest.mark.parametrize("ttl", [0, TTL])
@pytest.mark.parametrize(("on_conflict", "unique"), [("DEDUPLICATE", None), ("DEDUPLICATE", (ID,)), ("NOTHING", (ID,))])
def test_sink_materialize(ttl: int, on_conflict: str, unique: tuple[int, ...] | None) -> None:
    run(p.SinkMaterializeExec(given(RETRACT), (K,), SCHEMA, UPSERT, ttl, on_conflict, unique), [RETRACT])


def test_sink_materialize_that_waits_for_the_watermark() -> None:
    run(p.SinkMaterializeExec(given(RETRACT), (K,), SCHEMA, UPSERT, 0, "NOTHING", (ID,), True), [RETRACT])


@pytest.mark.parametrize("every", [False, True], ids=["distinct", "all"])
@pytest.mark.parametrize("kind", ["INTERSECT", "EXCEPT"])
@pytest.mark.parametrize(("backend", "ttl"), [*((backend, 0) for backend in BACKENDS), ("memory", TTL)])
def test_set_operation(kind: str, every: bool, backend: str, ttl: int) -> None:
    # Few columns, so that rows are equal.
    few = Schema(SCHEMA.fields[K : V + 1])
    node = p.SetOperationExec(
        ValuesExec((), few, RETRACT), ValuesExec((), few, RETRACT), kind, every, few, RETRACT, ttl
    )

    def make() -> Operator:
        return build_operator(node, context())

    twins = Twins(make, np.random.default_rng(3), on_backend(backend, node, make))
    rng = np.random.default_rng(4)
    feeds = [Feed(rng, RETRACT), Feed(rng, RETRACT)]
    for epoch in range(60):
        batches = [feed.batch(0) for feed in feeds]
        cut = [None if b is None else ChangelogBatch.of(b.columns[K : V + 1], few, b.kinds) for b in batches]
        twins.step(cut, EpochTime(epoch, 0, 0, 10 * epoch))
    twins.close()
    assert twins.restarts > 10 and twins.rows > 20
    check_names(node)


LESS = Call("<", (InputRef(V, INT), InputRef(len(SCHEMA) + V, INT)), BOOLEAN)


@pytest.mark.parametrize(
    ("left", "right", "condition", "ttls"),
    [
        (APPEND, APPEND, None, (0, 0)),
        (RETRACT, APPEND, None, (0, 0)),
        (RETRACT, RETRACT, LESS, (0, 0)),
        (APPEND, RETRACT, None, (TTL, 0)),
        (RETRACT, RETRACT, LESS, (TTL, 20)),
    ],
    ids=["inserts", "changes", "condition", "ttl", "ttl and condition"],
)
@pytest.mark.parametrize("kind", list(JoinKind))
def test_hash_join(
    kind: JoinKind, left: ChangelogMode, right: ChangelogMode, condition: Expr | None, ttls: tuple[int, int]
) -> None:
    inserts = left.is_append_only and right.is_append_only and kind is JoinKind.INNER
    unique = [None if mode.is_append_only else (ID,) for mode in (left, right)]
    schema = SCHEMA if kind.left_only else PAIRS
    output = APPEND if inserts else RETRACT
    node = p.HashJoinExec(
        given(left), given(right), kind, (K,), (K,), (False,), condition, *unique, schema, output, *ttls
    )
    # The rows of a key have no order in the state of a join.
    run(node, [left, right], ordered=False)


@pytest.mark.parametrize("proctime", [False, True], ids=["rowtime", "proctime"])
@pytest.mark.parametrize("kind", list(JoinKind))
def test_interval_join(kind: JoinKind, proctime: bool) -> None:
    schema = SCHEMA if kind.left_only else PAIRS
    node = p.IntervalJoinExec(
        given(APPEND), given(APPEND), kind, (K,), (K,), TS, TS, -20, 30, None, schema, APPEND, proctime
    )
    run(node, [APPEND, APPEND])


@pytest.mark.parametrize("left", [APPEND, RETRACT, UPSERT], ids=["append", "retract", "upsert"])
@pytest.mark.parametrize(("kind", "ttl"), [(JoinKind.INNER, 0), (JoinKind.LEFT, 0), (JoinKind.LEFT, TTL)])
def test_temporal_join(kind: JoinKind, left: ChangelogMode, ttl: int) -> None:
    node = p.TemporalJoinExec(given(left), given(RETRACT), kind, (K,), (K,), TS, TS, None, PAIRS, left, ttl)
    run(node, [left, RETRACT])


class Table:
    """A table outside whose rows are others in every epoch."""

    schema = Schema.of(("uk", STRING), ("n", BIGINT))

    def __init__(self) -> None:
        self.epoch = 0

    def lookup(self, key_columns: Sequence[str], keys: pa.RecordBatch) -> tuple[pa.Array, pa.RecordBatch]:
        wanted = [(i, k) for i, k in enumerate(keys.column(0).to_pylist()) if k != "a"]
        rows = [(i, k, 2 * self.epoch + n) for i, k in wanted for n in range(2)]
        columns = [pa.array([r[1] for r in rows], pa.string()), pa.array([r[2] for r in rows], pa.int64())]
        return pa.array([r[0] for r in rows], pa.int64()), pa.RecordBatch.from_arrays(columns, names=["uk", "n"])

    def describe(self) -> dict[str, Any]:
        return {}


@pytest.mark.parametrize("ttl", [0, TTL])
@pytest.mark.parametrize("kind", [JoinKind.INNER, JoinKind.LEFT])
def test_lookup_join(kind: JoinKind, ttl: int) -> None:
    keys = ((InputRef(K, STRING), 0),)
    schema = Schema((*PAIRS.fields[: len(SCHEMA)], *Table.schema.fields))
    table = Table()
    node = p.LookupJoinExec(given(RETRACT), table, "users", kind, keys, None, schema, RETRACT, ttl)
    check_names(node)
    rng = np.random.default_rng(5)
    feed, twins = Feed(rng, RETRACT), Twins(lambda: build_operator(node, context()), rng)
    for epoch in range(60):
        # Both operators ask the same in an epoch, and get the same.
        table.epoch = epoch
        twins.step([feed.batch(0)], EpochTime(epoch, 0, 0, 10 * epoch))
    assert twins.restarts > 10 and twins.rows > 20


def window(name: str, type_: Any, *args: int) -> AggregateSpec:
    return AggregateSpec(name, args, tuple(SCHEMA[i].type for i in args), type_)


CALLS = [
    call(SCHEMA, "COUNT"),
    call(SCHEMA, "SUM", V),
    call(SCHEMA, "AVG", D),
    call(SCHEMA, "SUM", D),
    call(SCHEMA, "STDDEV_POP", D),
    call(SCHEMA, "MIN", V),
    call(SCHEMA, "MAX", S),
    call(SCHEMA, "FIRST_VALUE", V),
    call(SCHEMA, "LAST_VALUE", S),
    call(SCHEMA, "COUNT", S, distinct=True),
    call(SCHEMA, "SUM", V, distinct=True),
    call(SCHEMA, "COUNT"),
]
RANKS = [window(name, BIGINT, *()) for name in ("ROW_NUMBER", "RANK", "DENSE_RANK")]
LAG = window("LAG", INT, V, BACK)
LIST = call(SCHEMA, "LISTAGG", S)
ROWS_2 = Frame(True, P, HERE, 2, None)
RANGE_30 = Frame(False, P, HERE, 30, None)
OVERS: dict[str, tuple[list[AggregateSpec], Frame | None]] = {
    "totals": ([*CALLS, *RANKS], None),
    "totals and LAG": ([*CALLS, LAG], Frame(True, START, HERE)),
    "LAG": ([LAG], None),
    "lists": ([LIST, RANKS[0], LAG], None),
    "rows": (CALLS, ROWS_2),
    "rows and ranks": ([*CALLS, *RANKS, LIST], ROWS_2),
    "range": (CALLS, RANGE_30),
    "range and LAG": ([*CALLS, LAG], RANGE_30),
    "this row": ([LIST], Frame(True, HERE, HERE)),
}


def over(calls: list[AggregateSpec], frame: Frame | None, mode: ChangelogMode, **options: Any) -> PhysicalNode:
    columns = [*SCHEMA.fields, *(Field(f"a{n}", c.type) for n, c in enumerate(calls))]
    timed = bool(options.get("rowtime") or options.get("proctime"))
    return p.OverAggregateExec(
        given(mode),
        (K,),
        options.pop("order", (SortSpec(TS),)),
        frame,
        tuple(calls),
        schema=Schema(tuple(columns)),
        mode=APPEND if timed else RETRACT,
        **{"rowtime": False, "proctime": False, **options},
    )


@pytest.mark.parametrize("ttl", [0, TTL])
@pytest.mark.parametrize("time", ["rowtime", "proctime"])
@pytest.mark.parametrize("name", list(OVERS))
def test_over_time(name: str, time: str, ttl: int) -> None:
    calls, frame = OVERS[name]
    if time == "proctime":
        # Ranks of peers are refused in processing time, where there are none.
        calls = [c for c in calls if c.function not in ("RANK", "DENSE_RANK")]
    run(over(calls, frame, APPEND, ttl=ttl, **{time: True}), [APPEND])


@pytest.mark.parametrize("ttl", [0, TTL])
@pytest.mark.parametrize(
    ("mode", "order"),
    [(APPEND, (SortSpec(V, True, True),)), (RETRACT, (SortSpec(V), SortSpec(S, True)))],
    ids=["append", "retract"],
)
@pytest.mark.parametrize(
    ("calls", "frame"),
    [
        ([*CALLS[:9], *RANKS], None),
        ([*CALLS, LAG, window("LEAD", INT, V), window("CUME_DIST", DOUBLE)], ROWS_2),
        ([LIST], Frame(True, START, FrameBound.UNBOUNDED_FOLLOWING)),
    ],
    ids=["resumed", "rows", "whole"],
)
def test_over_changes(
    calls: list[AggregateSpec], frame: Frame | None, mode: ChangelogMode, order: tuple[SortSpec, ...], ttl: int
) -> None:
    run(over(calls, frame, mode, order=order, ttl=ttl), [mode])


@pytest.mark.parametrize(
    "make",
    [
        lambda ttl: p.DeduplicateExec(given(APPEND), (K,), None, True, SCHEMA, RETRACT, ttl),
        lambda ttl: p.DeduplicateExec(given(APPEND), (K,), None, False, SCHEMA, APPEND, ttl),
        lambda ttl: p.TopNExec(
            given(APPEND), RankFunction.ROW_NUMBER, (K,), (SortSpec(V),), 1, 1, False, None, SCHEMA, RETRACT, ttl
        ),
        lambda ttl: p.SinkMaterializeExec(given(RETRACT), (K,), SCHEMA, UPSERT, ttl),
        lambda ttl: p.ChangelogNormalizeExec(given(UPSERT), (K,), SCHEMA, RETRACT, ttl),
        lambda ttl: over(CALLS, None, RETRACT, order=(SortSpec(V),), ttl=ttl),
        lambda ttl: over(CALLS, None, APPEND, ttl=ttl, proctime=True),
    ],
    ids=["last", "first", "best", "sink", "normalize", "over changes", "over time"],
)
def test_a_time_to_live_that_is_set_later_begins_with_the_next_change(make: Any) -> None:
    def rows(*keys: str, value: int) -> ChangelogBatch:
        cells = [(value + i, k, value, 0.0, "x", dt.datetime(1970, 1, 1), 0) for i, k in enumerate(keys)]
        columns = [pa.array(cell, f.type.arrow) for cell, f in zip(zip(*cells, strict=True), SCHEMA, strict=True)]
        return ChangelogBatch.of(columns, SCHEMA)

    def at(clock: int) -> EpochTime:
        return EpochTime(0, MIN_WATERMARK, MIN_WATERMARK, clock)

    def again(operator: Any, ttl: int) -> Any:
        made = build_operator(make(ttl), context())
        restore_task(made.tables, [{t.name: t.contents() for t in operator.tables}], None)
        made.restored()
        return made

    operator = build_operator(make(0), context())
    operator.step([rows("a", "b", value=1)], at(0))
    both = operator.state_size.rows
    operator = again(operator, TTL)
    operator.step([None], at(1000))
    assert operator.state_size.rows == both
    # A better row and a new one: a change, whatever the operator counts as one.
    operator.step([rows("a", "c", value=0)], at(1000))
    operator.step([None], at(1001 + TTL))
    first = isinstance(make(0), p.DeduplicateExec) and not make(0).keep_last
    # Where only the first row of a key is a change, a is as it was.
    assert operator.state_size.rows == (both if first else both // 2)
    operator = again(operator, 0)
    operator.step([None], at(10**6))
    assert operator.state_size.rows == (both if first else both // 2)
