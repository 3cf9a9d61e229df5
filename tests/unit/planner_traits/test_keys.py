"""Unique and upsert keys, class by class where a wrong rule would lose or keep rows."""

from __future__ import annotations

import pytest
from trait_plans import ROWTIME, bids, call, col, count_by, eq, join, lit, products, project, scan, traits

from planner.logical import nodes as n
from planner.traits.keys import unique_keys, upsert_keys
from runtime.core.changelog import RETRACT, UPSERT
from runtime.core.types import BIGINT, INT, STRING
from runtime.expr.nodes import Cast, SortKey, fresh_column
from runtime.plan.nodes import JoinKind, RankFunction, WindowProperty
from runtime.plan.windows import CumulateWindow, HopWindow, TumbleWindow


def named(plan: n.LogicalNode) -> list[str]:
    """The unique keys by column name, sorted text."""
    names = {c.id: c.name for c in plan.columns}
    return sorted(",".join(sorted(names.get(c, "?") for c in key)) for key in unique_keys(plan, traits()))


def orders(*key: str) -> n.Scan:
    return scan("orders", {"oid": INT, "pid": INT}, RETRACT, key)


def test_projection_keeps_a_key_only_while_its_columns_survive_one_to_one() -> None:
    table = products()
    assert named(project(table, "cat", "price")) == []
    assert named(project(table, "cat", big=Cast(col(table, "id"), BIGINT))) == ["big"]
    assert named(project(table, "cat", id2=call("+", col(table, "id"), lit(1), type_=INT))) == []


def test_cast_that_may_collide_loses_the_key() -> None:
    table = scan("t", {"k": BIGINT}, RETRACT, ("k",))
    assert named(project(table, small=Cast(col(table, "k"), INT))) == []


def test_constant_column_falls_out_of_the_key() -> None:
    table = scan("t", {"a": INT, "b": INT}, RETRACT, ("a", "b"))
    assert named(n.Filter(table, eq(col(table, "b"), lit(3)))) == ["a"]


def test_join_on_the_other_sides_key_keeps_this_sides_key() -> None:
    left, right = orders("oid"), products()
    assert named(join(left, right, eq(col(left, "pid"), col(right, "id")))) == ["oid"]


def test_join_on_an_image_of_the_other_sides_key_keeps_this_sides_key() -> None:
    left, right = scan("orders", {"oid": INT, "pid": BIGINT}, RETRACT, ("oid",)), products()
    wide = Cast(col(right, "id"), BIGINT)
    assert named(join(left, right, eq(col(left, "pid"), wide))) == ["oid"]
    assert named(
        join(left, right, eq(call("+", col(left, "pid"), lit(1), type_=BIGINT), wide), kind=JoinKind.LEFT)
    ) == ["oid"]
    assert named(join(left, right, eq(col(left, "pid"), call("+", wide, lit(1), type_=BIGINT)))) == ["id,oid"]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [(JoinKind.LEFT, ["oid"]), (JoinKind.RIGHT, ["id,oid"]), (JoinKind.FULL, ["id,oid"]), (JoinKind.SEMI, ["oid"])],
)
def test_outer_joins_pad_rows_that_share_nulls(kind: JoinKind, expected: list[str]) -> None:
    left, right = orders("oid"), products()
    assert named(join(left, right, eq(col(left, "pid"), col(right, "id")), kind=kind)) == expected


def test_full_join_of_nullable_keys_has_no_key() -> None:
    left, right = count_by(bids(), "item"), count_by(bids(), "item")
    assert named(join(left, right, eq(col(left, "item"), col(right, "item")), kind=JoinKind.FULL)) == []


def test_full_join_of_two_single_rows_may_give_two_rows() -> None:
    left, right = (n.Aggregate(bids(), (), (count_by(bids(), "item").calls[0],)) for _ in range(2))
    assert unique_keys(join(left, right, kind=JoinKind.LEFT), traits()) == (frozenset(),)
    assert unique_keys(join(left, right, kind=JoinKind.FULL), traits()) == ()


def test_join_without_keys_has_none() -> None:
    left, right = bids(), bids()
    assert named(join(left, right, eq(col(left, "item"), col(right, "item")))) == []


def test_global_aggregate_is_one_row_so_a_join_with_it_keeps_keys() -> None:
    left, right = products(), count_by(bids())
    assert named(join(left, right)) == ["id"]


def test_window_end_tells_windows_apart_and_start_does_not_for_cumulate() -> None:
    source = bids()
    for window, prop, keyed in (
        (TumbleWindow(10), WindowProperty.START, True),
        (CumulateWindow(5, 10), WindowProperty.START, False),
        (CumulateWindow(5, 10), WindowProperty.END, True),
    ):
        shown = fresh_column("w", ROWTIME)
        plan = n.WindowAggregate(
            source, window, col(source, "ts"), None, None, (col(source, "item"),), (), ((shown, prop),)
        )
        assert named(plan) == (["item,w"] if keyed else [])


def test_row_number_numbers_within_the_partition_but_rank_does_not() -> None:
    source = bids()
    rank = fresh_column("rn", BIGINT)
    order = (SortKey(col(source, "price")),)
    top = n.TopN(source, RankFunction.ROW_NUMBER, (col(source, "item"),), order, 1, 3, rank)
    assert named(top) == ["item,rn"]
    assert named(top.with_(function=RankFunction.RANK)) == []
    assert named(top.with_(end=1, rank=None)) == ["item"]


def test_upsert_source_promises_only_its_primary_key() -> None:
    table = products(UPSERT)
    other = (col(table, "cat").id,)
    table = table.with_(keys=(*table.keys, other))
    assert len(unique_keys(table, traits())) == 2
    assert [set(k) for k in upsert_keys(table, traits())] == [{col(table, "id").id}]


def test_union_has_no_key() -> None:
    a, b = products(), products()
    produced = tuple(fresh_column(c.name, c.type) for c in a.columns)
    assert named(n.Union((a, b), produced)) == []
    assert named(n.Union((a,), produced)) == ["id"]


def test_hopping_window_repeats_rows() -> None:
    source = n.AssignWatermark(
        t := scan("t", {"id": INT, "ts": ROWTIME, "s": STRING}, key=("id",)), col(t, "ts"), col(t, "ts")
    )
    added = [fresh_column(name, ROWTIME.materialized()) for name in ("ws", "we", "wt")]
    assert named(n.WindowTable(source, HopWindow(5, 10), col(source, "ts"), (), *added)) == ["id,we"]
    assert named(n.WindowTable(source, TumbleWindow(10), col(source, "ts"), (), *added)) == ["id"]
