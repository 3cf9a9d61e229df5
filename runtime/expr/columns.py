"""Between Arrow values and numpy: views in, arrays out, without a loop over rows.

A `Value` is an Arrow array or a scalar that stands for a constant column. The functions here give numpy views of
either, and build Arrow arrays of an exact type from numpy results and a validity mask (`valid[i]` false is NULL; None
means no NULLs).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.expr.function import Value

__all__ = [
    "as_array",
    "combine_valid",
    "from_numpy",
    "integers_of",
    "is_null_scalar",
    "numbers",
    "validity",
    "with_nulls",
]

Mask = np.ndarray[Any, np.dtype[np.bool_]]


def is_null_scalar(value: Value) -> bool:
    """Whether a value is the constant NULL."""
    return isinstance(value, pa.Scalar) and not value.is_valid


def as_array(value: Value, length: int, type_: pa.DataType | None = None) -> pa.Array:
    """A value as an array of `length` rows, one chunk; cast to `type_` when it has another Arrow type of the same
    values."""
    if isinstance(value, pa.Scalar):
        if type_ is not None and value.type != type_:
            value = pa.scalar(None, type_) if not value.is_valid else value.cast(type_)
        # Arrow cannot repeat a nested value no times.
        return pa.nulls(length, value.type) if not value.is_valid or not length else pa.repeat(value, length)
    if isinstance(value, pa.ChunkedArray):
        value = value.combine_chunks()
    return value if type_ is None or value.type == type_ else value.cast(type_)


def validity(array: pa.Array) -> Mask | None:
    """The rows that are not NULL, or None when all are valid."""
    if array.null_count == 0:
        return None
    return array.is_valid().to_numpy(zero_copy_only=False)


def combine_valid(*masks: Mask | None) -> Mask | None:
    """The rows valid in all masks."""
    result: Mask | None = None
    for mask in masks:
        if mask is not None:
            result = mask if result is None else result & mask
    return result


_STORAGE: dict[int, pa.DataType] = {1: pa.int8(), 2: pa.int16(), 4: pa.int32(), 8: pa.int64()}


def integers_of(array: pa.Array) -> Any:
    """The stored numbers of a fixed-width array (int, float, date, time, timestamp, duration) as numpy, without a copy.

    Values at NULL rows are whatever is stored there.
    """
    type_ = array.type
    if pa.types.is_boolean(type_):
        return (
            pc.fill_null(array, False).to_numpy(zero_copy_only=False)
            if array.null_count
            else array.to_numpy(zero_copy_only=False)
        )
    if pa.types.is_floating(type_):
        dtype: Any = np.dtype(type_.to_pandas_dtype())
    else:
        dtype = np.dtype(f"i{type_.bit_width // 8}")
    buffer = array.buffers()[1]
    if buffer is None:
        return np.zeros(len(array), dtype)
    return np.frombuffer(buffer, dtype=dtype)[array.offset : array.offset + len(array)]


def numbers(value: Value, length: int) -> tuple[Any, Mask | None]:
    """The stored numbers of a fixed-width value and its validity; a scalar becomes a numpy array of one element that
    broadcasts.

    Of a NULL scalar: zero, and a mask of `length` false.
    """
    if isinstance(value, pa.Scalar):
        if not value.is_valid:
            return integers_of(pa.array([0]).cast(pa.int64()))[:1], np.zeros(length, np.bool_)
        return integers_of(pa.repeat(value, 1)), None
    array = as_array(value, length)
    return integers_of(array), validity(array)


def from_numpy(values: Any, valid: Mask | None, type_: pa.DataType, length: int | None = None) -> pa.Array:
    """An Arrow array of `type_` whose stored numbers are `values` (converted to its width); NULL where not `valid`."""
    if length is not None and len(values) != length:
        values = np.broadcast_to(values, (length,))
    if pa.types.is_boolean(type_):
        return pa.array(np.ascontiguousarray(values), type=type_, mask=None if valid is None else ~valid)
    if pa.types.is_floating(type_):
        stored = np.ascontiguousarray(values, dtype=type_.to_pandas_dtype())
    else:
        stored = np.ascontiguousarray(values).astype(f"i{type_.bit_width // 8}", copy=False)
    return _wrap(stored, valid, type_)


def _wrap(stored: Any, valid: Mask | None, type_: pa.DataType) -> pa.Array:
    bitmap = None
    if valid is not None and not valid.all():
        bitmap = pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
    return pa.Array.from_buffers(type_, len(stored), [bitmap, pa.py_buffer(stored)])


def with_nulls(array: pa.Array, invalid: Mask) -> pa.Array:
    """The array with NULL at further rows."""
    if not invalid.any():
        return array
    rows = np.arange(len(array), dtype=np.int64)
    return array.take(pa.array(rows, mask=invalid))
