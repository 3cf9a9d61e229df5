"""Analysis, rewriting and display of expressions."""

from __future__ import annotations

import datetime

import pytest

from runtime.core.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, INTERVAL_SECOND, STRING, char
from runtime.expr import analysis, rewrite
from runtime.expr.display import show, show_sort_key
from runtime.expr.library import builtin_functions
from runtime.expr.nodes import (
    AggregateCall,
    Call,
    Case,
    Cast,
    Column,
    Expr,
    InList,
    InputRef,
    Literal,
    SortKey,
    WindowCall,
)

FUNCTIONS = builtin_functions()
A, B, C = (Column(i, n, INT) for i, n in ((1, "a"), (2, "b"), (3, "c")))


def lit(value: int) -> Literal:
    return Literal(value, INT.not_null())


def op(name: str, *args: Expr) -> Call:
    return Call(name, args, BOOLEAN)


def test_columns_and_conjuncts() -> None:
    condition = op("AND", op("=", A.ref(), B.ref()), op("AND", op(">", C.ref(), lit(1)), op("OR", A.ref(), B.ref())))
    assert analysis.columns_of(condition) == {1, 2, 3}
    assert [show(c) for c in analysis.conjuncts(condition)] == ["a#1 = b#2", "c#3 > 1", "a#1 OR b#2"]
    assert analysis.conjuncts(rewrite.conjunction([])) == ()
    assert analysis.input_refs([InputRef(3, INT), op("=", InputRef(1, INT), lit(1))]) == {1, 3}


def test_conjunction_flattens_and_drops_repeats() -> None:
    one, two = op(">", A.ref(), lit(1)), op(">", B.ref(), lit(1))
    both = rewrite.conjunction([one, rewrite.conjunction([two, one]), Literal(True, BOOLEAN.not_null())])
    assert show(both) == "a#1 > 1 AND b#2 > 1"
    assert rewrite.conjunction([one]) is one
    assert show(rewrite.disjunction([])) == "FALSE"


def test_what_may_fail() -> None:
    def fails(expr: Expr) -> bool:
        return analysis.can_fail(expr, FUNCTIONS)

    text = InputRef(0, STRING)
    assert fails(Cast(text, INT)) and not fails(Cast(text, INT, safe=True)) and not fails(Cast(A.ref(), STRING))
    assert fails(op("/", A.ref(), B.ref())) and not fails(op("/", A.ref(), lit(2))) and fails(op("/", A.ref(), lit(0)))
    assert not fails(op("/", InputRef(0, DOUBLE), InputRef(1, DOUBLE)))
    assert fails(op(">", Cast(text, INT), lit(1))) and not fails(op("+", A.ref(), B.ref()))


def test_constant_and_deterministic() -> None:
    draw = Call("RAND", (), DOUBLE)
    assert not analysis.is_deterministic(op(">", draw, lit(0)), FUNCTIONS)
    assert analysis.is_constant(draw) and not analysis.is_constant(draw, FUNCTIONS)
    assert analysis.is_constant(op("+", lit(1), lit(2)), FUNCTIONS) and not analysis.is_constant(A.ref())


NULL_REJECTING: list[tuple[Expr, bool]] = [
    (op("=", A.ref(), lit(1)), True),
    (op("=", B.ref(), lit(1)), False),
    (op("OR", op("=", A.ref(), lit(1)), op("=", B.ref(), lit(1))), False),
    (op("OR", op("=", A.ref(), lit(1)), op(">", A.ref(), B.ref())), True),
    (op("AND", op("=", A.ref(), lit(1)), op("=", B.ref(), lit(1))), True),
    (op("NOT", op("=", A.ref(), lit(1))), True),
    (op("IS NULL", A.ref()), False),
    (op("IS NOT NULL", A.ref()), True),
    (op("NOT", op("IS NULL", A.ref())), True),
    (op("IS NOT TRUE", op("=", A.ref(), lit(1))), False),
    (op("IS FALSE", op("=", A.ref(), lit(1))), True),
    (op("IS NOT DISTINCT FROM", A.ref(), B.ref()), False),
    (InList(A.ref(), (lit(1), lit(2))), True),
    (op("=", Call("COALESCE", (A.ref(), lit(0)), INT), lit(0)), False),
    (op(">", op("+", Cast(A.ref(), BIGINT), lit(1)), lit(0)), True),
    (Case(((op("IS NULL", A.ref()), Literal(True, BOOLEAN)),), Literal(False, BOOLEAN), BOOLEAN), False),
]


@pytest.mark.parametrize(("condition", "expected"), NULL_REJECTING)
def test_rejects_nulls(condition: Expr, expected: bool) -> None:
    assert analysis.rejects_nulls(condition, {1}, FUNCTIONS) is expected


def test_rewriting_between_columns_and_positions() -> None:
    expr = op("=", A.ref(), op("+", C.ref(), lit(1)))
    placed = rewrite.to_input_refs(expr, [C, A])
    assert show(placed) == "$1 = $0 + 1"
    assert rewrite.to_column_refs(placed, [C, A]) == expr
    assert show(rewrite.shift_inputs(placed, 2)) == "$3 = $2 + 1"
    assert show(rewrite.substitute(expr, {1: op("*", B.ref(), lit(2))})) == "b#2 * 2 = c#3 + 1"
    with pytest.raises(KeyError):
        rewrite.to_input_refs(expr, [A])


SHOWN: list[tuple[Expr, str]] = [
    (op("-", A.ref(), op("-", B.ref(), C.ref())), "a#1 - (b#2 - c#3)"),
    (op("-", op("-", A.ref(), B.ref()), C.ref()), "a#1 - b#2 - c#3"),
    (op("*", op("+", A.ref(), B.ref()), lit(2)), "(a#1 + b#2) * 2"),
    (op("AND", op("OR", A.ref(), B.ref()), C.ref()), "(a#1 OR b#2) AND c#3"),
    (op("NOT", op("AND", A.ref(), B.ref())), "NOT (a#1 AND b#2)"),
    (op("IS NOT NULL", op("+", A.ref(), lit(1))), "a#1 + 1 IS NOT NULL"),
    (op("=", op("=", A.ref(), lit(1)), op("=", B.ref(), lit(2))), "(a#1 = 1) = (b#2 = 2)"),
    (Cast(A.ref(), char(3).not_null(), safe=True), "TRY_CAST(a#1 AS CHAR(3))"),
    (Literal("it's", char(4)), "'it''s'"),
    (Literal(datetime.date(2024, 2, 29), DATE), "DATE '2024-02-29'"),
    (Literal(1500, INTERVAL_SECOND), "INTERVAL '1.5' SECOND"),
    (op("LIKE", A.ref(), Literal("a!%", char(3)), Literal("!", char(1))), "a#1 LIKE 'a!%' ESCAPE '!'"),
    (
        AggregateCall("SUM", (A.ref(),), INT, distinct=True, filter=op(">", B.ref(), lit(1))),
        "SUM(DISTINCT a#1) FILTER (WHERE b#2 > 1)",
    ),
    (
        WindowCall("ROW_NUMBER", (), BIGINT, (A.ref(),), (SortKey(B.ref(), True, True),)),
        "ROW_NUMBER() OVER (PARTITION BY a#1 ORDER BY b#2 DESC)",
    ),
]


@pytest.mark.parametrize(("expr", "expected"), SHOWN)
def test_show(expr: Expr, expected: str) -> None:
    assert show(expr) == expected


def test_show_with_names_of_its_own() -> None:
    assert show(op(">", A.ref(), lit(1)), lambda e: "price" if e == A.ref() else None) == "price > 1"
    assert show_sort_key(SortKey(A.ref(), False, True)) == "a#1 NULLS LAST"
