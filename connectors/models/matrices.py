"""Columns as the matrices that models take, and matrices as columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from runtime.core.errors import ExpressionError
from runtime.core.schema import Schema
from runtime.core.types import TypeRoot

__all__ = ["columns_of", "matrix_of", "output_columns"]


def matrix_of(column: pa.Array) -> np.ndarray:
    """A column as (rows, width): 1 wide, or for arrays of numbers as wide as each of them is. Texts are objects.

    Raises ExpressionError E2120 for arrays of different lengths, or with NULL in them.
    """
    if not pa.types.is_list(column.type):
        return column.to_numpy(zero_copy_only=False).reshape(-1, 1)
    values = column.flatten()
    width = len(values) // len(column) if len(column) else 0
    lengths = np.diff(column.offsets.to_numpy())
    if values.null_count or len(values) != width * len(column) or not (lengths == width).all():
        raise ExpressionError(
            "a model takes arrays of one length, without NULL in them",
            code="E2120",
            hint="filter other rows out: WHERE CARDINALITY(a) = 384",
        )
    return values.to_numpy(zero_copy_only=False).reshape(len(column), width)


def columns_of(features: pa.RecordBatch) -> np.ndarray:
    """All columns side by side, as (rows, widths): of numbers if all are, else of objects."""
    parts = [matrix_of(column) for column in features.columns]
    return parts[0] if len(parts) == 1 else np.hstack(parts)


def output_columns(given: Mapping[str, Any] | Sequence[Any], outputs: Schema) -> list[pa.Array]:
    """What a model gives as columns of the declared outputs: by name where all names are there, else in order. One matrix
    for several outputs is taken apart."""
    if isinstance(given, Mapping):
        by_name = all(name in given for name in outputs.names)
        given = [given[name] for name in outputs.names] if by_name else list(given.values())[: len(outputs)]
    if len(given) == 1 and len(outputs) > 1:
        matrix = np.asarray(given[0])
        if matrix.ndim == 2 and matrix.shape[1] == len(outputs):
            given = [matrix[:, i] for i in range(len(outputs))]
    return [
        _column(value, outputs[i].type.root is TypeRoot.ARRAY) if i < len(outputs) else pa.nulls(0)
        for i, value in enumerate(given)
    ]


def _column(value: Any, is_array: bool) -> pa.Array:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        # Classifiers from scikit-learn in ONNX give a probability by class.
        return pa.array(
            [list(row.items()) for row in value], pa.map_(pa.scalar(next(iter(value[0]))).type, pa.float64())
        )
    array = np.asarray(value)
    if array.ndim > 2:
        array = array.reshape(len(array), -1)
    if array.ndim == 2 and array.shape[1] == 1 and not is_array:
        array = array[:, 0]
    if array.ndim < 2:
        return pa.array(array.tolist() if array.dtype == object else array)
    values = pa.array(np.ascontiguousarray(array).reshape(-1))
    offsets = np.arange(0, array.size + 1, array.shape[1], dtype=np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), values)
