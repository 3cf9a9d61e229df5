"""Between Arrow arrays and numpy: values, null masks and byte strings, without a copy where the layout allows it."""

from __future__ import annotations

import functools

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from runtime.core.errors import InternalError

__all__ = [
    "binary_array",
    "byte_lengths",
    "byte_spans",
    "coded_array",
    "dictionary_codes",
    "fixed_array",
    "fixed_dtype",
    "fixed_values",
    "is_bytes_like",
    "is_fixed",
    "large_binary",
    "list_lengths",
    "map_as_list",
    "null_mask",
    "single_array",
    "string_buffers",
]


def single_array(column: pa.Array | pa.ChunkedArray, type_: pa.DataType) -> pa.Array:
    """The column as one array of exactly `type_` (chunks joined, dictionaries decoded, other types cast)."""
    if isinstance(column, pa.ChunkedArray):
        if column.num_chunks == 1:
            column = column.chunk(0)
        else:
            column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], type=column.type)
    return column if column.type == type_ else column.cast(type_)


def coded_array(column: pa.Array | pa.ChunkedArray, type_: pa.DataType) -> pa.Array:
    """`single_array`, but an Arrow dictionary of strings of `type_` that has few values for its rows stays one."""
    coded = isinstance(column, pa.DictionaryArray) and column.type.value_type == type_ and is_bytes_like(type_)
    return column if coded and 2 * len(column.dictionary) <= len(column) else single_array(column, type_)


def dictionary_codes(array: pa.DictionaryArray) -> tuple[np.ndarray, np.ndarray | None]:
    """The position of each row's value in the dictionary, int (n,), 0 at NULL; and which rows are NULL."""
    nulls = null_mask(array)
    indices = array.indices if nulls is None else array.indices.fill_null(0)
    return indices.to_numpy(), nulls


def null_mask(array: pa.Array) -> np.ndarray | None:
    """True where the value is NULL, bool (n,); None when there is no NULL."""
    if array.null_count == 0:
        return None
    return array.is_null().to_numpy(zero_copy_only=False)


def is_fixed(type_: pa.DataType) -> bool:
    """Whether values of the type have a fixed number of bytes (booleans included) and stand alone."""
    return pt.is_boolean(type_) or (
        (pt.is_primitive(type_) or pt.is_decimal(type_) or pt.is_interval(type_)) and type_.bit_width % 8 == 0
    )


def is_bytes_like(type_: pa.DataType) -> bool:
    """Whether values are strings of characters or bytes of any length."""
    return (
        pt.is_string(type_)
        or pt.is_binary(type_)
        or pt.is_large_string(type_)
        or pt.is_large_binary(type_)
        or pt.is_string_view(type_)
        or pt.is_binary_view(type_)
        or pt.is_fixed_size_binary(type_)
    )


@functools.lru_cache(maxsize=256)
def fixed_dtype(type_: pa.DataType) -> tuple[np.dtype, tuple[int, ...]]:
    """The numpy dtype and trailing shape that carry a fixed type: 16 and 32 byte types are 2 and 4 uint64 words."""
    if pt.is_boolean(type_):
        return np.dtype(np.bool_), ()
    size = type_.bit_width // 8
    if size in (16, 32):
        return np.dtype(np.uint64), (size // 8,)
    if pt.is_floating(type_):
        return np.dtype(f"f{size}"), ()
    if pt.is_unsigned_integer(type_):
        return np.dtype(f"u{size}"), ()
    if size not in (1, 2, 4, 8):
        raise InternalError(f"no fixed layout for {type_}")
    return np.dtype(f"i{size}"), ()


def fixed_values(array: pa.Array) -> np.ndarray:
    """The values of a fixed type, (n,) or (n, words); a read-only view where possible. NULLs: any value."""
    dtype, shape = fixed_dtype(array.type)
    count, offset = len(array), array.offset
    data = array.buffers()[1]
    if count == 0 or data is None:
        return np.zeros((count, *shape), dtype=dtype)
    if dtype == np.bool_:
        first = offset // 8
        bits = np.frombuffer(data, np.uint8, count=(offset + count + 7) // 8 - first, offset=first)
        return np.unpackbits(bits, count=offset % 8 + count, bitorder="little")[offset % 8 :].view(np.bool_)
    words = shape[0] if shape else 1
    values = np.frombuffer(data, dtype, count=count * words, offset=offset * words * dtype.itemsize)
    return values.reshape(count, *shape)


def fixed_array(values: np.ndarray, type_: pa.DataType, nulls: np.ndarray | None) -> pa.Array:
    """The Arrow array of a fixed type over `values` (as `fixed_values` gives them; not to be changed afterwards)."""
    count = len(values)
    validity = None
    null_count = 0
    if nulls is not None:
        null_count = int(np.count_nonzero(nulls))
        if null_count:
            validity = pa.py_buffer(np.packbits(~nulls, bitorder="little"))
    if values.dtype == np.bool_:
        values = np.packbits(values, bitorder="little")
    data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(type_, count, [validity, data], null_count)


def large_binary(array: pa.Array) -> pa.Array:
    """A character or byte string array as large_binary: only offsets are rewritten, bytes are shared."""
    type_ = array.type
    if pt.is_large_binary(type_):
        return array
    if pt.is_string_view(type_) or pt.is_binary_view(type_) or pt.is_fixed_size_binary(type_):
        array = array.cast(pa.binary()) if pt.is_fixed_size_binary(type_) else array.cast(pa.large_binary())
        return large_binary(array)
    validity, offsets, data = array.buffers()
    count, offset = len(array), array.offset
    if count == 0 or offsets is None:
        return pa.array([], type=pa.large_binary())
    if pt.is_large_string(type_):
        return pa.Array.from_buffers(pa.large_binary(), count, [validity, offsets, data], offset=offset)
    narrow = np.frombuffer(offsets, np.int32, count=count + 1, offset=4 * offset)
    if validity is not None and offset:
        validity = pa.py_buffer(np.packbits(array.is_valid().to_numpy(zero_copy_only=False), bitorder="little"))
    return pa.Array.from_buffers(pa.large_binary(), count, [validity, pa.py_buffer(narrow.astype(np.int64)), data])


def string_buffers(strings: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """The offsets (int64 (n + 1,)) and the bytes (uint8) of a large_binary or large_string array of one string or more:
    views. The offsets count from the first byte, of other arrays' strings too.
    """
    _, offsets, data = strings.buffers()
    bytes_ = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return np.frombuffer(offsets, np.int64, count=len(strings) + 1, offset=8 * strings.offset), bytes_


def byte_spans(array: pa.Array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The bytes of a large_binary array: `(data uint8, starts int64 (n,), lengths int64 (n,))`; NULL has length 0."""
    count = len(array)
    _, offset_buffer, data_buffer = array.buffers()
    if count == 0 or offset_buffer is None:
        return np.empty(0, np.uint8), np.zeros(count, np.int64), np.zeros(count, np.int64)
    offsets = np.frombuffer(offset_buffer, np.int64, count=count + 1, offset=8 * array.offset)
    low, high = int(offsets[0]), int(offsets[-1])
    lengths = byte_lengths(array)
    if data_buffer is None or high == low:
        return np.empty(0, np.uint8), np.zeros(count, np.int64), lengths
    data = np.frombuffer(data_buffer, np.uint8, count=high - low, offset=low)
    return data, offsets[:-1] - low, lengths


def byte_lengths(array: pa.Array) -> np.ndarray:
    """The number of bytes of each string of a large_binary array, int64; 0 at NULL."""
    count = len(array)
    buffer = array.buffers()[1]
    if count == 0 or buffer is None:
        return np.zeros(count, np.int64)
    lengths = np.diff(np.frombuffer(buffer, np.int64, count=count + 1, offset=8 * array.offset))
    nulls = null_mask(array)
    if nulls is not None:
        lengths[nulls] = 0
    return lengths


def binary_array(
    offsets: np.ndarray, data: np.ndarray, type_: pa.DataType, nulls: np.ndarray | None = None
) -> pa.Array:
    """A large_binary or large_string array over int64 offsets (n + 1) and uint8 data, without copying; NULL where `nulls`
    (n,) is true."""
    count = len(offsets) - 1
    validity = None if nulls is None else pa.py_buffer(np.packbits(~nulls, bitorder="little"))
    null_count = 0 if nulls is None else int(np.count_nonzero(nulls))
    return pa.Array.from_buffers(type_, count, [validity, pa.py_buffer(offsets), pa.py_buffer(data)], null_count)


def list_lengths(array: pa.Array, nulls: np.ndarray | None) -> np.ndarray:
    """The number of elements of each list or map, int64; 0 at NULL."""
    if pt.is_fixed_size_list(array.type):
        lengths = np.full(len(array), array.type.list_size, dtype=np.int64)
    else:
        dtype = np.int64 if pt.is_large_list(array.type) else np.int32
        offsets = array.buffers()[1]
        if len(array) == 0 or offsets is None:
            return np.zeros(len(array), np.int64)
        bounds = np.frombuffer(offsets, dtype, count=len(array) + 1, offset=np.dtype(dtype).itemsize * array.offset)
        lengths = np.diff(bounds).astype(np.int64)
    if nulls is not None:
        lengths[nulls] = 0
    return lengths


def map_as_list(array: pa.Array) -> pa.Array:
    """A map array as a list of structs of key and value, sharing all memory."""
    entries = pa.StructArray.from_arrays([array.keys, array.items], names=["key", "value"])
    return pa.Array.from_buffers(
        pa.list_(entries.type), len(array), array.buffers()[:2], offset=array.offset, children=[entries]
    )
