"""Calls of functions over columns and constants, as the binder and the evaluator make them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from runtime.core.types import BIGINT, BOOLEAN, INT, STRING, DataType
from runtime.eval.evaluator import BatchContext, Evaluator
from runtime.expr.library import builtin_functions
from runtime.expr.nodes import Call, Cast, Expr, InputRef, Literal
from runtime.expr.typing import resolve_call

__all__ = ["FUNCTIONS", "Column", "column", "evaluate", "type_of", "value"]

FUNCTIONS = builtin_functions()
NOW = 1_700_000_000_000
"""The processing time of all calls: 2023-11-14 22:13:20 UTC."""


@dataclass(frozen=True)
class Column:
    """The values of an argument, row by row."""

    values: Sequence[Any]
    type: DataType


def type_of(values: Sequence[Any]) -> DataType:
    """BOOLEAN, INT, BIGINT or STRING, whichever holds the values."""
    known = [v for v in values if v is not None]
    if known and isinstance(known[0], bool):
        return BOOLEAN
    if known and isinstance(known[0], int):
        return BIGINT if any(abs(v) > (1 << 31) - 1 for v in known) else INT
    return STRING


def column(*values: Any, type_: DataType | None = None) -> Column:
    return Column(values, type_ or type_of(values))


def evaluate(
    name: str, *args: Any, rows: int | None = None, zone: str = "UTC", watermark: int | None = None
) -> list[Any]:
    """The values of `name(*args)`: `Column` arguments are columns, `Literal` and plain Python values constants."""
    arrays: list[pa.Array] = []
    given: list[Expr] = []
    for arg in args:
        if isinstance(arg, Column):
            given.append(InputRef(len(arrays), arg.type))
            arrays.append(pa.array(arg.values, arg.type.arrow))
        elif isinstance(arg, Literal):
            given.append(arg)
        else:
            given.append(Literal(arg, type_of([arg]).with_nullable(arg is None)))
    literals = [a if isinstance(a, Literal) else None for a in given]
    wanted, result = resolve_call(FUNCTIONS.scalar(name), [a.type for a in given], literals)
    cast = tuple(a if a.type.same_ignoring_nullability(t) else Cast(a, t) for a, t in zip(given, wanted, strict=True))
    length = len(arrays[0]) if arrays else rows or 1
    batch = pa.record_batch(arrays or [pa.nulls(length)], names=[str(i) for i in range(max(len(arrays), 1))])
    context = BatchContext(length, zone, NOW, watermark)
    return Evaluator([Call(name, cast, result)], FUNCTIONS).evaluate(batch, context)[0].to_pylist()


def value(name: str, *args: Any, zone: str = "UTC") -> Any:
    """The value of a call with constants."""
    return evaluate(name, *args, zone=zone)[0]
