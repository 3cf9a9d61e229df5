"""Regular joins: after every epoch the folded output is DuckDB's answer, whatever came and went."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from join_drive import Feed, Folded, answer, at, batch_of, context, in_pieces, joined, leaf, rows_of

from runtime.core.changelog import APPEND, DELETE, INSERT, RETRACT, UPDATE_AFTER, UPDATE_BEFORE
from runtime.core.schema import Schema
from runtime.core.types import BIGINT, BOOLEAN, INT, STRING
from runtime.expr.nodes import Call, Expr, InputRef
from runtime.operators import hash_join
from runtime.operators.hash_join import HashJoinOperator
from runtime.operators.join_condition import JoinCondition
from runtime.plan.nodes import HashJoinExec, JoinKind

LEFT = Schema.of(("id", BIGINT), ("k", STRING), ("v", INT))
RIGHT = Schema.of(("rid", BIGINT), ("rk", STRING), ("w", INT))
VALUES = ((1, 2, 3, 4, 5), ("a", "b", "c", None), (1, 2, None))
LESS = Call("<", (InputRef(2, INT), InputRef(5, INT)), BOOLEAN)
FEEDS = ("append", "full", "keyed", "upsert")

SQL = {
    JoinKind.INNER: "SELECT * FROM l JOIN r ON {0}",
    JoinKind.LEFT: "SELECT * FROM l LEFT JOIN r ON {0}",
    JoinKind.RIGHT: "SELECT * FROM l RIGHT JOIN r ON {0}",
    JoinKind.FULL: "SELECT * FROM l FULL JOIN r ON {0}",
    JoinKind.SEMI: "SELECT * FROM l WHERE EXISTS (SELECT 1 FROM r WHERE {0})",
    JoinKind.ANTI: "SELECT * FROM l WHERE NOT EXISTS (SELECT 1 FROM r WHERE {0})",
}


def join_node(
    kind: JoinKind,
    left: Feed,
    right: Feed,
    keys: tuple[int, ...] = (1,),
    null_safe: bool = False,
    condition: Expr | None = None,
) -> HashJoinExec:
    schema = LEFT if kind.left_only else joined(LEFT, RIGHT)
    inserts = left.kind == right.kind == "append" and kind in (JoinKind.INNER, JoinKind.SEMI)
    return HashJoinExec(
        leaf(LEFT, left.mode),
        leaf(RIGHT, right.mode),
        kind,
        keys,
        keys,
        (null_safe,) * len(keys),
        condition,
        left.unique,
        right.unique,
        schema,
        APPEND if inserts else RETRACT,
    )


def run(
    kind: JoinKind,
    feeds: tuple[str, str],
    seed: int,
    *,
    keys: tuple[int, ...] = (1,),
    null_safe: bool = False,
    condition: bool = False,
    most: int = 6,
    epochs: int = 7,
    piece: int | None = None,
) -> None:
    rng = np.random.default_rng(seed)
    left, right = Feed(feeds[0], LEFT, rng, VALUES), Feed(feeds[1], RIGHT, rng, VALUES)
    node = join_node(kind, left, right, keys, null_safe, LESS if condition else None)
    operator = HashJoinOperator(node, context(piece=piece))
    equal = "IS NOT DISTINCT FROM" if null_safe else "="
    terms = [f"l.{LEFT.names[k]} {equal} r.{RIGHT.names[k]}" for k in keys] + (["l.v < r.w"] if condition else [])
    sql = SQL[kind].format(" AND ".join(terms) or "TRUE")
    folded = Folded()
    for epoch in range(epochs):
        # Every third epoch only one side changes, so that counters of untouched rows are used.
        batches = [
            batch_of(f.schema, f.changes(0 if epoch % 3 == 1 + side else most)) for side, f in enumerate((left, right))
        ]
        if piece is None:
            output = operator.step(batches, at(epoch))
        else:
            # Of changes in several batches some may cancel; of deletes and inserts none is an update.
            output = in_pieces(operator, batches, at(epoch), piece)
        if node.mode.is_append_only:
            assert output is None or output.kinds is None
        folded.add(output, minimal=piece is None)
        assert folded.rows == answer(sql, l=left.table(), r=right.table()), f"epoch {epoch}"
    assert operator.state_size.rows <= len(left.live) + len(right.live) + sum(left.live.values()) + sum(
        right.live.values()
    )


@pytest.mark.parametrize("condition", [False, True], ids=["equi", "condition"])
@pytest.mark.parametrize("feeds", list(itertools.product(FEEDS, FEEDS)), ids="-".join)
@pytest.mark.parametrize("kind", list(JoinKind), ids=lambda k: k.value)
def test_equals_batch_answer(kind: JoinKind, feeds: tuple[str, str], condition: bool) -> None:
    for seed in range(2):
        run(kind, feeds, seed, condition=condition)
    run(kind, feeds, 2, condition=condition, piece=1)
    run(kind, feeds, 3, condition=condition, piece=3, most=12, epochs=5)


@pytest.mark.parametrize("kind", list(JoinKind), ids=lambda k: k.value)
def test_null_safe_keys(kind: JoinKind) -> None:
    for seed, feeds in enumerate((("append", "full"), ("full", "full"), ("upsert", "keyed"))):
        run(kind, feeds, seed, null_safe=True, condition=seed == 1)


@pytest.mark.parametrize("kind", list(JoinKind), ids=lambda k: k.value)
def test_several_keys_and_none(kind: JoinKind) -> None:
    run(kind, ("full", "full"), 1, keys=(1, 2))
    run(kind, ("keyed", "full"), 2, keys=(0, 1, 2))
    for seed, feeds in enumerate((("append", "append"), ("full", "full"), ("full", "upsert"))):
        run(kind, feeds, seed, keys=(), condition=True, most=4)
        run(kind, feeds, seed, keys=(), most=4)


def inserts(schema: Schema, *rows: tuple):
    return batch_of(schema, [(INSERT, r) for r in rows])


def feeds(left: str = "append", right: str = "append") -> tuple[Feed, Feed]:
    rng = np.random.default_rng(0)
    return Feed(left, LEFT, rng, VALUES), Feed(right, RIGHT, rng, VALUES)


def test_rows_that_only_come_are_paired_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also into several batches, and where rows could be taken back, as in the first epoch of a view of tables."""
    rounds: list[int] = []
    pairs = HashJoinOperator._changed_pairs
    monkeypatch.setattr(HashJoinOperator, "_changed_pairs", lambda *given: rounds.append(1) or pairs(*given))
    join = HashJoinOperator(join_node(JoinKind.INNER, *feeds("full", "full")), context(piece=3))
    rows = [(i, "a", 1) for i in range(10)]
    pieces = list(join.pieces([inserts(LEFT, *rows), inserts(RIGHT, *rows)], at(0)))
    assert sum(map(len, pieces)) == 100 and len(pieces) > 1 and len(rounds) == 1
    gone = [batch_of(LEFT, [(DELETE, rows[0])]), inserts(RIGHT, *rows)]
    signs = np.concatenate([piece.signs() for piece in join.pieces(gone, at(1))])
    assert signs.tolist() == [-1] * 10 + [1] * 90 and len(rounds) == 3


def test_rows_with_a_null_key_are_not_kept_unless_an_update_by_key_may_need_them() -> None:
    join = HashJoinOperator(join_node(JoinKind.FULL, *feeds("full", "append")), context())
    output = join.step([inserts(LEFT, (1, None, 1)), inserts(RIGHT, (2, None, 2))], at(0))
    assert output is not None and len(output) == 2
    assert join.state_size.rows == 0
    back = join.step([batch_of(LEFT, [(DELETE, (1, None, 1))]), None], at(1))
    assert back is not None and back.signs().tolist() == [-1]


def test_state_is_given_back() -> None:
    join = HashJoinOperator(join_node(JoinKind.LEFT, *feeds("full", "full")), context())
    rows = [(i, f"key {i}", 1) for i in range(500)]
    for epoch in range(0, 20, 2):
        join.step([inserts(LEFT, *rows), inserts(RIGHT, *rows[:100])], at(epoch))
        gone = [batch_of(s, [(DELETE, r) for r in some]) for s, some in ((LEFT, rows), (RIGHT, rows[:100]))]
        output = join.step(gone, at(epoch + 1))
        assert output is not None and len(output) == 500
        assert join.state_size.rows == 0
        assert len(join._keys) == 0
        assert join._keys.capacity == 500


def test_nothing_comes_out_of_what_cancels_within_an_epoch() -> None:
    for kind in JoinKind:
        join = HashJoinOperator(join_node(kind, *feeds("full", "full")), context())
        join.step([inserts(LEFT, (1, "a", 1)), None], at(0))
        flip = batch_of(
            RIGHT, [(INSERT, (1, "a", 2)), (INSERT, (2, "b", 2)), (DELETE, (1, "a", 2)), (DELETE, (2, "b", 2))]
        )
        assert join.step([None, flip], at(1)) is None
        assert join.step([batch_of(LEFT, [(DELETE, (1, "a", 1)), (INSERT, (1, "a", 1))]), None], at(2)) is None


def test_a_replaced_row_is_an_update_of_its_pairs() -> None:
    join = HashJoinOperator(join_node(JoinKind.LEFT, *feeds("keyed", "upsert")), context())
    join.step([inserts(LEFT, (1, "a", 1), (2, "b", 1), (3, "b", 1)), inserts(RIGHT, (5, "a", 1), (6, "b", 1))], at(0))
    left = [(UPDATE_BEFORE, (1, "a", 1)), (UPDATE_AFTER, (1, "a", 2)), (DELETE, (2, "b", 1))]
    output = join.step([batch_of(LEFT, left), batch_of(RIGHT, [(UPDATE_AFTER, (5, "a", 7))])], at(1))
    assert output is not None
    assert list(
        zip(output.kinds.tolist(), output.column(2).to_pylist(), output.column(5).to_pylist(), strict=True)
    ) == [(DELETE, 1, 1), (UPDATE_BEFORE, 1, 1), (UPDATE_AFTER, 2, 7)]


def test_a_hot_key_is_only_counted_by_semi_and_anti_joins() -> None:
    for kind in (JoinKind.SEMI, JoinKind.ANTI):
        join = HashJoinOperator(join_node(kind, *feeds("append", "full")), context())
        join.step([inserts(LEFT, *((i, "a", 1) for i in range(20_000))), inserts(RIGHT, (1, "a", 1))], at(0))
        join._left.rows.probe = None  # a look at the 20,000 rows would fail
        join._right.rows.probe = None
        join._left.rows.probe = lambda keys, most: iter(()) if len(keys) == 0 else pytest.fail("looked at a bag")
        assert join.step([None, batch_of(RIGHT, [(INSERT, (2, "a", 1)), (DELETE, (1, "a", 1))])], at(1)) is None


def test_pairs_are_looked_at_in_bounded_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    holds = JoinCondition.holds

    def watched(self, left, left_rows, right, right_rows, time):
        sizes.append(len(left_rows))
        return holds(self, left, left_rows, right, right_rows, time)

    monkeypatch.setattr(hash_join, "PAIRS", 1000)
    monkeypatch.setattr(JoinCondition, "holds", watched)
    left, right = feeds()
    join = HashJoinOperator(join_node(JoinKind.INNER, left, right, condition=LESS), context())
    join.step([inserts(LEFT, *((i, "a", 1) for i in range(300))), None], at(0))
    output = join.step([None, inserts(RIGHT, *((i, "a", 2) for i in range(50)))], at(1))
    assert output is not None and len(output) == 15_000
    assert max(sizes) <= 1000


def test_rows_expire_by_side_without_a_word() -> None:
    node = join_node(JoinKind.LEFT, *feeds("append", "full"), condition=LESS).with_(right_ttl=1000)
    join = HashJoinOperator(node, context())
    first = join.step([inserts(LEFT, (1, "a", 1)), inserts(RIGHT, (5, "a", 2))], at(0, clock=0))
    assert first is not None and first.column(3).to_pylist() == [5]
    assert join.step([None, None], at(1, clock=1001)) is None
    assert join.state_size.rows == 1
    again = join.step([inserts(LEFT, (2, "a", 1)), None], at(2, clock=1002))
    assert again is not None and again.column(3).to_pylist() == [None]
    # Row 1 has given its pair, which nobody took back: only row 2 stands padded.
    both = join.step([None, inserts(RIGHT, (6, "a", 2))], at(3, clock=1003))
    assert both is not None
    assert sorted(zip(both.signs().tolist(), both.column(0).to_pylist(), strict=True)) == [(-1, 2), (1, 1), (1, 2)]


@pytest.mark.parametrize("kind", list(JoinKind), ids=lambda k: k.value)
def test_with_expiry_nothing_is_taken_back_that_was_not_given(kind: JoinKind) -> None:
    for seed in range(4):
        rng = np.random.default_rng(seed)
        left, right = Feed("full", LEFT, rng, VALUES), Feed("keyed", RIGHT, rng, VALUES)
        node = join_node(kind, left, right, condition=LESS if seed % 2 else None).with_(left_ttl=30, right_ttl=50)
        join, folded = HashJoinOperator(node, context()), Counter()
        for epoch in range(30):
            output = join.step([batch_of(f.schema, f.changes(4)) for f in (left, right)], at(epoch, clock=epoch * 10))
            if output is not None:
                for sign, row in zip(output.signs().tolist(), rows_of(output.columns), strict=True):
                    folded[row] += sign
                    assert folded[row] >= 0
        assert join.step([None, None], at(99, clock=10_000)) is None
        assert join.state_size.rows == 0 and len(join._keys) == 0
