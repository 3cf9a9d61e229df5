"""GROUP BY of every function, thrown away between epochs and made anew from what was saved."""

from __future__ import annotations

import decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from aggregate_harness import batch, call, context, source, time
from restart_harness import Twins, on_backend

from runtime.core.changelog import RETRACT
from runtime.core.schema import Schema
from runtime.core.types import BOOLEAN, DOUBLE, FLOAT, INT, STRING, DataType
from runtime.core.types import decimal as decimal_type
from runtime.eval.aggregates.exact_sums import ExactSums
from runtime.eval.aggregates.saved_sums import float_sums, restore_decimals, restore_floats, saved_decimals
from runtime.operators.group_aggregate import GroupAggregateOperator
from runtime.operators.guards import undeclared
from runtime.plan.nodes import AggregateSpec, GroupAggregateExec, SortSpec

pytestmark = pytest.mark.long

SCHEMA = Schema.of(
    ("k", STRING),
    ("i", INT),
    ("d", DOUBLE),
    ("m", decimal_type(38, 2)),
    ("s", STRING),
    ("f", BOOLEAN.not_null()),
    ("separator", STRING),
    ("id", STRING),
    ("x", FLOAT),
    ("half", DOUBLE),
    ("one", INT),
)
I, D, M, S, F, SEPARATOR, ID, X, HALF, ONE = range(1, 11)


def every_call(retract: bool) -> list[AggregateSpec]:
    def of(name: str, *args: int, **options: Any) -> AggregateSpec:
        return call(SCHEMA, name, *args, retract=retract, **options)

    return [
        of("COUNT"),
        of("COUNT", I, filter=F),
        of("SUM", I),
        of("SUM", D),
        of("SUM", X),
        of("SUM", M),
        of("SUM0", I),
        of("AVG", I),
        of("AVG", D),
        of("AVG", M),
        *(of(name, column) for name in ("MIN", "MAX") for column in (I, D, M, S)),
        *(of(name, column) for name in ("VAR_POP", "STDDEV_SAMP") for column in (I, D, M)),
        of("COUNT", I, distinct=True),
        of("COUNT", I, distinct=True, filter=F),
        of("SUM", I, distinct=True),
        of("COUNT", I, S, distinct=True),
        of("COUNT", D, distinct=True),
        of("COUNT", M, distinct=True),
        of("APPROX_COUNT_DISTINCT", S),
        of("LISTAGG", S),
        of("LISTAGG", S, SEPARATOR),
        of("LISTAGG", S, distinct=True),
        of("LISTAGG", S, order_by=(SortSpec(I, True, True),)),
        of("ARRAY_AGG", I),
        of("ARRAY_AGG", S, filter=F),
        of("FIRST_VALUE", S),
        of("LAST_VALUE", I),
        of("FIRST_VALUE", D, distinct=True),
        of("COLLECT", S),
        of("JSON_ARRAYAGG", I),
        of("JSON_OBJECTAGG", ID, S),
        of("PERCENTILE", D, HALF),
        of("PERCENTILE", I, HALF, ONE),
    ]


def node(keys: tuple[int, ...], retract: bool, ttl: int = 0) -> GroupAggregateExec:
    calls = every_call(retract)
    columns: list[tuple[str, DataType]] = [(SCHEMA[k].name, SCHEMA[k].type) for k in keys]
    columns += [(f"a{n}", c.type) for n, c in enumerate(calls)]
    return GroupAggregateExec(source(SCHEMA, retract), keys, tuple(calls), Schema.of(*columns), RETRACT, ttl=ttl)


class Rows:
    """Random rows, some of which are taken back later; ids are unique."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._live: list[tuple[Any, ...]] = []
        self._next = 0

    def changes(self, retract: bool, most: int) -> tuple[list[tuple[Any, ...]], list[int]]:
        rows: list[tuple[Any, ...]] = []
        signs: list[int] = []
        for _ in range(int(self._rng.integers(0, most))):
            if retract and self._live and self._rng.random() < 0.45:
                rows.append(self._live.pop(int(self._rng.integers(len(self._live)))))
                signs.append(-1)
            else:
                rows.append(self._row())
                signs.append(1)
                self._live.append(rows[-1])
        return rows, signs

    def _row(self) -> tuple[Any, ...]:
        rng = self._rng
        self._next += 1

        def maybe(value: Any) -> Any:
            return None if rng.random() < 0.15 else value

        return (
            maybe("abcdef"[rng.integers(6)]),
            maybe(int(rng.integers(-20, 20))),
            maybe(float(rng.choice([0.1, -0.3, 1e20, -1e-30, 2.5, float("inf"), float("nan"), -0.0]))),
            maybe(decimal.Decimal(int(rng.integers(-500, 500)) * 10 ** int(rng.integers(0, 34))).scaleb(-2)),
            maybe("xyzw"[rng.integers(4)] * int(rng.integers(1, 12))),
            bool(rng.random() < 0.5),
            ";",
            f"row {self._next}",
            maybe(float(np.float32(rng.normal()))),
            0.5,
            1,
        )


@pytest.mark.parametrize(
    ("keys", "retract", "ttl", "backend"),
    [
        ((0,), False, 0, "memory"),
        ((0,), True, 0, "memory"),
        ((), True, 0, "memory"),
        ((0, 4), False, 40, "memory"),
        ((0,), True, 40, "memory"),
        ((0,), True, 0, "rocksdb"),
        ((0, 4), False, 40, "rocksdb"),
    ],
)
def test_a_restart_changes_nothing(keys: tuple[int, ...], retract: bool, ttl: int, backend: str) -> None:
    plan = node(keys, retract, ttl)

    def make() -> GroupAggregateOperator:
        return GroupAggregateOperator(plan, context())

    rng = np.random.default_rng(3)
    twins = Twins(make, rng, on_backend(backend, plan, make))
    rows, now = Rows(rng), 0
    # With a store a restart makes a file for each of many tables.
    for epoch in range(30 if backend == "memory" else 20):
        changed, signs = rows.changes(retract, 12)
        now += int(rng.integers(0, 12))
        twins.step([batch(SCHEMA, changed, signs if retract else None) if changed else None], time(epoch, now=now))
    twins.close()
    assert twins.restarts > 5
    assert twins.rows > 30


@pytest.mark.parametrize("retract", [False, True], ids=["inserts", "changes"])
def test_the_tables_are_those_that_the_plan_declares(retract: bool) -> None:
    plan = node((0,), retract)
    assert undeclared(GroupAggregateOperator(plan, context()), plan) == []


@pytest.mark.parametrize("exponents", [(-3, 3), (-320, 300), (0, 1)], ids=str)
def test_sums_of_doubles_come_back_bit_by_bit(exponents: tuple[int, int]) -> None:
    rng = np.random.default_rng(1)
    sums, again = ExactSums(), ExactSums()
    slots = rng.integers(0, 50, 400)
    values = rng.normal(size=400) * 10.0 ** rng.integers(*exponents, 400)
    values[rng.random(400) < 0.05] = np.inf
    sums.add_floats(slots, values, rng.choice([-1, 1], 400).astype(np.int8))
    some, places = rng.permutation(60), rng.permutation(60)
    saved = float_sums(sums, some)
    restore_floats(again, places, saved)
    assert repr(float_sums(again, places).to_pylist()) == repr(saved.to_pylist())
    np.testing.assert_array_equal(again.floats(places), sums.floats(some))


def test_digits_of_sums_of_doubles_are_their_value() -> None:
    sums = ExactSums()
    sums.add_floats(np.arange(5), np.array([1.0, -1.0, 0.0, 2.0**40 + 0.5, -(2.0**31)]), None)
    rows = float_sums(sums, np.arange(5)).to_pylist()
    assert [r["value"] for r in rows] == [1.0, -1.0, 0.0, 2.0**40 + 0.5, -(2.0**31)]
    for row in rows:
        digits = row["digits"]
        number = sum(digit << 32 * place for place, digit in enumerate(digits))
        number -= (digits[-1] >> 31) << 32 * len(digits) if digits else 0
        assert number * 2.0 ** row["exponent"] == row["value"]


def test_a_negative_sum_beside_a_huge_one() -> None:
    sums = ExactSums()
    sums.add_floats(np.array([0, 1, 2, 3, 3]), np.array([1.7e308, -1.0, -1.7e308, 1.7e308, 1.7e308]), None)
    np.testing.assert_array_equal(sums.floats(np.arange(4))[0], [1.7e308, -1.0, -1.7e308, np.inf])


def test_sums_of_decimals_come_back() -> None:
    numbers = [decimal.Decimal(n).scaleb(-2) for n in (0, 1, -1, 2**63, -(2**63), 2**64, 10**37, -(10**37), 2**96)]
    given = pa.array(numbers, pa.decimal128(38, 2))
    slots = np.arange(len(numbers))
    for some in (slots, slots[:3], slots[:5]):
        sums, again = ExactSums(), ExactSums()
        sums.add_decimals(some, given.take(pa.array(some)), None)
        restore_decimals(again, some, saved_decimals(sums, some, 2))
        assert saved_decimals(again, some, 2).to_pylist() == [numbers[s] for s in some]
