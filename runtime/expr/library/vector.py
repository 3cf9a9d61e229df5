"""How near two vectors are: arrays of numbers of one length."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from runtime.core.errors import ExpressionError
from runtime.core.types import DOUBLE, DataType, TypeRoot, array
from runtime.expr.columns import as_array
from runtime.expr.function import ArgumentType, EvalContext, Nulls, Value
from runtime.expr.library.declare import Family

__all__ = ["FAMILY"]

FAMILY = Family("vector")


def _numbers(given: DataType) -> DataType | None:
    if given.root is TypeRoot.NULL:
        return array(DOUBLE)
    if given.root is TypeRoot.ARRAY and (given.children[0].is_numeric or given.children[0].root is TypeRoot.NULL):
        return given.with_(children=(DOUBLE.with_nullable(given.children[0].nullable),))
    return None


_VECTOR = ArgumentType(
    "ARRAY<DOUBLE>", lambda t: t.root is TypeRoot.ARRAY and t.children[0].root is TypeRoot.DOUBLE, _numbers
)


class _Sums:
    """Sums of the items of each pair."""

    def __init__(self, owner: np.ndarray, count: int) -> None:
        self._owner = owner
        self._count = count

    def __call__(self, items: np.ndarray) -> np.ndarray:
        # Of no items at all numpy gives integers.
        return np.bincount(self._owner, weights=items, minlength=self._count).astype(np.float64, copy=False)


Measure = Callable[[np.ndarray, np.ndarray, _Sums], np.ndarray]


def _declare(name: str, document: str, measure: Measure) -> None:
    """A function of two vectors; `measure` gets the items of all pairs side by side, and what sums them by pair."""

    def evaluate(context: EvalContext, left: Value, right: Value) -> Value:
        rows = context.num_rows
        first, second = as_array(left, rows), as_array(right, rows)
        valid = first.is_valid().to_numpy(zero_copy_only=False) & second.is_valid().to_numpy(zero_copy_only=False)
        known = np.flatnonzero(valid)
        a, b = (column if len(known) == rows else column.take(pa.array(known)) for column in (first, second))
        lengths, others = a.value_lengths().to_numpy(), b.value_lengths().to_numpy()
        wrong = np.flatnonzero(lengths != others)
        if len(wrong):
            raise ExpressionError(
                f"{name} of vectors with {lengths[wrong[0]]} and {others[wrong[0]]} numbers",
                code="E2121",
                hint="vectors that are compared have the same length",
            )
        x, y = (column.flatten().to_numpy(zero_copy_only=False) for column in (a, b))
        owner = np.repeat(np.arange(len(known)), lengths)
        values = np.zeros(rows)
        values[known] = measure(x, y, _Sums(owner, len(known)))
        # NULL in a vector makes the items NaN; a NaN of the vector itself does, too.
        missing = np.zeros(rows, np.bool_)
        for column in (a, b):
            nulls = column.flatten().is_null().to_numpy(zero_copy_only=False)
            missing[known[owner[nulls]]] = True
        return pa.array(values, mask=~valid | missing)

    evaluate.__doc__ = document
    FAMILY.scalar(name, [_VECTOR, _VECTOR], DOUBLE, document, nulls=Nulls.MAYBE, can_fail=True)(evaluate)


def _dot(x: np.ndarray, y: np.ndarray, total: _Sums) -> np.ndarray:
    return total(x * y)


def _cosine(x: np.ndarray, y: np.ndarray, total: _Sums) -> np.ndarray:
    length = np.sqrt(total(x * x) * total(y * y))
    product = total(x * y)
    return np.divide(product, length, out=np.zeros_like(product), where=length != 0)


def _distance(x: np.ndarray, y: np.ndarray, total: _Sums) -> np.ndarray:
    difference = x - y
    return np.sqrt(total(difference * difference))


_declare("COSINE_SIMILARITY", "The cosine of the angle between two vectors; 0 where one of them is all zeros.", _cosine)
_declare("COSINE_DISTANCE", "1 - COSINE_SIMILARITY.", lambda x, y, total: 1 - _cosine(x, y, total))
_declare("DOT_PRODUCT", "The sum of the products of two vectors' numbers.", _dot)
_declare("EUCLIDEAN_DISTANCE", "The distance between two points.", _distance)
