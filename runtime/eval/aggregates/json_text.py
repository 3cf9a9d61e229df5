"""Values of columns as JSON text, whole columns at a time."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from runtime.core.types import DataType, TypeRoot

__all__ = ["json_key", "json_text"]

_ESCAPES = [("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"), ("\b", "\\b"), ("\f", "\\f")]


def json_key(keys: pa.Array) -> pa.Array:
    """Strings in quotes, escaped."""
    texts = keys.cast(pa.string())
    for plain, escaped in _ESCAPES:
        texts = pc.replace_substring(texts, plain, escaped)
    return pc.binary_join_element_wise('"', texts, '"', "")


def json_text(values: pa.Array, type_: DataType) -> pa.Array:
    """JSON text of each value, `null` for NULL: numbers and booleans bare, everything else in quotes, arrays and rows
    nested."""
    return pc.fill_null(_text(values, type_), "null")


def _text(values: pa.Array, type_: DataType) -> pa.Array:
    if pt.is_null(values.type):
        return pa.nulls(len(values), pa.string())
    if type_.root is TypeRoot.ARRAY:
        return _list_text(values, type_.children[0])
    if type_.root is TypeRoot.ROW:
        parts = [
            pc.binary_join_element_wise(json_key(pa.array([f.name])).cast(pa.string())[0], json_text(child, f.type), ":")
            for f, child in zip(type_.fields, values.flatten(), strict=True)
        ]
        inside = pc.binary_join_element_wise(*parts, ",")
        return pc.if_else(values.is_valid(), pc.binary_join_element_wise("{", inside, "}", ""), pa.scalar(None, pa.string()))
    if type_.is_approximate:
        # Java writes whole doubles with one digit after the point.
        return pc.replace_substring_regex(values.cast(pa.string()), r"^(-?\d+)$", r"\1.0")
    if type_.is_numeric or type_.root is TypeRoot.BOOLEAN:
        return values.cast(pa.string())
    return json_key(values.cast(pa.string()))


def _list_text(values: pa.Array, element: DataType) -> pa.Array:
    texts = json_text(values.flatten(), element)
    lengths = pc.fill_null(pc.list_value_length(values), 0)
    ends = pc.cumulative_sum(lengths.cast(pa.int32()))
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    joined = pc.binary_join(pa.ListArray.from_arrays(offsets, texts), ",")
    return pc.if_else(values.is_valid(), pc.binary_join_element_wise("[", joined, "]", ""), pa.scalar(None, pa.string()))
