"""Functions of the golden files about models."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sqlengine import udf

_calls = itertools.count(1)


@udf(result_type="ROW<grade STRING, points DOUBLE>", func_type="arrow")
def graded(weight: pa.Array, price: pa.Array) -> pa.Array:
    """Two outputs at once, over whole columns."""
    points = pc.add(weight, price)
    grade = pc.if_else(pc.greater(points, 10.0), "high", "low")
    return pa.StructArray.from_arrays([grade, points], ["grade", "points"])


@udf(result_type="STRING", input_types=["STRING"])
def mood(text: str) -> str:
    """One output, row by row."""
    return "glad" if "good" in text else "sad"


@udf(result_type="BIGINT", input_types=["INT"], deterministic=False)
def ticket(number: int) -> int:
    """Never the same twice: only what is kept can be taken back."""
    return next(_calls)


@udf(result_type="DOUBLE", func_type="arrow")
def broken(values: Any) -> Any:
    """Fails."""
    raise ValueError("out of order")
