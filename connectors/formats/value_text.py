"""Typed columns to text, as Flink's CSV and JSON formats write cells."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from connectors.formats.base64 import encode_base64
from runtime.core.types import DataType, TypeRoot
from runtime.expr.cast.text import to_text

__all__ = ["value_text"]


def value_text(values: pa.Array, type_: DataType, *, separator: str) -> pa.Array:
    """An atomic column as text without quotes; NULL stays NULL. `separator` stands between date and time."""
    match type_.root:
        case TypeRoot.CHAR | TypeRoot.VARCHAR:
            return values
        case TypeRoot.BINARY | TypeRoot.VARBINARY:
            return encode_base64(values)
        case TypeRoot.DECIMAL | TypeRoot.BITMAP | TypeRoot.VARIANT | TypeRoot.RAW:
            return to_text(values, type_, "UTC")
        case TypeRoot.TIME:
            return _without_zero_fraction(values.cast(pa.string()))
        case TypeRoot.TIMESTAMP:
            return _moment(values, separator)
        case TypeRoot.TIMESTAMP_LTZ:
            return pc.binary_join_element_wise(
                _moment(values.cast(pa.timestamp(values.type.unit)), separator), pa.scalar("Z"), ""
            )
        case TypeRoot.INTERVAL_SECOND:
            return values.cast(pa.int64()).cast(pa.string())
        case TypeRoot.FLOAT | TypeRoot.DOUBLE:
            return to_text(values, type_, "UTC")
        case _:
            return values.cast(pa.string())


def _without_zero_fraction(text: pa.Array) -> pa.Array:
    return pc.replace_substring_regex(pc.replace_substring_regex(text, r"(\.[0-9]*?)0+$", r"\1"), r"\.$", "")


def _moment(values: pa.Array, separator: str) -> pa.Array:
    text = _without_zero_fraction(values.cast(pa.string()))
    return text if separator == " " else pc.replace_substring(text, " ", separator)
