"""What holds for every scalar function, whatever it computes.

The result has the declared Arrow type and the batch's length, for empty batches and slices too; constants and columns
give the same; a strict function is NULL exactly where an argument is.
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from expression_builders import FUNCTIONS

from runtime.core.errors import ExpressionError, TypeMismatchError
from runtime.core.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    INTERVAL_MONTH,
    INTERVAL_SECOND,
    STRING,
    TIME,
    TINYINT,
    DataType,
    array,
    char,
    decimal,
    map_of,
    row,
    timestamp,
    timestamp_ltz,
)
from runtime.eval.evaluator import BatchContext, Evaluator
from runtime.eval.literal import literal_scalar
from runtime.expr.function import Nulls, ScalarFunction
from runtime.expr.nodes import Call, Cast, Expr, InputRef, Literal
from runtime.expr.typing import explicit_cast, resolve_call

UTC = datetime.UTC
SAMPLES: list[tuple[DataType, tuple[Any, Any]]] = [
    (TINYINT, (3, -1)),
    (INT, (2, -7)),
    (BIGINT, (5, 2**40)),
    (FLOAT, (1.5, -2.0)),
    (DOUBLE, (0.25, -1e10)),
    (decimal(9, 2), (Decimal("1.25"), Decimal("-12345.67"))),
    (decimal(38, 10), (Decimal("1.25"), Decimal(10) ** 27)),
    (STRING, ("1a", "h\u00e9llo w\u00f6rld")),
    (char(3), ("abc", "12 ")),
    (BYTES, (b"ab", b"\xff\x00")),
    (BOOLEAN, (True, False)),
    (DATE, (datetime.date(2024, 2, 29), datetime.date(1969, 12, 31))),
    (TIME, (datetime.time(1, 2, 3), datetime.time(23, 59, 59))),
    (timestamp(3), (datetime.datetime(2024, 2, 29, 1, 2, 3, 4000), datetime.datetime(1969, 7, 20, 20, 17, 40))),
    (
        timestamp_ltz(3),
        (datetime.datetime(2024, 2, 29, 1, 2, 3, 4000, UTC), datetime.datetime(1969, 7, 20, 20, 17, 40, 0, UTC)),
    ),
    (INTERVAL_MONTH, (1, -14)),
    (INTERVAL_SECOND, (1000, -86_400_001)),
    (array(INT), ((1, None, 2), ())),
    (array(STRING), (("a", None), ("b",))),
    (map_of(STRING, INT), ((("a", 1),), ())),
    (row(("x", INT), ("y", STRING)), ((1, "a"), (None, "b"))),
]
MOST = 6
"""Calls tried per function: enough to see every family of arguments once."""


def calls(function: ScalarFunction) -> Iterator[tuple[DataType, ...]]:
    """Some lists of argument types that the function takes, without implicit casts of nested values."""
    found = 0
    types = [t for t, _ in SAMPLES]
    for count in range(4):
        # The same type for all arguments first, then all pairs; triples of mixed types are too many.
        mixed: Any = itertools.product(types, repeat=count) if count <= 2 else ((t,) * count for t in types)
        seen = 0
        for given in mixed:
            try:
                wanted, _ = resolve_call(function, given)
            except (TypeMismatchError, IndexError):
                continue
            if tuple(wanted) == tuple(given):
                yield tuple(given)
                seen += 1
                found += 1
                if seen >= MOST:
                    break


SCALARS = sorted((f for f in FUNCTIONS if isinstance(f, ScalarFunction)), key=lambda f: f.name)


@pytest.mark.parametrize("function", SCALARS, ids=lambda f: f.name)
def test_function(function: ScalarFunction) -> None:
    for types in calls(function):
        check(function, types)


def check(function: ScalarFunction, types: tuple[DataType, ...]) -> None:
    wanted, result = resolve_call(function, types)
    columns = [column(t) for t in wanted]
    if not columns:
        columns = [pa.array([1, 2, 3, 4])]
    rows = pa.RecordBatch.from_arrays(columns, names=[f"c{i}" for i in range(len(columns))])
    refs: list[Expr] = [InputRef(i, t) for i, t in enumerate(wanted)]
    call = Call(function.name, tuple(refs), result)
    evaluator = Evaluator([call], FUNCTIONS)
    where = f"{function.name}({', '.join(map(str, types))})"

    def run(batch: pa.RecordBatch) -> pa.Array | None:
        try:
            (values,) = evaluator.evaluate(batch, BatchContext(batch.num_rows))
        except ExpressionError:
            assert function.can_fail, f"{where} fails and is not declared so"
            return None
        assert values.type == result.arrow, where
        assert len(values) == batch.num_rows, where
        return values

    run(rows.slice(0, 0))
    whole = run(rows)
    nothing = run(rows.slice(2, 1))
    if function.nulls is Nulls.STRICT and wanted and nothing is not None:
        assert nothing.null_count == 1, f"{where} of NULLs is not NULL"
    if function.nulls is Nulls.NEVER and whole is not None:
        assert whole.null_count == 0, where
    if whole is None or not function.deterministic:
        return
    assert str(run(rows.slice(1))) == str(whole.slice(1)), f"{where} of a slice"
    # Row 0 as constants; half constant, half column must give the same too.
    for constant in range(1, 2 ** len(wanted)):
        args = tuple(Literal(sample(t)[0], t) if constant >> i & 1 else refs[i] for i, t in enumerate(wanted))
        first = rows.slice(0, 1)
        try:
            (values,) = Evaluator([Call(function.name, args, result)], FUNCTIONS).evaluate(first, BatchContext(1))
        except ExpressionError:
            assert function.can_fail, where
            continue
        assert str(values) == str(whole.slice(0, 1)), f"{where} with constants {constant:b}"


def sample(type_: DataType) -> tuple[Any, Any]:
    return next(values for t, values in SAMPLES if t.with_nullable(True) == type_.with_nullable(True))


def column(type_: DataType) -> pa.Array:
    """Two values, NULL, and the first value again; as a slice, so that offsets are not zero."""
    first, second = sample(type_)
    cells = [second, first, second, None, first]
    return pa.concat_arrays([pa.repeat(literal_scalar(Literal(c, type_)), 1) for c in cells]).slice(1)


@pytest.mark.parametrize(("source", "target"), [*itertools.product([t for t, _ in SAMPLES], repeat=2)], ids=str)
def test_cast(source: DataType, target: DataType) -> None:
    if not explicit_cast(source, target):
        return
    rows = pa.RecordBatch.from_arrays([column(source)], names=["c"])
    cast = Cast(InputRef(0, source), target, safe=True)
    for batch in (rows, rows.slice(0, 0), rows.slice(2, 1)):
        (values,) = Evaluator([cast], FUNCTIONS).evaluate(batch, BatchContext(batch.num_rows))
        assert values.type == target.arrow and len(values) == batch.num_rows
    (values,) = Evaluator([cast], FUNCTIONS).evaluate(rows, BatchContext(4))
    assert not values[2].is_valid
    literal = Literal(sample(source)[0], source)
    (one,) = Evaluator([Cast(literal, target, safe=True)], FUNCTIONS).evaluate(rows.slice(0, 1), BatchContext(1))
    assert str(one) == str(values.slice(0, 1))
