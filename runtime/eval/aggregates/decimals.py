"""From exact 256-bit sums to DECIMAL columns: range check, average, rounding half up."""

from __future__ import annotations

import decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.kernels.arrow_buffers import fixed_array

__all__ = ["average_decimals", "decimal_array", "sum_decimals"]

_SAFE = 1 << 62


def decimal_array(unscaled: np.ndarray, type_: pa.DataType, missing: np.ndarray | None) -> pa.Array:
    """A decimal128 array from int64 unscaled values (within the type's precision)."""
    words = np.empty((len(unscaled), 2), np.int64)
    words[:, 0] = unscaled
    words[:, 1] = unscaled >> 63
    return fixed_array(words.view(np.uint64), type_, missing)


def sum_decimals(words: np.ndarray, scale: int, type_: pa.DataType, missing: np.ndarray | None) -> pa.Array:
    """256-bit sums of the given scale as a decimal128; NULL where they have too many digits, and where `missing` says
    so."""
    small = _small(words)
    if small is not None and type_.precision >= 19 and type_.scale == scale:
        return decimal_array(small, type_, missing)
    return _fit(_wide(words, 76, scale), type_, missing)


def average_decimals(
    words: np.ndarray, scale: int, counts: np.ndarray, type_: pa.DataType, missing: np.ndarray | None
) -> pa.Array:
    """256-bit sums over counts, rounded half up to the scale of a decimal128 type; NULL where `missing`."""
    divisor = np.maximum(counts, 1)
    small = _small(words)
    factor = 10 ** (type_.scale - scale) if type_.scale >= scale else 0
    if (
        small is not None
        and factor
        and len(small)
        and max(abs(int(small.min())), abs(int(small.max()))) * factor < _SAFE
        and int(divisor.max()) < _SAFE >> 1
    ):
        magnitude = np.abs(small) * factor
        # (m + d/2) / d in whole numbers: twice the remainder against the divisor.
        whole, rest = np.divmod(magnitude, divisor)
        whole += 2 * rest >= divisor
        return decimal_array(np.where(small < 0, -whole, whole), type_, missing)
    # 40 digits over 19 give a quotient of scale + 20 digits, cut off: rounding it half up is rounding the exact one.
    top = _wide(words, 76, scale).cast(pa.decimal256(max(40, scale + 2), scale), safe=False)
    exact = pc.divide(top, pa.array(divisor).cast(pa.decimal256(19, 0)))
    return _fit(pc.round(exact, ndigits=type_.scale, round_mode="half_towards_infinity"), type_, missing)


def _small(words: np.ndarray) -> np.ndarray | None:
    """The sums as int64 when all of them fit."""
    low = np.ascontiguousarray(words[:, 0]).view(np.int64)
    sign = (low >> 63).view(np.uint64)
    return low if all(np.array_equal(words[:, i], sign) for i in (1, 2, 3)) else None


def _wide(words: np.ndarray, precision: int, scale: int) -> pa.Array:
    return pa.Array.from_buffers(pa.decimal256(precision, scale), len(words), [None, pa.py_buffer(words)])


def _fit(values: pa.Array, type_: pa.DataType, missing: np.ndarray | None) -> pa.Array:
    """A decimal256 array as decimal128, NULL where it does not fit."""
    limit = decimal.Decimal((0, (9,) * type_.precision, -type_.scale))
    bound = pa.scalar(limit, pa.decimal256(type_.precision, type_.scale))
    bad = pc.greater(pc.abs(values), bound)
    if missing is not None:
        bad = pc.or_(bad, pa.array(missing))
    return pc.if_else(bad, pa.scalar(None, values.type), values).cast(type_)
