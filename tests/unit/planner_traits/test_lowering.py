"""Physical plans of small logical plans: modes, what stands between source and sink, shared operators, refusals."""

from __future__ import annotations

import inspect

import pytest
from trait_plans import (
    ROWTIME,
    bids,
    call,
    col,
    context,
    count_by,
    eq,
    join,
    lit,
    products,
    project,
    scan,
    sink,
    traits,
)

from planner.logical import nodes as n
from planner.lower import lower, lower_statement_set
from planner.lower.lowering import lower_node
from planner.traits import boundedness, changes, keys, update_kind
from runtime.core.changelog import APPEND, RETRACT, UPSERT, ChangelogMode
from runtime.core.errors import PlanningError, UnsupportedError
from runtime.core.types import BIGINT, INT, STRING
from runtime.expr.nodes import SortKey, WindowCall, fresh_column
from runtime.plan.explain import explain
from runtime.plan.nodes import CalcExec, GroupAggregateExec, JoinKind, RememberExec
from runtime.plan.walk import walk_all

KEY_ONLY = ChangelogMode(True, False, True, True, key_only_deletes=True)


def shown(plan: n.LogicalNode, options: dict[str, str] | None = None) -> list[str]:
    return [line.strip() for line in explain(lower(plan, context(options))).splitlines()]


def test_every_logical_class_has_its_traits_and_its_physical_form() -> None:
    classes = [
        c
        for _, c in inspect.getmembers(n, inspect.isclass)
        if issubclass(c, n.LogicalNode) and c not in (n.LogicalNode, n.Unary, n.Binary, n.Several)
    ]
    assert len(classes) >= 26
    for function in (keys._keys, changes._changes, lower_node):
        missing = [c.__name__ for c in classes if function.dispatch(c) is function.dispatch(object)]
        assert not missing, f"{function.__name__} does not know {missing}"
    assert boundedness._bound.dispatch(n.Join) is not boundedness._bound.dispatch(object)
    assert update_kind._follows.dispatch(n.Scan) is not update_kind._follows.dispatch(object)


# --- update kinds
# -----------------------------------------------------------------------------------------------------------


def test_upsert_sink_on_the_group_key_gets_after_images() -> None:
    assert shown(sink(count_by(bids(), "item"), UPSERT, ("item",)))[:2] == [
        "Sink out (item, n) exactly-once  [I,UA]",
        "GroupAggregate by (item) [COUNT(*) AS n]  [I,UA]",
    ]


def test_filter_on_a_column_that_changes_forces_old_images_below_it() -> None:
    counted = count_by(bids(), "item")
    lines = shown(sink(n.Filter(counted, call(">", col(counted, "n"), lit(5))), UPSERT, ("item",)))
    assert lines[:4] == [
        "Sink out (item, n) exactly-once  [I,UA,D]",
        "DropUpdateBefore by (item)  [I,UA,D]",
        "Calc [item, n] where n > 5  [I,UB,UA]",
        "GroupAggregate by (item) [COUNT(*) AS n]  [I,UB,UA]",
    ]


def test_filter_on_the_key_does_not() -> None:
    counted = count_by(bids(), "item")
    lines = shown(sink(n.Filter(counted, call(">", col(counted, "item"), lit(5))), UPSERT, ("item",)))
    assert lines[2].startswith("GroupAggregate") and lines[2].endswith("[I,UA]")


def test_upsert_source_is_normalized_for_an_aggregate_but_not_for_a_sink_by_its_key() -> None:
    table = products(UPSERT)
    assert "ChangelogNormalize by (id)  [I,UB,UA,D]" in shown(count_by(table, "cat"))
    assert not any("Normalize" in line for line in shown(sink(table, UPSERT, ("id",))))


def test_deletes_by_key_alone_are_completed_unless_the_sink_takes_them() -> None:
    table = products(KEY_ONLY)
    assert "ChangelogNormalize by (id)  [I,UA,D]" in shown(sink(table, UPSERT, ("id",)))
    assert not any("Normalize" in line for line in shown(sink(table, KEY_ONLY, ("id",))))


def test_old_images_of_a_changelog_source_are_dropped_for_an_upsert_sink() -> None:
    assert "DropUpdateBefore  [I,UA,D]" in shown(sink(products(), UPSERT, ("id",)))


def test_duplicates_of_a_changelog_source_are_removed_by_key_when_asked() -> None:
    assert (
        shown(products(), {"table.exec.source.cdc-events-duplicate": "true"})[0]
        == "ChangelogNormalize by (id)  [I,UB,UA,D]"
    )


def test_join_takes_after_images_of_an_upsert_source() -> None:
    left, right = bids(), products(UPSERT)
    lines = shown(join(left, right, eq(col(left, "price"), col(right, "id"))))
    assert lines[0] == "HashJoin INNER on price = id, right unique (id)  [I,UB,UA,D]"
    assert not any("Normalize" in line for line in lines)


def test_join_gets_full_images_of_an_aggregate() -> None:
    left, right = count_by(bids(), "item"), count_by(bids(), "item")
    lines = shown(join(left, right, eq(col(left, "item"), col(right, "item"))))
    assert lines[1] == "GroupAggregate by (item) [COUNT(*) AS n]  [I,UB,UA]"


# --- sinks
# ------------------------------------------------------------------------------------------------------------------


def test_updates_into_an_append_sink_name_the_operator() -> None:
    with pytest.raises(
        PlanningError, match="table out takes only insertions, but the aggregation by item updates"
    ) as caught:
        lower(sink(count_by(bids(), "item"), APPEND), context())
    assert caught.value.code == "E1701" and caught.value.hint


def test_rows_that_may_clash_on_the_sink_key_need_on_conflict() -> None:
    left, right = bids(), products()
    query = join(left, right, eq(col(left, "price"), col(right, "id")))
    with pytest.raises(PlanningError) as caught:
        lower(sink(query, UPSERT, ("item",)), context())
    assert caught.value.code == "E1703"
    assert "SinkMaterialize by (item)  [I,UA,D]" in shown(sink(query, UPSERT, ("item",), "DEDUPLICATE"))
    lenient = context({"table.exec.sink.require-on-conflict": "false"})
    assert "SinkMaterialize by (item)" in explain(lower(sink(query, UPSERT, ("item",)), lenient))
    never = context({"table.exec.sink.upsert-materialize": "NONE"})
    assert "DropUpdateBefore by (item)" in explain(lower(sink(query, UPSERT, ("item",)), never))


def test_sink_key_that_contains_the_query_key_moves_rows_between_keys() -> None:
    lines = shown(sink(count_by(bids(), "item"), UPSERT, ("item", "n")))
    assert lines[1:3] == [
        "DropUpdateBefore by (item, n)  [I,UA,D]",
        "GroupAggregate by (item) [COUNT(*) AS n]  [I,UB,UA]",
    ]


# --- forms
# ------------------------------------------------------------------------------------------------------------------


def test_filters_and_projections_merge_into_one_calc() -> None:
    source = bids()
    twice = call("*", col(source, "price"), lit(2), type_=INT)
    inner = project(n.Filter(source, call(">", col(source, "price"), lit(1))), "item", twice=twice)
    plan = project(n.Filter(inner, call("<", col(inner, "twice"), lit(9))), "twice", "item")
    assert shown(plan)[0] == "Calc [price * 2 AS twice, item] where price > 1 AND price * 2 < 9  [I]"


def test_failing_condition_stays_behind_its_guard() -> None:
    source = bids()
    guarded = n.Filter(source, call(">", col(source, "price"), lit(0)))
    plan = n.Filter(guarded, call(">", call("/", lit(10), col(source, "price"), type_=INT), lit(1)))
    assert [line.split()[0] for line in shown(plan)[:3]] == ["Calc", "Calc", "Watermark"]


def test_random_value_is_drawn_once() -> None:
    source = bids()
    inner = project(source, "item", r=call("RAND", type_=INT))
    plan = project(inner, a=col(inner, "r"), b=col(inner, "r"))
    assert isinstance(lower(plan, context()), CalcExec)
    assert sum(line.count("RAND") for line in shown(plan)) == 1


def test_computed_join_keys_get_columns_that_do_not_show_above() -> None:
    left, right = bids(), products()
    key = call("+", col(left, "price"), lit(1), type_=INT)
    plan = join(left, right, eq(key, col(right, "id")), call(">", col(left, "price"), col(right, "price")))
    physical = lower(plan, context())
    assert physical.schema.names == ("item", "price", "ts", "id", "cat", "price")
    assert "HashJoin INNER on $f3 = id AND price > price0, right unique (id)  [I,UB,UA,D]" in shown(plan)


def test_null_safe_equality_written_with_or() -> None:
    left, right = bids(), products()
    a, b = col(left, "price"), col(right, "id")
    plan = join(
        left, right, call("OR", eq(a, b), call("AND", call("IS NULL", a), call("IS NULL", b))), kind=JoinKind.LEFT
    )
    assert shown(plan)[0].startswith("HashJoin LEFT on price IS NOT DISTINCT FROM id, right unique (id)")


def test_over_windows_that_differ_stand_on_one_another() -> None:
    source = bids()
    by_time = (SortKey(col(source, "ts")),)
    calls = tuple(
        (fresh_column(name, BIGINT), WindowCall("SUM", (col(source, "price"),), BIGINT, partition, by_time))
        for name, partition in (("a", (col(source, "item"),)), ("b", ()), ("c", (col(source, "item"),)))
    )
    lines = shown(n.Over(source, calls))
    assert lines[0] == "Calc [item, price, ts, a, b, c]  [I]"
    assert lines[1].startswith("OverAggregate [SUM(price) AS b] order by ts RANGE")
    assert lines[2].startswith("OverAggregate [SUM(price) AS a, SUM(price) AS c] by (item) order by ts RANGE")


def test_ordered_over_takes_no_updates() -> None:
    source = scan("t", {"k": INT, "ts": ROWTIME}, RETRACT)
    plan = n.Over(
        source, ((fresh_column("s", BIGINT), WindowCall("COUNT", (), BIGINT, (), (SortKey(col(source, "ts")),))),)
    )
    with pytest.raises(
        PlanningError, match="OVER ordered by time takes only insertions, but the table t updates or removes rows"
    ):
        lower(plan, context())


def test_sort_without_end_is_refused_except_by_time() -> None:
    source = bids()
    with pytest.raises(UnsupportedError) as caught:
        lower(n.Sort(source, (SortKey(col(source, "price")),)), context())
    assert caught.value.code == "E1614"
    assert shown(n.Sort(source, (SortKey(col(source, "ts")),)))[0] == "Sort by ts  [I]"


def test_constant_row_of_no_columns() -> None:
    one = n.Values(((),), ())
    assert shown(project(one, a=lit(1))) == ["Values (1)  [I]"]
    assert shown(count_by(one))[0] == "GroupAggregate [COUNT(*) AS n]  [I,UB,UA]"


def test_temporal_join_wants_the_whole_key() -> None:
    left = bids()
    right = scan("rates", {"cur": STRING, "rate": INT, "rt": ROWTIME}, RETRACT, ("cur",))
    plan = n.TemporalJoin(left, right, JoinKind.LEFT, col(left, "ts"), eq(col(left, "item"), col(right, "cur")))
    lines = shown(plan)
    assert lines[0] == "TemporalJoin LEFT as of ts, versions by rt on item = cur  [I]"
    assert lines[3] == "DropUpdateBefore  [I,UA,D]"
    with pytest.raises(PlanningError, match="whole primary key of the right table: cur"):
        lower(plan.with_(condition=eq(col(left, "price"), col(right, "rate"))), context())


# --- sharing
# ----------------------------------------------------------------------------------------------------------------


def test_statement_set_shares_what_is_equal_although_columns_differ() -> None:
    plans = [sink(count_by(bids(), "item"), RETRACT) for _ in range(2)]
    roots = lower_statement_set(plans, context())
    assert sum(isinstance(node, GroupAggregateExec) for node in walk_all(roots)) == 1


def test_statement_set_shares_state_between_readers_with_and_without_old_images() -> None:
    plans = [sink(count_by(bids(), "item"), UPSERT, ("item",)), sink(count_by(bids(), "item"), RETRACT)]
    roots = lower_statement_set(plans, context())
    assert sum(isinstance(node, GroupAggregateExec) for node in walk_all(roots)) == 1
    assert [r.mode for r in roots] == [
        ChangelogMode(update_after=True),
        ChangelogMode(update_before=True, update_after=True),
    ]


@pytest.mark.parametrize("strategy", ["IGNORE", "TRY_RESOLVE"])
def test_what_could_be_taken_back_otherwise_has_no_plan(strategy: str) -> None:
    options = {"table.optimizer.non-deterministic-update.strategy": strategy}
    counted = count_by(bids(), "item")
    plan = project(counted, "item", r=call("RAND", type_=INT))
    with pytest.raises(PlanningError) as caught:
        lower(plan, context(options))
    assert caught.value.code == "E1706"
    lower(project(bids(), r=call("RAND", type_=INT)), context(options))


def remembered() -> n.Remember:
    return n.Remember(count_by(bids(), "item"), ((fresh_column("r", INT), call("RAND", type_=INT)),))


def test_values_are_remembered_by_the_key_of_the_rows() -> None:
    node = lower(remembered(), context())
    assert isinstance(node, RememberExec) and node.keys == (0,) and node.mode == node.input.mode
    narrow = project(count_by(bids(), "item"), "n")
    node = lower(n.Remember(narrow, ((fresh_column("r", INT), call("RAND", type_=INT)),)), context())
    assert isinstance(node, RememberExec) and node.keys is None


def test_who_goes_by_key_alone_needs_no_memory() -> None:
    kept = lower(sink(remembered(), UPSERT, ("item",)), context())
    by_key = lower(sink(remembered(), KEY_ONLY, ("item",)), context())
    assert any(isinstance(node, RememberExec) for node in walk_all([kept]))
    assert not any(isinstance(node, RememberExec) for node in walk_all([by_key]))


def test_unbounded_state_is_found() -> None:
    left, right = bids(), bids()
    plan = join(left, right, eq(col(left, "item"), col(right, "item")))
    assert boundedness.unbounded_nodes(count_by(plan, "item"), traits()) == [plan]
