"""Joins on one key in one operator: after every epoch the folded output is DuckDB's answer to the chain."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from join_drive import Feed, Folded, answer, at, batch_of, context, in_pieces, leaf

from runtime.core.changelog import APPEND, DELETE, INSERT, RETRACT
from runtime.core.schema import Field, Schema
from runtime.core.types import BIGINT, INT, STRING
from runtime.operators import multi_join
from runtime.operators.multi_join import MultiJoinOperator
from runtime.plan.nodes import JoinKind, MultiJoinExec

FEEDS = ("append", "full", "keyed", "upsert")
VALUES = ((1, 2, 3, 4, 5), ("a", "b", None), (1, None))
I, L = JoinKind.INNER, JoinKind.LEFT


def schema(number: int) -> Schema:
    return Schema.of((f"id{number}", BIGINT), (f"k{number}", STRING), (f"v{number}", INT))


def joined(count: int) -> Schema:
    return Schema(tuple(Field(f.name, f.type.with_nullable(True)) for n in range(count) for f in schema(n)))


def join_node(feeds: list[Feed], kinds: tuple[JoinKind, ...]) -> MultiJoinExec:
    inserts = L not in kinds and all(feed.kind == "append" for feed in feeds)
    return MultiJoinExec(
        tuple(leaf(feed.schema, feed.mode) for feed in feeds),
        kinds,
        ((1,),) * len(feeds),
        tuple(feed.unique for feed in feeds),
        joined(len(feeds)),
        APPEND if inserts else RETRACT,
    )


def query(kinds: tuple[JoinKind, ...]) -> str:
    joins = "".join(f" {kind.name} JOIN t{n} ON k0 = k{n}" for n, kind in enumerate(kinds) if n)
    return f"SELECT * FROM t0{joins}"


def run(
    kinds: tuple[JoinKind, ...], feeds: list[Feed], rng: np.random.Generator, epochs: int, piece: int | None = None
) -> MultiJoinOperator:
    operator = MultiJoinOperator(join_node(feeds, kinds), context(piece=piece))
    folded = Folded()
    for epoch in range(epochs):
        batches = [batch_of(feed.schema, feed.changes(int(rng.choice([0, 1, 3, 8])) if epoch else 8)) for feed in feeds]
        if piece is None:
            folded.add(operator.step(batches, at(epoch)))
        else:
            folded.add(in_pieces(operator, batches, at(epoch), piece), minimal=False)
        assert folded.rows == answer(query(kinds), **{f"t{n}": feed.table() for n, feed in enumerate(feeds)})
    return operator


@pytest.mark.parametrize("piece", [None, 3])
@pytest.mark.parametrize("kinds", [(I, I, I), (I, L, L), (I, I, L, I), (I, L, I, L, L)], ids=str)
def test_the_output_is_the_answer_of_the_chain(kinds: tuple[JoinKind, ...], piece: int | None) -> None:
    for seed in range(12):
        rng = np.random.default_rng(seed)
        feeds = [Feed(str(rng.choice(FEEDS)), schema(n), rng, VALUES) for n in range(len(kinds))]
        run(kinds, feeds, rng, 7, piece)


@pytest.mark.parametrize("feed", FEEDS)
def test_inputs_of_one_kind_of_changes(feed: str) -> None:
    for seed in range(4):
        rng = np.random.default_rng(seed)
        for kinds in ((I, I, I), (I, I, L)):
            run(kinds, [Feed(feed, schema(n), rng, VALUES) for n in range(3)], rng, 6)


def test_tuples_that_do_not_fit_into_one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multi_join, "PAIRS", 3)
    rng = np.random.default_rng(5)
    run((I, I, L), [Feed("full", schema(n), rng, VALUES) for n in range(3)], rng, 8)
    run((I, I, I), [Feed("append", schema(n), rng, VALUES) for n in range(3)], rng, 4)


def test_state_goes_with_the_rows() -> None:
    feeds = [Feed("full", schema(n), np.random.default_rng(0), VALUES) for n in range(3)]
    operator = MultiJoinOperator(join_node(feeds, (I, L, L)), context())
    rows = [(1, "a", 1), (2, "b", 1), (3, None, 1)]
    for kind in (INSERT, DELETE):
        operator.step([batch_of(feed.schema, [(kind, row) for row in rows]) for feed in feeds], at(0))
        assert operator.state_size.rows == (6 if kind == INSERT else 0)
    assert len(operator._keys) == 0


def test_a_row_of_a_million_combinations_that_an_input_does_not_match_costs_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    feeds = [Feed("append", schema(n), np.random.default_rng(0), VALUES) for n in range(4)]
    operator = MultiJoinOperator(join_node(feeds, (I, I, I, I)), context())
    many = [(INSERT, (i, "a", 1)) for i in range(1000)]
    assert operator.step([batch_of(f.schema, many if n < 3 else []) for n, f in enumerate(feeds)], at(0)) is None
    probed = Counter[int]()
    for number, side in enumerate(operator._sides):
        probe = side.rows.probe

        def counted(keys, most, number=number, probe=probe):  # type: ignore[no-untyped-def]
            probed[number] += 1
            return probe(keys, most)

        monkeypatch.setattr(side.rows, "probe", counted)
    assert operator.step([batch_of(feeds[0].schema, many[:1]), None, None, None], at(1)) is None
    assert not probed
