"""ASOF joins: after every epoch the folded output is the answer of DuckDB's own ASOF JOIN."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from join_drive import Feed, Folded, Rejected, answer, at, batch_of, context, in_pieces, joined, leaf

from runtime.core.changelog import APPEND, INSERT, RETRACT
from runtime.core.clock import MAX_WATERMARK, MIN_WATERMARK
from runtime.core.schema import Schema
from runtime.core.types import BIGINT, INT, STRING, timestamp
from runtime.operators import asof_join
from runtime.operators.asof_join import AsofJoinOperator
from runtime.plan.nodes import AsofJoinExec, JoinKind

LEFT = Schema.of(("id", BIGINT), ("k", STRING), ("t", INT))
RIGHT = Schema.of(("rid", BIGINT), ("rk", STRING), ("rt", INT))
VALUES = ((1, 2, 3, 4, 5, 6, 7), ("a", "b", None), (1, 2, 3, 4, 5, 6, None))
FEEDS = ("append", "full", "keyed", "upsert")
COMPARISONS = (">=", ">", "<=", "<")
KINDS = (JoinKind.INNER, JoinKind.LEFT)

# Of equal times the greatest row counts.
SQL = """SELECT * FROM l ASOF {kind} JOIN (
    SELECT * FROM r QUALIFY ROW_NUMBER() OVER (PARTITION BY {part} rt ORDER BY rid DESC NULLS LAST, rk DESC NULLS LAST) = 1
) r ON {keys} t {comparison} rt"""


def asof_node(
    kind: JoinKind, comparison: str, left: Feed, right: Feed, keys: tuple[int, ...] = (1,), batch: bool = False
) -> AsofJoinExec:
    return AsofJoinExec(
        leaf(LEFT, left.mode),
        leaf(RIGHT, right.mode),
        kind,
        keys,
        keys,
        2,
        2,
        comparison,
        left.unique,
        right.unique,
        False,
        joined(LEFT, RIGHT),
        APPEND if batch else RETRACT,
    )


def feeds(rng: np.random.Generator, left: str, right: str) -> tuple[Feed, Feed]:
    return Feed(left, LEFT, rng, VALUES), Feed(right, RIGHT, rng, VALUES)


def run(node: AsofJoinExec, left: Feed, right: Feed, rng: np.random.Generator, epochs: int, piece: int | None) -> None:
    operator = AsofJoinOperator(node, context(piece=piece))
    folded = Folded()
    keys = " AND ".join(("k = rk",) if node.left_keys else ())
    sql = SQL.format(kind=node.kind.name, comparison=node.comparison, keys=keys and f"{keys} AND", part=keys and "rk,")
    for epoch in range(epochs):
        batches = [
            batch_of(feed.schema, feed.changes(int(rng.choice([0, 1, 4])) if epoch else 10)) for feed in (left, right)
        ]
        if piece is None:
            folded.add(operator.step(batches, at(epoch)))
        else:
            folded.add(in_pieces(operator, batches, at(epoch), piece), minimal=False)
        assert folded.rows == answer(sql, l=left.table(), r=right.table())


@pytest.mark.parametrize("piece", [None, 2])
@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.name)
@pytest.mark.parametrize("comparison", COMPARISONS)
def test_the_output_is_duckdbs_answer(comparison: str, kind: JoinKind, piece: int | None) -> None:
    for seed in range(14):
        rng = np.random.default_rng(seed)
        left, right = feeds(rng, str(rng.choice(FEEDS)), str(rng.choice(FEEDS)))
        keys = (1,) if seed % 4 else ()
        run(asof_node(kind, comparison, left, right, keys), left, right, rng, 8, piece)


@pytest.mark.parametrize("comparison", COMPARISONS)
def test_rows_wait_for_the_end_in_a_batch(comparison: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asof_join, "PAIRS", 3)
    rng = np.random.default_rng(1)
    left, right = feeds(rng, "append", "append")
    operator = AsofJoinOperator(asof_node(JoinKind.LEFT, comparison, left, right, batch=True), context(piece=4))
    found: Counter[tuple] = Counter()
    for epoch in range(4):
        ends = epoch == 3
        batches = [batch_of(feed.schema, feed.changes(9)) for feed in (left, right)]
        for batch in operator.pieces(batches, at(epoch, MAX_WATERMARK if ends else MIN_WATERMARK)):
            assert batch.kinds is None
            found.update(zip(*(c.to_pylist() for c in batch.columns), strict=True))
    sql = SQL.format(kind="LEFT", comparison=comparison, keys="k = rk AND", part="rk,")
    assert found == answer(sql, l=left.table(), r=right.table())


TIMED = Schema.of(("id", BIGINT), ("k", STRING), ("t", timestamp(3)))
TIMED_RIGHT = Schema.of(("rid", BIGINT), ("rk", STRING), ("rt", timestamp(3)))


def timed_table(schema: Schema, rows: list[tuple]) -> pa.Table:
    return pa.table(
        [pa.array([r[i] for r in rows], f.type.arrow) for i, f in enumerate(schema)], names=list(schema.names)
    )


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.name)
@pytest.mark.parametrize("comparison", COMPARISONS)
def test_the_watermark_frees_what_can_match_nothing_new(comparison: str, kind: JoinKind) -> None:
    for seed in range(6):
        rng = np.random.default_rng(seed)
        node = AsofJoinExec(
            leaf(TIMED),
            leaf(TIMED_RIGHT),
            kind,
            (1,),
            (1,),
            2,
            2,
            comparison,
            None,
            None,
            True,
            joined(TIMED, TIMED_RIGHT),
            RETRACT,
        )
        rejected = Rejected()
        operator = AsofJoinOperator(node, context(rejected))
        folded = Folded()
        kept: tuple[list[tuple], list[tuple]] = ([], [])
        late = 0
        previous = MIN_WATERMARK
        for epoch in range(14):
            watermark = epoch * 5
            batches = []
            for schema, rows in zip((TIMED, TIMED_RIGHT), kept, strict=True):
                given = []
                for _ in range(int(rng.integers(0, 4))):
                    ms = None if rng.random() < 0.05 else max(0, watermark + int(rng.integers(-8, 9)))
                    key = str(rng.choice(["a", "b"])) if rng.random() < 0.9 else None
                    row = (len(rows) + len(given), key, None if ms is None else np.datetime64(ms, "ms").item())
                    given.append((INSERT, row))
                    if ms is not None and ms <= previous:
                        late += 1
                    else:
                        rows.append(row)
                batches.append(batch_of(schema, given))
            folded.add(operator.step(batches, at(epoch, watermark, previous)))
            previous = watermark
            sql = SQL.format(kind=kind.name, comparison=comparison, keys="k = rk AND", part="rk,")
            tables = [timed_table(s, rows) for s, rows in zip((TIMED, TIMED_RIGHT), kept, strict=True)]
            assert folded.rows == answer(sql, l=tables[0], r=tables[1])
        assert len(rejected.rows) == late
        operator.step([None, None], at(99, MAX_WATERMARK, previous))
        if comparison in (">=", ">"):
            assert operator.state_size.rows <= 2 + sum(r[2] is None for r in kept[1])
        else:
            assert operator._right.rows.rows == 0


def test_of_equal_times_the_greatest_row_counts_whatever_came_first() -> None:
    rows = [(1, "a", 5), (None, "a", 5), (3, "a", 5), (2, "a", 5)]
    for order in (rows, rows[::-1]):
        left, right = feeds(np.random.default_rng(0), "append", "append")
        operator = AsofJoinOperator(asof_node(JoinKind.INNER, ">=", left, right), context())
        folded = Folded()
        folded.add(operator.step([batch_of(LEFT, [(INSERT, (1, "a", 9))]), None], at(0)))
        for epoch, row in enumerate(order, 1):
            folded.add(operator.step([None, batch_of(RIGHT, [(INSERT, row)])], at(epoch)))
        assert list(folded.rows.elements()) == [(1, "a", 9, 3, "a", 5)]
