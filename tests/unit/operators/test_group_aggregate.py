"""GROUP BY over changes: after every epoch the folded output is the batch answer of a plain Python fold."""

from __future__ import annotations

import decimal
import statistics
from collections import Counter
from typing import Any

import numpy as np
import pytest
from aggregate_harness import Rejected, batch, call, context, fold, source, time

from runtime.core.changelog import RETRACT
from runtime.core.schema import Schema
from runtime.core.types import BIGINT, BOOLEAN, DOUBLE, INT, STRING
from runtime.core.types import decimal as decimal_type
from runtime.operators.group_aggregate import GroupAggregateOperator
from runtime.plan.nodes import AggregateSpec, GroupAggregateExec

SCHEMA = Schema.of(
    ("k", STRING), ("i", INT), ("d", DOUBLE), ("m", decimal_type(10, 2)), ("s", STRING), ("f", BOOLEAN.not_null())
)


def node(keys: tuple[int, ...], calls: list[AggregateSpec], retract: bool, **options: Any) -> GroupAggregateExec:
    columns = [(SCHEMA[i].name, SCHEMA[i].type) for i in keys] + [(f"a{n}", c.type) for n, c in enumerate(calls)]
    return GroupAggregateExec(source(SCHEMA, retract), keys, tuple(calls), Schema.of(*columns), RETRACT, **options)


def random_row(rng: np.random.Generator) -> tuple[Any, ...]:
    def maybe(value: Any) -> Any:
        return None if rng.random() < 0.15 else value

    return (
        maybe("abc"[rng.integers(3)]),
        maybe(int(rng.integers(-20, 20))),
        maybe(float(rng.integers(-8, 8)) / 4),
        maybe(decimal.Decimal(int(rng.integers(-500, 500))).scaleb(-2)),
        maybe("xyzw"[rng.integers(4)] * int(rng.integers(1, 12))),
        bool(rng.random() < 0.5),
    )


def calls(retract: bool) -> list[AggregateSpec]:
    def of(name: str, *args: int, **options: Any) -> AggregateSpec:
        return call(SCHEMA, name, *args, retract=retract, **options)

    return [
        of("COUNT"),
        of("COUNT", 1),
        of("COUNT", 1, 4),
        of("COUNT", 1, filter=5),
        of("SUM", 1),
        of("SUM", 2),
        of("SUM", 3),
        of("SUM0", 1),
        of("AVG", 1),
        of("AVG", 2),
        of("AVG", 3),
        of("MIN", 1),
        of("MAX", 1),
        of("MIN", 2),
        of("MAX", 3),
        of("MIN", 4),
        of("MAX", 4),
        of("VAR_POP", 2),
        of("STDDEV_SAMP", 2),
        of("COUNT", 1, distinct=True),
        of("COUNT", 1, distinct=True, filter=5),
        of("SUM", 1, distinct=True),
        of("MAX", 4, distinct=True, filter=5),
        of("LISTAGG", 4),
        of("ARRAY_AGG", 1),
        of("FIRST_VALUE", 4),
        of("LAST_VALUE", 1),
        of("COLLECT", 4),
        of("JSON_ARRAYAGG", 1),
        of("APPROX_COUNT_DISTINCT", 3),
        of("LISTAGG", 4, distinct=True),
    ]


def expected(rows: list[tuple[Any, ...]], arrived: dict[int, list[Any]]) -> list[Any]:
    """The answers in the order of `calls`. `arrived`: values of columns 1 and 4 in order of arrival, from which the
    oldest equal value goes when one is taken back."""

    def values(i: int, only: bool = False) -> list[Any]:
        return [r[i] for r in rows if r[i] is not None and (not only or r[5])]

    i, d, m, s = (values(n) for n in (1, 2, 3, 4))
    whole = None if not i else int(sum(i) / len(i))
    cents = decimal.Decimal(1).scaleb(-6)
    unique = list(dict.fromkeys(s))
    ordered = {n: [v for v in arrived[n] if v is not None] for n in (1, 4)}
    return [
        len(rows),
        len(i),
        sum(r[1] is not None and r[4] is not None for r in rows),
        len(values(1, True)),
        sum(i) if i else None,
        sum(d) if d else None,
        sum(m) if m else None,
        sum(i),
        whole,
        sum(d) / len(d) if d else None,
        (sum(m) / len(m)).quantize(cents, rounding=decimal.ROUND_HALF_UP) if m else None,
        min(i, default=None),
        max(i, default=None),
        min(d, default=None),
        max(m, default=None),
        min(s, default=None),
        max(s, default=None),
        statistics.pvariance(d) if d else None,
        statistics.stdev(d) if len(d) > 1 else None,
        len(set(i)),
        len(set(values(1, True))),
        sum(set(i)) if i else None,
        max(values(4, True), default=None),
        ",".join(ordered[4]) if s else None,
        arrived[1] or None,
        ordered[4][0] if s else None,
        ordered[1][-1] if i else None,
        sorted(Counter(s).items()),
        "[" + ",".join(map(str, ordered[1])) + "]",
        len(set(m)),
        ",".join(unique) if s else None,
    ]


def close(given: Any, wanted: Any) -> bool:
    if isinstance(wanted, float) and isinstance(given, float):
        return given == pytest.approx(wanted, rel=1e-12, abs=1e-12)
    return given == wanted


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("retract", [False, True])
@pytest.mark.parametrize("keyed", [False, True])
def test_every_function_equals_a_plain_fold(seed: int, retract: bool, keyed: bool) -> None:
    rng = np.random.default_rng(seed)
    specs = calls(retract)
    plan = node((0,) if keyed else (), specs, retract)
    operator = GroupAggregateOperator(plan, context())
    live: Counter[str] = Counter()
    shown: dict[Any, list[Any]] = {}
    rows: list[tuple[Any, ...]] = []
    arrived: dict[Any, dict[int, list[Any]]] = {}
    for epoch in range(12):
        changes: list[tuple[Any, ...]] = []
        signs: list[int] = []
        for _ in range(int(rng.integers(0, 12))):
            if retract and rows and rng.random() < 0.45:
                victim = rows[rng.integers(len(rows))]
                rows.remove(victim)
                for n, values in arrived[victim[0] if keyed else ""].items():
                    values.remove(victim[n])
                changes.append(victim)
                signs.append(-1)
            else:
                changes.append(random_row(rng))
                signs.append(1)
                rows.append(changes[-1])
                for n, values in arrived.setdefault(changes[-1][0] if keyed else "", {1: [], 4: []}).items():
                    values.append(changes[-1][n])
        output = operator.step([batch(SCHEMA, changes, signs if retract else None) if changes else None], time(epoch))
        fold(live, output)
        if output is not None:
            assert output.rows.schema.types == [f.type.arrow for f in plan.schema]
            for kind, row in zip(output.kinds_or_inserts().tolist(), output.rows.to_pylist(), strict=True):
                key, *values = row.values() if keyed else ("", *row.values())
                if kind in (0, 2):
                    shown[key] = values
                elif kind == 3:
                    del shown[key]
        groups: dict[Any, list[tuple[Any, ...]]] = {}
        for row in rows:
            groups.setdefault(row[0] if keyed else "", []).append(row)
        assert set(shown) == set(groups)
        assert sum(live.values()) == len(groups)
        for key, members in groups.items():
            for spec, given, wanted in zip(specs, shown[key], expected(members, arrived[key]), strict=True):
                if spec.function == "COLLECT":
                    given = sorted(given)
                if spec.function == "LISTAGG" and spec.distinct and retract:
                    # Which of equal values came first is not remembered once it is taken back.
                    given, wanted = (sorted(t.split(",")) if t else t for t in (given, wanted))
                assert close(given, wanted), (spec.function, spec.distinct, key, given, wanted)
    if retract and rows:
        output = operator.step([batch(SCHEMA, rows, [-1] * len(rows))], time(99))
        fold(live, output)
        assert not live
        assert operator.state_size.rows == 0


def test_kinds_order_and_suppression() -> None:
    plan = node((0,), [call(SCHEMA, "MAX", 1, retract=True)], True)
    operator = GroupAggregateOperator(plan, context())
    row = ("a", 5, None, None, None, True)
    first = operator.step([batch(SCHEMA, [("b", 1, *row[2:]), row])], time(0))
    assert first is not None and first.kinds is None
    assert first.rows.to_pylist() == [{"k": "b", "a0": 1}, {"k": "a", "a0": 5}]
    assert operator.step([batch(SCHEMA, [("a", 4, *row[2:])])], time(1)) is None
    changed = operator.step([batch(SCHEMA, [row, ("b", 7, *row[2:])], [-1, 1])], time(2))
    assert changed is not None
    assert list(
        zip(changed.kinds_or_inserts().tolist(), [tuple(r.values()) for r in changed.rows.to_pylist()], strict=True)
    ) == [(1, ("a", 5)), (2, ("a", 4)), (1, ("b", 1)), (2, ("b", 7))]
    gone = operator.step([batch(SCHEMA, [("a", 4, *row[2:])], [-1])], time(3))
    assert gone is not None and gone.kinds_or_inserts().tolist() == [3]


def test_without_calls_a_group_only_appears_and_vanishes() -> None:
    operator = GroupAggregateOperator(node((0,), [], True), context())
    row = ("a", None, None, None, None, True)
    assert operator.step([batch(SCHEMA, [row, row])], time(0)) is not None
    assert operator.step([batch(SCHEMA, [row], [-1])], time(1)) is None
    gone = operator.step([batch(SCHEMA, [row], [-1])], time(2))
    assert gone is not None and gone.kinds_or_inserts().tolist() == [3]


def test_taking_back_from_an_unknown_group_is_ignored() -> None:
    operator = GroupAggregateOperator(node((0,), [call(SCHEMA, "COUNT", retract=True)], True), context())
    a, b = (("a", 1, None, None, None, True), ("b", 1, None, None, None, True))
    out = operator.step([batch(SCHEMA, [a, b, a, a, b, a], [-1, -1, 1, 1, -1, -1])], time(0))
    assert out is not None and out.rows.to_pylist() == [{"k": "a", "a0": 1}]
    assert operator.state_size.rows == 1


def test_idle_groups_are_forgotten_and_equal_results_sent_again_with_a_time_to_live() -> None:
    operator = GroupAggregateOperator(node((0,), [call(SCHEMA, "MAX", 1)], False, ttl=100), context())
    a, b = (("a", 1, None, None, None, True), ("b", 1, None, None, None, True))
    operator.step([batch(SCHEMA, [a, b])], time(0, now=0))
    again = operator.step([batch(SCHEMA, [a])], time(1, now=90))
    assert again is not None and again.kinds_or_inserts().tolist() == [1, 2]
    assert operator.step([None], time(2, now=150)) is None
    assert operator.state_size.rows == 1
    fresh = operator.step([batch(SCHEMA, [b])], time(3, now=160))
    assert fresh is not None and fresh.kinds is None


def test_sums_of_doubles_come_back_after_huge_values_are_taken_back() -> None:
    specs = [call(SCHEMA, f, 2, retract=True) for f in ("SUM", "AVG", "VAR_POP")]
    operator = GroupAggregateOperator(node((), specs, True), context())
    rows = [("a", 1, d, None, None, True) for d in (1e20, 1e9, 1e9 + 1, float("nan"), float("inf"))]
    operator.step([batch(SCHEMA, rows)], time(0))
    out = operator.step([batch(SCHEMA, [rows[0], rows[3], rows[4]], [-1, -1, -1])], time(1))
    assert out is not None
    assert list(out.rows.to_pylist()[-1].values()) == [2e9 + 1, 1e9 + 0.5, 0.25]


def test_rejects_nothing() -> None:
    rejected = Rejected()
    GroupAggregateOperator(node((), [call(SCHEMA, "COUNT")], False), context(rejected)).step([None], time(0))
    assert not rejected.rows
    assert BIGINT.not_null()
