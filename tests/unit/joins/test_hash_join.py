"""Regular joins: after every epoch the folded output is DuckDB's answer, whatever came and went."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from join_drive import Feed, Folded, answer, at, batch_of, context, joined, leaf

from runtime.core.changelog import APPEND, INSERT, RETRACT
from runtime.core.schema import Schema
from runtime.core.types import BIGINT, BOOLEAN, INT, STRING
from runtime.expr.nodes import Call, Expr, InputRef
from runtime.operators.hash_join import HashJoinOperator
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


def join_node(kind: JoinKind, left: Feed, right: Feed, keys: tuple[int, ...] = (1,), null_safe: bool = False,
              condition: Expr | None = None) -> HashJoinExec:
    schema = LEFT if kind.left_only else joined(LEFT, RIGHT)
    inserts = left.kind == right.kind == "append" and kind in (JoinKind.INNER, JoinKind.SEMI)
    return HashJoinExec(
        leaf(LEFT, left.mode), leaf(RIGHT, right.mode), kind, keys, keys, (null_safe,) * len(keys), condition,
        left.unique, right.unique, schema, APPEND if inserts else RETRACT)


def run(kind: JoinKind, feeds: tuple[str, str], seed: int, *, keys: tuple[int, ...] = (1,), null_safe: bool = False,
        condition: bool = False, most: int = 6, epochs: int = 7) -> None:
    rng = np.random.default_rng(seed)
    left, right = Feed(feeds[0], LEFT, rng, VALUES), Feed(feeds[1], RIGHT, rng, VALUES)
    node = join_node(kind, left, right, keys, null_safe, LESS if condition else None)
    operator = HashJoinOperator(node, context())
    equal = "IS NOT DISTINCT FROM" if null_safe else "="
    terms = [f"l.{LEFT.names[k]} {equal} r.{RIGHT.names[k]}" for k in keys] + (["l.v < r.w"] if condition else [])
    sql = SQL[kind].format(" AND ".join(terms) or "TRUE")
    folded = Folded()
    for epoch in range(epochs):
        # Every third epoch only one side changes, so that counters of untouched rows are used.
        batches = [batch_of(f.schema, f.changes(0 if epoch % 3 == 1 + side else most)) for side, f in enumerate((left, right))]
        output = operator.step(batches, at(epoch))
        if node.mode.is_append_only:
            assert output is None or output.kinds is None
        folded.add(output)
        assert folded.rows == answer(sql, l=left.table(), r=right.table()), f"epoch {epoch}"
    assert operator.state_size.rows <= len(left.live) + len(right.live) + sum(left.live.values()) + sum(right.live.values())


@pytest.mark.parametrize("condition", [False, True], ids=["equi", "condition"])
@pytest.mark.parametrize("feeds", list(itertools.product(FEEDS, FEEDS)), ids="-".join)
@pytest.mark.parametrize("kind", list(JoinKind), ids=lambda k: k.value)
def test_equals_batch_answer(kind: JoinKind, feeds: tuple[str, str], condition: bool) -> None:
    for seed in range(2):
        run(kind, feeds, seed, condition=condition)


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
