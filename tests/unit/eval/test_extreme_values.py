"""Every function and every cast, with values at the ends of their types: a type that says NOT NULL is right, a constant
is computed as a column is, and what cannot be computed is an error with a code."""

from __future__ import annotations

import itertools
import random

import pyarrow as pa
import pytest
from expression_builders import FUNCTIONS
from extreme_values import SCALARS, TYPES, VALUES, calls, column, misplaced_nulls, row_by_row

from runtime.core.errors import ExpressionError
from runtime.core.types import DataType
from runtime.eval.evaluator import BatchContext, Evaluator
from runtime.eval.literal import literal_scalar
from runtime.expr.analysis import can_fail
from runtime.expr.function import ScalarFunction
from runtime.expr.nodes import Cast, InputRef, Literal
from runtime.expr.nullability import cast_type
from runtime.expr.typing import explicit_cast

ROWS = 6


@pytest.mark.parametrize("function", SCALARS, ids=lambda f: f.name)
def test_function(function: ScalarFunction) -> None:
    chance = random.Random(function.name)
    for given, _ in calls(function, chance):
        args = [[g] * ROWS if isinstance(g, Literal) else column(g, chance, ROWS) for g in given]
        fixed = [isinstance(g, Literal) for g in given]
        shown = f"{function.name}({', '.join(str(a[0].type) for a in args)})"
        for call, at, values in row_by_row(function.name, args, fixed, ROWS):
            row = [a[at] for a in args]
            if isinstance(values, ExpressionError):
                assert can_fail(call, FUNCTIONS), f"{shown} fails of {row} and is not declared so: {values}"
                continue
            assert not misplaced_nulls(values, call.type), f"{shown} is {call.type}, and NULL for some of {args}"
            if not function.deterministic or function.dynamic:
                continue
            for constant in itertools.islice(itertools.product((True, False), repeat=len(args)), 3):
                chosen = [f or c for f, c in zip(fixed, constant, strict=True)]
                first = [[a[at]] for a in args]
                for as_constant, _, one in row_by_row(function.name, first, chosen, 1):
                    assert not isinstance(one, ExpressionError), f"{shown} fails of constants only: {row}: {one}"
                    assert not misplaced_nulls(one, as_constant.type), f"{shown} of constants {row}"
                    if one.type == values.type:
                        assert str(one) == str(values[:1]), f"{shown} of constants {chosen}: {row}"


@pytest.mark.parametrize("source", TYPES, ids=str)
def test_cast(source: DataType) -> None:
    cells = [Literal(v, source.not_null()) for v in VALUES[source]]
    for target in TYPES:
        if not explicit_cast(source, target):
            continue
        for safe in (False, True):
            wanted = cast_type(source.not_null(), target.not_null(), safe=safe)
            evaluator = Evaluator([Cast(InputRef(0, source.not_null()), wanted, safe)], FUNCTIONS)
            for cell in cells:
                batch = pa.RecordBatch.from_arrays([pa.repeat(literal_scalar(cell), 1)], names=["c"])
                try:
                    (values,) = evaluator.evaluate(batch, BatchContext(1))
                except ExpressionError:
                    assert not safe
                    continue
                where = f"{cell.value!r} from {source} to {wanted}"
                assert not misplaced_nulls(values, wanted), where
                (one,) = Evaluator([Cast(cell, wanted, safe)], FUNCTIONS).evaluate(batch, BatchContext(1))
                assert str(one) == str(values), where
