"""From the fields of key words back to Arrow arrays: what the codecs of `key_codecs.py` have in common."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from runtime.kernels.arrow_buffers import fixed_array, fixed_dtype
from runtime.kernels.bytes_pool import BytesPool

__all__ = ["bytes_as", "fixed_from_words", "list_from_elements", "pooled_values", "struct_from_fields"]


def fixed_from_words(words: list[np.ndarray], bits: int, type_: pa.DataType, nulls: np.ndarray | None) -> pa.Array:
    """Values of a fixed width from uint64 words, the lowest first; the last has so many bits and carries the sign."""
    dtype, shape = fixed_dtype(type_)
    if not shape:
        (word,) = words
        if dtype.kind == "f":
            return fixed_array(word.astype(f"u{dtype.itemsize}").view(dtype), type_, nulls)
        return fixed_array(
            word.astype(np.bool_ if dtype == np.bool_ else f"u{dtype.itemsize}").view(dtype), type_, nulls
        )
    top = words[-1] << np.uint64(64 - bits)
    top = (top.view(np.int64) >> np.int64(64 - bits)).view(np.uint64)
    sign = (top.view(np.int64) >> np.int64(63)).view(np.uint64)
    missing = shape[0] - len(words)
    return fixed_array(np.stack([*words[:-1], top, *[sign] * missing], axis=1), type_, nulls)


def pooled_values(pool: BytesPool, words: np.ndarray) -> pa.Array:
    """The byte strings of words as `intern_codes` gives them, large_binary, NULL where the word is 0."""
    codes = words.astype(np.int64) - 1
    known = codes >= 0
    if known.all():
        return pool.take(codes)
    return pool.take(codes[known]).take(pa.array(np.cumsum(known) - 1, mask=~known))


def struct_from_fields(fields: list[pa.Array], type_: pa.DataType, nulls: np.ndarray) -> pa.Array:
    """A struct array from the arrays of its fields."""
    return pa.Array.from_buffers(type_, len(nulls), [_validity(nulls)], children=fields)


def list_from_elements(
    children: list[pa.Array], lengths: np.ndarray, nulls: np.ndarray | None, type_: pa.DataType
) -> pa.Array:
    """A list of the elements (a map, of the keys and values) that stand in the order of the rows, `lengths` of each; a
    NULL row has none."""
    count = len(lengths)
    if pt.is_fixed_size_list(type_):
        (elements,) = children
        if nulls is not None and nulls.any():
            # A NULL row has elements, too, as many as every other.
            held = np.repeat(~nulls, type_.list_size)
            elements = elements.take(pa.array(np.cumsum(held) - 1, mask=~held))
        return pa.Array.from_buffers(type_, count, [_validity(nulls)], children=[elements])
    offsets = np.zeros(count + 1, np.int64 if pt.is_large_list(type_) else np.int32)
    np.cumsum(lengths, out=offsets[1:])
    if pt.is_map(type_):
        keys, items = children
        entries = pa.struct([type_.key_field, type_.item_field])
        children = [pa.Array.from_buffers(entries, len(keys), [None], children=[keys, items])]
    return pa.Array.from_buffers(type_, count, [_validity(nulls), pa.py_buffer(offsets)], children=children)


def bytes_as(strings: pa.Array, type_: pa.DataType) -> pa.Array:
    """Large_binary strings as a character or byte string type."""
    if pt.is_fixed_size_binary(type_):
        # A NULL of a fixed size takes room as well.
        return pc.cast(pc.cast(strings, pa.binary()), type_)
    return pc.cast(strings, type_)


def _validity(nulls: np.ndarray | None) -> pa.Buffer | None:
    return None if nulls is None or not nulls.any() else pa.py_buffer(np.packbits(~nulls, bitorder="little"))
