"""Rows as messages: the values of columns, row by row, behind their lengths or before delimiters.

Each column is an Arrow array of bytes (`binary`), a value for each row and NULL for NULL.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.kernels.native import kernel

__all__ = ["delimited", "framed", "lengths", "with_length"]

_EMPTY = pa.scalar(b"", pa.binary())
_TYPE_AND_LENGTH = 5
"""Bytes at the beginning of a message."""

_frame_heads = kernel("frame_heads", "inxX")
_frame_values = kernel("frame_values", "ixbIX")
_delimit_values = kernel("delimit_values", "ixnIX")


def lengths(values: pa.Array) -> np.ndarray:
    """The length in bytes of each value, -1 for NULL, as int32."""
    found = pc.fill_null(pc.binary_length(values), -1)
    return found.to_numpy(zero_copy_only=False).astype(np.int32)


def framed(columns: Sequence[pa.Array], rows: int, type_: bytes) -> memoryview:
    """A message for each row: a byte that says what it is, the length of the rest in four bytes, the number of values in two, and
    each value behind its length, which is -1 for NULL. Numbers have their highest byte first."""
    sizes = [lengths(column) for column in columns]
    whole = sum(
        (np.maximum(size, 0) for size in sizes), np.full(rows, _TYPE_AND_LENGTH + 2 + 4 * len(columns), np.int64)
    )
    if _frame_heads is None or _frame_values is None:
        return _framed_by_arrow(columns, sizes, whole, type_)
    starts, out = _room(whole)
    _frame_heads(starts, type_[0], np.frombuffer(len(columns).to_bytes(2, "big"), np.uint8), out)
    at = starts[:-1] + (_TYPE_AND_LENGTH + 2)
    for column in columns:
        offsets, data = _parts(column)
        valid = np.asarray(column.is_valid()) if column.null_count else np.empty(0, np.bool_)
        _frame_values(offsets, data, valid, at, out)
    return memoryview(out)  # type: ignore[arg-type]


def delimited(columns: Sequence[pa.Array], rows: int, type_: bytes, delimiter: bytes) -> memoryview:
    """A message for each row: a byte that says what it is, the length of the rest, and a line: the values, none of them NULL,
    with delimiters between them."""
    between = len(delimiter) * max(len(columns) - 1, 0)
    whole = sum((lengths(column) for column in columns), np.full(rows, _TYPE_AND_LENGTH + between + 1, np.int64))
    if _frame_heads is None or _delimit_values is None or not columns or len(delimiter) != 1:
        return _delimited_by_arrow(columns, whole, type_, delimiter)
    starts, out = _room(whole)
    _frame_heads(starts, type_[0], np.empty(0, np.uint8), out)
    at = starts[:-1] + _TYPE_AND_LENGTH
    for i, column in enumerate(columns):
        _delimit_values(*_parts(column), ord("\n") if i + 1 == len(columns) else delimiter[0], at, out)
    return memoryview(out)  # type: ignore[arg-type]


def _room(sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where rows of these sizes begin and end, and bytes for them."""
    starts = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=starts[1:])
    return starts, np.empty(int(starts[-1]), np.uint8)


def _parts(column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Where values begin and end, and the bytes of all."""
    _, offsets, data = column.buffers()
    ends = (
        np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1] if len(column) else _NO_ROWS
    )
    return ends.astype(np.int64), np.frombuffer(data or b"", np.uint8)


_NO_ROWS = np.zeros(1, np.int32)


# --- without kernels: heads and values joined element by element, so that the data of the result are the bytes
# ---------------------------------------------------------------------------------------------------------------------


def _framed_by_arrow(
    columns: Sequence[pa.Array], sizes: Sequence[np.ndarray], whole: np.ndarray, type_: bytes
) -> memoryview:
    # The length of the first value stands in the head: each part of a row costs as much as its bytes do.
    first = [("first", ">i4")] if columns else []
    heads = np.zeros(len(whole), dtype=[("type", "S1"), ("length", ">i4"), ("count", ">i2"), *first])
    heads["type"], heads["length"], heads["count"] = type_, whole - 1, len(columns)
    if columns:
        heads["first"] = sizes[0]
    parts = [_fixed(heads), *columns[:1]]
    for column, size in zip(columns[1:], sizes[1:], strict=True):
        parts += [_fixed(size.astype(">i4")), column]
    return _data(_joined(parts))


def _delimited_by_arrow(columns: Sequence[pa.Array], whole: np.ndarray, type_: bytes, delimiter: bytes) -> memoryview:
    heads = np.zeros(len(whole), dtype=[("type", "S1"), ("length", ">i4")])
    heads["type"], heads["length"] = type_, whole - 1
    parts: list[pa.Array | pa.Scalar] = [_fixed(heads)]
    for i, column in enumerate(columns):
        parts += [pa.scalar(delimiter, pa.binary()), column] if i else [column]
    return _data(_joined([*parts, pa.scalar(b"\n", pa.binary())]))


def _fixed(numbers: np.ndarray) -> pa.Array:
    """Each item of an array of numpy as bytes."""
    packed = np.ascontiguousarray(numbers)
    size = packed.dtype.itemsize
    fixed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(size), len(packed), [None, pa.py_buffer(packed.tobytes())])
    return fixed.cast(pa.binary())


def _joined(parts: Sequence[pa.Array | pa.Scalar]) -> pa.Array:
    return pc.binary_join_element_wise(*parts, _EMPTY, null_handling="replace", null_replacement=b"")


def _data(joined: pa.Array) -> memoryview:
    """The values of an array, one behind the other."""
    _, offsets, data = joined.buffers()
    if data is None:
        return memoryview(b"")
    ends = np.frombuffer(offsets, dtype=np.int32)
    return memoryview(data)[int(ends[joined.offset]) : int(ends[joined.offset + len(joined)])]


def with_length(values: pa.Array) -> pa.Array:
    """Each value behind its length, NULL as the length -1, as an array of bytes."""
    return _joined([_fixed(lengths(values).astype(">i4")), values])
