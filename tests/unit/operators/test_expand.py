"""Grouping sets: every change once per set."""

from __future__ import annotations

from aggregate_harness import batch, context, source, time

from runtime.core.changelog import RETRACT
from runtime.core.schema import Schema
from runtime.core.types import BIGINT, INT, STRING
from runtime.expr.nodes import InputRef, Literal
from runtime.operators.expand import ExpandOperator
from runtime.plan.nodes import ExpandExec


def test_rows_once_per_set_with_their_kinds() -> None:
    schema = Schema.of(("a", STRING), ("b", INT))
    out = Schema.of(("a", STRING), ("b", INT), ("set", BIGINT))
    a, b = InputRef(0, STRING), InputRef(1, INT)
    sets = ((a, Literal(None, INT), Literal(1, BIGINT)), (Literal(None, STRING), b, Literal(2, BIGINT)))
    operator = ExpandOperator(ExpandExec(source(schema, True), sets, out, RETRACT), context())
    output = operator.step([batch(schema, [("x", 1), ("y", 2)], [1, -1])], time(0))
    assert output is not None
    assert [tuple(r.values()) for r in output.rows.to_pylist()] == [
        ("x", None, 1),
        ("y", None, 1),
        (None, 1, 2),
        (None, 2, 2),
    ]
    assert output.kinds_or_inserts().tolist() == [0, 3, 0, 3]
    assert output.rows.schema.types == [f.type.arrow for f in out]
