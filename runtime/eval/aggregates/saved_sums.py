"""Exact sums as Arrow columns: what is saved of them, and how they come back.

Decimals are decimal256 of the argument's scale. A sum of doubles has more bits than any number type: it is an integer
of 32-bit digits times a power of two (two's complement, least digit first, no more digits than it needs), and beside it
stands the sum rounded, for people who read it. Both say what the sum is, not how its limbs came about.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.eval.aggregates.exact_sums import LOWEST_EXPONENT, SPECIAL_PARTS, ExactSums
from runtime.kernels.arrow_buffers import fixed_values, list_lengths, null_mask
from runtime.kernels.grow import expand_ranges

__all__ = ["FLOAT_SUM", "decimal_sum", "float_sums", "restore_decimals", "restore_floats", "saved_decimals"]

FLOAT_SUM = pa.struct(
    [
        ("value", pa.float64()),
        ("exponent", pa.int32()),
        ("digits", pa.list_(pa.uint32())),
        ("nan", pa.int64()),
        ("infinity", pa.int64()),
        ("negative_infinity", pa.int64()),
    ]
)
"""The sum is `digits` * 2**`exponent`, unless NaN or infinities are among what was added: they are counted."""

_M32 = 0xFFFFFFFF


def float_sums(sums: ExactSums, slots: np.ndarray) -> pa.Array:
    """Sums of doubles as `FLOAT_SUM`."""
    limbs = sums.limbs(slots)
    lowest = min(limbs, default=0)
    digits = np.zeros((len(slots), max(len(limbs), 1)), np.int64)
    for index, values in limbs.items():
        digits[:, index - lowest] = values
    negative = digits[:, -1] < 0
    digits &= _M32
    # What stands above the last digit that is not the sign repeated says nothing; its own sign bit must be right.
    filled = digits != np.where(negative, _M32, 0)[:, None]
    last = np.where(filled.any(axis=1), digits.shape[1] - 1 - np.argmax(filled[:, ::-1], axis=1), -1)
    top = digits[np.arange(len(slots)), np.maximum(last, 0)]
    end = last + 1 + np.where(last < 0, negative, (top >> 31 != 0) != negative)
    first = np.where(end > 0, np.argmax(digits != 0, axis=1), 0)
    row, column = expand_ranges(first, end - first)
    offsets = np.zeros(len(slots) + 1, np.int32)
    np.cumsum(end - first, out=offsets[1:])
    exponent = np.where(end > 0, 32 * (lowest + first) + LOWEST_EXPONENT, 0)
    special = sums.specials(slots)
    return pa.StructArray.from_arrays(
        [
            pa.array(sums.floats(slots)[0]),
            pa.array(exponent.astype(np.int32)),
            pa.ListArray.from_arrays(pa.array(offsets), pa.array(digits[row, column].astype(np.uint32))),
            *(pa.array(np.ascontiguousarray(special[:, kind])) for kind in range(3)),
        ],
        fields=list(FLOAT_SUM),
    )


def restore_floats(sums: ExactSums, slots: np.ndarray, saved: pa.Array) -> None:
    """Adds saved sums (NULL: nothing) to slots."""
    _, exponent, digits, *special = saved.flatten()
    lengths = list_lengths(digits, null_mask(digits))
    values = fixed_values(digits.flatten()).astype(np.int64)
    ends = np.cumsum(lengths)
    top = ends[lengths > 0] - 1
    values[top] -= (values[top] >> 31) << 32
    row, place = expand_ranges(np.zeros(len(slots), np.int64), lengths)
    place += (fixed_values(exponent.fill_null(0)).astype(np.int64)[row] - LOWEST_EXPONENT) >> 5
    parts: dict[int, np.ndarray] = {}
    for index in np.unique(place).tolist():
        chosen = place == index
        parts[index] = np.zeros(len(slots), np.int64)
        parts[index][row[chosen]] = values[chosen]
    for kind, counts in zip(SPECIAL_PARTS, special, strict=True):
        parts[kind] = fixed_values(counts.fill_null(0))
    sums.add_parts(slots, parts)


def decimal_sum(scale: int) -> pa.DataType:
    """The type of saved sums of decimals."""
    return pa.decimal256(76, scale)


def saved_decimals(sums: ExactSums, slots: np.ndarray, scale: int) -> pa.Array:
    """Sums of decimals as `decimal_sum`."""
    words = np.ascontiguousarray(sums.words(slots))
    return pa.Array.from_buffers(decimal_sum(scale), len(slots), [None, pa.py_buffer(words)])


def restore_decimals(sums: ExactSums, slots: np.ndarray, saved: pa.Array) -> None:
    """Adds saved sums (NULL: nothing) to slots."""
    if saved.null_count:
        saved = pc.fill_null(saved, pa.scalar(0, pa.int8()).cast(saved.type))
    words = fixed_values(saved)
    signs = (words.view(np.int64) >> 63).view(np.uint64)
    needed = next((k for k in (1, 2, 3) if all(np.array_equal(words[:, j], signs[:, k - 1]) for j in range(k, 4))), 4)
    parts: dict[int, np.ndarray] = {}
    for number in range(needed):
        word = np.ascontiguousarray(words[:, number])
        parts[2 * number] = (word & np.uint64(_M32)).astype(np.int64)
        high = word.view(np.int64) >> 32
        parts[2 * number + 1] = high if number == needed - 1 else high & _M32
    sums.add_parts(slots, parts)
