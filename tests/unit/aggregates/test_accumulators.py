"""Accumulators that the tests of GROUP BY do not reach: exact sums, ORDER BY inside a call, PERCENTILE, JSON, merging,
limits of types."""

from __future__ import annotations

import math
from decimal import Decimal, getcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from runtime.core.errors import ExpressionError
from runtime.core.types import BIGINT, DOUBLE, INT, STRING, TINYINT, DataType, array, decimal, varchar
from runtime.eval.aggregates.aggregate_set import AggregateSet
from runtime.eval.aggregates.decimals import average_decimals, sum_decimals
from runtime.eval.aggregates.exact_sums import ExactSums
from runtime.plan.nodes import AggregateSpec, SortSpec

getcontext().prec = 80


def spec(name: str, types: list[DataType], result: DataType, **options: Any) -> AggregateSpec:
    return AggregateSpec(name, tuple(range(len(types))), tuple(types), result, **options)


def result(
    call: AggregateSpec,
    columns: list[pa.Array],
    types: list[DataType],
    signs: list[int] | None = None,
    slots: list[int] | None = None,
) -> list[Any]:
    count = len(columns[0])
    state = AggregateSet([call], types)
    where = np.zeros(count, np.int64) if slots is None else np.array(slots)
    state.update(where, None if signs is None else np.array(signs, np.int8), columns, np.arange(count))
    return state.results(np.unique(where))[0].to_pylist()


@pytest.mark.parametrize("seed", range(4))
def test_sums_of_doubles_are_exact_in_any_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = 4000
    slots = rng.integers(0, 30, count)
    values = rng.standard_normal(count) * 10.0 ** rng.integers(-300, 300, count)
    values[:50] = 5e-324 * np.arange(50)
    values[50:90] = -2.2e-310
    signs = rng.choice([-1, 1], count).astype(np.int8)
    sums = ExactSums()
    for part in np.array_split(rng.permutation(count), 7):
        sums.add_floats(slots[part], values[part], signs[part])
    high, _ = sums.floats(np.arange(30))
    assert high.tolist() == [math.fsum((values * signs)[slots == slot]) for slot in range(30)]
    sums.add_floats(slots, values, -signs)
    assert not sums.floats(np.arange(40))[0].any()


def test_sums_and_averages_of_long_decimals() -> None:
    values = [Decimal("9" * 36).scaleb(-2), Decimal("-" + "9" * 36).scaleb(-2), Decimal("0.05"), Decimal("-10.01")]
    counts = [7, 3, 2_000_000, 3]
    sums = ExactSums()
    sums.add_decimals(np.arange(4), pa.array(values, pa.decimal128(38, 2)), None)
    words = sums.words(np.arange(4))
    assert sum_decimals(words, 2, pa.decimal128(38, 2), None).to_pylist() == values
    averages = average_decimals(words, 2, np.array(counts), pa.decimal128(38, 6), None).to_pylist()
    assert averages == [
        (v / n).quantize(Decimal("0.000001"), rounding="ROUND_HALF_UP") if v.adjusted() < 31 else None
        for v, n in zip(values, counts, strict=True)
    ]


def test_a_sum_of_too_many_digits_is_null_until_it_comes_back() -> None:
    type_ = decimal(38, 0)
    values = pa.array([Decimal("9" * 38), Decimal(1), Decimal(1)], type_.arrow)
    assert result(spec("SUM", [type_], type_), [values.slice(0, 2)], [type_]) == [None]
    assert result(spec("SUM", [type_], type_, retract=True), [values], [type_], [1, 1, -1]) == [Decimal("9" * 38)]


def test_integers_wrap_in_their_own_type_and_averages_are_cut() -> None:
    assert result(spec("SUM", [TINYINT], TINYINT), [pa.array([100, 100], pa.int8())], [TINYINT]) == [-56]
    top = pa.array([2**63 - 1] * 2)
    assert result(spec("AVG", [BIGINT], BIGINT), [top], [BIGINT]) == [-1]
    assert result(spec("AVG", [INT], INT), [pa.array([-1, -2], pa.int32())], [INT]) == [-1]


@pytest.mark.parametrize(
    ("function", "values", "wanted"),
    [("STDDEV_POP", [1, 2, 3, 4], 1), ("STDDEV_POP", [5], 0), ("VAR_SAMP", [5], None), ("VAR_SAMP", [2, 4, 9], 13)],
)
def test_variances_of_integers_are_integers(function: str, values: list[int], wanted: int | None) -> None:
    assert result(spec(function, [INT], INT), [pa.array(values, pa.int32())], [INT]) == [wanted]


def test_variance_of_decimals_and_of_large_close_doubles() -> None:
    small, wide = decimal(3, 2), decimal(38, 6)
    values = pa.array([Decimal("1.10"), Decimal("2.25"), Decimal("3.33")], small.arrow)
    assert result(spec("VAR_POP", [small], wide), [values], [small]) == [Decimal("0.829089")]
    close = [1e9 + n / 8 for n in range(9)]
    mean = sum(map(Fraction, close)) / 9
    exact = float(sum((Fraction(x) - mean) ** 2 for x in close) / 9)
    assert result(spec("VAR_POP", [DOUBLE], DOUBLE), [pa.array(close)], [DOUBLE]) == [pytest.approx(exact, rel=1e-15)]


def test_order_by_inside_a_call() -> None:
    types = [STRING, INT]
    columns = [pa.array(["a", "b", "c", "d"]), pa.array([2, None, 3, 2], pa.int32())]
    call = AggregateSpec(
        "LISTAGG", (0,), (STRING,), STRING, order_by=(SortSpec(1, descending=True, nulls_last=True),), retract=True
    )
    assert result(call, columns, types) == ["c,a,d,b"]
    assert result(call.with_(function="ARRAY_AGG", type=array(STRING)), columns, types, [1, 1, 1, 1]) == [
        ["c", "a", "d", "b"]
    ]


@pytest.mark.parametrize(
    ("values", "weights", "fraction", "wanted"),
    [
        ([1, 2, 3, 10], None, 0.5, 2.5),
        ([1, 10], [3, 1], 0.5, 1.0),
        ([10, 1], [1, 3], 0.75, 3.25),
        ([4, None], None, 0.9, 4.0),
        ([None], None, 0.5, None),
        ([1, 2, 3], None, [0.0, 0.25, 1.0], [1.0, 1.5, 3.0]),
    ],
)
def test_percentile(values: list[Any], weights: list[int] | None, fraction: Any, wanted: Any) -> None:
    many = isinstance(fraction, list)
    types = [INT, array(DOUBLE) if many else DOUBLE, *([INT] if weights else [])]
    columns = [pa.array(values, pa.int32()), pa.array([fraction] * len(values), types[1].arrow)]
    columns += [pa.array(weights, pa.int32())] if weights else []
    assert result(spec("PERCENTILE", types, array(DOUBLE) if many else DOUBLE), columns, types) == [wanted]


def test_percentile_of_an_impossible_fraction() -> None:
    with pytest.raises(ExpressionError, match="1.5"):
        result(spec("PERCENTILE", [INT, DOUBLE], DOUBLE), [pa.array([1], pa.int32()), pa.array([1.5])], [INT, DOUBLE])


def test_json() -> None:
    text, types = varchar(2000), [STRING, DOUBLE]
    columns = [pa.array(["k", 'q"\\', "z"]), pa.array([1.0, 0.5, None])]
    assert result(spec("JSON_OBJECTAGG", types, text), columns, types) == ['{"k":1.0,"q\\"\\\\":0.5,"z":null}']
    assert result(spec("JSON_OBJECTAGG_ABSENT_ON_NULL", types, text), columns, types) == ['{"k":1.0,"q\\"\\\\":0.5}']
    assert result(AggregateSpec("JSON_ARRAYAGG", (1,), (DOUBLE,), text), columns, types) == ["[1.0,0.5]"]
    assert result(AggregateSpec("JSON_ARRAYAGG_NULL_ON_NULL", (1,), (DOUBLE,), text), columns, types) == [
        "[1.0,0.5,null]"
    ]
    with pytest.raises(ExpressionError, match="'k'"):
        result(spec("JSON_OBJECTAGG", types, text), [pa.array(["k", "k"]), pa.array([1.0, 2.0])], types)


def test_single_value_wants_one_row() -> None:
    one = pa.array([5, 6], pa.int32())
    assert result(spec("SINGLE_VALUE", [INT], INT, retract=True), [one], [INT], [-1, 1]) == [6]
    assert result(spec("SINGLE_VALUE", [INT], INT), [one], [INT], None, [0, 1]) == [5, 6]
    with pytest.raises(ExpressionError, match="more than one row"):
        result(spec("SINGLE_VALUE", [INT], INT), [one], [INT])


def test_nan_is_the_greatest_number() -> None:
    values = pa.array([1.0, math.nan, -0.0])
    assert math.isnan(result(spec("MAX", [DOUBLE], DOUBLE), [values], [DOUBLE])[0])
    assert result(spec("MIN", [DOUBLE], DOUBLE), [values], [DOUBLE]) == [0.0]
    assert result(spec("MAX", [DOUBLE], DOUBLE, retract=True), [values], [DOUBLE], [1, 1, 1])[0] != 1.0


FUNCTIONS = [
    ("COUNT", [INT], BIGINT),
    ("SUM", [INT], INT),
    ("AVG", [DOUBLE], DOUBLE),
    ("MIN", [INT], INT),
    ("MAX", [STRING], STRING),
    ("FIRST_VALUE", [INT], INT),
    ("LAST_VALUE", [STRING], STRING),
    ("LISTAGG", [STRING], STRING),
    ("VAR_SAMP", [DOUBLE], DOUBLE),
    ("ARRAY_AGG", [INT], array(INT)),
]


@pytest.mark.parametrize("retract", [False, True])
@pytest.mark.parametrize("distinct", [False, True])
def test_merged_groups_equal_one_group(retract: bool, distinct: bool) -> None:
    rng = np.random.default_rng(3)
    types = [INT, DOUBLE, STRING]
    column_of = {INT: 0, DOUBLE: 1, STRING: 2}
    calls = [
        AggregateSpec(name, (column_of[t[0]],), (t[0],), r, retract=retract, distinct=distinct)
        for name, t, r in FUNCTIONS
    ]
    count = 200
    columns = [
        pa.array(rng.integers(-9, 9, count), pa.int32(), mask=rng.random(count) < 0.2),
        pa.array(rng.integers(0, 9, count) / 4),
        pa.array(rng.choice(list("abc"), count)),
    ]
    slots, seqs = rng.integers(0, 12, count), np.arange(count)
    panes, whole, merged = (AggregateSet(calls, types, mergeable=True) for _ in range(3))
    panes.update(slots, None, columns, seqs)
    whole.update(slots % 4, None, columns, seqs)
    merged.merge(np.arange(12) % 4, panes, np.arange(12))
    wanted = [c.to_pylist() for c in whole.results(np.arange(4))]
    assert [c.to_pylist() for c in merged.results(np.arange(4))] == wanted
    # The same inside one set, and released groups are empty.
    panes.merge(np.arange(4, 12) % 4, panes, np.arange(4, 12))
    panes.release(np.arange(4, 12))
    inside = [c.to_pylist() for c in panes.results(np.arange(4))]
    ordered = {"FIRST_VALUE", "LAST_VALUE", "LISTAGG", "ARRAY_AGG"} if distinct else set()
    assert [v for v, c in zip(inside, calls, strict=True) if c.function not in ordered] == [
        v for v, c in zip(wanted, calls, strict=True) if c.function not in ordered
    ]
    assert panes.results(np.array([5]))[0].to_pylist() == [0]
    assert all(c.to_pylist() == [None] for c in panes.results(np.array([5]))[1:])


@pytest.mark.parametrize("name", ["MIN", "MAX"])
def test_extremes_of_many_texts_however_few_are_different(name: str) -> None:
    rng = np.random.default_rng(5)
    best = min if name == "MIN" else max
    state, kept = AggregateSet([spec(name, [STRING], STRING)], [STRING]), {}
    for step, different in enumerate([3, 2000, 40, 1]):
        texts = [None if n == 0 else f"{n * 7919 % 1009}é{step}" for n in rng.integers(0, different + 1, 3000)]
        slots = rng.integers(0, 50, 3000)
        state.update(slots, None, [pa.array(texts, pa.string())], np.arange(3000))
        for slot, text in zip(slots.tolist(), texts, strict=True):
            if text is not None:
                kept[slot] = best(kept.get(slot, text), text)
        assert state.results(np.arange(50))[0].to_pylist() == [kept.get(slot) for slot in range(50)]
