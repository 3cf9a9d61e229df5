"""The evaluator: guards, shared parts, stages, DuckDB calls, exact types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from expression_builders import FUNCTIONS, call, cast, lit, value

from runtime.core.errors import ExpressionError
from runtime.core.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INT,
    STRING,
    DataType,
    TypeRoot,
    array,
    map_of,
    row,
    varchar,
)
from runtime.eval import duckdb_calls
from runtime.eval.constant import fold_constant
from runtime.eval.context import Chance
from runtime.eval.evaluator import BatchContext, Evaluator, LambdaValue, Stage
from runtime.expr.function import EvalContext, ScalarFunction, Signature, Value
from runtime.expr.library.declare import ANY, ARRAY_
from runtime.expr.nodes import Call, Case, Cast, Expr, InList, InputRef, Lambda, LambdaVariable, Literal
from runtime.expr.rewrite import conjunction, disjunction
from runtime.operators.operator import EpochTime

X = InputRef(0, INT)
T = InputRef(1, STRING)
ROWS = pa.RecordBatch.from_arrays(
    [pa.array([0, 2, None, 5], pa.int32()), pa.array(["1", "x", None, "4"])], names=["x", "t"]
)


def evaluate(*exprs: Expr) -> list[list[Any]]:
    results = Evaluator(exprs, FUNCTIONS).evaluate(ROWS, BatchContext(4))
    for expr, result in zip(exprs, results, strict=True):
        assert result.type == expr.type.arrow and len(result) == 4
    return [r.to_pylist() for r in results]


def not_zero() -> Call:
    return call("<>", X, 0)


def test_case_computes_a_branch_only_where_it_is_taken() -> None:
    safe = Case(((not_zero(), call("/", lit(10), X)),), lit(-1), INT)
    assert evaluate(safe) == [[-1, 5, -1, 2]]
    with pytest.raises(ExpressionError):
        evaluate(call("/", lit(10), X))
    parsed = Case(((call("=", T, "x"), lit(None, INT)),), cast(T, INT), INT)
    assert evaluate(parsed) == [[1, None, None, 4]]


def test_and_or_stop_where_they_are_decided() -> None:
    at_least = call(">", call("/", lit(10), X), 3)
    assert evaluate(conjunction([not_zero(), at_least])) == [[False, True, None, False]]
    assert evaluate(disjunction([call("=", X, 0), at_least])) == [[True, True, None, False]]
    # UNKNOWN decides nothing: the part after it is computed.
    with pytest.raises(ExpressionError):
        evaluate(conjunction([Literal(None, BOOLEAN), call(">", cast(T, INT), 0)]))


def test_coalesce_if_and_ifnull_guard_what_comes_after() -> None:
    digits = call("IF", call("=", T, "x"), lit(0), cast(T, INT))
    assert evaluate(digits) == [[1, 0, None, 4]]
    known = InputRef(0, INT)
    assert evaluate(call("COALESCE", known, cast(InputRef(0, INT), INT), lit(7))) == [[0, 2, 7, 5]]
    with pytest.raises(ExpressionError):
        evaluate(call("COALESCE", Literal(None, INT), cast(T, INT)))


def test_nested_guards_see_only_their_rows() -> None:
    inner = Case(((call(">", call("/", lit(10), X), 3), cast(T, INT, safe=True)),), lit(0), INT)
    assert evaluate(Case(((not_zero(), inner),), lit(-9), INT)) == [[-9, None, -9, 0]]


def test_case_over_nested_values_and_strings() -> None:
    type_ = array(INT)
    rows = pa.RecordBatch.from_arrays([pa.array([[1], None, [2, 3]]), pa.array([True, False, None])], names=["a", "b"])
    chosen = Case(((InputRef(1, BOOLEAN), InputRef(0, type_)),), lit((9,), type_), type_)
    assert Evaluator([chosen], FUNCTIONS).evaluate(rows, BatchContext(3))[0].to_pylist() == [[1], [9], [9]]


def test_in_has_three_values() -> None:
    some = InList(X, (lit(0), lit(5)))
    with_null = InList(X, (lit(0), Literal(None, INT)))
    computed = InList(X, (call("+", X, 0), lit(1)))
    assert evaluate(some, with_null, computed) == [
        [True, False, None, True],
        [True, None, None, None],
        [True, True, None, True],
    ]


def test_stage_filters_before_it_projects() -> None:
    stage = Stage(not_zero(), [call("/", lit(10), X), T], FUNCTIONS)
    kept, columns = stage.run(ROWS, BatchContext(4))
    assert kept is not None and kept.tolist() == [1, 3]
    assert [c.to_pylist() for c in columns] == [[5, 2], ["x", "4"]]
    everything, same = Stage(None, [T], FUNCTIONS).run(ROWS, BatchContext(4))
    assert everything is None and same[0].buffers()[2].address == ROWS.column(1).buffers()[2].address


def counting(calls: list[int]) -> ScalarFunction:
    def evaluate(context: EvalContext, v: Value) -> Value:
        calls.append(context.num_rows)
        return v

    return ScalarFunction(name="COUNTED", signatures=(Signature((ANY,), INT),), document="", evaluate=evaluate)


def test_shared_parts_are_computed_once() -> None:
    calls: list[int] = []
    functions = FUNCTIONS.child()
    functions.register(counting(calls))
    counted = Call("COUNTED", (X,), INT)
    exprs = [call("+", counted, 1), call("*", counted, 2)]
    stage = Stage(call(">", counted, 1), exprs, functions)
    _, columns = stage.run(ROWS, BatchContext(4))
    assert [c.to_pylist() for c in columns] == [[3, 6], [4, 10]]
    assert calls == [4]


def test_one_duckdb_call_per_level(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []
    real = duckdb_calls.evaluate_in_duckdb

    def watched(calls: Any, num_rows: int, time_zone: str) -> list[Value]:
        seen.append(sorted(c.function for c in calls))
        return real(calls, num_rows, time_zone)

    monkeypatch.setattr("runtime.eval.evaluator.evaluate_in_duckdb", watched)
    twice = call("HEX", call("BIN", X))
    assert evaluate(twice, call("HEX", T), call("BIN", call("+", X, 1))) == [
        ["30", "3130", None, "313031"],
        ["31", "78", None, "34"],
        ["1", "11", None, "110"],
    ]
    assert seen == [["BIN", "BIN", "HEX"], ["HEX"]]


def test_random_functions_differ_between_calls_and_batches() -> None:
    draw = Call("RAND", (), DOUBLE.not_null())
    drawn = [Evaluator([draw, draw], FUNCTIONS).evaluate(ROWS, BatchContext(4)) for _ in range(2)]
    assert len({str(values) for each in drawn for values in each}) == 4
    seeded = call("RAND", 42)
    assert Evaluator([seeded], FUNCTIONS).evaluate(ROWS, BatchContext(4)) == Evaluator([seeded], FUNCTIONS).evaluate(
        ROWS, BatchContext(4)
    )


def test_work_that_is_carried_out_again_draws_the_same() -> None:
    draw = Call("RAND", (), DOUBLE.not_null())

    def drawn(*of: int) -> list[pa.Array]:
        time = EpochTime(3, 0, 0, 0, chance=Chance(*of))
        return [Evaluator([draw], FUNCTIONS).evaluate(ROWS, BatchContext.at(time, 4, "UTC"))[0] for _ in range(2)]

    first, second = drawn(7, 1)
    assert first != second and drawn(7, 1) == [first, second]
    assert first not in drawn(7, 2)


def test_uuid_has_the_form_of_version_4() -> None:
    (ids,) = Evaluator([Call("UUID", (), STRING.not_null())], FUNCTIONS).evaluate(ROWS, BatchContext(4))
    import uuid

    parsed = [uuid.UUID(t) for t in ids.to_pylist()]
    assert {p.version for p in parsed} == {4} and len(set(parsed)) == 4


def test_lambda_reads_its_parameters_and_the_row() -> None:
    def evaluate_map(context: EvalContext, values: Value, body: LambdaValue) -> Value:
        lengths = np.diff(np.asarray(values.offsets))
        made = body([values.flatten()], np.repeat(np.arange(len(values)), lengths))
        return pa.ListArray.from_arrays(values.offsets, made)

    functions = FUNCTIONS.child()
    functions.register(
        ScalarFunction(
            name="EACH", signatures=(Signature((ARRAY_, ANY), array(INT)),), document="", evaluate=evaluate_map
        )
    )
    variable = LambdaVariable("v", INT)
    body = Lambda((variable,), call("+", variable, InputRef(1, INT)), INT)
    lists = pa.array([[1, 2], [], [3]], pa.list_(pa.int32()))
    rows = pa.RecordBatch.from_arrays([lists, pa.array([10, 20, 30], pa.int32())], names=["a", "b"])
    result = Evaluator([Call("EACH", (InputRef(0, array(INT)), body), array(INT))], functions).evaluate(
        rows, BatchContext(3)
    )
    assert result[0].to_pylist() == [[11, 12], [], [33]]


@pytest.mark.parametrize(
    ("a", "b", "equal"),
    [
        (((("a", 1), ("b", 2))), ((("b", 2), ("a", 1))), True),
        (((("a", 1),)), ((("a", 2),)), False),
        ((), (), True),
    ],
)
def test_maps_are_equal_in_any_order(a: Any, b: Any, equal: bool) -> None:
    type_ = map_of(STRING, INT)
    assert value(call("=", lit(a, type_), lit(b, type_))) is equal


def test_rows_and_arrays_compare_by_their_parts() -> None:
    type_ = row(("x", INT), ("y", STRING))
    assert value(call("=", lit((1, "a"), type_), lit((1, "a"), type_))) is True
    assert value(call("<>", lit((1, None), type_), lit((1, "a"), type_))) is True
    rows = pa.RecordBatch.from_arrays(
        [pa.array([[1, None], [1], None]), pa.array([[1, None], [2], [1]])], names=["a", "b"]
    )
    same = call("=", InputRef(0, array(BIGINT)), InputRef(1, array(BIGINT)))
    distinct = call("IS DISTINCT FROM", InputRef(0, array(BIGINT)), InputRef(1, array(BIGINT)))
    got = Evaluator([same, distinct], FUNCTIONS).evaluate(rows, BatchContext(3))
    assert [g.to_pylist() for g in got] == [[True, False, None], [False, True, True]]


LIKES: list[tuple[str, str, str | None, bool]] = [
    ("abcdef", "%e_", None, True),
    ("", "%", None, True),
    ("a%c", r"a\%c", None, False),
    ("abc", "a!%c", "!", False),
    ("a%c", "a!%c", "!", True),
    ("a\nb", "a%b", None, True),
    ("na\u00efve", "na_ve", None, True),
    ("abc", "abc", None, True),
    ("a.c", "a_c", None, True),
    ("abc", "a.c", None, False),
]


@pytest.mark.parametrize(("subject", "pattern", "escape", "expected"), LIKES)
def test_like(subject: str, pattern: str, escape: str | None, expected: bool) -> None:
    args = (subject, pattern) if escape is None else (subject, pattern, escape)
    assert value(call("LIKE", *args)) is expected


@pytest.mark.parametrize(
    ("subject", "pattern", "expected"),
    [
        ("abc", "a(b|x)c", True),
        ("abc", "a%", True),
        ("abc", "b", False),
        ("x9", "[[:ALPHA:]][[:DIGIT:]]", True),
        ("a.c", "a.c", True),
        ("abc", "a.c", False),
    ],
)
def test_similar_to(subject: str, pattern: str, expected: bool) -> None:
    constant = call("SIMILAR TO", T, pattern)
    rows = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([subject])], names=["x", "t"])
    assert Evaluator([constant], FUNCTIONS).evaluate(rows, BatchContext(1))[0].to_pylist() == [expected]


def test_conditional_functions() -> None:
    assert value(call("NULLIF", 1, lit(1.0))) is None
    assert str(call("NULLIF", 1, 1).type) == "INT"
    assert str(call("IFNULL", Literal(None, INT), lit(2.5)).type) == "DOUBLE NOT NULL"
    assert value(call("GREATEST", 1, 5, 3)) == 5
    assert value(call("LEAST", 1, Literal(None, INT))) is None
    assert [value(call("IS_DECIMAL", t)) for t in ("1.5", "abc", "NaN")] == [True, False, True]
    assert value(call("IS_ALPHA", Literal(None, STRING))) is False


def test_typeof_spells_the_whole_type() -> None:
    type_ = row(("EXPR$0", INT.not_null()), ("EXPR$1", varchar(2)))
    assert value(call("TYPEOF", lit((1, "a"), type_))) == "ROW<`EXPR$0` INT NOT NULL, `EXPR$1` VARCHAR(2)> NOT NULL"


def test_fold_constant_gives_hashable_values_of_the_type() -> None:
    nested = DataType(TypeRoot.ARRAY, children=(map_of(STRING, INT),))
    literal = lit(((("k", 1),), ()), nested)
    folded = fold_constant(Cast(literal, nested), FUNCTIONS, "UTC", None)
    assert folded == Literal(literal.value, nested) and hash(folded)
