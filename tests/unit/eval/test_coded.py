"""Expressions over text columns that come as Arrow dictionaries give what they give over plain ones."""

from __future__ import annotations

import datetime as dt
import random
import re

import numpy as np
import pyarrow as pa
import pytest
from expression_builders import FUNCTIONS, big, call, cast, lit

from runtime.core.changelog import plain_column
from runtime.core.errors import ExpressionError
from runtime.core.types import BIGINT, INT, STRING, TIMESTAMP
from runtime.eval.evaluator import BatchContext, Evaluator, Stage
from runtime.expr.date_patterns import Dialect, coded_times
from runtime.expr.nodes import Case, Expr, InputRef, Literal

NAME, NUMBER = InputRef(0, STRING), InputRef(1, BIGINT)
NUL = Literal(None, STRING)


def _rows(nulls: bool) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """The same rows coded and plain."""
    rng = np.random.default_rng(7)
    values = pa.array(["ab/cd/ef", "", "Ab", "12", "nobody's"])
    mask = rng.random(100) < 0.3 if nulls else None
    codes = pa.array(rng.integers(0, 4, 100).astype(np.int32), mask=mask)
    coded = pa.DictionaryArray.from_arrays(codes, values)
    numbers = pa.array(rng.integers(0, 5, 100))
    batches = [pa.RecordBatch.from_arrays([c, numbers], names=["a", "b"]) for c in (coded, plain_column(coded))]
    return batches[0], batches[1]


def _expressions() -> list[Expr]:
    upper = call("UPPER", NAME)
    part = call("SPLIT_INDEX", NAME, "/", 1)
    is_ab = call("=", call("LOWER", NAME), "ab")
    return [
        NAME,
        NUMBER,
        upper,
        part,
        call("CHAR_LENGTH", upper),
        call("CONCAT", upper, "!"),
        call("IS NULL", NAME),
        call("COALESCE", part, upper),
        Case(((is_ab, upper), (call("<", NUMBER, big(2)), part)), NUL, STRING),
        call("REGEXP_EXTRACT", NAME, "([a-z]+)/", 1),
        call("LPAD", NAME, cast(NUMBER, INT), "-"),
        lit("x"),
    ]


@pytest.mark.parametrize("nulls", [False, True])
def test_coded_and_plain_agree(nulls: bool) -> None:
    coded, plain = _rows(nulls)
    expressions = _expressions()
    context = BatchContext(100)
    evaluator = Evaluator(expressions, FUNCTIONS)
    for found, wanted in zip(evaluator.evaluate(coded, context), evaluator.evaluate(plain, context), strict=True):
        assert plain_column(found).equals(wanted)


@pytest.mark.parametrize("nulls", [False, True])
def test_a_filter_and_what_it_passes(nulls: bool) -> None:
    coded, plain = _rows(nulls)
    condition = call("OR", call(">", NUMBER, big(3)), call("LIKE", NAME, "%/%"))
    stage = Stage(condition, _expressions(), FUNCTIONS)
    (kept, columns), (same, wanted) = (stage.run(rows, BatchContext(100)) for rows in (coded, plain))
    assert kept is not None and same is not None and kept.tolist() == same.tolist()
    assert all(plain_column(c).equals(w) for c, w in zip(columns, wanted, strict=True))


def test_texts_stay_coded() -> None:
    coded, _ = _rows(False)
    _, (name, upper) = Stage(None, [NAME, call("UPPER", NAME)], FUNCTIONS).run(coded, BatchContext(100))
    assert pa.types.is_dictionary(name.type) and pa.types.is_dictionary(upper.type)


def test_a_value_that_no_row_reaches_fails_nobody() -> None:
    numbers = cast(NAME, INT)
    is_number = call("=", NAME, "12")
    guarded = Evaluator([Case(((is_number, numbers),), Literal(None, INT), INT)], FUNCTIONS)
    coded, plain = _rows(False)
    assert guarded.evaluate(coded, BatchContext(100))[0].equals(guarded.evaluate(plain, BatchContext(100))[0])
    only = coded.filter(pa.array([v == "12" for v in coded.column(0).to_pylist()]))
    assert set(Evaluator([numbers], FUNCTIONS).evaluate(only, BatchContext(len(only)))[0].to_pylist()) == {12}
    with pytest.raises(ExpressionError):
        Evaluator([numbers], FUNCTIONS).evaluate(coded, BatchContext(100))


def test_dates_as_text_are_coded_where_they_are_few() -> None:
    times = pa.array(np.arange(20_000) * 60_000_000, pa.timestamp("us"))
    rows = pa.RecordBatch.from_arrays([times], names=["t"])
    day = call("DATE_FORMAT", InputRef(0, TIMESTAMP), "yyyy-MM-dd")
    _, (coded, upper) = Stage(None, [day, call("CONCAT", day, "!")], FUNCTIONS).run(rows, BatchContext(20_000))
    wanted = [str(t)[:10] for t in times.cast(pa.timestamp("s")).to_pylist()]
    assert pa.types.is_dictionary(coded.type) and coded.to_pylist() == wanted
    assert upper.to_pylist() == [w + "!" for w in wanted]
    assert Evaluator([day], FUNCTIONS).evaluate(rows, BatchContext(20_000))[0].equals(pa.array(wanted))


@pytest.mark.parametrize(("pattern", "step"), [("yyyy-MM-dd", 86_400), ("HH:mm", 60), ("yyyy", 86_400), ("mm:ss", 1)])
@pytest.mark.parametrize("begin", [dt.datetime(1969, 12, 31, 23), dt.datetime(2024, 2, 28, 12)])
@pytest.mark.parametrize("apart", [0, 700, 5000])
def test_times_near_each_other_and_far_apart_are_written_alike(
    pattern: str, step: int, begin: dt.datetime, apart: int
) -> None:
    """Near each other the looks are numbered, far apart looked up."""
    rng = random.Random(apart)
    moments = [begin + dt.timedelta(seconds=rng.choice((0, apart * step)) + rng.random() * 90) for _ in range(9000)]
    values = np.array(moments, "datetime64[us]").astype(np.int64)
    coded = coded_times(values, "us", pattern, Dialect.FORMATTER)
    assert coded is not None
    java = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}
    written = re.sub("|".join(java), lambda letters: java[letters[0]], pattern)
    assert coded.to_pylist() == [m.strftime(written) for m in moments]
