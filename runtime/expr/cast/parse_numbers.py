"""Text to numbers and booleans, with the forms that Flink reads.

Spaces around are ignored. Integers may have a fraction, which is dropped (`12.9` is 12), but no exponent; DOUBLE
takes what Java's `parseDouble` takes; DECIMAL takes an exponent, rounds half up, and fails when the value does not fit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.core.types import DataType, TypeRoot
from runtime.expr.cast.conversion import Converted, failing
from runtime.expr.columns import combine_valid, from_numpy, integers_of, validity
from runtime.expr.decimals import divide_half_up, from_unscaled, scaled_up, unscaled

__all__ = ["text_to_boolean", "text_to_decimal", "text_to_number"]

_INTEGER = r"^(?P<sign>[+-]?)0*(?P<whole>\d*)(?:\.\d*)?$"
_SOME_DIGIT = r"^[+-]?(?:\d|\.\d)"
_FLOAT = r"^[+-]?(?:NaN|Infinity|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fFdD]?)$"
_DECIMAL = r"^(?P<sign>[+-]?)0*(?P<whole>\d*)(?:\.(?P<part>\d*))?(?:[eE](?P<exponent>[+-]?\d{1,9}))?$"
_BOUNDS = {TypeRoot.TINYINT: 2**7, TypeRoot.SMALLINT: 2**15, TypeRoot.INT: 2**31, TypeRoot.BIGINT: 2**63}


def _trimmed(texts: pa.Array) -> pa.Array:
    return pc.utf8_trim(texts, characters=" \t\n\r\x0b\x0c")


def _true(mask: pa.Array) -> Any:
    return pc.fill_null(mask, False).to_numpy(zero_copy_only=False)


def text_to_number(array: pa.Array, source: DataType, target: DataType, time_zone: str) -> Converted:
    """Texts as numbers of `target`."""
    del source, time_zone
    match target.root:
        case TypeRoot.DECIMAL:
            return text_to_decimal(array, target)
        case TypeRoot.FLOAT | TypeRoot.DOUBLE:
            return _to_float(array, target)
        case _:
            return _to_integer(array, target)


def _to_integer(array: pa.Array, target: DataType) -> Converted:
    valid = validity(array)
    texts = _trimmed(array)
    groups = pc.extract_regex(texts, _INTEGER)
    whole = pc.fill_null(groups.field(1), "")
    lengths = pc.utf8_length(whole).to_numpy(zero_copy_only=False)
    good = _true(pc.is_valid(groups)) & _true(pc.match_substring_regex(texts, _SOME_DIGIT)) & (lengths <= 19)
    digits = pc.if_else(pa.array(good & (lengths > 0)), whole, "0")
    if lengths.max(initial=0) <= 18:
        values = integers_of(pc.cast(digits, pa.int64()))
    else:
        values, _ = unscaled(pc.cast(digits, pa.decimal128(38, 0)), len(array))
    values = np.where(_true(pc.equal(groups.field(0), "-")), -values, values)
    bound = _BOUNDS[target.root]
    good &= np.asarray((values >= -bound) & (values < bound), dtype=np.bool_)
    values = np.where(good, values, 0).astype(np.int64)
    result = from_numpy(values, valid, target.arrow)
    return failing(result, ~good if valid is None else ~good & valid)


def _to_float(array: pa.Array, target: DataType) -> Converted:
    valid = validity(array)
    texts = _trimmed(array)
    good = _true(pc.match_substring_regex(texts, _FLOAT))
    digits = pc.utf8_rtrim(pc.utf8_ltrim(pc.if_else(pa.array(good), texts, "0"), characters="+"), characters="fFdD")
    # A trailing `f` of `inf` never gets here: Java writes `Infinity`.
    values = pc.cast(digits, pa.float64())
    result = from_numpy(_narrow(values.to_numpy(zero_copy_only=False), target), valid, target.arrow)
    return failing(result, ~good if valid is None else ~good & valid)


def _narrow(values: Any, target: DataType) -> Any:
    with np.errstate(over="ignore"):
        return values.astype(np.float32) if target.root is TypeRoot.FLOAT else values


def text_to_decimal(array: pa.Array, target: DataType, *, null_on_overflow: bool = False) -> Converted:
    """Texts as decimals; a value that does not fit fails, or is NULL where `null_on_overflow`."""
    valid = validity(array)
    texts = _trimmed(array)
    groups = pc.extract_regex(texts, _DECIMAL)
    good = _true(pc.is_valid(groups)) & _true(pc.match_substring_regex(texts, _SOME_DIGIT))
    sign, whole, part, exponent = (pc.fill_null(groups.field(i), "") for i in range(4))
    digits = pc.utf8_ltrim(pc.binary_join_element_wise(whole, part, ""), characters="0")
    has_power = _true(pc.not_equal(exponent, ""))
    shift = pc.cast(pc.if_else(pa.array(has_power), pc.utf8_ltrim(exponent, characters="+"), "0"), pa.int64())
    count = pc.utf8_length(digits).to_numpy(zero_copy_only=False).astype(np.int64)
    # The value is digits * 10^-place; one digit more than the scale is kept, to round by.
    place = pc.utf8_length(part).to_numpy(zero_copy_only=False).astype(np.int64) - shift.to_numpy(zero_copy_only=False)
    add = target.scale + 1 - place
    fits = (count == 0) | (count + add <= target.precision + 1)
    add = np.where(fits & (count > 0), np.maximum(add, -count - 1), 0)
    values = _shifted(pc.if_else(pa.array(good & fits & (count > 0)), digits, ""), count, add)
    values = np.where(_true(pc.equal(sign, "-")), -values, values)
    rounded = divide_half_up(values, 10)
    result = from_unscaled(rounded, combine_valid(valid, good & fits), target.arrow, len(array))
    overflow = ~result.is_valid().to_numpy(zero_copy_only=False)
    failed = ~good if null_on_overflow else ~good | overflow
    return failing(result, failed if valid is None else failed & valid)


def _shifted(digits: pa.Array, count: Any, add: Any) -> Any:
    """Digit texts as integers times 10^add; where add is negative that many digits are cut off. At most 39 digits are
    left."""
    lengths = pc.utf8_length(digits).to_numpy(zero_copy_only=False).astype(np.int64)
    # Digits past the 39th from the left can only be cut or overflow; both are settled before.
    cut = np.where(lengths > 0, np.maximum(-add, 0), 0)
    values = np.zeros(len(digits), np.int64)
    for drop in np.unique(cut):
        chosen = cut == drop
        stop = -int(drop) if drop else None
        kept = pc.utf8_slice_codeunits(digits, 0, stop) if stop is not None else digits
        kept = pc.if_else(pa.array(chosen & (lengths > drop)), kept, "0")
        part, _ = unscaled(_as_decimal(kept), len(digits))
        if part.dtype == object and values.dtype != object:
            values = values.astype(object)
        values = np.where(chosen, part, values)
    for more in np.unique(add[add > 0]):
        values = np.where(add == more, scaled_up(values * (add == more), int(more)), values)
    return values


def _as_decimal(digits: pa.Array) -> pa.Array:
    width = pc.max(pc.utf8_length(digits)).as_py() or 0
    if width <= 18:
        return pc.cast(digits, pa.int64())
    return pc.cast(digits, pa.decimal128(38, 0) if width <= 38 else pa.decimal256(76, 0))


_YES = ("t", "true", "y", "yes", "1")
_NO = ("f", "false", "n", "no", "0")


def text_to_boolean(array: pa.Array, source: DataType, target: DataType, time_zone: str) -> Converted:
    """`t`, `true`, `y`, `yes`, `1` and their opposites, in any case."""
    del source, target, time_zone
    lower = pc.utf8_lower(_trimmed(array))
    yes = _true(pc.is_in(lower, value_set=pa.array(_YES)))
    no = _true(pc.is_in(lower, value_set=pa.array(_NO)))
    valid = validity(array)
    failed = ~(yes | no)
    return failing(from_numpy(yes, valid, pa.bool_()), failed if valid is None else failed & valid)
