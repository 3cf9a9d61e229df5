"""Vectors as matrices, how near they are to each other, and the nearest of many."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runtime.core.cancellation import look
from runtime.core.errors import ExpressionError

__all__ = ["SMALLER_IS_NEARER", "as_matrix", "nearest", "scores"]

SMALLER_IS_NEARER = frozenset({"euclidean"})
_SLACK = 8
"""So many more candidates than are asked for are looked at exactly: the quick look is one of rounded numbers."""
_CELLS = 1 << 23
"""How many scores are held at a time."""


def as_matrix(column: pa.Array, width: int | None = None) -> np.ndarray:
    """Lists of numbers without NULL as (rows, width), in float32 or float64. `width`: what they have to have.

    Raises ExpressionError E2121 for lists of another length, or with NULL in them.
    """
    values = column.flatten()
    lengths = column.value_lengths().to_numpy()
    found = int(lengths[0]) if len(lengths) else (width or 0)
    if values.null_count:
        raise ExpressionError(
            "a vector that is searched has NULL in it",
            code="E2121",
            hint="filter such rows out, or put a number in its place",
        )
    wanted = found if width is None else width
    wrong = lengths[lengths != wanted]
    if len(wrong):
        raise ExpressionError(
            f"a vector has {wrong[0]} numbers, and others have {wanted}",
            code="E2121",
            hint="all vectors that are compared have the same length: WHERE CARDINALITY(v) = ..",
        )
    return values.to_numpy(zero_copy_only=False).reshape(len(column), wanted)


def scores(metric: str, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """How near the vectors of two arrays (.., width) are, one by one, in float64. The cosine of a vector of zeros is 0."""
    left, right = left.astype(np.float64, copy=False), right.astype(np.float64, copy=False)
    if metric == "euclidean":
        difference = left - right
        return np.sqrt((difference * difference).sum(axis=-1))
    product = (left * right).sum(axis=-1)
    if metric == "dot":
        return product
    length = np.sqrt((left * left).sum(axis=-1) * (right * right).sum(axis=-1))
    return np.divide(product, length, out=np.zeros_like(product), where=length > 0)


def nearest(metric: str, queries: np.ndarray, vectors: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The nearest `count` of `vectors` to each query, nearest first, of equal ones those with the lowest position: positions
    and scores, (queries, at most count). A score that is no number is none: its position is -1.

    All are compared, by products of matrices; the best are compared again exactly.
    """
    count = min(count, len(vectors))
    width = min(count + _SLACK, len(vectors))
    positions = np.empty((len(queries), count), np.int64)
    values = np.empty((len(queries), count), np.float64)
    if not count:
        return positions, values
    scale, shift = _prepared(metric, vectors)
    step = max(1, _CELLS // max(len(vectors), width * vectors.shape[1]))
    for at in range(0, len(queries), step):
        look()
        part = queries[at : at + step]
        # For a query, scale and shift say the order of what is near: larger is nearer.
        rough = part @ vectors.T
        rough *= scale
        rough += shift
        np.nan_to_num(rough, copy=False, nan=-np.inf)
        best = np.argpartition(-rough, width - 1, axis=1)[:, :width] if width < len(vectors) else _all(len(part), width)
        exact = scores(metric, part[:, None, :], vectors[best])
        order = exact if metric in SMALLER_IS_NEARER else -exact
        order = np.where(np.isnan(order), np.inf, order)
        ranked = np.lexsort((best, order), axis=-1)[:, :count]
        chosen = np.take_along_axis(best, ranked, axis=1)
        value = np.take_along_axis(exact, ranked, axis=1)
        positions[at : at + step] = np.where(np.isnan(value), -1, chosen)
        values[at : at + step] = value
    return positions, values


def _all(rows: int, width: int) -> np.ndarray:
    return np.broadcast_to(np.arange(width), (rows, width))


def _prepared(metric: str, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What products with the vectors are multiplied by, and what is added, to be in the order of what is near."""
    if metric == "dot":
        return np.ones(1, vectors.dtype), np.zeros(1, vectors.dtype)
    squares = np.einsum("ij,ij->i", vectors, vectors)
    if metric == "euclidean":
        return np.ones(1, vectors.dtype), -0.5 * squares
    length = np.sqrt(squares)
    return np.divide(1, length, out=np.zeros_like(length), where=length > 0), np.zeros(1, vectors.dtype)
