"""Comparison of Arrow values as SQL compares them, nested values and NaN included.

Java's order of numbers: NaN equals NaN only where values are keys; `=` on NaN is false as in IEEE 754. Texts and
bytes compare by code point and unsigned byte, shorter first. Nested values are equal when their parts are, NULL parts
equal to NULL parts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.expr.columns import as_array, combine_valid, from_numpy, validity
from runtime.expr.function import Value

__all__ = ["equal", "same_rows"]

Mask = np.ndarray[Any, np.dtype[np.bool_]]


def equal(a: Value, b: Value, length: int) -> Value:
    """`a = b`: NULL when either is NULL. Both have the same Arrow type."""
    if pa.types.is_null(a.type) or pa.types.is_null(b.type):
        return pa.scalar(None, pa.bool_())
    if not pa.types.is_nested(a.type):
        return pc.equal(a, b)
    left, right = as_array(a, length), as_array(b, length)
    valid = combine_valid(validity(left), validity(right))
    return from_numpy(same_rows(left, right), valid, pa.bool_())


def same_rows(a: pa.Array, b: pa.Array) -> Mask:
    """The rows at which two arrays of one type hold the same value; NULL is the same as NULL, inside nested values
    too."""
    left, right = validity(a), validity(b)
    result = _same_values(a, b)
    both = combine_valid(left, right)
    if both is not None:
        result = result & both
    if left is not None and right is not None:
        result = result | (~left & ~right)
    return result


def _same_values(a: pa.Array, b: pa.Array) -> Mask:
    type_ = a.type
    if pa.types.is_struct(type_):
        result = np.ones(len(a), np.bool_)
        for index in range(type_.num_fields):
            result &= same_rows(a.field(index), b.field(index))
        return result
    if pa.types.is_map(type_):
        return _same_maps(a, b)
    if pa.types.is_list(type_):
        return _same_lists(a, b)
    return pc.fill_null(pc.equal(a, b), False).to_numpy(zero_copy_only=False)


def _lengths(array: pa.Array) -> Any:
    # A NULL row counts no items: nobody looks at its entries.
    lengths = np.diff(np.asarray(array.offsets).astype(np.int64))
    valid = validity(array)
    return lengths if valid is None else np.where(valid, lengths, 0)


def _expand(array: pa.Array, rows: Any, counts: Any) -> Any:
    """Positions, among the flat items of a list array, of the items of some rows."""
    starts = np.asarray(array.offsets)[:-1].astype(np.int64)[rows]
    within = np.arange(int(counts.sum()), dtype=np.int64) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(starts, counts) + within


def _same_lists(a: pa.Array, b: pa.Array) -> Mask:
    left, right = _lengths(a), _lengths(b)
    result = left == right
    rows = np.flatnonzero(result & (left > 0))
    if not len(rows):
        return result
    counts = left[rows]
    mine = a.values.take(pa.array(_expand(a, rows, counts)))
    other = b.values.take(pa.array(_expand(b, rows, counts)))
    differs = ~same_rows(mine, other)
    result[np.repeat(rows, counts)[differs]] = False
    return result


def _same_maps(a: pa.Array, b: pa.Array) -> Mask:
    """Maps are equal when they have the same entries in any order."""
    left, right = _lengths(a), _lengths(b)
    result = left == right
    rows = np.flatnonzero(result & (left > 0))
    if not len(rows):
        return result
    counts = left[rows]
    # Every entry of one is compared with every entry of the other: pairs within a row only.
    total = int(counts.sum())
    row_of = np.repeat(np.arange(len(rows)), counts)
    repeats = counts[row_of]
    mine = np.repeat(np.arange(total, dtype=np.int64), repeats)
    first = (np.cumsum(counts) - counts)[row_of]
    within = np.arange(int(repeats.sum()), dtype=np.int64) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    other = np.repeat(first, repeats) + within
    entries_a = _entries(a, rows, counts)
    entries_b = _entries(b, rows, counts)
    same = same_rows(entries_a.take(pa.array(mine)), entries_b.take(pa.array(other)))
    matched = np.zeros(total, np.bool_)
    matched[mine[same]] = True
    result[rows[row_of[~matched]]] = False
    return result


def _entries(array: pa.Array, rows: Any, counts: Any) -> pa.Array:
    entries = pa.StructArray.from_arrays([array.keys, array.items], names=["key", "value"])
    return entries.take(pa.array(_expand(array, rows, counts)))
