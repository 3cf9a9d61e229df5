"""Grouped reductions over one batch, and 128-bit decimal sums.

All functions take `group`, int64 (n,), the group (or slot) of each row, and `count`, the number of groups; groups
without a row get the neutral element that the function names. Integers wrap at 64 bits, as Java's do in Flink.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runtime.kernels.arrow_buffers import fixed_array, fixed_values, null_mask
from runtime.kernels.grouping import group_ids
from runtime.kernels.grow import grown
from runtime.kernels.indexed import add_at, count_at, greatest_at, least_at, put_at

__all__ = [
    "DecimalAccumulator",
    "count_by",
    "first_row_by",
    "group_ids",
    "last_row_by",
    "max_by",
    "min_by",
    "sum_by",
]

_LOW_32 = np.uint64(0xFFFFFFFF)
_SHIFT_32 = np.uint64(32)


def sum_by(group: np.ndarray, values: np.ndarray, count: int) -> np.ndarray:
    """The sum of each group: int64 for integers and booleans (wrapping), float64 for floats; 0 for no rows.

    Floats are added in row order.
    """
    if values.dtype.kind == "f":
        sums = np.zeros(count, dtype=np.float64)
        add_at(sums, group, values.astype(np.float64, copy=False))
        return sums
    total = np.zeros(count, dtype=np.int64)
    add_at(total, group, values if values.dtype == np.int8 else values.astype(np.int64, copy=False))
    return total


def count_by(group: np.ndarray, count: int, weights: np.ndarray | None = None) -> np.ndarray:
    """The number of rows of each group, or the sum of integer `weights` (signs of changes), int64."""
    if weights is None:
        counts = np.zeros(count, dtype=np.int64)
        count_at(counts, group)
        return counts
    return sum_by(group, weights, count)


def min_by(group: np.ndarray, values: np.ndarray, count: int) -> np.ndarray:
    """The least value of each group, in the dtype of `values`; its greatest value (NaN for floats) for no rows.

    NaN is greater than every number.
    """
    if values.dtype.kind == "f":
        least = np.full(count, np.nan, dtype=values.dtype)
        np.fmin.at(least, group, values)
        return least
    least = np.full(count, _highest(values.dtype), dtype=values.dtype)
    least_at(least, group, values)
    return least


def max_by(group: np.ndarray, values: np.ndarray, count: int) -> np.ndarray:
    """The greatest value of each group, in the dtype of `values`; its least value (-inf for floats) for no rows.

    NaN is greater than every number.
    """
    if values.dtype.kind == "f":
        greatest = np.full(count, -np.inf, dtype=values.dtype)
    else:
        greatest = np.full(count, _lowest(values.dtype), dtype=values.dtype)
    # numpy warns of NaN here, which is the answer wanted.
    with np.errstate(invalid="ignore"):
        greatest_at(greatest, group, values)
    return greatest


def first_row_by(group: np.ndarray, count: int) -> np.ndarray:
    """The first row of each group, int64, -1 for no rows."""
    first = np.full(count, -1, dtype=np.int64)
    # Of several assignments to one place the last one stays: backwards for the first row.
    first[group[::-1]] = np.arange(len(group) - 1, -1, -1)
    return first


def last_row_by(group: np.ndarray, count: int) -> np.ndarray:
    """The last row of each group, int64, -1 for no rows."""
    last = np.full(count, -1, dtype=np.int64)
    put_at(last, group, np.arange(len(group)))
    return last


class DecimalAccumulator:
    """Exact sums of decimals by slot: 128-bit two's complement in a signed upper and an unsigned lower word.

    Sums wrap at 2**127, which is above 38 digits, so that a sum may leave the range of DECIMAL(38) and come back. All
    values of one accumulator have the same scale: it stores unscaled integers.
    """

    def __init__(self) -> None:
        self._high = np.zeros(0, dtype=np.int64)
        self._low = np.zeros(0, dtype=np.uint64)

    @property
    def nbytes(self) -> int:
        return self._high.nbytes + self._low.nbytes

    def reserve(self, size: int) -> None:
        """Makes room for slots below `size`; new sums are 0."""
        self._high = grown(self._high, size)
        self._low = grown(self._low, size)

    def add(self, slots: np.ndarray, values: pa.Array, signs: np.ndarray | None = None) -> None:
        """Adds `signs[i] * values[i]` (sign 1 if not given) to the sum of `slots[i]`; slots may repeat, NULLs are
        left out.

        Args:
            slots: int64 (n,), below the reserved size (reserved here if not).
            values: decimal128 of any precision.
            signs: small integers (n,), usually +1 and -1.
        """
        nulls = null_mask(values)
        words = fixed_values(values)
        if nulls is not None:
            valid = ~nulls
            slots, words = slots[valid], words[valid]
            signs = None if signs is None else signs[valid]
        if len(slots) == 0:
            return
        self.reserve(int(slots.max()) + 1)
        low, high = np.ascontiguousarray(words[:, 0]), np.ascontiguousarray(words[:, 1]).view(np.int64)
        touched_rows, group = group_ids(np.ascontiguousarray(slots).view(np.uint64).reshape(-1, 1))
        touched = slots[touched_rows]
        count = len(touched)
        weights = None if signs is None else np.asarray(signs).astype(np.int64)
        # Sums of 32-bit limbs cannot overflow 64 bits within a batch; carries are passed on once, at the end.
        limbs = (
            (low & _LOW_32).view(np.int64),
            (low >> _SHIFT_32).view(np.int64),
            (high.view(np.uint64) & _LOW_32).view(np.int64),
            high >> 32,
        )
        sums = [sum_by(group, limb if weights is None else limb * weights, count) for limb in limbs]
        carry = np.zeros(count, dtype=np.int64)
        parts: list[np.ndarray] = []
        for limb_sum in sums:
            total = limb_sum + carry
            parts.append(total.view(np.uint64) & _LOW_32)
            carry = total >> 32
        high_sum = (parts[2] | (parts[3] << _SHIFT_32)).view(np.int64)
        self._add_words(touched, parts[0] | (parts[1] << _SHIFT_32), high_sum)

    def reset(self, slots: np.ndarray) -> None:
        """Sets the sums of the slots to 0."""
        self._high[slots] = 0
        self._low[slots] = 0

    def take(self, slots: np.ndarray, precision: int, scale: int, nulls: np.ndarray | None = None) -> pa.Array:
        """The sums as decimal128(precision, scale); NULL where the sum has more digits, and where `nulls` says so."""
        words = np.empty((len(slots), 2), dtype=np.uint64)
        words[:, 0] = self._low[slots]
        words[:, 1] = self._high[slots].view(np.uint64)
        missing = _exceeds(words, precision)
        if nulls is not None:
            missing |= nulls
        return fixed_array(words, pa.decimal128(precision, scale), missing)

    def words(self, slots: np.ndarray) -> np.ndarray:
        """The raw sums, uint64 (n, 2), lower word first: for snapshots."""
        return np.stack((self._low[slots], self._high[slots].view(np.uint64)), axis=1)

    def restore(self, slots: np.ndarray, words: np.ndarray) -> None:
        """Sets the sums of distinct slots from what `words` gave."""
        if len(slots):
            self.reserve(int(slots.max()) + 1)
            self._low[slots] = words[:, 0]
            self._high[slots] = np.ascontiguousarray(words[:, 1]).view(np.int64)

    def _add_words(self, slots: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
        """Adds to distinct slots."""
        before = self._low[slots]
        after = before + low
        self._low[slots] = after
        self._high[slots] += high + (after < before).astype(np.int64)


def _exceeds(words: np.ndarray, precision: int) -> np.ndarray:
    """Whether the magnitude of 128-bit integers has more than `precision` decimal digits."""
    limit = 10**precision
    limit_low, limit_high = np.uint64(limit & (1 << 64) - 1), np.uint64(limit >> 64)
    negative = words[:, 1] >= np.uint64(1 << 63)
    # Two's complement: the magnitude of a negative number is its inverse plus one.
    low = np.where(negative, ~words[:, 0] + np.uint64(1), words[:, 0])
    high = np.where(negative, ~words[:, 1] + (words[:, 0] == 0).astype(np.uint64), words[:, 1])
    return (high > limit_high) | ((high == limit_high) & (low >= limit_low))


def _highest(dtype: np.dtype) -> object:
    return True if dtype.kind == "b" else np.iinfo(dtype).max


def _lowest(dtype: np.dtype) -> object:
    return False if dtype.kind == "b" else np.iinfo(dtype).min
