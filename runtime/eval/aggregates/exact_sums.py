"""Exact sums per group, of doubles and of decimals, whatever the order and however much is taken back.

A sum of doubles that adds and subtracts drifts: after 1e20 came and went, the 1 beside it is gone, and the answer is
not the batch answer any more. Here a sum is a fixed-point number: limbs of 32 bits in int64 counters, one array per
limb over all groups, allocated where values fall (a double touches three neighbours). Adding to a limb is integer
addition, so it commutes and cancels exactly; carries are settled when a value is read. After R. M. Neal, "Fast exact
summation using small and large superaccumulators" (2015).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runtime.eval.aggregates.accumulator import clear_at
from runtime.kernels.arrow_buffers import fixed_values
from runtime.kernels.grow import grown
from runtime.kernels.indexed import add_at, take_at

__all__ = [
    "LOWEST_EXPONENT",
    "SPECIAL_PARTS",
    "ExactSums",
    "decimal_parts",
    "divide",
    "float_parts",
    "multiply",
    "subtract",
    "two_product",
]

_M32 = np.uint64(0xFFFFFFFF)
_S32 = np.uint64(32)
_BIAS = 1074
_ADDS_BEFORE_CARRY = 1 << 30
_SPLITTER = 134217729.0
_NAN, _PLUS, _MINUS = -1, -2, -3

SPECIAL_PARTS = (_NAN, _PLUS, _MINUS)
"""Where NaN, infinities and negative infinities are counted among the limb columns."""
LOWEST_EXPONENT = -_BIAS
"""The power of two of limb 0 of a sum of doubles."""


class ExactSums:
    """One exact sum per slot. Feed it either doubles or decimals (by unscaled value), not both.

    Limb k counts units of 2**(32 k - 1074) for doubles and of 2**(32 k) for decimals. NaN and infinities are counted
    apart, so that they can be taken back too.
    """

    def __init__(self) -> None:
        self._limbs: dict[int, np.ndarray] = {}
        self._special: np.ndarray | None = None
        self._adds = 0
        self._size = 0

    @property
    def nbytes(self) -> int:
        return sum(limb.nbytes for limb in self._limbs.values()) + (
            0 if self._special is None else self._special.nbytes
        )

    def add_floats(self, slots: np.ndarray, values: np.ndarray, signs: np.ndarray | None) -> None:
        """Adds float64 values (times their sign, +1 or -1)."""
        if len(slots) == 0:
            return
        self._reserve(slots)
        finite = np.isfinite(values)
        if not finite.all():
            self._add_special(slots[~finite], values[~finite], None if signs is None else signs[~finite])
            slots, values, signs = slots[finite], values[finite], None if signs is None else signs[finite]
        index, parts = _pieces(values)
        for low in np.unique(index).tolist():
            rows = index == low
            every = bool(rows.all())
            for offset, part in enumerate(parts):
                signed = part if signs is None else part * signs
                chosen = signed if every else signed[rows]
                if chosen.any():
                    add_at(self._limb(low + offset), slots if every else slots[rows], chosen)
        self._count_adds(len(slots))

    def add_decimals(self, slots: np.ndarray, values: pa.Array, signs: np.ndarray | None) -> None:
        """Adds the unscaled values of a decimal128 array without NULLs (times their sign)."""
        if len(slots) == 0:
            return
        self._reserve(slots)
        for index, piece in decimal_parts(values).items():
            add_at(self._limb(index), slots, piece if signs is None else piece * signs)
        self._count_adds(len(slots))

    def merge(self, targets: np.ndarray, other: ExactSums, sources: np.ndarray) -> None:
        """Adds the sums of `sources` in `other` to `targets`."""
        if len(targets) == 0:
            return
        self._reserve(targets)
        for index, values in other._canonical(sources).items():
            if values.any():
                add_at(self._limb(index), targets, values)
        if other._special is not None:
            np.add.at(self._specials(), targets, take_at(other._special, sources))
        self._count_adds(len(targets))

    def add_parts(self, slots: np.ndarray, parts: dict[int, np.ndarray]) -> None:
        """Adds limb columns, a row per slot, as `float_parts` and `decimal_parts` give them."""
        if len(slots) == 0:
            return
        self._reserve(slots)
        for index, values in parts.items():
            if index >= 0:
                add_at(self._limb(index), slots, values)
            elif values.any():
                np.add.at(self._specials()[:, _NAN - index], slots, values)
        self._count_adds(len(slots))

    def limbs(self, slots: np.ndarray) -> dict[int, np.ndarray]:
        """The sums by limb, neighbours without a gap, as int64: all in [0, 2**32) but the highest, which carries the
        sign and fits in 32 bits with it. Equal sums have equal limbs, but for zeros below and signs above."""
        return self._canonical(slots)

    def specials(self, slots: np.ndarray) -> np.ndarray:
        """How many NaN, infinities and negative infinities are in each sum of doubles, int64 (n, 3)."""
        return np.zeros((len(slots), 3), np.int64) if self._special is None else take_at(self._special, slots)

    @staticmethod
    def of(parts: dict[int, np.ndarray], size: int) -> ExactSums:
        """Sums from limb columns as `float_parts` or `decimal_parts` give them, added up by the caller: slot i is row
        i."""
        sums = ExactSums()
        sums._size = size
        sums._limbs = {index: values for index, values in parts.items() if index >= 0}
        if _NAN in parts:
            sums._special = np.stack([parts[kind] for kind in (_NAN, _PLUS, _MINUS)], axis=1)
        return sums

    def release(self, slots: np.ndarray) -> None:
        """Sets sums to zero."""
        for values in (*self._limbs.values(), *(() if self._special is None else (self._special,))):
            clear_at(values, slots)

    def floats(self, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The sums of doubles as unevaluated pairs (high, low): high is the sum rounded, low the rest (106 bits
        together)."""
        return self._scaled(slots, _BIAS)

    def integers(self, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The sums of decimals by unscaled value, as pairs (high, low) of doubles."""
        return self._scaled(slots, 0)

    def words(self, slots: np.ndarray) -> np.ndarray:
        """The sums of decimals as 256-bit two's complement, uint64 (n, 4), as decimal256 stores them."""
        limbs = self._canonical(slots)
        words = np.zeros((len(slots), 8), np.int64)
        for index, values in limbs.items():
            words[:, index] = values
        top = max(limbs, default=-1)
        if 0 <= top < 7:
            words[:, top + 1 :] = (words[:, top] >> 63)[:, None]
        low = words.view(np.uint64) & _M32
        return np.ascontiguousarray(low[:, 0::2] | (low[:, 1::2] << _S32))

    def _scaled(self, slots: np.ndarray, bias: int) -> tuple[np.ndarray, np.ndarray]:
        limbs = self._canonical(slots)
        signs = np.where(limbs[max(limbs)] < 0, -1, 1) if limbs else None
        if signs is not None and (signs < 0).any():
            # Magnitudes: the limbs of a negative sum begin with powers of two that are far greater than it is.
            limbs = self._canonical(slots, signs)
        high, low = np.zeros(len(slots)), np.zeros(len(slots))
        with np.errstate(over="ignore", invalid="ignore"):
            for index in sorted(limbs, reverse=True):
                term = np.ldexp(limbs[index].astype(np.float64), 32 * index - bias)
                high, low = _add_to_pair(high, low, term)
            if signs is not None:
                high, low = high * signs, low * signs
            if self._special is not None:
                special = take_at(self._special, slots)
                worst = np.where(special[:, 1] > 0, np.inf, 0.0) - np.where(special[:, 2] > 0, np.inf, 0.0)
                worst = np.where(special[:, 0] > 0, np.nan, worst)
                odd = (special > 0).any(axis=1)
                high, low = np.where(odd, worst, high), np.where(odd, 0.0, low)
        return high, low

    def _canonical(self, slots: np.ndarray, signs: np.ndarray | None = None) -> dict[int, np.ndarray]:
        """The limbs of each slot (times `signs`) with carries settled: all in [0, 2**32) but the highest, which carries
        the sign."""
        if not self._limbs:
            return {}
        low, high = min(self._limbs), max(self._limbs)
        settled: dict[int, np.ndarray] = {}
        carry = np.zeros(len(slots), np.int64)
        index = low
        while index <= high or ((carry != 0) & (carry != -1)).any() or index == high + 1:
            values = carry
            if index in self._limbs:
                limb = take_at(self._limbs[index], slots)
                values = carry + (limb if signs is None else limb * signs)
            if index > high and not ((values > 0x7FFFFFFF) | (values < -0x80000000)).any():
                settled[index] = values
                return settled
            settled[index] = values & 0xFFFFFFFF
            carry = values >> 32
            index += 1
        settled[index] = carry
        return settled

    def _limb(self, index: int) -> np.ndarray:
        values = self._limbs.get(index)
        if values is None or len(values) < self._size:
            values = np.zeros(self._size, np.int64) if values is None else grown(values, self._size)
            self._limbs[index] = values
        return values

    def _specials(self) -> np.ndarray:
        self._special = (
            np.zeros((self._size, 3), np.int64) if self._special is None else grown(self._special, self._size)
        )
        return self._special

    def _add_special(self, slots: np.ndarray, values: np.ndarray, signs: np.ndarray | None) -> None:
        kind = np.where(np.isnan(values), 0, np.where(values > 0, 1, 2))
        np.add.at(self._specials(), (slots, kind), 1 if signs is None else signs.astype(np.int64))

    def _reserve(self, slots: np.ndarray) -> None:
        needed = int(slots.max()) + 1
        if needed > self._size:
            self._size = max(needed, 2 * self._size, 16)

    def _count_adds(self, count: int) -> None:
        self._adds += count
        if self._adds >= _ADDS_BEFORE_CARRY:
            # A limb could overflow its int64 after 2**31 additions to one slot: settle everything long before.
            every = np.arange(self._size, dtype=np.int64)
            self._limbs = self._canonical(every)
            self._adds = 0


def float_parts(values: np.ndarray) -> dict[int, np.ndarray]:
    """What each double adds to each limb, int64 columns by limb; NaN and infinities to columns of their own."""
    finite = np.isfinite(values)
    columns: dict[int, np.ndarray] = {}
    if not finite.all():
        columns = {
            _NAN: np.isnan(values).astype(np.int64),
            _PLUS: (values == np.inf).astype(np.int64),
            _MINUS: (values == -np.inf).astype(np.int64),
        }
        values = np.where(finite, values, 0.0)
    index, parts = _pieces(values)
    for low in np.unique(index).tolist():
        rows = index == low
        for offset, part in enumerate(parts):
            column = columns.setdefault(low + offset, np.zeros(len(values), np.int64))
            column[rows] += part[rows]
    return columns


def decimal_parts(values: pa.Array) -> dict[int, np.ndarray]:
    """What each decimal128 (no NULLs) adds to each limb."""
    words = fixed_values(values)
    low, high = np.ascontiguousarray(words[:, 0]), np.ascontiguousarray(words[:, 1]).view(np.int64)
    if np.array_equal(high, low.view(np.int64) >> 63):
        return {0: (low & _M32).astype(np.int64), 1: low.view(np.int64) >> 32}
    return {0: (low & _M32).astype(np.int64), 1: (low >> _S32).astype(np.int64), 2: high & 0xFFFFFFFF, 3: high >> 32}


def _pieces(values: np.ndarray) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Finite doubles as three neighbouring limbs each: the index of the lowest, and the signed limbs."""
    mantissa, exponent = np.frexp(values)
    # Doubles below 2**-1022 have fewer bits: then shift less, so that the exponent stays at the unit.
    place = exponent.astype(np.int64) - 53 + _BIAS
    short = np.minimum(place, 0)
    integer = np.ldexp(mantissa, (53 + short).astype(np.int32)).astype(np.int64)
    place -= short
    sign = np.where(integer < 0, -1, 1)
    magnitude = np.abs(integer).astype(np.uint64)
    shift = (place & 31).astype(np.uint64)
    parts = (
        ((magnitude << shift) & _M32).astype(np.int64) * sign,
        ((magnitude >> (_S32 - shift)) & _M32).astype(np.int64) * sign,
        ((magnitude >> (np.uint64(63) - shift)) >> np.uint64(1)).astype(np.int64) * sign,
    )
    return place >> 5, parts


def _add_to_pair(high: np.ndarray, low: np.ndarray, term: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(high, low) + term, normalised (Knuth's TwoSum, then a fast renormalisation)."""
    total = high + term
    back = total - high
    error = (high - (total - back)) + (term - back)
    rest = low + error
    result = np.where(np.isfinite(total), total + rest, total)
    return result, np.where(np.isfinite(result), rest - (result - total), 0.0)


def two_product(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """left * right as a product and its exact rounding error (Dekker)."""
    with np.errstate(over="ignore", invalid="ignore"):
        product = left * right
        split = _SPLITTER * left
        left_high = split - (split - left)
        left_low = left - left_high
        split = _SPLITTER * right
        right_high = split - (split - right)
        right_low = right - right_high
        error = (
            (left_high * right_high - product) + left_high * right_low + left_low * right_high
        ) + left_low * right_low
    return product, np.where(np.isfinite(error), error, 0.0)


def multiply(
    left: tuple[np.ndarray, np.ndarray], right: tuple[np.ndarray, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """The product of two pairs."""
    product, error = two_product(left[0], right[0])
    rest = error + (left[0] * right[1] + left[1] * right[0])
    high = product + rest
    return high, rest - (high - product)


def subtract(
    left: tuple[np.ndarray, np.ndarray], right: tuple[np.ndarray, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """The difference of two pairs."""
    high, low = _add_to_pair(left[0], left[1], -right[0])
    return _add_to_pair(high, low, -right[1])


def divide(left: tuple[np.ndarray, np.ndarray], right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A pair over a double that is not zero."""
    quotient = left[0] / right
    product, error = two_product(quotient, right)
    rest = ((left[0] - product) - error + left[1]) / right
    high = quotient + rest
    return high, rest - (high - quotient)
