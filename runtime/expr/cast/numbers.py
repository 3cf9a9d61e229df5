"""Casts between numbers and booleans, as Java narrows and Flink rounds.

Integers wrap; FLOAT and DOUBLE truncate to integers and saturate (NaN is 0; TINYINT and SMALLINT wrap what INT has
saturated); DECIMAL truncates to integers and wraps; to DECIMAL, digits beyond the scale are rounded half up and what
does not fit is NULL.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.core.types import DataType, TypeRoot
from runtime.expr.cast.conversion import Converted, failing
from runtime.expr.cast.float_text import float_text
from runtime.expr.cast.parse_numbers import text_to_decimal
from runtime.expr.columns import from_numpy, integers_of, validity
from runtime.expr.decimals import (
    divide_truncating,
    from_unscaled,
    low_words,
    power_of_ten,
    rescaled,
    to_double,
    unscaled,
)

__all__ = ["boolean_to_number", "number_to_boolean", "number_to_number"]


def number_to_number(array: pa.Array, source: DataType, target: DataType, time_zone: str) -> Converted:
    """A number of one type as another."""
    del time_zone
    if target.root is TypeRoot.DECIMAL:
        return _to_decimal(array, source, target)
    type_ = target.arrow
    if source.root is TypeRoot.DECIMAL:
        values, valid = unscaled(array, len(array))
        if target.is_approximate:
            return Converted(from_numpy(_as_float(to_double(values, source.scale), type_), valid, type_))
        whole = divide_truncating(values, power_of_ten(source.scale, values)) if source.scale else values
        return Converted(from_numpy(low_words(whole), valid, type_))
    if array.type == type_:
        return Converted(array)
    values = integers_of(array)
    valid = validity(array)
    if target.is_approximate:
        return Converted(from_numpy(_as_float(values, type_), valid, type_))
    if source.is_approximate:
        values = _saturated(values, target)
    return Converted(from_numpy(values, valid, type_))


def _as_float(values: Any, type_: pa.DataType) -> Any:
    with np.errstate(over="ignore"):
        return values.astype(type_.to_pandas_dtype())


def _saturated(values: Any, target: DataType) -> Any:
    wide = target.root is TypeRoot.BIGINT
    low, high = (-(2**63), 2**63 - 1) if wide else (-(2**31), 2**31 - 1)
    doubles = values.astype(np.float64)
    with np.errstate(invalid="ignore"):
        whole = np.trunc(np.where(np.isnan(doubles), 0.0, doubles))
        above, below = whole >= float(high), whole <= float(low)
        result = np.where(above | below, 0.0, whole).astype(np.int64)
    result[above] = high
    result[below] = low
    return result


def _to_decimal(array: pa.Array, source: DataType, target: DataType) -> Converted:
    if source.is_approximate:
        values = integers_of(array)
        finite = np.isfinite(values)
        valid = validity(array)
        if valid is not None:
            finite |= ~valid
        # Java makes a BigDecimal of the shortest digits, so 0.1 is 0.1 exactly.
        texts = float_text(array)
        if not finite.all():
            texts = pc.if_else(pa.array(finite), texts, "0")
        return failing(text_to_decimal(texts, target, null_on_overflow=True).values, ~finite)
    values, valid = unscaled(array, len(array))
    return Converted(from_unscaled(rescaled(values, source.scale, target.scale), valid, target.arrow, len(array)))


def boolean_to_number(array: pa.Array, source: DataType, target: DataType, time_zone: str) -> Converted:
    """TRUE is 1, FALSE is 0."""
    del source, time_zone
    values = integers_of(array).astype(np.int64)
    if target.root is TypeRoot.DECIMAL:
        scaled = rescaled(values, 0, target.scale)
        return Converted(from_unscaled(scaled, validity(array), target.arrow, len(array)))
    return Converted(from_numpy(values, validity(array), target.arrow))


def number_to_boolean(array: pa.Array, source: DataType, target: DataType, time_zone: str) -> Converted:
    """Whether the number is not zero; NaN is TRUE."""
    del target, time_zone
    values = unscaled(array, len(array))[0] if source.root is TypeRoot.DECIMAL else integers_of(array)
    return Converted(from_numpy(np.asarray(values != 0, dtype=np.bool_), validity(array), pa.bool_()))
