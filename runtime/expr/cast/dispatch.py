"""CAST: which rule converts a pair of types, and what happens to rows that fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from runtime.core.errors import ExpressionError
from runtime.core.rooms import Room
from runtime.core.types import DataType, TypeRoot
from runtime.expr.cast.conversion import Convert, Converted, convert_nothing
from runtime.expr.cast.nested import convert_nested
from runtime.expr.cast.numbers import boolean_to_number, number_to_boolean, number_to_number
from runtime.expr.cast.parse_numbers import text_to_boolean, text_to_number
from runtime.expr.cast.parse_times import text_to_date, text_to_time, text_to_timestamp
from runtime.expr.cast.text import fit_binary, fit_text, to_text, to_uuid
from runtime.expr.cast.times import in_range, time_to_time
from runtime.expr.columns import as_array, integers_of, validity
from runtime.expr.function import EvalContext, Value
from runtime.expr.typing import explicit_cast

if TYPE_CHECKING:
    import runtime.expr.cast.variants as _variants
else:
    _variants = Room("runtime.expr.cast.variants")

__all__ = ["cast_array", "convert"]

_R = TypeRoot
_SHOWN = 60
_NARROW = "with more than six digits of a second, a time is of the years 1677 to 2262: CAST(.. AS TIMESTAMP(6))"
"""Where a time of few digits meets one of many, nobody may have written the CAST."""


def cast_array(value: Value, source: DataType, target: DataType, safe: bool, context: EvalContext) -> Value:
    """A value of one SQL type as another; constants stay scalars.

    A row that cannot be converted is NULL when `safe` (TRY_CAST), else ExpressionError (E2101) names it. The result
    has exactly the target's Arrow type. TypeError for pairs that the binder must not let through.
    """
    constant = isinstance(value, pa.Scalar)
    array = as_array(value, 1 if constant else context.num_rows)
    converted = convert(array, source, target, context.time_zone)
    if converted.failed is not None and not safe:
        row = int(np.flatnonzero(converted.failed)[0])
        _raise(array, row, source, target, context.time_zone)
    return converted.values[0] if constant else converted.values


def _raise(array: pa.Array, row: int, source: DataType, target: DataType, time_zone: str) -> None:
    shown = to_text(array.slice(row, 1), source, time_zone)[0].as_py()
    if len(shown) > _SHOWN:
        shown = shown[:_SHOWN] + "..."
    narrow = target.is_timestamp and target.precision > 6 and not (source.is_timestamp and source.precision > 6)
    raise ExpressionError(
        f"cannot cast '{shown}' from {source.with_nullable(True)} to {target.with_nullable(True)}",
        code="E2101",
        hint=_NARROW if narrow else "use TRY_CAST to get NULL instead",
    )


def convert(array: pa.Array, source: DataType, target: DataType, time_zone: str) -> Converted:
    """The values of an array in another type, and which rows failed."""
    if source.same_ignoring_nullability(target):
        return Converted(array)
    if source.root is _R.NULL:
        return convert_nothing(array, source, target, time_zone)
    if source.root is _R.VARIANT:
        return _variants.from_variant(array, target)
    if target.root is _R.VARIANT:
        return _variants.to_variant(array, source)
    if target.is_uuid:
        return to_uuid(to_text(array, source, time_zone))
    if target.is_character:
        return Converted(fit_text(to_text(array, source, time_zone), target))
    if source.is_nested:
        return convert_nested(array, source, target, time_zone, convert)
    rule = _rule(source, target)
    if rule is None or not explicit_cast(source, target):
        raise TypeError(f"no cast from {source} to {target}")
    return rule(array, source, target, time_zone)


def _to_binary(array: pa.Array, source: DataType, target: DataType, time_zone: str) -> Converted:
    del time_zone
    return Converted(fit_binary(array.cast(pa.binary()) if source.is_character else array, target))


def _interval(array: pa.Array, source: DataType, target: DataType, time_zone: str) -> Converted:
    del source, time_zone
    return in_range(integers_of(array).astype(np.int64), validity(array), target)


def _rule(source: DataType, target: DataType) -> Convert | None:
    if target.is_binary:
        return _to_binary
    if target.root is _R.BOOLEAN:
        return text_to_boolean if source.is_character else number_to_boolean
    if target.is_numeric:
        if source.is_character:
            return text_to_number
        return boolean_to_number if source.root is _R.BOOLEAN else number_to_number
    if target.is_interval:
        return _interval
    if source.is_character:
        return {_R.DATE: text_to_date, _R.TIME: text_to_time}.get(target.root, text_to_timestamp)
    return time_to_time
