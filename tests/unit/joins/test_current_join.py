"""Joins as of processing time with what changes: a row has what the other side held after its epoch, and leaves with it."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from join_drive import Feed, Folded, at, batch_of, context, in_pieces, joined, leaf

from runtime.core.changelog import APPEND, DELETE, RETRACT, UPDATE_BEFORE
from runtime.core.schema import Schema
from runtime.core.types import BIGINT, BOOLEAN, INT, STRING
from runtime.expr.nodes import Call, InputRef
from runtime.operators.current_join import CurrentJoinOperator
from runtime.plan.nodes import CurrentJoinExec, JoinKind

LEFT = Schema.of(("id", BIGINT), ("k", STRING), ("v", INT))
RIGHT = Schema.of(("rid", BIGINT), ("rk", STRING), ("w", INT))
VALUES = ((1, 2, 3, 4, 5), ("a", "b", None), (1, 2, None))
LESS = Call("<", (InputRef(2, INT), InputRef(5, INT)), BOOLEAN)


def matches(row: tuple, rows: Counter[tuple], condition: bool, outer: bool) -> list[tuple]:
    found = [
        row + other
        for other in rows.elements()
        if row[1] is not None
        and row[1] == other[1]
        and (not condition or (row[2] is not None and other[2] is not None and row[2] < other[2]))
    ]
    return found or ([row + (None,) * 3] if outer else [])


@pytest.mark.parametrize("right_kind", ["append", "full", "keyed", "upsert"])
@pytest.mark.parametrize("left_kind", ["append", "full"])
@pytest.mark.parametrize("piece", [None, 2])
def test_rows_have_what_was_there_when_they_came(left_kind: str, right_kind: str, piece: int | None) -> None:
    for seed in range(8):
        rng = np.random.default_rng(seed)
        left, right = Feed(left_kind, LEFT, rng, VALUES), Feed(right_kind, RIGHT, rng, VALUES)
        outer, condition = bool(seed % 2), seed % 3 == 0
        node = CurrentJoinExec(
            leaf(LEFT, left.mode),
            leaf(RIGHT, right.mode),
            JoinKind.LEFT if outer else JoinKind.INNER,
            (1,),
            (1,),
            LESS if condition else None,
            right.unique,
            joined(LEFT, RIGHT),
            APPEND if left_kind == "append" else RETRACT,
        )
        operator = CurrentJoinOperator(node, context(piece=piece))
        folded = Folded()
        given: dict[tuple, list[tuple]] = {}
        expected: Counter[tuple] = Counter()
        for epoch in range(8):
            changes = left.changes(6)
            batches = [batch_of(LEFT, changes), batch_of(RIGHT, right.changes(6))]
            net: Counter[tuple] = Counter()
            for kind, row in changes:
                net[row] += -1 if kind in (DELETE, UPDATE_BEFORE) else 1
            for row, count in net.items():
                if left_kind == "append" or row not in given:
                    given[row] = matches(row, right.live, condition, outer)
                for answer in given[row]:
                    expected[answer] += count
                if left_kind == "full" and row not in left.live:
                    del given[row]
            if piece is None:
                folded.add(operator.step(batches, at(epoch)), minimal=False)
            else:
                folded.add(in_pieces(operator, batches, at(epoch), piece), minimal=False)
            assert folded.rows == +expected
