"""Estimates and the order of joins."""

from __future__ import annotations

import itertools

from trait_plans import call, col, eq, join, lit, scan, traits

from planner.cost.cost import estimate, total_cost
from planner.cost.join_order import reorder
from planner.logical import nodes as n
from runtime.core.changelog import RETRACT
from runtime.core.types import INT
from runtime.plan.estimates.selectivity import selectivity
from runtime.plan.nodes import JoinKind


def star() -> tuple[n.Scan, n.Scan, n.Scan]:
    """A large table between two small ones of which one is filtered down."""
    fact = scan("fact", {"a": INT, "b": INT}, RETRACT, rows=1_000_000, distinct={"a": 1000, "b": 10})
    many = scan("many", {"a": INT, "x": INT}, RETRACT, rows=1000, distinct={"a": 10, "x": 10})
    few = scan("few", {"b": INT, "y": INT}, RETRACT, key=("b",), rows=2)
    return fact, many, few


def test_equality_selects_one_of_the_distinct_values() -> None:
    table = scan("t", {"k": INT, "v": INT}, RETRACT, rows=1000, distinct={"k": 50})
    assert estimate(n.Filter(table, eq(col(table, "k"), lit(1))), traits()).rows == 20
    assert 0 < selectivity(call("LIKE", col(table, "v"), lit(1)), lambda _: 10.0) < 1


def test_join_by_key_keeps_the_rows_of_the_other_side() -> None:
    fact, _, few = star()
    assert estimate(join(fact, few, eq(col(fact, "b"), col(few, "b"))), traits()).rows == 200_000


def test_a_column_of_a_small_table_s_key_has_no_more_values_than_that_table_has_rows() -> None:
    customer, nation = (
        scan("customer", {"nation": INT}, RETRACT, rows=10_000),
        scan("nation", {"k": INT}, RETRACT, rows=25),
    )
    assert estimate(join(customer, nation, eq(col(customer, "nation"), col(nation, "k"))), traits()).rows == 10_000
    country = scan("country", {"k": INT}, RETRACT, key=("k",), rows=25)
    one = n.Filter(country, eq(col(country, "k"), lit(1)))
    assert estimate(join(customer, one, eq(col(customer, "nation"), col(country, "k"))), traits()).rows == 400


def test_small_results_are_joined_first() -> None:
    fact, many, few = star()
    context = traits()
    written = join(join(fact, many, eq(col(fact, "a"), col(many, "a"))), few, eq(col(fact, "b"), col(few, "b")))
    better = reorder(written, context)
    assert better is not None
    assert [c.id for c in better.columns] == [c.id for c in written.columns]
    assert total_cost(better, context) < total_cost(written, context)
    inner = better.inputs[0] if isinstance(better, n.Project) else better
    assert isinstance(inner, n.Join)
    pairs = [
        {s.name for s in side.inputs if isinstance(s, n.Scan)} for side in inner.inputs if isinstance(side, n.Join)
    ]
    assert pairs == [{"fact", "few"}]


def test_written_order_stays_without_statistics_or_when_it_is_the_best() -> None:
    fact, many, few = star()
    unknown = scan("unknown", {"a": INT}, RETRACT)
    written = join(join(fact, unknown, eq(col(fact, "a"), col(unknown, "a"))), few, eq(col(fact, "b"), col(few, "b")))
    assert reorder(written, traits()) is None
    best = join(join(fact, few, eq(col(fact, "b"), col(few, "b"))), many, eq(col(fact, "a"), col(many, "a")))
    assert reorder(best, traits()) is None


def test_outer_joins_are_not_taken_apart() -> None:
    fact, many, few = star()
    written = join(
        join(fact, many, eq(col(fact, "a"), col(many, "a")), kind=JoinKind.LEFT), few, eq(col(fact, "b"), col(few, "b"))
    )
    assert reorder(written, traits()) is None


def test_every_condition_survives_in_any_written_order_and_above_ten_relations_too() -> None:
    tables = [scan(f"t{i}", {"k": INT}, RETRACT, rows=10.0 ** (i % 5 + 1), distinct={"k": 10.0}) for i in range(13)]
    for count in (4, 13):
        plan: n.LogicalNode = tables[count - 1]
        for i in reversed(range(count - 1)):
            plan = join(plan, tables[i], eq(col(tables[i + 1], "k"), col(tables[i], "k")))
        assert isinstance(plan, n.Join)
        better = reorder(plan, traits())
        found = plan if better is None else better
        assert sorted(c.id for c in found.columns) == sorted(c.id for c in plan.columns)
        assert _conditions(found) == count - 1


def test_exhaustive_search_finds_the_cheapest_of_all_trees() -> None:
    fact, many, few = star()
    context = traits()
    by = {
        frozenset({fact, many}): eq(col(fact, "a"), col(many, "a")),
        frozenset({fact, few}): eq(col(fact, "b"), col(few, "b")),
    }
    costs: list[float] = []
    for a, b, c in itertools.permutations((fact, many, few)):
        first = by.get(frozenset({a, b}))
        second = by.get(frozenset({a, c})) or by.get(frozenset({b, c}))
        if first is not None and second is not None:
            costs.append(total_cost(join(join(a, b, first), c, second), context))
    written = join(join(fact, many, by[frozenset({fact, many})]), few, by[frozenset({fact, few})])
    better = reorder(written, context)
    assert better is not None and total_cost(better, context) <= min(costs) * 1.5


def _conditions(plan: n.LogicalNode) -> int:
    own = 0
    if isinstance(plan, n.Join):
        condition = plan.condition
        own = len(condition.args) if getattr(condition, "function", "") == "AND" else 1  # type: ignore[attr-defined]
    return own + sum(_conditions(source) for source in plan.inputs)
