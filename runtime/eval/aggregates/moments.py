"""Variance and standard deviation.

Flink computes (sum(x*x) - sum(x)*sum(x)/n) / n in the argument's own type: in integers for integers. In doubles that
formula loses all digits when the values are large and close together, so here both sums are exact (`ExactSums`, x*x
with its rounding error) and combined with 106 bits; nothing drifts under retraction.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.core.types import DataType, TypeRoot
from runtime.eval.aggregates.accumulator import Accumulator, keep_valid
from runtime.eval.aggregates.decimals import decimal_array
from runtime.eval.aggregates.exact_sums import ExactSums, divide, float_parts, multiply, subtract, two_product
from runtime.eval.aggregates.saved_sums import FLOAT_SUM, float_sums, restore_floats
from runtime.eval.aggregates.sums import AdditiveAccumulator, Parts, RowCounts, parts_of, sums_of
from runtime.kernels.arrow_buffers import fixed_array, fixed_values

__all__ = ["Variance"]

_EXACT_SUM = float(1 << 31)
_EXACT_SQUARES = float(1 << 62)


class Variance(AdditiveAccumulator):
    """VAR_POP, VAR_SAMP, VARIANCE, STDDEV_POP, STDDEV_SAMP, STDDEV of any numeric type, in the call's result type.

    NULL for no value; the sample forms also for one. Integers: each division is cut toward zero, as Flink's is.
    """

    def __init__(self, function: str, argument: DataType, type_: DataType) -> None:
        self._argument = argument
        self._type = type_.arrow
        self._sample = function not in ("VAR_POP", "STDDEV_POP")
        self._root = function.startswith("STDDEV")
        self._counts = RowCounts()
        self._sums = ExactSums()
        self._squares = ExactSums()

    def update(self, slots: np.ndarray, signs: np.ndarray | None, args: Sequence[pa.Array], seqs: np.ndarray) -> None:
        slots, signs, (values,), _ = keep_valid(slots, signs, args[:1], seqs)
        if len(slots) == 0:
            return
        numbers = self._doubles(values)
        self._counts.add(slots, signs)
        self._sums.add_floats(slots, numbers, signs)
        product, error = two_product(numbers, numbers)
        self._squares.add_floats(slots, product, signs)
        if error.any():
            self._squares.add_floats(slots, error, signs)

    def parts(self, args: Sequence[pa.Array], kept: np.ndarray) -> Parts:
        values, valid = args[0], kept
        if values.null_count:
            valid = valid & values.is_valid().to_numpy(zero_copy_only=False)
            values = values.fill_null(0)
        numbers = np.where(valid, self._doubles(values), 0.0)
        product, error = two_product(numbers, numbers)
        parts: Parts = {("n", 0): valid.astype(np.int64)}
        parts.update({("s", index): part for index, part in float_parts(numbers).items()})
        parts.update({("q", index): part for index, part in float_parts(product).items()})
        for index, part in float_parts(error).items():
            parts["q", index] = parts["q", index] + part if ("q", index) in parts else part
        return parts

    def load(self, parts: Parts, size: int) -> None:
        self._counts.values = parts["n", 0]
        self._sums, self._squares = sums_of(parts, "s", size), sums_of(parts, "q", size)

    def loaded(self, slots: np.ndarray) -> Parts:
        counts = {("n", 0): self._counts.at(slots)}
        return {**counts, **parts_of(self._sums, "s", slots), **parts_of(self._squares, "q", slots)}

    def result(self, slots: np.ndarray) -> pa.Array:
        counts = self._counts.at(slots)
        least = 2 if self._sample else 1
        divisor = np.maximum(counts - (1 if self._sample else 0), 1).astype(np.float64)
        rows = np.maximum(counts, 1).astype(np.float64)
        sums, squares = self._sums.floats(slots), self._squares.floats(slots)
        missing = counts < least
        with np.errstate(over="ignore", invalid="ignore"):
            if self._argument.is_integer:
                return self._integers(sums, squares, rows, divisor, missing)
            variance = divide(subtract(squares, divide(multiply(sums, sums), rows)), divisor)
            if self._argument.root is TypeRoot.DECIMAL:
                return self._decimals(variance, missing)
            value = np.where(variance[0] < 0, 0.0, variance[0])
            value = np.sqrt(value) if self._root else value
            return fixed_array(value.astype(self._type.to_pandas_dtype()), self._type, missing)

    def release(self, slots: np.ndarray) -> None:
        self._counts.release(slots)
        self._sums.release(slots)
        self._squares.release(slots)

    def merge(self, targets: np.ndarray, other: Accumulator, sources: np.ndarray) -> None:
        assert isinstance(other, Variance)
        self._counts.merge(targets, other._counts, sources)
        self._sums.merge(targets, other._sums, sources)
        self._squares.merge(targets, other._squares, sources)

    @property
    def nbytes(self) -> int:
        return self._counts.values.nbytes + self._sums.nbytes + self._squares.nbytes

    def columns(self) -> list[tuple[str, pa.DataType]]:
        return [("count", pa.int64()), ("sum", FLOAT_SUM), ("squares", FLOAT_SUM)]

    def save(self, slots: np.ndarray) -> list[pa.Array]:
        return [
            pa.array(self._counts.at(slots)),
            float_sums(self._sums, slots),
            float_sums(self._squares, slots),
        ]

    def restore(self, slots: np.ndarray, columns: Sequence[pa.Array]) -> None:
        self._counts.restore(slots, columns[0])
        restore_floats(self._sums, slots, columns[1])
        restore_floats(self._squares, slots, columns[2])

    def _doubles(self, values: pa.Array) -> np.ndarray:
        """The values as float64; decimals by their unscaled value."""
        if self._argument.root is not TypeRoot.DECIMAL:
            return fixed_values(values).astype(np.float64)
        words = fixed_values(values)
        low, high = np.ascontiguousarray(words[:, 0]).view(np.int64), np.ascontiguousarray(words[:, 1]).view(np.int64)
        if np.array_equal(high, low >> 63):
            return low.astype(np.float64)
        return pc.cast(values, pa.float64()).to_numpy() * 10.0**self._argument.scale

    def _integers(
        self,
        sums: tuple[np.ndarray, np.ndarray],
        squares: tuple[np.ndarray, np.ndarray],
        rows: np.ndarray,
        divisor: np.ndarray,
        missing: np.ndarray,
    ) -> pa.Array:
        if (np.abs(sums[0]) < _EXACT_SUM).all() and (squares[0] < _EXACT_SQUARES).all():
            total = sums[0].astype(np.int64)
            square = squares[0].astype(np.int64) + squares[1].astype(np.int64)
            variance = ((square - total * total // rows.astype(np.int64)) // divisor.astype(np.int64)).astype(
                np.float64
            )
        else:
            mean_square = divide(multiply(sums, sums), rows)
            cut = np.floor(mean_square[0])
            whole = (cut, np.where(cut == mean_square[0], np.floor(mean_square[1]), 0.0))
            variance = np.floor(divide(subtract(squares, whole), divisor)[0])
        value = np.floor(np.sqrt(np.maximum(variance, 0.0))) if self._root else variance
        return fixed_array(value.astype(np.int64).astype(self._type.to_pandas_dtype()), self._type, missing)

    def _decimals(self, variance: tuple[np.ndarray, np.ndarray], missing: np.ndarray) -> pa.Array:
        """Rounded half up to the result's scale, NULL with too many digits; the variance is that of the unscaled
        values."""
        scale = self._argument.scale
        value = np.where(variance[0] < 0, 0.0, variance[0])
        if self._root:
            scaled = np.sqrt(value) * 10.0 ** (self._type.scale - scale)
        elif self._type.scale >= 2 * scale:
            scaled = value * 10.0 ** (self._type.scale - 2 * scale)
        else:
            scaled = value / 10.0 ** (2 * scale - self._type.scale)
        if (scaled < _EXACT_SQUARES).all():
            return decimal_array(np.floor(scaled + 0.5).astype(np.int64), self._type, missing)
        value = scaled / 10.0**self._type.scale
        missing = missing | ~(value < 10.0 ** (self._type.precision - self._type.scale))
        return pc.cast(pa.array(value, mask=missing), self._type)
