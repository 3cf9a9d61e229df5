"""Rows as DataRow messages, a whole batch at a time.

Each column comes as one Arrow array of bytes, a value for each row and NULL for NULL. The messages of all rows are then
one call of Arrow: heads and values joined element by element, so that the data of the result are the bytes to send.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["PIECE", "copy_binary_rows", "copy_delimited_rows", "data_rows", "lengths", "with_length"]

PIECE = 65_536
"""At most so many rows are made into messages at once: offsets of Arrow arrays are int32."""

_EMPTY = pa.scalar(b"", pa.binary())


def lengths(values: pa.Array) -> np.ndarray:
    """The length in bytes of each value, -1 for NULL, as int32."""
    found = pc.fill_null(pc.binary_length(values), -1)
    return found.to_numpy(zero_copy_only=False).astype(np.int32)


def _fixed(numbers: np.ndarray) -> pa.Array:
    """Each item of an array of numpy as bytes."""
    packed = np.ascontiguousarray(numbers)
    size = packed.dtype.itemsize
    fixed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(size), len(packed), [None, pa.py_buffer(packed.tobytes())])
    return fixed.cast(pa.binary())


def _joined(parts: Sequence[pa.Array]) -> pa.Array:
    return pc.binary_join_element_wise(*parts, _EMPTY, null_handling="replace", null_replacement=b"")


def _data(joined: pa.Array) -> memoryview:
    """The values of an array, one behind the other."""
    _, offsets, data = joined.buffers()
    if data is None:
        return memoryview(b"")
    ends = np.frombuffer(offsets, dtype=np.int32)
    return memoryview(data)[int(ends[joined.offset]) : int(ends[joined.offset + len(joined)])]


def with_length(values: pa.Array) -> pa.Array:
    """Each value behind its length, NULL as the length -1: what arrays have inside."""
    return _joined([_fixed(lengths(values).astype(">i4")), values])


def data_rows(columns: Sequence[pa.Array], rows: int) -> bytes | memoryview:
    """The messages of so many rows (at most `PIECE`)."""
    return _framed(columns, rows, [("type", "S1"), ("length", ">i4")], 6, b"D")


def copy_binary_rows(columns: Sequence[pa.Array], rows: int) -> bytes | memoryview:
    """CopyData messages in the binary format of COPY: the number of fields, and each behind its length."""
    return _framed(columns, rows, [("type", "S1"), ("length", ">i4")], 6, b"d")


def _framed(
    columns: Sequence[pa.Array], rows: int, head: list[tuple[str, str]], counted: int, type_: bytes
) -> bytes | memoryview:
    """A head for each row, that says its size and how many values follow, and its values behind their lengths."""
    sizes = [lengths(column) for column in columns]
    # The length of the first value stands in the head: each part of a row costs as much as its bytes do.
    first = [("first", ">i4")] if columns else []
    heads = np.zeros(rows, dtype=[*head, ("count", ">i2"), *first])
    heads["type"] = type_
    heads["length"] = (
        counted + 4 * len(columns) + sum((np.maximum(size, 0) for size in sizes), np.zeros(rows, np.int64))
    )
    heads["count"] = len(columns)
    if columns:
        heads["first"] = sizes[0]
    parts = [_fixed(heads), *columns[:1]]
    for column, size in zip(columns[1:], sizes[1:], strict=True):
        parts += [_fixed(size.astype(">i4")), column]
    return _data(_joined(parts))


def copy_delimited_rows(columns: Sequence[pa.Array], rows: int, delimiter: bytes) -> bytes | memoryview:
    """CopyData messages of lines: values, none of them NULL, between delimiters."""
    heads = np.zeros(rows, dtype=[("type", "S1"), ("length", ">i4")])
    heads["type"] = b"d"
    total = np.full(rows, 4 + max(len(columns) - 1, 0) * len(delimiter) + 1, dtype=np.int64)
    parts = []
    for i, column in enumerate(columns):
        if i:
            parts.append(pa.scalar(delimiter, pa.binary()))
        parts.append(column)
        total += lengths(column)
    heads["length"] = total
    return _data(_joined([_fixed(heads), *parts, pa.scalar(b"\n", pa.binary())]))
