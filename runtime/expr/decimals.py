"""Exact decimal arithmetic on columns.

A DECIMAL column is a numpy array of its unscaled integers: int64 while all values and intermediate results fit, else
arbitrary integers (dtype object: exact, slower). Results that do not fit the target's precision are NULL, as in Flink;
rounding is half up (away from zero).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from runtime.expr.columns import Mask, as_array, combine_valid, from_numpy, validity
from runtime.expr.function import Value

__all__ = [
    "Unscaled",
    "power_of_ten",
    "divide_half_up",
    "divide_truncating",
    "from_unscaled",
    "rescaled",
    "scaled_up",
    "unscaled",
    "widest",
]

Unscaled = Any
"""A numpy array of int64, or of Python integers."""

_LIMIT = 2**62
_WORD = 2**64


def unscaled(value: Value, length: int) -> tuple[Unscaled, Mask | None]:
    """The unscaled integers of a decimal (or integer) column and its validity; a scalar gives one element that
    broadcasts.

    Values at NULL rows are zero.
    """
    if isinstance(value, pa.Scalar):
        if not value.is_valid:
            return np.zeros(1, np.int64), np.zeros(length, np.bool_)
        value = pa.repeat(value, 1)
    array = as_array(value, length)
    valid = validity(array)
    if pa.types.is_integer(array.type):
        stored = array.cast(pa.int64()).fill_null(0) if valid is not None else array.cast(pa.int64())
        return stored.to_numpy(zero_copy_only=False), valid
    buffer = array.buffers()[1]
    if buffer is None:
        return np.zeros(len(array), np.int64), valid
    if pa.types.is_decimal256(array.type):
        return _four_words(array, buffer, valid), valid
    words = np.frombuffer(buffer, dtype=np.int64)[2 * array.offset : 2 * (array.offset + len(array))]
    low, high = words[0::2], words[1::2]
    if valid is not None:
        low, high = np.where(valid, low, 0), np.where(valid, high, 0)
    if np.array_equal(high, low >> 63):
        return low, valid
    return high.astype(object) * _WORD + low.view(np.uint64).astype(object), valid


def _four_words(array: pa.Array, buffer: pa.Buffer, valid: Mask | None) -> Unscaled:
    words = np.frombuffer(buffer, dtype=np.uint64)[4 * array.offset : 4 * (array.offset + len(array))]
    result = words[3::4].view(np.int64).astype(object)
    for lower in (2, 1, 0):
        result = result * _WORD + words[lower::4].astype(object)
    return result if valid is None else np.where(valid, result, 0)


def widest(values: Unscaled) -> int:
    """The largest magnitude among the values."""
    if not len(values):
        return 0
    return max(abs(int(values.max())), abs(int(values.min())))


def scaled_up(values: Unscaled, digits: int) -> Unscaled:
    """The values times ten to the `digits`."""
    if digits == 0:
        return values
    factor = 10**digits
    if values.dtype != object and max(widest(values), 1) * factor >= _LIMIT:
        values = values.astype(object)
    return values * factor


def product(a: Unscaled, b: Unscaled) -> Unscaled:
    """The products of the values."""
    if a.dtype != object and b.dtype != object and widest(a) * widest(b) >= _LIMIT:
        a = a.astype(object)
    return a * b


def total(a: Unscaled, b: Unscaled) -> Unscaled:
    """The sums of the values."""
    if a.dtype != object and b.dtype != object and widest(a) + widest(b) >= _LIMIT:
        a = a.astype(object)
    return a + b


def power_of_ten(digits: int, values: Unscaled) -> Unscaled | int:
    """10 to the `digits`, as what the values can be divided by."""
    return 10**digits if digits < 19 else _big(10**digits, values)


def divide_half_up(values: Unscaled, divisor: Unscaled | int) -> Unscaled:
    """Quotients rounded half away from zero; no divisor is zero."""
    quotient = abs(values) // abs(divisor)
    rest = abs(values) - quotient * abs(divisor)
    # rest >= divisor - rest, not 2 * rest >= divisor: the double may not fit 64 bits.
    quotient = quotient + np.where(rest >= abs(divisor) - rest, 1, 0)
    negative = (values < 0) != (np.asarray(divisor) < 0)
    return np.where(negative, -quotient, quotient)


def divide_truncating(values: Unscaled, divisor: Unscaled | int) -> Unscaled:
    """Quotients truncated toward zero; no divisor is zero."""
    quotient = abs(values) // abs(divisor)
    negative = (values < 0) != (np.asarray(divisor) < 0)
    return np.where(negative, -quotient, quotient)


def rescaled(values: Unscaled, scale: int, target: int) -> Unscaled:
    """Values of one scale in another, rounded half up."""
    if target >= scale:
        return scaled_up(values, target - scale)
    return divide_half_up(values, power_of_ten(scale - target, values))


def _big(factor: int, values: Unscaled) -> Unscaled:
    return np.full(len(values), factor, dtype=object)


def from_unscaled(values: Unscaled, valid: Mask | None, type_: pa.DataType, length: int) -> pa.Array:
    """A decimal column of `type_`; values that do not fit its precision become NULL."""
    if len(values) != length:
        values = np.broadcast_to(values, (length,))
    limit = 10**type_.precision
    if widest(values) >= limit:
        fits = np.asarray((values < limit) & (values > -limit), dtype=np.bool_)
        valid = combine_valid(valid, fits)
        values = np.where(fits, values, 0)
    words = np.empty((length, 2), dtype=np.int64)
    if values.dtype == object:
        words[:, 0] = (values & (_WORD - 1)).astype(np.uint64).view(np.int64)
        words[:, 1] = (values >> 64).astype(np.int64)
    else:
        words[:, 0] = values
        words[:, 1] = values >> 63
    bitmap = None
    if valid is not None and not valid.all():
        bitmap = pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
    return pa.Array.from_buffers(type_, length, [bitmap, pa.py_buffer(words)])


def low_words(values: Unscaled) -> Any:
    """The low 64 bits as int64: how Java narrows a big integer."""
    if values.dtype != object:
        return values
    return (values & (_WORD - 1)).astype(np.uint64).view(np.int64)


def to_double(values: Unscaled, scale: int) -> Any:
    """The nearest doubles of the decimals."""
    if values.dtype != object and scale <= 22 and widest(values) < 2**53:
        # Both operands are exact doubles, so one division rounds correctly.
        return values / np.float64(10.0**scale)
    # Python's integer division rounds to the nearest double for integers of any size.
    return np.true_divide(values.astype(object), 10**scale).astype(np.float64)


def integers(values: Any, valid: Mask | None, type_: pa.DataType) -> pa.Array:
    """Whole numbers as an integer column, narrowed as Java does."""
    return from_numpy(low_words(values), valid, type_)


__all__ += ["integers", "low_words", "product", "to_double", "total"]
