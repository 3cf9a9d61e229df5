"""Filters over the time that passes: against DuckDB with the time in the place of now, and made anew between epochs."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from dataclasses import replace
from zoneinfo import ZoneInfo

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from aggregate_harness import batch, context, fold, source, time
from restart_harness import Twins

from runtime.core.changelog import ChangelogMode
from runtime.core.schema import Schema
from runtime.core.types import BIGINT, BOOLEAN, timestamp_ltz
from runtime.expr.library import builtin_functions
from runtime.expr.nodes import Call, Expr, InputRef, Literal
from runtime.operators.operator import Operator
from runtime.operators.time_filter import TimeFilterOperator
from runtime.plan.nodes import TimeBound, TimeFilterExec
from runtime.plan.time_filter_nodes import NOW
from sqlengine.testing.simulated import SimulatedEnvironment

EPOCH = dt.datetime.fromtimestamp(0, dt.UTC)
POINT = timestamp_ltz(6)
ROWS = Schema.of(("id", BIGINT), ("a", POINT), ("b", POINT), ("free", BOOLEAN))
MOMENT = Call("+", (InputRef(0, NOW), Literal(3, BIGINT)), NOW)
"""Only its `shift` is looked at."""


def bound(column: int, upper: bool, strict: bool, unless: bool) -> TimeBound:
    free: Expr | None = InputRef(3, BOOLEAN) if unless else None
    return TimeBound(InputRef(column, POINT), MOMENT, 3, upper, strict, free)


def is_in(row: tuple, now: int, bounds: tuple[TimeBound, ...]) -> bool:
    for each in bounds:
        if each.unless is not None and row[3]:
            continue
        value = row[each.value.index]
        if value is None:
            return False
        gap = (value - EPOCH) // dt.timedelta(microseconds=1) - 1000 * (now + 3)
        if not (gap > 0 if each.upper else gap < 0) and (each.strict or gap):
            return False
    return True


@pytest.mark.parametrize("retract", [False, True])
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("sides", [(True,), (False,), (True, False), (True, True, False)])
def test_equals_a_naive_model_and_a_restart_changes_nothing(
    retract: bool, strict: bool, sides: tuple[bool, ...]
) -> None:
    rng = np.random.default_rng(4 * len(sides) + 2 * retract + strict)
    bounds = tuple(bound(min(1 + i, 2), upper, strict, i == 1) for i, upper in enumerate(sides))
    mode = ChangelogMode(True, retract, retract, True, False)

    def made() -> Operator:
        node = TimeFilterExec(source(ROWS, retract), bounds, ROWS, mode)
        return TimeFilterOperator(node, replace(context(), functions=builtin_functions()))

    operator, twins = made(), Twins(made, rng, ordered=False)
    rows: list[tuple] = []
    shown: Counter[str] = Counter()
    now, given_rows = 1000, 0
    for epoch in range(60):
        now += int(rng.integers(0, 4))
        changes: list[tuple] = []
        signs: list[int] = []
        for _ in range(int(rng.integers(0, 6))):
            if retract and rows and rng.random() < 0.3:
                changes.append(rows.pop(int(rng.integers(len(rows)))))
                signs.append(-1)
                continue
            points = [
                None if rng.random() < 0.1 else EPOCH + dt.timedelta(microseconds=now * 1000 + int(shift) * 500)
                for shift in rng.integers(-20, 40, 2)
            ]
            changes.append((int(rng.integers(3)), *points, rng.choice([True, False, None])))
            signs.append(1)
            rows.append(changes[-1])
        given = batch(ROWS, changes, signs if retract else None) if changes else None
        at = time(epoch, now=now)
        twins.step([given], at)
        output = operator.step([given], at)
        given_rows += 0 if output is None else len(output)
        fold(shown, output)
        wanted = Counter(repr(as_shown(row)) for row in rows if is_in(row, now, bounds))
        assert shown == wanted, epoch
        timer = operator.next_timer()
        assert timer is None or timer > now
    assert given_rows > 10
    assert twins.restarts > 5


def as_shown(row: tuple) -> tuple:
    columns = [pa.array([value], field.type.arrow) for value, field in zip(row, ROWS, strict=True)]
    return tuple(pa.RecordBatch.from_arrays(columns, ROWS.names).to_pylist()[0].values())


CONDITIONS = [
    "placed > now() - interval '7 second'",
    "placed + interval '5 second' >= now()",
    "placed BETWEEN now() - interval '3 second' AND now() + interval '4 second' AND v < 3",
    "v = 1 OR placed >= now() - interval '2 second'",
    "NOT placed > now() AND until > now()",
    "date_trunc('minute', now()) <= placed",
    "placed - interval '1 month' < now() AND placed::date = current_date",
    "(v = 2 OR (placed <= now() AND until >= now())) AND placed IS NOT NULL",
]
START = dt.datetime(2024, 3, 30, 23, 59, 50)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_views_are_what_duckdb_gives_at_each_time(zone: str) -> None:
    rng = np.random.default_rng(len(zone))
    duck = duckdb.connect()
    duck.execute(f"SET timezone = '{zone}'")
    duck.execute("CREATE TABLE t (k INT PRIMARY KEY, v INT, placed TIMESTAMPTZ, until TIMESTAMPTZ)")
    with SimulatedEnvironment.create({"sqlengine.sql.dialect": "postgres", "table.local-time-zone": zone}) as env:
        env.advance_clock(str(START))
        env.execute_script("CREATE TABLE t (k int PRIMARY KEY, v int, placed timestamptz, until timestamptz)")
        conditions = [c for c in CONDITIONS if zone == "UTC" or "minute" not in c]
        for number, condition in enumerate(conditions):
            env.execute_script(
                f"CREATE VIEW live{number} AS SELECT k, v FROM t WHERE {condition};"
                f"CREATE MATERIALIZED VIEW shown{number} AS SELECT k, v FROM live{number};"
                f"CREATE MATERIALIZED VIEW counted{number} AS SELECT v, count(*), max(k) FROM live{number} GROUP BY v"
            )
        now = START
        for _ in range(35):
            kind = rng.integers(8)
            if kind < 3:
                now += dt.timedelta(seconds=int(rng.integers(1, 9)))
                env.advance_clock(str(now))
            elif kind == 3:
                key = rng.integers(8)
                for run in (env.execute_sql, duck.execute):
                    run(f"DELETE FROM t WHERE k = {key}")
            else:
                placed, until = (point(int(n), zone) for n in rng.integers(-12, 60, 2))
                row = f"({rng.integers(8)}, {rng.integers(4)}, {placed}, {until})"
                duck.execute(f"INSERT OR REPLACE INTO t VALUES {row}")
                env.execute_sql(f"INSERT INTO t VALUES {row}")
            for number, condition in enumerate(conditions):
                condition = condition.replace("now()", f"TIMESTAMPTZ '{now}+00'")
                condition = condition.replace("current_date", f"CAST(TIMESTAMPTZ '{now}+00' AS DATE)")
                rows = duck.execute(f"SELECT k, v FROM t WHERE {condition}").fetchall()
                found = [tuple(row) for row in env.execute_sql(f"SELECT * FROM shown{number}")]
                assert sorted(found) == sorted(rows), (now, condition)
                groups = {v: (v, sum(w == v for _, w in rows), max(k for k, w in rows if w == v)) for _, v in rows}
                counted = [tuple(row) for row in env.execute_sql(f"SELECT * FROM counted{number}")]
                assert sorted(counted) == sorted(groups.values()), (now, condition)
    duck.close()


def point(seconds: int, zone: str) -> str:
    """A time behind the start; NULL for some."""
    at = (START + dt.timedelta(seconds=seconds)).replace(tzinfo=dt.UTC).astimezone(ZoneInfo(zone))
    return "NULL" if seconds % 9 == 8 else f"TIMESTAMPTZ '{at.replace(tzinfo=None)}'"
