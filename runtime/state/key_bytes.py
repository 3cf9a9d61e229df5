"""Keys as byte strings that are equal exactly when the keys are, and from which the keys can be read again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from runtime.kernels.arrow_buffers import (
    binary_array,
    byte_lengths,
    byte_spans,
    fixed_array,
    fixed_dtype,
    fixed_values,
    is_bytes_like,
    large_binary,
    null_mask,
    single_array,
)
from runtime.kernels.decoded import bytes_as

__all__ = ["KeyBytes"]


class KeyBytes:
    """Per column a byte that is 0 for NULL, and the value: integers with the highest byte first and the sign turned
    over, so that keys that follow each other are neighbours; of strings the length, their bytes stand at the end.

    For all types but nested ones. Floating point numbers are canonical: one NaN, no -0.0.
    """

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        self._types = list(types)
        fields: list[tuple[object, ...]] = []
        for number, type_ in enumerate(self._types):
            fields.append((f"n{number}", "u1"))
            if is_bytes_like(type_):
                fields.append((f"v{number}", ">u4"))
            else:
                dtype, shape = fixed_dtype(type_)
                size = dtype.itemsize
                fields.append((f"v{number}", f">u{size}" if size > 1 else "u1", shape))
        self._dtype = np.dtype(fields)
        self._strings = [number for number, type_ in enumerate(self._types) if is_bytes_like(type_)]

    def encode(self, columns: Sequence[pa.Array]) -> pa.Array:
        """The byte string of each key, large_binary."""
        arrays = [single_array(c, t) for c, t in zip(columns, self._types, strict=True)]
        count = len(arrays[0])
        rows = np.zeros(count, self._dtype)
        strings: list[pa.Array] = []
        for number, array in enumerate(arrays):
            nulls = null_mask(array)
            rows[f"n{number}"] = 1 if nulls is None else ~nulls
            if number in self._strings:
                text = large_binary(array)
                values = byte_lengths(text)
                strings.append(text if nulls is None else text.fill_null(b""))
            else:
                values = _ordered(fixed_values(array))
                if nulls is not None:
                    values = np.where(nulls if values.ndim == 1 else nulls[:, None], 0, values)
            rows[f"v{number}"] = values
        offsets = np.arange(count + 1, dtype=np.int64) * self._dtype.itemsize
        fixed = binary_array(offsets, rows.view(np.uint8), pa.large_binary())
        if not strings:
            return fixed
        return pc.binary_join_element_wise(fixed, *strings, pa.scalar(b"", pa.large_binary()))

    def decode(self, keys: pa.Array) -> list[pa.Array]:
        """The key columns of byte strings made by `encode`."""
        data, starts, _ = byte_spans(keys)
        width = self._dtype.itemsize
        rows = np.ascontiguousarray(data[starts[:, None] + np.arange(width)]).view(self._dtype).reshape(len(keys))
        lengths = [rows[f"v{number}"].astype(np.int64) for number in self._strings]
        pieces = None
        if lengths:
            ends = np.cumsum(np.column_stack((starts, np.full(len(keys), width), *lengths)), axis=1)
            pieces = binary_array(np.append(ends[:, :-1].reshape(-1), len(data)), data, pa.large_binary())
        columns: list[pa.Array] = []
        for number, type_ in enumerate(self._types):
            nulls = rows[f"n{number}"] == 0
            if pieces is not None and number in self._strings:
                step = len(self._strings) + 1
                place = np.arange(len(keys), dtype=np.int64) * step + 1 + self._strings.index(number)
                columns.append(bytes_as(pieces.take(pa.array(place, mask=nulls)), type_))
            else:
                columns.append(fixed_array(_values(rows[f"v{number}"], type_), type_, nulls))
        return columns

    def order(self, keys: pa.Array) -> np.ndarray:
        """A permutation that sorts keys by their first bytes: near enough for a store to find them side by side."""
        data, starts, lengths = byte_spans(keys)
        if not len(keys):
            return np.empty(0, np.int64)
        # Eight bytes from the second on: the first of a key says only whether its first column is NULL.
        width = int(lengths[0])
        if width > 8 and not self._strings:
            words = data.reshape(len(keys), width)[:, 1:9]
        else:
            inside = np.arange(1, 9) < lengths[:, None]
            words = np.where(inside, data[np.minimum(starts[:, None] + np.arange(1, 9), len(data) - 1)], 0)
        numbers = np.ascontiguousarray(words, np.uint8).view(">u8").reshape(-1)
        return np.argsort(numbers.astype(np.uint64), kind="stable")


def _ordered(values: np.ndarray) -> np.ndarray:
    """Values as unsigned numbers, integers in their order."""
    if values.dtype == np.bool_:
        return values.astype(np.uint8)
    unsigned = np.dtype(f"u{values.dtype.itemsize}")
    if values.dtype.kind == "f":
        canonical = values + values.dtype.type(0)
        canonical[np.isnan(canonical)] = np.nan
        return canonical.view(unsigned)
    if values.dtype.kind == "i":
        return values.view(unsigned) ^ unsigned.type(1 << (8 * values.dtype.itemsize - 1))
    # Decimals: words from the lowest up.
    return values[:, ::-1] if values.ndim == 2 else values


def _values(numbers: np.ndarray, type_: pa.DataType) -> np.ndarray:
    """The values of `_ordered` numbers."""
    dtype, shape = fixed_dtype(type_)
    if pt.is_boolean(type_):
        return numbers.astype(np.bool_)
    native = numbers.astype(numbers.dtype.newbyteorder("="))
    if dtype.kind == "i":
        return (native ^ native.dtype.type(1 << (8 * dtype.itemsize - 1))).view(dtype)
    if dtype.kind == "f":
        return native.view(dtype)
    return np.ascontiguousarray(native[:, ::-1]) if shape else native
