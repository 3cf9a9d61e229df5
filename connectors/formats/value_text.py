"""Typed columns to text, as Flink's CSV and JSON formats write cells."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.formats.base64 import encode_base64
from runtime.core.types import DataType, TypeRoot

__all__ = ["value_text"]


def value_text(values: pa.Array, type_: DataType, *, separator: str) -> pa.Array:
    """An atomic column as text without quotes; NULL stays NULL. `separator` stands between date and time."""
    match type_.root:
        case TypeRoot.CHAR | TypeRoot.VARCHAR:
            return values
        case TypeRoot.BINARY | TypeRoot.VARBINARY:
            return encode_base64(values)
        case TypeRoot.DECIMAL:
            return _plain(values.cast(pa.string()), values, type_.scale)
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
            return _floating(values)
        case _:
            return values.cast(pa.string())


def _floating(values: pa.Array) -> pa.Array:
    """Shortest text that reads back the same; a whole number keeps `.0`, infinities are spelled as in Java."""
    text = values.cast(pa.string())
    bare = pc.match_substring_regex(text, r"^-?[0-9]+$")
    text = pc.if_else(bare, pc.binary_join_element_wise(text, pa.scalar(".0"), ""), text)
    for short, long in (("inf", "Infinity"), ("-inf", "-Infinity"), ("nan", "NaN"), ("-nan", "NaN")):
        text = pc.if_else(pc.equal(text, short), long, text)
    return text


def _plain(text: pa.Array, values: pa.Array, scale: int) -> pa.Array:
    """Arrow writes small decimals with an exponent; those are written from their digits instead."""
    if not pc.any(pc.match_substring(text, "E")).as_py():
        return text
    raw = np.frombuffer(values.buffers()[1], dtype=np.int64).reshape(-1, 2)[values.offset : values.offset + len(values)]
    low = raw[:, 0]
    digits = pa.array(np.abs(low)).cast(pa.string())
    padded = pc.utf8_lpad(digits, scale + 1, "0")
    whole = pc.utf8_slice_codeunits(padded, 0, -scale)
    fraction = pc.utf8_slice_codeunits(padded, -scale)
    sign = pa.array(np.where(low < 0, "-", ""))
    written = pc.binary_join_element_wise(sign, whole, pa.scalar("."), fraction, "")

    return pc.if_else(pc.match_substring(text, "E"), written, text)


def _without_zero_fraction(text: pa.Array) -> pa.Array:
    return pc.replace_substring_regex(pc.replace_substring_regex(text, r"(\.[0-9]*?)0+$", r"\1"), r"\.$", "")


def _moment(values: pa.Array, separator: str) -> pa.Array:
    text = _without_zero_fraction(values.cast(pa.string()))
    return text if separator == " " else pc.replace_substring(text, " ", separator)
