"""COUNT, SUM and AVG."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runtime.core.types import DataType, TypeRoot
from runtime.eval.aggregates.accumulator import Accumulator, ColumnAccumulator, clear_at, keep_valid
from runtime.eval.aggregates.decimals import average_decimals, sum_decimals
from runtime.eval.aggregates.exact_sums import SPECIAL_PARTS, ExactSums, decimal_parts, float_parts
from runtime.eval.aggregates.saved_sums import (
    FLOAT_SUM,
    decimal_sum,
    float_sums,
    restore_decimals,
    restore_floats,
    saved_decimals,
)
from runtime.kernels.arrow_buffers import fixed_array, fixed_values
from runtime.kernels.grow import grown
from runtime.kernels.indexed import add_at, count_at, take_at

__all__ = [
    "AdditiveAccumulator",
    "Counter",
    "DecimalSum",
    "FloatSum",
    "IntegerSum",
    "Parts",
    "RowCounts",
    "parts_of",
    "sum_accumulator",
    "sums_of",
]


Parts = dict[tuple[str, int], np.ndarray]
"""Additive state as int64 columns: what a row adds, or what rows added up to (`AdditiveAccumulator`)."""


class AdditiveAccumulator(ColumnAccumulator):
    """State that is nothing but integer sums, so that the state of a run of rows is the difference of two running
    sums."""

    def parts(self, args: Sequence[pa.Array], kept: np.ndarray) -> Parts:
        """What each row adds to each column of the state; rows that are not `kept` (FILTER) and those with NULL add
        nothing."""
        raise NotImplementedError

    def load(self, parts: Parts, size: int) -> None:
        """Replaces the state: slot i holds row i of the columns."""
        raise NotImplementedError

    def loaded(self, slots: np.ndarray) -> Parts:
        """Columns that `load` makes the same state of."""
        raise NotImplementedError


class RowCounts:
    """A count per slot that goes up and down."""

    def __init__(self) -> None:
        self.values = np.zeros(0, np.int64)

    def add(self, slots: np.ndarray, signs: np.ndarray | None) -> None:
        if len(slots):
            self.values = grown(self.values, int(slots.max()) + 1)
            if signs is None:
                count_at(self.values, slots)
            else:
                add_at(self.values, slots, signs)

    def at(self, slots: np.ndarray) -> np.ndarray:
        return take_at(self.values, slots)

    def release(self, slots: np.ndarray) -> None:
        clear_at(self.values, slots)

    def merge(self, targets: np.ndarray, other: RowCounts, sources: np.ndarray) -> None:
        self.add(targets, other.at(sources))

    def restore(self, slots: np.ndarray, counts: pa.Array) -> None:
        """Sets the counts of slots that are 0 now."""
        self.add(slots, counts.fill_null(0).to_numpy())


class Counter(AdditiveAccumulator):
    """COUNT: rows in which no argument is NULL; all rows without arguments. BIGINT."""

    def __init__(self) -> None:
        self._counts = RowCounts()

    def update(self, slots: np.ndarray, signs: np.ndarray | None, args: Sequence[pa.Array], seqs: np.ndarray) -> None:
        slots, signs, _, _ = keep_valid(slots, signs, args, seqs)
        self._counts.add(slots, signs)

    def parts(self, args: Sequence[pa.Array], kept: np.ndarray) -> Parts:
        return {("n", 0): _valid(args, kept).astype(np.int64)}

    def load(self, parts: Parts, size: int) -> None:
        self._counts.values = parts["n", 0]

    def loaded(self, slots: np.ndarray) -> Parts:
        return {("n", 0): self._counts.at(slots)}

    def result(self, slots: np.ndarray) -> pa.Array:
        return pa.array(self._counts.at(slots))

    def release(self, slots: np.ndarray) -> None:
        self._counts.release(slots)

    def merge(self, targets: np.ndarray, other: Accumulator, sources: np.ndarray) -> None:
        assert isinstance(other, Counter)
        self._counts.merge(targets, other._counts, sources)

    def columns(self) -> list[tuple[str, pa.DataType]]:
        return [("count", pa.int64())]

    def save(self, slots: np.ndarray) -> list[pa.Array]:
        return [pa.array(self._counts.at(slots))]

    def restore(self, slots: np.ndarray, columns: Sequence[pa.Array]) -> None:
        self._counts.restore(slots, columns[0])

    @property
    def nbytes(self) -> int:
        return self._counts.values.nbytes


class _Sum(AdditiveAccumulator):
    """What SUM, SUM0 and AVG share: the count of values, where it is needed to tell no value from zero."""

    def __init__(self, function: str, type_: DataType, counted: bool) -> None:
        self._type = type_.arrow
        self._average = function == "AVG"
        self._zero = function in ("SUM0", "$SUM0")
        self._counts = RowCounts() if self._average or (counted and not self._zero) else None

    def update(self, slots: np.ndarray, signs: np.ndarray | None, args: Sequence[pa.Array], seqs: np.ndarray) -> None:
        slots, signs, (values,), _ = keep_valid(slots, signs, args[:1], seqs)
        if len(slots):
            if self._counts is not None:
                self._counts.add(slots, signs)
            self._add(slots, signs, values)

    def parts(self, args: Sequence[pa.Array], kept: np.ndarray) -> Parts:
        valid = _valid(args[:1], kept)
        return {("n", 0): valid.astype(np.int64), **self._parts(args[0], valid)}

    def load(self, parts: Parts, size: int) -> None:
        if self._counts is not None:
            self._counts.values = parts["n", 0]
        self._load(parts, size)

    def loaded(self, slots: np.ndarray) -> Parts:
        counts = {} if self._counts is None else {("n", 0): self._counts.at(slots)}
        return {**counts, **self._loaded(slots)}

    def result(self, slots: np.ndarray) -> pa.Array:
        if self._counts is None:
            return self._value(slots, None, None)
        counts = self._counts.at(slots)
        return self._value(slots, counts, counts <= 0)

    def release(self, slots: np.ndarray) -> None:
        if self._counts is not None:
            self._counts.release(slots)
        self._release(slots)

    def merge(self, targets: np.ndarray, other: Accumulator, sources: np.ndarray) -> None:
        assert isinstance(other, _Sum)
        if self._counts is not None and other._counts is not None:
            self._counts.merge(targets, other._counts, sources)
        if len(targets):
            self._merge(targets, other, sources)

    @property
    def nbytes(self) -> int:
        return self._sum_bytes() + (0 if self._counts is None else self._counts.values.nbytes)

    def columns(self) -> list[tuple[str, pa.DataType]]:
        return [*([] if self._counts is None else [("count", pa.int64())]), ("sum", self._saved_type())]

    def save(self, slots: np.ndarray) -> list[pa.Array]:
        return [*([] if self._counts is None else [pa.array(self._counts.at(slots))]), self._save(slots)]

    def restore(self, slots: np.ndarray, columns: Sequence[pa.Array]) -> None:
        if self._counts is not None:
            # Not counted before: there was no NULL and nothing was taken back, so each group has a value.
            self._counts.restore(slots, columns[0].fill_null(1))
        if len(slots):
            self._restore(slots, columns[-1])

    def _add(self, slots: np.ndarray, signs: np.ndarray | None, values: pa.Array) -> None:
        raise NotImplementedError

    def _value(self, slots: np.ndarray, counts: np.ndarray | None, missing: np.ndarray | None) -> pa.Array:
        raise NotImplementedError

    def _release(self, slots: np.ndarray) -> None:
        raise NotImplementedError

    def _parts(self, values: pa.Array, valid: np.ndarray) -> Parts:
        raise NotImplementedError

    def _load(self, parts: Parts, size: int) -> None:
        raise NotImplementedError

    def _loaded(self, slots: np.ndarray) -> Parts:
        raise NotImplementedError

    def _merge(self, targets: np.ndarray, other: _Sum, sources: np.ndarray) -> None:
        raise NotImplementedError

    def _sum_bytes(self) -> int:
        raise NotImplementedError

    def _saved_type(self) -> pa.DataType:
        raise NotImplementedError

    def _save(self, slots: np.ndarray) -> pa.Array:
        raise NotImplementedError

    def _restore(self, slots: np.ndarray, sums: pa.Array) -> None:
        raise NotImplementedError


class IntegerSum(_Sum):
    """SUM and AVG of integers: added in 64 bits, wrapping; SUM wraps again into its own type, AVG is cut toward zero,
    as in Flink."""

    def __init__(self, function: str, type_: DataType, counted: bool) -> None:
        super().__init__(function, type_, counted)
        self._sums = np.zeros(0, np.int64)

    def _add(self, slots: np.ndarray, signs: np.ndarray | None, values: pa.Array) -> None:
        self._sums = grown(self._sums, int(slots.max()) + 1)
        numbers = fixed_values(values).astype(np.int64, copy=False)
        add_at(self._sums, slots, numbers if signs is None else numbers * signs)

    def _value(self, slots: np.ndarray, counts: np.ndarray | None, missing: np.ndarray | None) -> pa.Array:
        sums = take_at(self._sums, slots)
        if self._average and counts is not None:
            divisor = np.maximum(counts, 1)
            whole = sums // divisor
            sums = whole + ((sums < 0) & (whole * divisor != sums))
        return fixed_array(sums.astype(self._type.to_pandas_dtype()), self._type, missing)

    def _parts(self, values: pa.Array, valid: np.ndarray) -> Parts:
        return {("s", 0): np.where(valid, fixed_values(values).astype(np.int64, copy=False), 0)}

    def _load(self, parts: Parts, size: int) -> None:
        self._sums = parts["s", 0]

    def _loaded(self, slots: np.ndarray) -> Parts:
        return {("s", 0): take_at(self._sums, slots)}

    def _release(self, slots: np.ndarray) -> None:
        clear_at(self._sums, slots)

    def _merge(self, targets: np.ndarray, other: _Sum, sources: np.ndarray) -> None:
        assert isinstance(other, IntegerSum)
        self._sums = grown(self._sums, int(targets.max()) + 1)
        add_at(self._sums, targets, take_at(other._sums, sources))

    def _sum_bytes(self) -> int:
        return self._sums.nbytes

    def _saved_type(self) -> pa.DataType:
        return pa.int64()

    def _save(self, slots: np.ndarray) -> pa.Array:
        return pa.array(take_at(self._sums, slots))

    def _restore(self, slots: np.ndarray, sums: pa.Array) -> None:
        self._sums = grown(self._sums, int(slots.max()) + 1)
        self._sums[slots] = sums.fill_null(0).to_numpy()


class FloatSum(_Sum):
    """SUM and AVG of FLOAT and DOUBLE. Without retraction doubles added in order of arrival; with it exact sums,
    rounded when read, so that what is taken back leaves no trace."""

    def __init__(self, function: str, type_: DataType, counted: bool, retract: bool) -> None:
        super().__init__(function, type_, counted)
        self._exact = ExactSums() if retract else None
        self._sums = np.zeros(0, np.float64)

    def _add(self, slots: np.ndarray, signs: np.ndarray | None, values: pa.Array) -> None:
        numbers = fixed_values(values).astype(np.float64, copy=False)
        if self._exact is not None:
            self._exact.add_floats(slots, numbers, signs)
            return
        self._sums = grown(self._sums, int(slots.max()) + 1)
        add_at(self._sums, slots, numbers if signs is None else numbers * signs)

    def _value(self, slots: np.ndarray, counts: np.ndarray | None, missing: np.ndarray | None) -> pa.Array:
        sums = take_at(self._sums, slots) if self._exact is None else self._exact.floats(slots)[0]
        if self._average and counts is not None:
            sums = sums / np.maximum(counts, 1)
        with np.errstate(over="ignore"):
            return fixed_array(sums.astype(self._type.to_pandas_dtype()), self._type, missing)

    def _parts(self, values: pa.Array, valid: np.ndarray) -> Parts:
        numbers = np.where(valid, fixed_values(values).astype(np.float64, copy=False), 0.0)
        return {("s", index): part for index, part in float_parts(numbers).items()}

    def _load(self, parts: Parts, size: int) -> None:
        self._exact = sums_of(parts, "s", size)

    def _loaded(self, slots: np.ndarray) -> Parts:
        return {} if self._exact is None else parts_of(self._exact, "s", slots)

    def _release(self, slots: np.ndarray) -> None:
        clear_at(self._sums, slots)
        if self._exact is not None:
            self._exact.release(slots)

    def _merge(self, targets: np.ndarray, other: _Sum, sources: np.ndarray) -> None:
        assert isinstance(other, FloatSum)
        if self._exact is not None and other._exact is not None:
            self._exact.merge(targets, other._exact, sources)
            return
        self._sums = grown(self._sums, int(targets.max()) + 1)
        add_at(self._sums, targets, take_at(other._sums, sources))

    def _sum_bytes(self) -> int:
        return self._sums.nbytes if self._exact is None else self._exact.nbytes

    def _saved_type(self) -> pa.DataType:
        return pa.float64() if self._exact is None else FLOAT_SUM

    def _save(self, slots: np.ndarray) -> pa.Array:
        return pa.array(take_at(self._sums, slots)) if self._exact is None else float_sums(self._exact, slots)

    def _restore(self, slots: np.ndarray, sums: pa.Array) -> None:
        if self._exact is not None:
            restore_floats(self._exact, slots, sums)
            return
        self._sums = grown(self._sums, int(slots.max()) + 1)
        self._sums[slots] = sums.fill_null(0).to_numpy()


class DecimalSum(_Sum):
    """SUM and AVG of DECIMAL, exact. A sum of more than 38 digits is NULL (until values are taken back); AVG rounds
    half up."""

    def __init__(self, function: str, type_: DataType, counted: bool, scale: int) -> None:
        super().__init__(function, type_, counted)
        self._scale = scale
        self._sums = ExactSums()

    def _add(self, slots: np.ndarray, signs: np.ndarray | None, values: pa.Array) -> None:
        self._sums.add_decimals(slots, values, signs)

    def _value(self, slots: np.ndarray, counts: np.ndarray | None, missing: np.ndarray | None) -> pa.Array:
        words = self._sums.words(slots)
        if self._average and counts is not None:
            return average_decimals(words, self._scale, counts, self._type, missing)
        return sum_decimals(words, self._scale, self._type, missing)

    def _parts(self, values: pa.Array, valid: np.ndarray) -> Parts:
        if values.null_count:
            values = values.fill_null(0)
        return {("s", index): np.where(valid, part, 0) for index, part in decimal_parts(values).items()}

    def _load(self, parts: Parts, size: int) -> None:
        self._sums = sums_of(parts, "s", size)

    def _loaded(self, slots: np.ndarray) -> Parts:
        return parts_of(self._sums, "s", slots)

    def _release(self, slots: np.ndarray) -> None:
        self._sums.release(slots)

    def _merge(self, targets: np.ndarray, other: _Sum, sources: np.ndarray) -> None:
        assert isinstance(other, DecimalSum)
        self._sums.merge(targets, other._sums, sources)

    def _sum_bytes(self) -> int:
        return self._sums.nbytes

    def _saved_type(self) -> pa.DataType:
        return decimal_sum(self._scale)

    def _save(self, slots: np.ndarray) -> pa.Array:
        return saved_decimals(self._sums, slots, self._scale)

    def _restore(self, slots: np.ndarray, sums: pa.Array) -> None:
        restore_decimals(self._sums, slots, sums)


def sum_accumulator(function: str, argument: DataType, type_: DataType, counted: bool, retract: bool) -> Accumulator:
    """The accumulator of SUM, SUM0 or AVG for a type. `counted`: a group may be without any value (NULLs, FILTER,
    retraction)."""
    if argument.root is TypeRoot.DECIMAL:
        return DecimalSum(function, type_, counted, argument.scale)
    if argument.is_approximate:
        return FloatSum(function, type_, counted, retract)
    return IntegerSum(function, type_, counted)


def sums_of(parts: Parts, name: str, size: int) -> ExactSums:
    """The exact sums among the columns of a state."""
    return ExactSums.of({index: values for (kind, index), values in parts.items() if kind == name}, size)


def parts_of(sums: ExactSums, name: str, slots: np.ndarray) -> Parts:
    """Columns of a state that hold exact sums: what `sums_of` takes."""
    parts: Parts = {(name, index): values for index, values in sums.limbs(slots).items()}
    special = sums.specials(slots)
    if special.any():
        parts.update({(name, kind): special[:, number] for number, kind in enumerate(SPECIAL_PARTS)})
    return parts


def _valid(args: Sequence[pa.Array], kept: np.ndarray) -> np.ndarray:
    valid = kept
    for argument in args:
        if argument.null_count:
            valid = valid & argument.is_valid().to_numpy(zero_copy_only=False)
    return valid
