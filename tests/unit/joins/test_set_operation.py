"""INTERSECT and EXCEPT against DuckDB after every epoch, with repeats, NULLs and rows taken back."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from join_drive import Feed, Folded, answer, at, batch_of, context, leaf

from runtime.core.changelog import RETRACT
from runtime.core.errors import InternalError
from runtime.core.schema import Schema
from runtime.core.types import INT, STRING
from runtime.operators.set_operation import SetOperationOperator
from runtime.plan.nodes import SetOperationExec

SCHEMA = Schema.of(("n", INT), ("s", STRING))
VALUES = ((1, 2, None), ("a", None))


@pytest.mark.parametrize("feeds", list(itertools.product(("append", "full"), repeat=2)), ids="-".join)
@pytest.mark.parametrize("every", [False, True], ids=["distinct", "all"])
@pytest.mark.parametrize("kind", ["INTERSECT", "EXCEPT"])
def test_equals_batch_answer(kind: str, every: bool, feeds: tuple[str, str]) -> None:
    for seed in range(3):
        rng = np.random.default_rng(seed)
        left, right = (Feed(f, SCHEMA, rng, VALUES) for f in feeds)
        node = SetOperationExec(leaf(SCHEMA, left.mode), leaf(SCHEMA, right.mode), kind, every, SCHEMA, RETRACT)
        operator = SetOperationOperator(node, context())
        folded = Folded()
        for epoch in range(10):
            folded.add(operator.step([batch_of(SCHEMA, f.changes(4)) for f in (left, right)], at(epoch)))
            sql = f"SELECT * FROM l {kind} {'ALL' if every else ''} SELECT * FROM r"
            assert folded.rows == answer(sql, l=left.table(), r=right.table())
            assert operator.state_size.rows == len(left.live | right.live)


def test_upserts_are_refused() -> None:
    feed = Feed("upsert", SCHEMA, np.random.default_rng(0), VALUES)
    node = SetOperationExec(leaf(SCHEMA, feed.mode), leaf(SCHEMA), "EXCEPT", True, SCHEMA, RETRACT)
    with pytest.raises(InternalError):
        SetOperationOperator(node, context())
