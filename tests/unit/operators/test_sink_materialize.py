"""Rows that clash on the key of a sink: what ON CONFLICT keeps, against plain Python after every epoch."""

from __future__ import annotations

import random

import pytest
from test_ranking import SCHEMA, Input, Row, at, batch_of, changes_of, context

from runtime.core.changelog import APPEND, RETRACT, UPSERT
from runtime.core.errors import ExpressionError
from runtime.operators.build import build_operator
from runtime.operators.operator import Operator
from runtime.plan import nodes as plan

Change = tuple[str, Row]


def operator(action: str, unique: tuple[int, ...] | None, *, appends: bool = False) -> Operator:
    """Rows (id, k, v) into a sink with the key k."""
    source, mode = (APPEND, APPEND) if appends else (RETRACT, UPSERT)
    node = plan.SinkMaterializeExec(Input(SCHEMA, source), (1,), SCHEMA, mode, 0, action, unique)
    return build_operator(node, context())


def run(made: Operator, *epochs: list[Change]) -> list[list[Change]]:
    return [changes_of(made.step([batch_of(epoch)], at(i))) for i, epoch in enumerate(epochs)]


def test_the_first_row_stays_and_the_end_of_a_dropped_one_means_nothing() -> None:
    made = operator("NOTHING", (0,))
    laptops = [[("+I", (1, "Laptop", 0))], [("+I", (3, "Laptop", 0))], [("-D", (3, "Laptop", 0))]]
    assert run(made, *laptops) == [[("+I", (1, "Laptop", 0))], [], []]
    assert run(made, [("-D", (1, "Laptop", 0))]) == [[("-D", (1, "Laptop", 0))]]
    assert made.state_size.rows == 0


def test_a_row_keeps_its_place_when_it_is_updated_and_loses_it_when_it_moves() -> None:
    made = operator("NOTHING", (0,))
    assert run(made, [("+I", (1, "a", 1))]) == [[("+I", (1, "a", 1))]]
    updated: list[Change] = [("+I", (2, "a", 9)), ("-U", (1, "a", 1)), ("+U", (1, "a", 2))]
    assert run(made, updated) == [[("+U", (1, "a", 2))]]
    moved: list[Change] = [("-U", (1, "a", 2)), ("+U", (1, "b", 2)), ("+I", (4, "a", 4)), ("+I", (5, "a", 5))]
    assert sorted(run(made, moved)[0]) == [("+I", (1, "b", 2)), ("+U", (4, "a", 4))]


def test_rows_that_pass_each_other_within_an_epoch_do_not_clash() -> None:
    """The rows of Flink's page: (Laptop, 3) comes before (Laptop, 1) has gone to another product."""
    swap: list[Change] = [
        ("+I", (1, "Laptop", 0)),
        ("+I", (3, "Laptop", 0)),
        ("-U", (1, "Laptop", 0)),
        ("+U", (1, "Phone", 0)),
    ]
    for action in ("ERROR", "NOTHING"):
        for unique in ((0,), None):
            (out,) = run(operator(action, unique), swap)
            assert sorted(out) == [("+I", (1, "Phone", 0)), ("+I", (3, "Laptop", 0))]


@pytest.mark.parametrize("unique", [(0,), None], ids=["by id", "by row"])
def test_error_names_the_key_on_which_rows_clash(unique: tuple[int, ...] | None) -> None:
    made = operator("ERROR", unique)
    run(made, [("+I", (1, "a", 1)), ("+I", (2, "b", 1))])
    assert run(made, [("-U", (1, "a", 1)), ("+U", (1, "a", 2))]) == [[("+U", (1, "a", 2))]]
    with pytest.raises(ExpressionError, match="clash on the primary key: 2 have k = b") as caught:
        run(made, [("+I", (3, "b", 1))])
    assert caught.value.code == "E2015" and caught.value.hint


def test_of_appended_rows_the_first_of_each_key_is_appended() -> None:
    made = operator("NOTHING", None, appends=True)
    out = made.step([batch_of([("+I", (i, "ab"[i % 2], i)) for i in range(6)])], at(0))
    assert out is not None and out.is_append_only
    assert changes_of(out) == [("+I", (0, "a", 0)), ("+I", (1, "b", 1))]
    assert run(made, [("+I", (7, "a", 7)), ("+I", (8, "c", 8))]) == [[("+I", (8, "c", 8))]]


def test_changes_wait_until_the_watermark_moves() -> None:
    node = plan.SinkMaterializeExec(Input(SCHEMA, RETRACT), (1,), SCHEMA, UPSERT, 0, "ERROR", (0,), True)
    made = build_operator(node, context())

    def step(changes: list[Change], watermark: int, previous: int) -> list[Change]:
        return changes_of(made.step([batch_of(changes)], at(0, watermark, previous)))

    assert step([("+I", (1, "a", 1))], 5, 5) == []
    assert step([("+I", (2, "a", 2))], 5, 5) == []
    assert made.state_size.rows == 2
    assert step([("-D", (1, "a", 1))], 6, 5) == [("+I", (2, "a", 2))]
    assert step([("+I", (3, "b", 3))], 7, 6) == [("+I", (3, "b", 3))]
    assert made.state_size.rows == 2
    with pytest.raises(ExpressionError, match="2 have k = b"):
        step([("+I", (4, "b", 4))], 8, 7)


@pytest.mark.parametrize("seed", range(15))
@pytest.mark.parametrize("keyed", [True, False], ids=["by id", "by row"])
def test_nothing_keeps_what_a_dictionary_keeps(seed: int, keyed: bool) -> None:
    chance = random.Random(seed)
    made = operator("NOTHING", (0,) if keyed else None)
    live: dict[int, Row] = {}
    shown: dict[str, Row] = {}
    told: dict[str, Row] = {}
    for number in range(60):
        before = dict(live)
        epoch = [c for _ in range(chance.randint(0, 5)) for c in change(live, chance)]
        for kind, row in run(made, epoch)[0]:
            if kind == "-D":
                assert told.pop(row[1]) == row
            else:
                assert (kind == "+I") == (row[1] not in told)
                told[row[1]] = row
        arrivals = arrived(epoch, before, live)
        for key in "abc":
            now = [r for r in live.values() if key in shown and r[1] == key and same(r, shown[key], keyed)]
            fresh = [r for r in arrivals if r[1] == key]
            shown.pop(key, None)
            if now or fresh:
                shown[key] = (now or fresh)[0]
        assert told == shown, f"seed {seed}, epoch {number}"


def same(row: Row, other: Row, keyed: bool) -> bool:
    return row[0] == other[0] if keyed else row == other


def change(live: dict[int, Row], chance: random.Random) -> list[Change]:
    """A row comes, goes, or is updated; ids are not used twice."""
    if live and chance.random() < 0.5:
        old = live.pop(chance.choice(sorted(live)))
        if chance.random() < 0.5:
            return [("-D", old)]
        new = (old[0], chance.choice("abc"), old[2] + 1)
        live[old[0]] = new
        return [("-U", old), ("+U", new)]
    row = (chance.randrange(10**6), chance.choice("abc"), chance.randint(0, 2))
    live[row[0]] = row
    return [("+I", row)]


def arrived(epoch: list[Change], before: dict[int, Row], live: dict[int, Row]) -> list[Row]:
    """The rows that are new after an epoch, in the order in which each came last."""
    last = {row: i for i, (kind, row) in enumerate(epoch) if kind in ("+I", "+U")}
    new = [r for r in live.values() if before.get(r[0]) != r]
    return sorted(new, key=lambda r: last[r])
