"""Rows of any Arrow types as byte strings, one for all the rows of a key, and back: whole batches at a time.

A byte string is, where all columns have a fixed width, the rows one after the other; else a header with the length of
each stream, and the streams: first the fixed part of all rows, then the bytes of each variable column in turn. The
fixed part of a row is a bit per column for NULL and the values; a string has its length there, a list the number of
its elements, which are rows of their own in further streams.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from runtime.core.errors import InternalError
from runtime.kernels.arrow_buffers import (
    binary_array,
    byte_lengths,
    byte_spans,
    fixed_array,
    fixed_dtype,
    fixed_values,
    is_bytes_like,
    is_fixed,
    large_binary,
    list_lengths,
    map_as_list,
    null_mask,
    single_array,
)
from runtime.kernels.decoded import bytes_as, list_from_elements, struct_from_fields

__all__ = ["RowCodec"]

_Stream = tuple[np.ndarray, np.ndarray]
"""Bytes, and how many of them each key has."""


class RowCodec:
    """Encodes columns of these types."""

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        self._types = list(types)
        self._block = _Block(self._types)

    def encode(self, columns: Sequence[pa.Array], counts: np.ndarray) -> pa.Array:
        """A large_binary per key.

        Args:
            columns: one per type; the rows of a key stand together, in order of the keys.
            counts: how many rows each key has, int64.
        """
        arrays = [single_array(column, type_) for column, type_ in zip(columns, self._types, strict=True)]
        streams = list(self._block.encode(arrays, counts))
        if len(streams) == 1:
            ((data, lengths),) = streams
            return _strings(data, lengths)
        header = np.stack([lengths for _, lengths in streams], axis=1).astype("<u4")
        parts = [_strings(header.view(np.uint8).reshape(-1), np.full(len(counts), header.shape[1] * 4, np.int64))]
        parts += [_strings(data, lengths) for data, lengths in streams]
        return pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.large_binary()))

    def decode(self, values: pa.Array) -> tuple[list[pa.Array], np.ndarray]:
        """The columns of all rows, and how many each key has; `values` is what `encode` gave, in any order, without
        NULL."""
        data, starts, lengths = byte_spans(values)
        width = self._block.width
        count = self._block.streams
        if count == 1:
            return self._block.decode(iter([data])), lengths // width
        header = data[starts[:, None] + np.arange(4 * count)].view("<u4").astype(np.int64)
        header = header.reshape(len(values), count)
        ends = np.cumsum(np.column_stack((starts, np.full(len(values), 4 * count), header)), axis=1)
        # The streams stand without gaps: as one array of strings, each stream is every n-th of them.
        bounds = np.append(ends[:, :-1].reshape(-1), len(data))
        pieces = binary_array(bounds, data, pa.large_binary())
        first = np.arange(len(values), dtype=np.int64) * (count + 1) + 1
        streams = (byte_spans(pieces.take(pa.array(first + number)))[0] for number in range(count))
        return self._block.decode(streams), header[:, 0] // width


class _Block:
    """Rows of some columns: their fixed part, and what stands outside of it."""

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        self._types = list(types)
        self._leaves: list[_Leaf] = []
        for type_ in types:
            self._add(type_)
        fields = [(f"f{i}", *leaf.layout) for i, leaf in enumerate(self._leaves) if leaf.layout is not None]
        self._flags = max(1, (len(self._leaves) + 7) // 8)
        self._dtype = np.dtype([("flags", np.uint8, (self._flags,)), *fields])
        self.streams = 1 + sum(leaf.streams for leaf in self._leaves)

    @property
    def width(self) -> int:
        """The bytes of the fixed part of a row."""
        return self._dtype.itemsize

    def _add(self, type_: pa.DataType) -> None:
        self._leaves.append(_leaf(type_))
        if pt.is_struct(type_):
            for position in range(type_.num_fields):
                self._add(type_.field(position).type)

    def encode(self, columns: Sequence[pa.Array], counts: np.ndarray) -> Iterator[_Stream]:
        """The streams of this block, `counts` rows for each key."""
        leaves = [array for column in columns for array in _flattened(column)]
        total = int(counts.sum())
        rows = np.zeros(total, self._dtype)
        masks = [null_mask(array) for array in leaves]
        if any(mask is not None for mask in masks):
            flags = np.zeros((total, len(leaves)), np.bool_)
            for position, mask in enumerate(masks):
                if mask is not None:
                    flags[:, position] = mask
            rows["flags"] = np.packbits(flags, axis=1, bitorder="little")
        outside: list[_Stream] = []
        for position, (leaf, array, mask) in enumerate(zip(self._leaves, leaves, masks, strict=True)):
            if leaf.layout is not None:
                values, streams = leaf.encode(array, mask, counts)
                rows[f"f{position}"] = values
                outside += streams
        yield rows.view(np.uint8).reshape(-1), counts * self.width
        yield from outside

    def decode(self, streams: Iterator[np.ndarray]) -> list[pa.Array]:
        """The columns of the rows in these streams."""
        rows = np.ascontiguousarray(next(streams)).view(self._dtype)
        flags: np.ndarray | None = None
        if rows["flags"].any():
            flags = np.unpackbits(np.ascontiguousarray(rows["flags"]), axis=1, bitorder="little").view(np.bool_)
        found: list[tuple[pa.Array | None, np.ndarray | None]] = []
        for position, leaf in enumerate(self._leaves):
            nulls = None if flags is None else np.ascontiguousarray(flags[:, position])
            values = None if leaf.layout is None else np.ascontiguousarray(rows[f"f{position}"])
            found.append((leaf.decode(values, nulls, len(rows), streams), nulls))
        leaves = iter(found)
        return [_assembled(type_, leaves, len(rows)) for type_ in self._types]


class _Leaf:
    """A column without children: NULL, or a struct of which only the NULL bit is kept."""

    layout: tuple[object, tuple[int, ...]] | None = None
    """numpy dtype and shape of its field in the fixed part."""
    streams = 0

    def __init__(self, type_: pa.DataType) -> None:
        self.type = type_

    def encode(self, array: pa.Array, nulls: np.ndarray | None, counts: np.ndarray) -> tuple[np.ndarray, list[_Stream]]:
        raise NotImplementedError

    def decode(
        self, values: np.ndarray | None, nulls: np.ndarray | None, count: int, streams: Iterator[np.ndarray]
    ) -> pa.Array | None:
        return pa.nulls(count) if pt.is_null(self.type) else None


class _Fixed(_Leaf):
    def __init__(self, type_: pa.DataType) -> None:
        super().__init__(type_)
        self.layout = fixed_dtype(type_)

    def encode(self, array: pa.Array, nulls: np.ndarray | None, counts: np.ndarray) -> tuple[np.ndarray, list[_Stream]]:
        return fixed_values(array), []

    def decode(
        self, values: np.ndarray | None, nulls: np.ndarray | None, count: int, streams: Iterator[np.ndarray]
    ) -> pa.Array:
        assert values is not None
        return fixed_array(values, self.type, nulls)


class _Bytes(_Leaf):
    layout = ("<u4", ())
    streams = 1

    def encode(self, array: pa.Array, nulls: np.ndarray | None, counts: np.ndarray) -> tuple[np.ndarray, list[_Stream]]:
        strings = large_binary(array)
        lengths = byte_lengths(strings)
        data, _, _ = byte_spans(strings if nulls is None else strings.drop_null())
        return lengths, [(data, _per_key(lengths, counts))]

    def decode(
        self, values: np.ndarray | None, nulls: np.ndarray | None, count: int, streams: Iterator[np.ndarray]
    ) -> pa.Array:
        assert values is not None
        return bytes_as(_with_nulls(_strings(next(streams), values.astype(np.int64)), nulls), self.type)


class _List(_Leaf):
    layout = ("<u4", ())

    def __init__(self, type_: pa.DataType) -> None:
        super().__init__(type_)
        self._elements = _Block([type_.key_type, type_.item_type] if pt.is_map(type_) else [type_.value_type])
        self.streams = self._elements.streams

    def encode(self, array: pa.Array, nulls: np.ndarray | None, counts: np.ndarray) -> tuple[np.ndarray, list[_Stream]]:
        lengths = list_lengths(array, nulls)
        is_map = pt.is_map(self.type)
        flat = (map_as_list(array) if is_map else array).flatten()
        elements = flat.flatten() if is_map else [flat]
        return lengths, list(self._elements.encode(elements, _per_key(lengths, counts)))

    def decode(
        self, values: np.ndarray | None, nulls: np.ndarray | None, count: int, streams: Iterator[np.ndarray]
    ) -> pa.Array:
        assert values is not None
        return list_from_elements(self._elements.decode(streams), values.astype(np.int64), nulls, self.type)


def _leaf(type_: pa.DataType) -> _Leaf:
    if pt.is_null(type_) or pt.is_struct(type_):
        return _Leaf(type_)
    if is_fixed(type_):
        return _Fixed(type_)
    if is_bytes_like(type_):
        return _Bytes(type_)
    if pt.is_map(type_) or pt.is_list(type_) or pt.is_large_list(type_) or pt.is_fixed_size_list(type_):
        return _List(type_)
    raise InternalError(f"state of type {type_} cannot be written as bytes")


def _flattened(column: pa.Array) -> list[pa.Array]:
    """A column and, of a struct, its fields, in the order of the leaves."""
    if not pt.is_struct(column.type):
        return [column]
    return [column, *(leaf for field in column.flatten() for leaf in _flattened(field))]


def _assembled(type_: pa.DataType, leaves: Iterator[tuple[pa.Array | None, np.ndarray | None]], count: int) -> pa.Array:
    """The next column, structs from their fields."""
    array, nulls = next(leaves)
    if not pt.is_struct(type_):
        assert array is not None
        return array
    fields = [_assembled(type_.field(i).type, leaves, count) for i in range(type_.num_fields)]
    return struct_from_fields(fields, type_, np.zeros(count, np.bool_) if nulls is None else nulls)


def _per_key(lengths: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Sums of row lengths over the rows of each key."""
    ends = np.append(0, np.cumsum(lengths))[np.append(0, np.cumsum(counts))]
    return np.diff(ends)


def _strings(data: np.ndarray, lengths: np.ndarray) -> pa.Array:
    """Byte strings that stand one after the other."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return binary_array(offsets, data, pa.large_binary())


def _with_nulls(strings: pa.Array, nulls: np.ndarray | None) -> pa.Array:
    if nulls is None or not nulls.any():
        return strings
    _, offsets, data = strings.buffers()
    validity = pa.py_buffer(np.packbits(~nulls, bitorder="little"))
    return pa.Array.from_buffers(pa.large_binary(), len(strings), [validity, offsets, data])
