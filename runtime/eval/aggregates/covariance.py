"""Covariance, correlation and linear regression over pairs (y, x) of doubles.

Source: SQL:2003, 10.9; where the standard leaves it open, PostgreSQL's answer: CORR is NULL when one side does not vary.
The sums of y, x and of their products are exact (`ExactSums`), so nothing drifts under retraction.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runtime.eval.aggregates.accumulator import Accumulator
from runtime.eval.aggregates.exact_sums import ExactSums, divide, float_parts, multiply, subtract, two_product
from runtime.eval.aggregates.saved_sums import FLOAT_SUM, float_sums, restore_floats
from runtime.eval.aggregates.sums import AdditiveAccumulator, Parts, RowCounts, parts_of, sums_of
from runtime.kernels.arrow_buffers import fixed_array, fixed_values

__all__ = ["Covariance"]

_SUMS = ("y", "x", "yy", "xx", "xy")


class Covariance(AdditiveAccumulator):
    """A function of `PAIRS` over the pairs in which neither side is NULL; DOUBLE, of REGR_COUNT BIGINT.

    NULL for no pair; of COVAR_SAMP also for one, of CORR and REGR_R2, REGR_SLOPE, REGR_INTERCEPT when what they
    divide by is 0.
    """

    def __init__(self, function: str) -> None:
        self._function = function
        self._counts = RowCounts()
        self._sums = {name: ExactSums() for name in _SUMS}

    def update(self, slots: np.ndarray, signs: np.ndarray | None, args: Sequence[pa.Array], seqs: np.ndarray) -> None:
        valid = _both_valid(args)
        y, x = (fixed_values(a) for a in args[:2])
        if not valid.all():
            slots, signs, y, x = slots[valid], None if signs is None else signs[valid], y[valid], x[valid]
        if len(slots) == 0:
            return
        self._counts.add(slots, signs)
        for name, terms in _terms(y, x).items():
            for number, term in enumerate(terms):
                if number == 0 or term.any():
                    self._sums[name].add_floats(slots, term, signs)

    def parts(self, args: Sequence[pa.Array], kept: np.ndarray) -> Parts:
        valid = kept & _both_valid(args)
        y, x = (np.where(valid, fixed_values(a), 0.0) for a in args[:2])
        parts: Parts = {("n", 0): valid.astype(np.int64)}
        for name, terms in _terms(y, x).items():
            for term in terms:
                for index, part in float_parts(term).items():
                    known = parts.get((name, index))
                    parts[name, index] = part if known is None else known + part
        return parts

    def load(self, parts: Parts, size: int) -> None:
        self._counts.values = parts["n", 0]
        self._sums = {name: sums_of(parts, name, size) for name in _SUMS}

    def loaded(self, slots: np.ndarray) -> Parts:
        found: Parts = {("n", 0): self._counts.at(slots)}
        for name, sums in self._sums.items():
            found.update(parts_of(sums, name, slots))
        return found

    def result(self, slots: np.ndarray) -> pa.Array:
        counts = self._counts.at(slots)
        if self._function == "REGR_COUNT":
            return fixed_array(counts, pa.int64(), np.zeros(len(slots), np.bool_))
        rows = np.maximum(counts, 1).astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            values, undefined = self._values(slots, rows)
        missing = undefined | (counts < (2 if self._function == "COVAR_SAMP" else 1))
        return fixed_array(np.where(missing, 0.0, values), pa.float64(), missing)

    def _values(self, slots: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The results, and where they are not defined."""
        never = np.zeros(len(slots), np.bool_)
        match self._function:
            case "REGR_AVGX":
                return divide(self._sums["x"].floats(slots), rows)[0], never
            case "REGR_AVGY":
                return divide(self._sums["y"].floats(slots), rows)[0], never
            case "REGR_SXX":
                return self._spread(slots, rows, "x"), never
            case "REGR_SYY":
                return self._spread(slots, rows, "y"), never
            case "REGR_SXY":
                return self._shared(slots, rows), never
            case "COVAR_POP":
                return self._shared(slots, rows) / rows, never
            case "COVAR_SAMP":
                return self._shared(slots, rows) / np.maximum(rows - 1, 1), never
            case "CORR":
                x, y = self._spread(slots, rows, "x"), self._spread(slots, rows, "y")
                both = x * y
                # The product of two roots is less exact, but no number is too large or too small for it.
                root = np.where((both > 0) & (both < np.inf), np.sqrt(both), np.sqrt(x) * np.sqrt(y))
                return np.clip(self._shared(slots, rows) / root, -1.0, 1.0), (x == 0) | (y == 0)
            case "REGR_SLOPE":
                x = self._spread(slots, rows, "x")
                return self._shared(slots, rows) / x, x == 0
            case "REGR_INTERCEPT":
                x = self._spread(slots, rows, "x")
                means = [divide(self._sums[name].floats(slots), rows)[0] for name in ("y", "x")]
                return means[0] - self._shared(slots, rows) / x * means[1], x == 0
            case _:
                x, y = self._spread(slots, rows, "x"), self._spread(slots, rows, "y")
                shared = self._shared(slots, rows)
                return np.where(y == 0, 1.0, np.clip(shared / x * (shared / y), 0.0, 1.0)), x == 0

    def _spread(self, slots: np.ndarray, rows: np.ndarray, name: str) -> np.ndarray:
        """The sum of the squared distances from the mean."""
        sums, squares = self._sums[name].floats(slots), self._sums[name + name].floats(slots)
        value = subtract(squares, divide(multiply(sums, sums), rows))[0]
        return np.where(value < 0, 0.0, value)

    def _shared(self, slots: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """The sum of the products of both distances from the means."""
        x, y = self._sums["x"].floats(slots), self._sums["y"].floats(slots)
        return subtract(self._sums["xy"].floats(slots), divide(multiply(x, y), rows))[0]

    def release(self, slots: np.ndarray) -> None:
        self._counts.release(slots)
        for sums in self._sums.values():
            sums.release(slots)

    def merge(self, targets: np.ndarray, other: Accumulator, sources: np.ndarray) -> None:
        assert isinstance(other, Covariance)
        self._counts.merge(targets, other._counts, sources)
        for name, sums in self._sums.items():
            sums.merge(targets, other._sums[name], sources)

    @property
    def nbytes(self) -> int:
        return self._counts.values.nbytes + sum(sums.nbytes for sums in self._sums.values())

    def columns(self) -> list[tuple[str, pa.DataType]]:
        return [("count", pa.int64()), *((f"sum of {name}", FLOAT_SUM) for name in _SUMS)]

    def save(self, slots: np.ndarray) -> list[pa.Array]:
        return [pa.array(self._counts.at(slots)), *(float_sums(sums, slots) for sums in self._sums.values())]

    def restore(self, slots: np.ndarray, columns: Sequence[pa.Array]) -> None:
        self._counts.restore(slots, columns[0])
        for sums, column in zip(self._sums.values(), columns[1:], strict=True):
            restore_floats(sums, slots, column)


def _both_valid(args: Sequence[pa.Array]) -> np.ndarray:
    valid = np.ones(len(args[0]), np.bool_)
    for column in args[:2]:
        if column.null_count:
            valid &= column.is_valid().to_numpy(zero_copy_only=False)
    return valid


def _terms(y: np.ndarray, x: np.ndarray) -> dict[str, tuple[np.ndarray, ...]]:
    """What each pair adds to each sum: products with their rounding error."""
    return {"y": (y,), "x": (x,), "yy": two_product(y, y), "xx": two_product(x, x), "xy": two_product(x, y)}
